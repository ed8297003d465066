"""Losses of numbers beside numbers, entry by entry.

`reduction` says what becomes of the entries: "none", "mean" or "sum". PyTorch's `size_average` and `reduce`,
long deprecated, are left out; what stands behind them there is given by name here.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...primitive import P
from ._reduction import (
    held,
    in_singles,
    pair,
    positive_part,
    reduced,
    require,
    same_shape,
    weighted_mean,
)

_SMALLEST = 1e-12  # a probability below counts as this one in derivatives of its logarithm


def l1_loss(input: Any, target: Any, *, reduction: str = "mean", weight: Any = None) -> Any:
    """|x − t|; with weights their mean is weighted."""
    x, t = pair("l1_loss", input, target)
    return _weighted("l1_loss", np.abs(x - t), weight, reduction, shape_of(x))


def mse_loss(input: Any, target: Any, *, reduction: str = "mean", weight: Any = None) -> Any:
    """(x − t)²; with weights their mean is weighted.

    >>> import numpy as np
    >>> mse_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    np.float64(2.0)
    """
    x, t = pair("mse_loss", input, target)
    return _weighted("mse_loss", np.square(x - t), weight, reduction, shape_of(x))


def smooth_l1_loss(input: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0) -> Any:
    """(x − t)² / 2 beta where |x − t| < beta, else |x − t| − beta / 2."""
    if beta < 0:
        raise ValueError(f"smooth_l1_loss needs beta ≥ 0, got {beta}")
    x, t = pair("smooth_l1_loss", input, target)
    far = np.abs(x - t)
    if beta == 0:
        return reduced("smooth_l1_loss", far, reduction)
    terms = np.where(far < beta, 0.5 / beta * np.square(x - t), far - 0.5 * beta)
    return reduced("smooth_l1_loss", terms, reduction)


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """(x − t)² / 2 where |x − t| < delta, else delta (|x − t| − delta / 2)."""
    if delta <= 0:
        raise ValueError(f"huber_loss needs delta > 0, got {delta}")
    x, t = pair("huber_loss", input, target)
    far = np.abs(x - t)
    terms = np.where(far < delta, 0.5 * np.square(x - t), delta * (far - 0.5 * delta))
    if weight is not None:
        terms = terms * _weights("huber_loss", weight, shape_of(x))
    return reduced("huber_loss", terms, reduction)


def kl_div(input: Any, target: Any, *, reduction: str = "mean", log_target: bool = False) -> Any:
    """t (log t − x) with logarithms of probabilities x; t itself may be one (`log_target`).

    The divergence of two distributions is reduction="batchmean": the sum over the length of the first axis.
    """
    x, t = in_singles(input), in_singles(target)
    terms = np.exp(t) * (t - x) if log_target else P.xlogy(t, t) - t * x
    if reduction == "batchmean":
        total = np.sum(terms)
        return total / shape_of(x)[0] if ndim_of(x) else total
    return reduced("kl_div", terms, reduction)


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """λ − t log λ, with x = log λ or, if not `log_input`, x = λ.

    `full` adds Stirling's approximation of log t! where t > 1.
    """
    x, t = in_singles(input), in_singles(target)
    terms = np.exp(x) - t * x if log_input else x - t * np.log(x + eps)
    if full:
        large = t > 1
        safe = np.where(large, t, 1)
        stirling = safe * np.log(safe) - safe + 0.5 * np.log(2 * pi * safe)
        terms = terms + np.where(large, stirling, 0)
    return reduced("poisson_nll_loss", terms, reduction)


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """(log v + (x − t)² / v) / 2, with variances v of at least eps; `full` adds log(2π) / 2.

    `var` has the shape of the input, or its last axis is missing or of length 1. A variance below eps keeps the
    derivative of one that is eps, as in PyTorch, so that it can grow.
    """
    x, t, v = in_singles(input), in_singles(target), in_singles(var)
    shape = shape_of(x)
    if ndim_of(v) and shape_of(v) != shape:
        if shape_of(v) == shape[:-1]:
            v = np.expand_dims(v, -1)
        elif shape_of(v) != (*shape[:-1], 1):
            raise ShapeError(
                f"gaussian_nll_loss: var of shape {shape_of(v)} does not fit input of shape {shape}"
            )
    require(v >= 0, ValueError, "gaussian_nll_loss: var must not be negative")
    v = v if hasattr(v, "shape") else dtype_of(x).type(v)
    v = held(np.maximum(P.detach(v), eps), v)
    terms = 0.5 * (np.log(v) + np.square(x - t) / v)
    return reduced("gaussian_nll_loss", terms + 0.5 * log(2 * pi) if full else terms, reduction)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Any:
    """−t log x − (1 − t) log(1 − x) with probabilities x; logarithms count as −100 at least.

    Their derivatives end at 10¹² (PyTorch's bound) instead of growing without end.
    """
    x, t = same_shape("binary_cross_entropy", input, target)
    inside = np.logical_and(x >= 0, x <= 1)
    require(inside, ValueError, "binary_cross_entropy: input must be between 0 and 1")
    low, high = x < _SMALLEST, 1 - x < _SMALLEST
    likely = np.where(low, _straight(x), np.log(np.where(low, 1, x)))
    unlikely = np.where(high, _straight(1 - x), np.log1p(np.where(high, 0, -x)))
    terms = -(t * likely + (1 - t) * unlikely)
    return reduced("binary_cross_entropy", _times(terms, weight), reduction)


def _straight(p: Any) -> Any:
    """max(log p, −100) with the slope that log has at the smallest probability."""
    zero = p <= 0
    value = np.maximum(np.where(zero, -100.0, np.log(np.where(zero, 1, p))), -100.0)
    return held(value, p / _SMALLEST)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """binary_cross_entropy of sigmoid(x), exact for large |x|; pos_weight multiplies the term of t.

    >>> import numpy as np
    >>> binary_cross_entropy_with_logits(np.array([1000.0, -1000.0]), np.array([1.0, 1.0]), reduction="none")
    array([   0., 1000.])
    """
    x, t = same_shape("binary_cross_entropy_with_logits", input, target)
    unlikely = -P.log_sigmoid(x)
    if pos_weight is not None:
        unlikely = (1 + (array(pos_weight) - 1) * t) * unlikely
    terms = (1 - t) * x + unlikely
    return reduced("binary_cross_entropy_with_logits", _times(terms, weight), reduction)


def soft_margin_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """log(1 + e^(−t x)), with t = ±1."""
    return reduced(
        "soft_margin_loss", -P.log_sigmoid(in_singles(target) * in_singles(input)), reduction
    )


def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean"
) -> Any:
    """x where t = 1, max(0, margin − x) where t = −1."""
    x, t = in_singles(input), in_singles(target)
    near, far = np.not_equal(t, -1), np.not_equal(t, 1)
    terms = np.where(near, x, 0) + np.where(far, positive_part(margin - x), 0)
    return reduced("hinge_embedding_loss", terms, reduction)


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, *, reduction: str = "mean"
) -> Any:
    """max(0, margin − t (x1 − x2)), with t = ±1."""
    x1, x2, t = array(input1), array(input2), array(target)
    if not ndim_of(x1) == ndim_of(x2) == ndim_of(t):
        shapes = ", ".join(str(shape_of(a)) for a in (x1, x2, t))
        raise ShapeError(f"margin_ranking_loss needs inputs and target of one rank, got {shapes}")
    return reduced("margin_ranking_loss", positive_part(margin - t * (x1 - x2)), reduction)


def _times(terms: Any, weight: Any) -> Any:
    return terms if weight is None else terms * array(weight)


def _weights(name: str, weight: Any, shape: tuple[int, ...]) -> Any:
    weight = array(weight)
    if shape_of(weight) != shape:
        raise ShapeError(f"{name}: weight of shape {shape_of(weight)} for input of shape {shape}")
    return weight


def _weighted(name: str, terms: Any, weight: Any, reduction: str, shape: tuple[int, ...]) -> Any:
    if weight is None:
        return reduced(name, terms, reduction)
    weight = _weights(name, weight, shape).astype(dtype_of(terms))
    if reduction == "mean":
        return weighted_mean(terms * weight, weight)
    return reduced(name, terms * weight, reduction)
