"""scipy.special: `from backsolve.numpy import special`.

Tensors reach its ufuncs also through `scipy.special` itself. Its other functions ask no protocol, so they
refuse Tensors; those here take the same arguments. On plain arrays all is SciPy's own.
"""

from __future__ import annotations

import importlib
from functools import wraps
from typing import Any

import numpy as _np

from .. import tree as _tree
from ..blame import guarded as _guarded
from ..errors import NotDifferentiableError, UnsupportedError
from ..primitive import FUNCTIONS as _FUNCTIONS
from ..primitive import P
from ..tensor import Tensor
from . import elementwise as _elementwise  # noqa: F401  (fills the table of functions)
from ._register import all_axes, array, dtype_of, ndim_of


def _scipy() -> Any:
    return importlib.import_module("scipy.special")


def _for_tensors(f: Any) -> Any:
    """SciPy's function of that name, but for Tensors ours."""

    @wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        if any(isinstance(x, Tensor) for x in _tree.flatten((args, options))[0]):
            return f(*args, **options)
        return getattr(_scipy(), f.__name__)(*args, **options)

    return _guarded(call, f"special.{f.__name__}")


def _floating(x: Any) -> Any:
    x = array(x)
    return x if dtype_of(x).kind in "fc" else _FUNCTIONS["astype"](x, float)


@_for_tensors
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log Σ b exp(a), without overflow; with `return_sign` that of the sum's size, and its sign."""
    if b is None and not return_sign:
        return _FUNCTIONS["logsumexp"](a, axis, None, keepdims)
    weights = 1.0 if b is None else array(b)
    a = _floating(a)
    full = _np.broadcast_to(a, _np.broadcast_shapes(_np.shape(a), _np.shape(weights)))
    axes = all_axes(axis, ndim_of(full))
    top = P.detach(_np.max(full, axis=axes, keepdims=True))
    top = _np.where(_np.isfinite(top), top, 0.0)
    total = _np.sum(weights * _np.exp(full - top), axis=axes, keepdims=True)
    y = _np.log(_np.abs(total) if return_sign else total) + top
    y, sign = (t if keepdims else _np.squeeze(t, axes) for t in (y, _np.sign(total)))
    return (y, sign) if return_sign else y


@_for_tensors
def softmax(x: Any, axis: Any = None) -> Any:
    """exp x / Σ exp x over the axes (all, if None)."""
    x = _floating(x)
    return P.softmax(x, axis=all_axes(axis, ndim_of(x)))


@_for_tensors
def log_softmax(x: Any, axis: Any = None) -> Any:
    """x − log Σ exp x over the axes (all, if None)."""
    x = _floating(x)
    return P.log_softmax(x, axis=all_axes(axis, ndim_of(x)))


@_for_tensors
def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of digamma; of an order n that is one number."""
    order = _np.asarray(_constant("polygamma", "n", n))
    if order.ndim or order != _np.floor(order) or order < 0:
        raise UnsupportedError(f"`polygamma` takes one order n = 0, 1, 2 …, got {n!r}")
    return P.polygamma(_floating(x), n=int(order))


@_for_tensors
def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the d-dimensional gamma function."""
    d = int(_constant("multigammaln", "d", d))
    a = _floating(a)
    y = 0.25 * d * (d - 1) * float(_np.log(_np.pi))
    for k in range(d):
        y = y + P.gammaln(a - 0.5 * k)
    return y


@_for_tensors
def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz' zeta function Σ (k + q)^−x, differentiable in q; without q Riemann's, of constants."""
    return _FUNCTIONS["zeta"](x, q)


@_for_tensors
def sinc(x: Any) -> Any:
    """sin(πx) / (πx)."""
    return _FUNCTIONS["sinc"](x)


@_for_tensors
def softplus(x: Any) -> Any:
    """log(1 + eˣ)."""
    return P.softplus(_floating(x))


def _constant(name: str, argument: str, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.row is not None:
        raise NotDifferentiableError(f"`{name}` has no derivative with respect to `{argument}`")
    return value._known(f"the {argument} of {name}")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_scipy(), name)


def __dir__() -> list[str]:
    return sorted({*dir(_scipy()), "softplus"})
