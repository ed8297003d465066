"""Losses of vectors that should be near to each other or far apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, ndim_of, shape_of
from ._reduction import positive_part, reduced
from .distances import pairwise_distance

_EPS = 1e-12  # of squared norms, as PyTorch's


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, *, reduction: str = "mean"
) -> Any:
    """1 − cos(x1, x2) where t = 1, max(0, cos(x1, x2) − margin) where t = −1; along the last axis."""
    x1, x2, t = array(input1), array(input2), array(target)
    if ndim_of(t) not in (0, 1) or ndim_of(x1) != ndim_of(t) + 1 or ndim_of(x2) != ndim_of(x1):
        raise ShapeError(
            "cosine_embedding_loss takes (N, D), (N, D) and (N,), or the same without N, got "
            f"{shape_of(x1)}, {shape_of(x2)} and {shape_of(t)}"
        )
    sizes = (np.sum(x * x, axis=-1) + _EPS for x in (x1, x2))
    cosine = np.sum(x1 * x2, axis=-1) / np.sqrt(next(sizes) * next(sizes))
    terms = np.where(np.equal(t, 1), 1 - cosine, 0)
    terms = terms + np.where(np.equal(t, -1), positive_part(cosine - margin), 0)
    return reduced("cosine_embedding_loss", terms, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Any:
    """max(0, margin + d(anchor, positive) − d(anchor, negative)) with d = pairwise_distance.

    With `swap` the smaller of d(anchor, negative) and d(positive, negative) counts.
    """
    return _triplet(
        "triplet_margin_loss",
        (anchor, positive, negative),
        lambda a, b: pairwise_distance(a, b, p, eps),
        margin,
        swap,
        reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """triplet_margin_loss with a distance of one's own."""
    return _triplet(
        "triplet_margin_with_distance_loss",
        (anchor, positive, negative),
        distance_function or pairwise_distance,
        margin,
        swap,
        reduction,
    )


def _triplet(
    name: str, arrays: tuple[Any, ...], distance: Any, margin: float, swap: bool, reduction: str
) -> Any:
    if margin <= 0:
        raise ValueError(f"{name} needs margin > 0, got {margin}")
    a, b, c = map(array, arrays)
    if not ndim_of(a) == ndim_of(b) == ndim_of(c):
        shapes = ", ".join(str(shape_of(x)) for x in (a, b, c))
        raise ShapeError(f"{name} needs arrays of one rank, got {shapes}")
    near, far = distance(a, b), distance(a, c)
    if swap:
        far = np.minimum(far, distance(b, c))
    return reduced(name, positive_part(margin + near - far), reduction)
