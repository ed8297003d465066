"""What depends on the order or the size of numbers: TopK, Unique, NonZero, boxes that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....numpy._register import shape_of
from .table import looked_at, number, operator


@operator("TopK")
def top_k_by_attribute(x: Any, *, k: int, axis: int = -1) -> Any:
    return top_k(x, k, axis=axis)


@operator("TopK", since=10)
def top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The k largest, or smallest, with their places; of equal ones the first."""
    count = int(number(k, "TopK's k"))
    if largest:
        rising = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = shape_of(x)[axis] - 1 - np.flip(rising, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    places = np.take(order, np.arange(count), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


@operator("NonZero")
def non_zero(x: Any) -> Any:
    return np.array(np.nonzero(np.atleast_1d(looked_at(x, "what NonZero reads"))), np.int64)


@operator("Unique")
def unique(x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    _, first, inverse, counts = np.unique(
        looked_at(x, "what Unique reads"), True, True, True, axis=axis
    )
    inverse = np.reshape(inverse, -1)
    if not sorted:  # in the order in which they first occur
        order = np.argsort(first)
        rank = np.argsort(order)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    values = np.take(np.reshape(x, -1), first) if axis is None else np.take(x, first, axis)
    return values, *[np.asarray(a, np.int64) for a in (first, inverse, counts)]


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Any, scores: Any, most: Any = None, iou: Any = None, least: Any = None, *, center_point_box: int = 0
) -> Any:  # fmt: skip
    """(batch, class, box) of boxes by falling score, without those that overlap a kept one too much."""
    boxes, scores = looked_at(boxes, "the boxes"), looked_at(scores, "the scores of boxes")
    most = 0 if most is None else int(number(most, "the number of boxes"))
    iou = 0.0 if iou is None else looked_at(iou, "a threshold").item()
    least = -np.inf if least is None else looked_at(least, "a threshold").item()
    kept = []
    for n, c in np.ndindex(*scores.shape[:2]):
        corners = _corners(boxes[n], bool(center_point_box))
        own: list[int] = []
        for k in np.argsort(-scores[n, c], kind="stable"):
            if len(own) >= most or not scores[n, c, k] > least:
                break
            if all(_overlap(corners[k], corners[j]) <= iou for j in own):
                own.append(int(k))
        kept += [(n, c, k) for k in own]
    return np.array(kept, np.int64).reshape(-1, 3)


def _corners(boxes: Any, is_centred: bool) -> Any:
    """Least and greatest corner of each box."""
    if is_centred:
        centre, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([centre - half, centre + half], 1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)


def _overlap(a: Any, b: Any) -> float:
    """The area that two boxes share, over the area of both."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    both = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared
    return shared / both if shared > 0 and both > 0 else 0.0
