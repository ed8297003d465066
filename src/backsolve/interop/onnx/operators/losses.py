"""Losses of classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....nn import functional
from ....numpy._register import dtype_of, shape_of
from .table import operator, take


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Any:  # fmt: skip
    classes = shape_of(x)[1]
    is_counted = np.ones((), bool) if ignore_index is None else np.not_equal(target, ignore_index)
    at = np.where(is_counted, target, 0).astype(np.int64) % classes
    own = np.take_along_axis(x, np.expand_dims(at, 1), 1)[:, 0]
    counts = is_counted.astype(dtype_of(x))
    counts = counts if weight is None else counts * take(weight, at)
    counts = np.broadcast_to(counts, shape_of(own))
    loss = -own * counts
    if reduction == "none":
        return loss
    return np.sum(loss) / np.sum(counts) if reduction == "mean" else np.sum(loss)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    scores: Any, labels: Any, weights: Any = None, *, ignore_index: int | None = None, reduction: str = "mean",
    _outputs: int,
) -> Any:  # fmt: skip
    logarithms = functional.log_softmax(scores, 1)
    loss = negative_log_likelihood(
        logarithms, labels, weights, ignore_index=ignore_index, reduction=reduction
    )
    return (loss, logarithms) if _outputs == 2 else loss
