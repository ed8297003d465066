"""Losses of scores of classes. Classes are counted along axis 1, or along the only axis of a single example."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...primitive import P
from ...tensor import Tensor
from ._reduction import in_singles, indices, picked, reduced, same_shape, weighted_mean


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    """−weight[t] x[t] of logarithms of probabilities x (N, C, …) and classes t (N, …).

    The mean is the weighted one. Entries with t = ignore_index count for nothing; the mean of none is NaN.
    """
    x = in_singles(input)
    chosen = _Classes("nll_loss", x, target, weight, ignore_index)
    return chosen.reduced(chosen.times_weights(-chosen.of(x)), reduction)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """nll_loss of log_softmax(x). The target may also be probabilities, of the input's shape.

    `label_smoothing` mixes that share of equal probabilities into the target.

    >>> import numpy as np
    >>> cross_entropy(np.array([[0.0, 0.0], [0.0, 1000.0]]), np.array([1, 0]), reduction="none")
    array([6.93147181e-01, 1.00000000e+03])
    """
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}"
        )
    x, t = in_singles(input), array(target)
    if shape_of(x) == shape_of(t):
        return _of_probabilities(x, t, weight, reduction, label_smoothing)
    chosen = _Classes("cross_entropy", x, t, weight, ignore_index)
    z = P.log_softmax(x, axis=(chosen.axis,))
    terms = chosen.times_weights(-chosen.of(z))
    if label_smoothing:
        all_terms = -np.sum(_along(z, weight, chosen.axis), axis=chosen.axis)
        share = label_smoothing / shape_of(x)[chosen.axis]
        terms = (1 - label_smoothing) * terms + share * all_terms
    return chosen.reduced(terms, reduction)


def _of_probabilities(x: Any, t: Any, weight: Any, reduction: str, smoothing: float) -> Any:
    if dtype_of(t).kind != "f":
        raise DTypeError(
            "cross_entropy: target of the input's shape must be probabilities, that is floating-point "
            f"numbers, got {dtype_of(t)}"
        )
    axis = _class_axis("cross_entropy", x)
    classes = shape_of(x)[axis]
    if smoothing:
        t = t * (1 - smoothing) + smoothing / classes
    z = P.log_softmax(x, axis=(axis,))
    return reduced("cross_entropy", -np.sum(_along(z * t, weight, axis), axis=axis), reduction)


def _class_axis(name: str, x: Any) -> int:
    if not ndim_of(x):
        raise ShapeError(f"{name}: input must have an axis of classes")
    return 0 if ndim_of(x) == 1 else 1


def _along(z: Any, weight: Any, axis: int) -> Any:
    """z times the weights of its classes."""
    if weight is None:
        return z
    return z * np.reshape(array(weight), (-1, *[1] * (ndim_of(z) - axis - 1)))


class _Classes:
    """Targets that name classes, looked at: which are there, which count, and how much."""

    def __init__(self, name: str, input: Any, target: Any, weight: Any, ignore_index: int):
        x, t = array(input), array(target)
        self.name, self.axis = name, _class_axis(name, x)
        shape = shape_of(x)
        classes = shape[self.axis]
        if (*shape[: self.axis], *shape[self.axis + 1 :]) != shape_of(t):
            raise ShapeError(
                f"{name}: target of shape {shape_of(t)} does not fit input of shape {shape}; without "
                f"axis {self.axis}, that of the classes, they must be the same"
            )
        ignored = np.equal(t, ignore_index)
        indices(name, "target", t, 0, classes, ignored)
        self.places: Any = t
        self.counts: Any = None
        if isinstance(t, Tensor) or np.any(ignored):
            self.places, self.counts = np.where(ignored, 0, t), np.logical_not(ignored)
        self.weights: Any = None
        if weight is not None:
            weight = array(weight)
            if shape_of(weight) != (classes,):
                raise ShapeError(
                    f"{name}: weight must have one entry for each of {classes} classes, got shape "
                    f"{shape_of(weight)}"
                )
            self.weights = P.gather(weight, self.places)
        self.dtype = dtype_of(x)

    def of(self, x: Any) -> Any:
        """Entries of x at their classes."""
        return picked(x, self.places, self.axis)

    def times_weights(self, terms: Any) -> Any:
        return terms if self.weights is None else terms * self.weights

    def reduced(self, terms: Any, reduction: str) -> Any:
        weights = self.weights
        if self.counts is not None:
            terms = np.where(self.counts, terms, 0)
            weights = np.where(self.counts, 1 if weights is None else weights, 0)
        if reduction != "mean" or weights is None:
            return reduced(self.name, terms, reduction)
        return weighted_mean(terms, weights.astype(self.dtype))


# ---- margins between classes


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    *,
    reduction: str = "mean",
) -> Any:
    """Σ_{i ≠ t} max(0, margin − x[t] + x[i])ᵖ weight[t] / C, for (N, C) and (N,)."""
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss takes p = 1 or 2, got {p}")
    x, t = in_singles(input), array(target)
    if ndim_of(x) > 2:
        raise ShapeError(f"multi_margin_loss takes (N, C) or (C,), got shape {shape_of(x)}")
    chosen = _Classes("multi_margin_loss", x, t, weight, -1 - shape_of(x)[-1])
    z = margin - np.expand_dims(chosen.of(x), -1) + x
    others = np.not_equal(np.expand_dims(t, -1), np.arange(shape_of(x)[-1]))
    z = np.where(np.logical_and(others, np.logical_not(z <= 0)), z, 0)
    terms = np.sum(z if p == 1 else z * z, axis=-1) / shape_of(x)[-1]
    return reduced("multi_margin_loss", chosen.times_weights(terms), reduction)


def multilabel_margin_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Σ max(0, 1 − x[t] + x[i]) / C over all classes t that are named and all i that are not.

    A row of the target, as long as that of the input, names classes, and ends at the first −1.
    """
    x, t = same_shape("multilabel_margin_loss", input, target)
    if ndim_of(x) not in (1, 2):
        raise ShapeError(f"multilabel_margin_loss takes (N, C) or (C,), got shape {shape_of(x)}")
    classes = shape_of(x)[-1]
    indices("multilabel_margin_loss", "target", t, -1, classes)
    named = np.equal(np.cumsum(t < 0, axis=-1), 0)
    places = np.where(named, t, 0)
    is_target = np.any(
        np.logical_and(
            np.expand_dims(named, -1), np.equal(np.expand_dims(places, -1), np.arange(classes))
        ),
        axis=-2,
    )
    z = 1 - np.expand_dims(np.take_along_axis(x, places, -1), -1) + np.expand_dims(x, -2)
    pairs = np.logical_and(np.expand_dims(named, -1), np.logical_not(np.expand_dims(is_target, -2)))
    z = np.where(np.logical_and(pairs, np.logical_not(z <= 0)), z, 0)
    return reduced("multilabel_margin_loss", np.sum(z, axis=(-2, -1)) / max(classes, 1), reduction)


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Any:
    """The mean over the last axis of −t log sigmoid(x) − (1 − t) log sigmoid(−x)."""
    x, t = in_singles(input), array(target)
    terms = -(t * P.log_sigmoid(x) + (1 - t) * P.log_sigmoid(-x))
    terms = terms if weight is None else terms * array(weight)
    last = shape_of(terms)[-1]
    terms = np.sum(terms, axis=-1) / last if last else np.sum(terms, axis=-1) + np.nan
    return reduced("multilabel_soft_margin_loss", terms, reduction)
