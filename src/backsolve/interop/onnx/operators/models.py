"""Classical models as one operator: trees, thresholds, counts of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....nn import functional
from ....numpy._register import dtype_of, shape_of
from .table import looked_at, operator, read, take

_ML = "ai.onnx.ml"
_COMPARISONS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
_MEMBER = len(_COMPARISONS)  # membership in a set


@operator("Binarizer", domain=_ML)
def binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return np.greater(x, threshold).astype(dtype_of(x))


@operator("TreeEnsemble", domain=_ML)
def tree_ensemble(
    x: Any, *, aggregate_function: int = 1, leaf_targetids: Any, leaf_weights: Any,
    membership_values: Any = None, n_targets: int, nodes_falseleafs: Any, nodes_falsenodeids: Any,
    nodes_featureids: Any, nodes_hitrates: Any = None, nodes_missing_value_tracks_true: Any = None,
    nodes_modes: Any, nodes_splits: Any, nodes_trueleafs: Any, nodes_truenodeids: Any, post_transform: int = 0,
    tree_roots: Any,
) -> Any:  # fmt: skip
    """Σ, mean, min or max over trees of the weight of the leaf that each example falls to."""
    if post_transform not in (0, 1, 2):
        raise UnsupportedError(f"post_transform {post_transform} of TreeEnsemble")
    count = len(nodes_modes)
    # one list of nodes: inner ones first, then the leaves, each its own successor
    ids = np.arange(count, count + len(leaf_weights))
    after = [
        np.concatenate([np.add(to, np.multiply(count, is_leaf)), ids])
        for to, is_leaf in [
            (nodes_truenodeids, nodes_trueleafs),
            (nodes_falsenodeids, nodes_falseleafs),
        ]
    ]
    zeros = np.zeros(len(ids))
    modes = np.concatenate([nodes_modes, zeros]).astype(int)
    features = np.concatenate([nodes_featureids, zeros]).astype(int)
    splits = np.concatenate([nodes_splits, zeros]).astype(dtype_of(x))
    to_true = np.concatenate([nodes_missing_value_tracks_true or [0] * count, zeros]).astype(bool)
    members = _members(modes, membership_values)
    lots = np.arange(shape_of(x)[0])[:, None]
    at: Any = np.broadcast_to(np.asarray(tree_roots), (shape_of(x)[0], len(tree_roots)))
    for _ in range(_depth(after, tree_roots, count)):
        value = read(x, lots, take(features, at))
        mode = take(modes, at)
        holds = np.isnan(value) & take(to_true, at)
        for k, compare in enumerate(_COMPARISONS):
            holds = holds | (np.equal(mode, k) & compare(value, take(splits, at)))
        if members is not None:
            is_member = np.any(np.equal(value[..., None], take(members, at, 0)), -1)
            holds = holds | (np.equal(mode, _MEMBER) & is_member)
        at = np.where(holds, take(after[0], at), take(after[1], at))
    leaf = at - count
    weights = take(np.asarray(leaf_weights, dtype_of(x)), leaf)[..., None]
    is_own = np.equal(take(np.asarray(leaf_targetids), leaf)[..., None], np.arange(n_targets))
    y = _aggregated(weights, is_own, aggregate_function)
    return (y, functional.softmax(y, -1), functional.sigmoid(y))[post_transform]


def _depth(after: list[Any], roots: Any, count: int) -> int:
    """How many steps lead from the roots to leaves alone."""
    reached, steps = np.unique(roots), 0
    while (reached < count).any():
        reached = np.unique(np.concatenate([to[reached] for to in after]))
        steps += 1
    return steps


def _members(modes: Any, values: Any) -> Any:
    """For each node the set that it asks for membership in, filled up with NaN; NaN ends one in the list."""
    asking = np.nonzero(modes == _MEMBER)[0]
    if not len(asking):
        return None
    given = np.ravel(values)
    ends = np.nonzero(np.isnan(given))[0]
    sets = np.split(given, ends + 1)[: len(asking)]
    table = np.full((len(modes), max(map(len, sets))), np.nan, given.dtype)
    for node, own in zip(asking, sets, strict=True):
        table[node, : len(own)] = own
    return table


def _aggregated(weights: Any, is_own: Any, how: int) -> Any:
    """Over trees, of the weights that are a target's own."""
    if how in (0, 1):
        total = np.sum(np.where(is_own, weights, 0), axis=1)
        return total / shape_of(weights)[1] if how == 0 else total
    limits = np.finfo(dtype_of(weights))
    if how == 2:
        return np.min(np.where(is_own, weights, limits.max), axis=1)
    return np.max(np.where(is_own, weights, limits.min), axis=1)


@operator("TfIdfVectorizer")
def tf_idf(
    x: Any, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str, ngram_counts: Any,
    ngram_indexes: Any, pool_int64s: Any = None, pool_strings: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    """How often each n-gram of the pool stands in each row, with up to so many entries skipped."""
    if pool_int64s is None:
        raise UnsupportedError("TfIdfVectorizer of strings")
    grams = _grams(pool_int64s, ngram_counts)
    rows = np.atleast_2d(looked_at(x, "what TfIdfVectorizer reads"))
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for r, row in enumerate(rows.tolist()):
        for n in range(min_gram_length, max_gram_length + 1):
            for step in range(1, 2 if n == 1 else max_skip_count + 2):
                for first in range(len(row) - step * (n - 1)):
                    k = grams.get(tuple(row[first : first + step * (n - 1) + 1 : step]))
                    if k is not None:
                        counts[r, ngram_indexes[k]] += 1
    factor = np.ones(counts.shape[1], np.float32)
    if weights is not None and mode != "TF":
        factor[list(ngram_indexes)] = weights
    y = (counts > 0) * factor if mode == "IDF" else counts * factor
    return y[0] if np.ndim(x) == 1 else y


def _grams(pool: Any, starts: Any) -> dict[tuple[int, ...], int]:
    """Each n-gram of the pool, with its number: first all of one entry, then all of two, …"""
    grams: dict[tuple[int, ...], int] = {}
    ends = [*starts[1:], len(pool)]
    for n, (first, end) in enumerate(zip(starts, ends, strict=True), 1):
        for k in range(first, end, n):
            grams[tuple(pool[k : k + n])] = len(grams)
    return grams
