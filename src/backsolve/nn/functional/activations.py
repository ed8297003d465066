"""Activations, with PyTorch's derivatives at their kinks and without overflow far from 0.

`where` picks the side to which a kink belongs and lets a NaN through. Functions that would overflow on the
side that is not taken get a harmless argument there. `inplace` has no effect: arrays are not changed.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, ndim_of, one_axis, shape_of
from ...primitive import P
from ...random import State, gumbel, uniform
from ._arguments import needed
from ._one_pass import in_one_pass

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

# ---- piecewise linear


def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0), with derivative 0 at 0.

    >>> import numpy as np, backsolve as bs
    >>> bs.grad(lambda x: np.sum(relu(x)))(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 1.])
    """
    return _relu(array(input))


@in_one_pass(kept=lambda x: np.logical_not(x <= 0), linear=True)
def _relu(x: Any) -> Any:
    return P.where(x <= 0, 0, x)


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0, 6)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x between min_val and max_val, with derivative 0 at both."""
    if min_val > max_val:
        raise ValueError(f"hardtanh needs min_val ≤ max_val, got {min_val} and {max_val}")
    return _hardtanh(array(input), min_val, max_val)


@in_one_pass(
    kept=lambda x, low, high: np.logical_not(np.logical_or(x <= low, x >= high)), linear=True
)
def _hardtanh(x: Any, low: float, high: float) -> Any:
    return P.where(x <= low, low, P.where(x >= high, high, x))


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where it is positive, else negative_slope · x."""
    return _leaky_relu(array(input), negative_slope)


@in_one_pass(linear=True)
def _leaky_relu(x: Any, slope: float) -> Any:
    real = dtype_of(x).type if dtype_of(x).kind == "f" else np.float64
    return x * P.where(x > 0, real(1), real(slope))  # one pass for its derivative


def prelu(input: Any, weight: Any) -> Any:
    """leaky_relu with a slope that is learnt: one for all, or one for each channel (axis 1)."""
    x, w = array(input), array(weight)
    if ndim_of(w) > 1:
        raise ShapeError(f"prelu takes weights of rank 0 or 1, got shape {shape_of(w)}")
    if ndim_of(w):
        channels = shape_of(x)[1] if ndim_of(x) > 1 else 1
        if shape_of(w)[0] not in (1, channels):
            raise ShapeError(
                f"prelu takes one weight or one for each of {channels} channels (axis 1 of shape "
                f"{shape_of(x)}), got {shape_of(w)[0]}"
            )
        shape = (-1, *[1] * (ndim_of(x) - 2)) if ndim_of(x) > 1 else (1,) * ndim_of(x)
        w = np.reshape(w, shape)
    return P.where(x > 0, x, w * x)


def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: State | None = None,
) -> Any:
    """leaky_relu; while training with slopes drawn between lower and upper, else with their mean."""
    x = array(input)
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    drawn = uniform(needed("rrelu", generator), shape_of(x), lower, upper)
    return P.where(x > 0, x, drawn.astype(dtype_of(x)) * x)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x where it is above the threshold, else value."""
    return _threshold(array(input), threshold, value)


@in_one_pass(kept=lambda x, threshold, value: np.logical_not(x <= threshold), linear=True)
def _threshold(x: Any, threshold: float, value: float) -> Any:
    return P.where(x <= threshold, value, x)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """x / 6 + ½ between 0 and 1."""
    return _hardsigmoid(array(input))


@in_one_pass(kept=lambda x: np.logical_not(np.logical_or(x <= -3, x >= 3)), linear=True)
def _hardsigmoid(x: Any) -> Any:
    return P.where(x <= -3, 0.0, P.where(x >= 3, 1.0, (x + 3.0) / 6))


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x · hardsigmoid(x)."""
    return _hardswish(array(input))


@in_one_pass(kept=lambda x: np.logical_not(x <= -3))
def _hardswish(x: Any) -> Any:
    return P.where(x <= -3, 0.0, x * P.where(x >= 3, 1.0, (x + 3.0) / 6))


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x, but 0 from −lambd to lambd."""
    return _hardshrink(array(input), lambd)


def _within(x: Any, bound: float) -> Any:
    return np.logical_and(x >= -bound, x <= bound)


@in_one_pass(kept=lambda x, bound: np.logical_not(_within(x, bound)), linear=True)
def _hardshrink(x: Any, bound: float) -> Any:
    return P.where(_within(x, bound), 0, x)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by lambd, and 0 from −lambd to lambd."""
    if lambd < 0:
        raise ValueError(f"softshrink needs lambd ≥ 0, got {lambd}")
    return _softshrink(array(input), lambd)


@in_one_pass(kept=lambda x, bound: np.logical_not(_within(x, bound)), linear=True)
def _softshrink(x: Any, bound: float) -> Any:
    return P.where(_within(x, bound), 0, P.where(x > bound, x - bound, x + bound))


# ---- exponential


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where it is positive, else alpha (eˣ − 1)."""
    return _elu(array(input), alpha, 1.0, 1.0)


def selu(input: Any, inplace: bool = False) -> Any:
    """elu, scaled so that normal numbers keep their mean and variance through a linear layer."""
    return _elu(array(input), _SELU_ALPHA, 1.0, _SELU_SCALE)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where it is positive, else alpha (e^(x / alpha) − 1)."""
    if alpha == 0:
        raise ValueError("celu needs alpha ≠ 0")
    return _elu(array(input), alpha, 1.0 / alpha, 1.0)


@in_one_pass()
def _elu(x: Any, alpha: float, rate: float, scale: float) -> Any:
    negative = x <= 0
    y = P.where(negative, alpha * np.expm1(P.where(negative, x, 0.0) * rate), x)
    return y if scale == 1.0 else scale * y


def gelu(input: Any, approximate: str = "none") -> Any:
    """x Φ(x) with the normal distribution's Φ, or its approximation by "tanh".

    >>> import numpy as np
    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    x = array(input)
    if approximate == "tanh":
        return _gelu_by_tanh(x)
    if approximate != "none":
        raise ValueError(f'gelu knows approximate="none" and "tanh", got {approximate!r}')
    return _gelu(x)


@in_one_pass()
def _gelu(x: Any) -> Any:
    return x * (0.5 * (1.0 + P.erf(x * sqrt(0.5))))


@in_one_pass()
def _gelu_by_tanh(x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * (x * x * x))))


def sigmoid(input: Any) -> Any:
    """1 / (1 + e⁻ˣ)."""
    return P.sigmoid(array(input))


def tanh(input: Any) -> Any:
    """The hyperbolic tangent, entry by entry."""
    return np.tanh(array(input))


def logsigmoid(input: Any) -> Any:
    """log sigmoid(x)."""
    return P.log_sigmoid(array(input))


def silu(input: Any, inplace: bool = False) -> Any:
    """x · sigmoid(x)."""
    return _silu(array(input))


@in_one_pass()
def _silu(x: Any) -> Any:
    return x * P.sigmoid(x)


def mish(input: Any, inplace: bool = False) -> Any:
    """x · tanh(softplus(x))."""
    return _mish(array(input))


@in_one_pass()
def _mish(x: Any) -> Any:
    return x * np.tanh(-P.log_sigmoid(-x))


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + e^(beta x)) / beta, and x itself where beta x is above the threshold."""
    return _softplus(array(input), beta, threshold)


@in_one_pass()
def _softplus(x: Any, beta: float, threshold: float) -> Any:
    far = x * beta > threshold
    return P.where(far, x, P.log_sigmoid(P.where(far, 0.0, x) * -beta) / -beta)


def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return _softsign(array(input))


@in_one_pass()
def _softsign(x: Any) -> Any:
    return x / (1.0 + np.abs(x))


def tanhshrink(input: Any) -> Any:
    """x − tanh(x)."""
    return _tanhshrink(array(input))


@in_one_pass()
def _tanhshrink(x: Any) -> Any:
    return x - np.tanh(x)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half along an axis times the sigmoid of the second."""
    x = array(input)
    if not ndim_of(x):
        raise ShapeError("glu takes arrays of rank 1 or more")
    axis = one_axis(dim, ndim_of(x))
    size = shape_of(x)[axis]
    if size % 2:
        raise ShapeError(f"glu halves axis {dim}, whose length must be even, got {shape_of(x)}")
    before = (slice(None),) * axis
    return x[(*before, slice(0, size // 2))] * P.sigmoid(x[(*before, slice(size // 2, size))])


# ---- over an axis


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """eˣ / Σ eˣ along an axis (if none is given: 0 for rank 0, 1 and 3, else 1).

    >>> import numpy as np
    >>> softmax(np.array([1000.0, 1000.0]), dim=0)
    array([0.5, 0.5])
    """
    return _along(P.softmax, input, dim, dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(−x)."""
    return _along(P.softmax, -array(input), dim, dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log softmax(x)."""
    return _along(P.log_softmax, input, dim, dtype)


def gumbel_softmax(
    logits: Any,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    *,
    generator: State | None = None,
) -> Any:
    """softmax((logits + Gumbel noise) / tau): a soft draw of one class along an axis.

    With `hard` its value is the one-hot vector of the largest entry, its derivative still that of the soft
    draw. `eps` has no effect, as in PyTorch.
    """
    x = array(logits)
    noise = gumbel(needed("gumbel_softmax", generator), shape_of(x)).astype(dtype_of(x))
    y = _along(P.softmax, (x + noise) / tau, dim, None)
    if not hard:
        return y
    axis = one_axis(dim, ndim_of(x))
    places = np.arange(shape_of(x)[axis]).reshape(-1, *[1] * (ndim_of(x) - axis - 1))
    chosen = np.equal(np.expand_dims(np.argmax(P.detach(y), axis=axis), axis), places)
    return chosen.astype(dtype_of(y)) + (y - P.detach(y))


def _along(row: Any, x: Any, dim: int | None, dtype: Any) -> Any:
    x = array(x)
    if dtype is not None:
        x = x.astype(dtype)
    if dim is None:
        dim = 0 if ndim_of(x) in (0, 1, 3) else 1
    if not ndim_of(x):
        one_axis(dim, 1)
        return np.reshape(row(np.reshape(x, (1,)), axis=(0,)), ())
    return row(x, axis=(one_axis(dim, ndim_of(x)),))
