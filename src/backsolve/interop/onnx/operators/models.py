"""Classical models as one operator: trees, thresholds, counts of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....nn import functional
from ....numpy._register import dtype_of
from .table import looked_at, operator

_ML = "ai.onnx.ml"
_COMPARISONS = (
    np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal
)  # by number; 6 is membership in a set  # fmt: skip


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
    samples = looked_at(x, "what TreeEnsemble reads")
    to_true = _missing(nodes_missing_value_tracks_true, len(nodes_modes))
    sets = _sets(nodes_modes, membership_values)
    found = np.full((len(samples), n_targets, len(tree_roots)), np.nan)
    for row, sample in enumerate(samples):
        for tree, node in enumerate(tree_roots):
            is_leaf = False
            if nodes_trueleafs[node] and nodes_falseleafs[node]:
                is_leaf = nodes_truenodeids[node] == nodes_falsenodeids[node]
                node = nodes_truenodeids[node] if is_leaf else node
            while not is_leaf:
                value, mode = sample[nodes_featureids[node]], nodes_modes[node]
                if np.isnan(value) and to_true[node]:
                    holds = True
                elif mode == 6:
                    holds = value in sets[node]
                else:
                    holds = _COMPARISONS[mode](value, nodes_splits[node])
                leaves = nodes_trueleafs if holds else nodes_falseleafs
                is_leaf, node = (
                    leaves[node],
                    (nodes_truenodeids if holds else nodes_falsenodeids)[node],
                )
            found[row, leaf_targetids[node], tree] = leaf_weights[node]
    y = _aggregated(found, aggregate_function).astype(samples.dtype)
    return (y, functional.softmax(y, -1), functional.sigmoid(y))[post_transform]


def _missing(given: Any, count: int) -> Any:
    return [0] * count if given is None else given


def _sets(modes: Any, values: Any) -> dict[int, set[float]]:
    """Members of the set of each node that asks for one, which NaN ends."""
    left = iter([] if values is None else np.asarray(values).ravel().tolist())
    return {k: set(iter(lambda: _next(left), None)) for k, mode in enumerate(modes) if mode == 6}


def _next(values: Any) -> Any:
    value = next(values, None)
    return None if value is None or np.isnan(value) else value


def _aggregated(found: Any, how: int) -> Any:
    is_there = ~np.isnan(found)
    if how in (0, 1):
        total = np.where(is_there, found, 0).sum(-1)
        return total / found.shape[-1] if how == 0 else total
    if how == 2:
        return np.where(is_there, found, np.finfo(np.float32).max).min(-1)
    return np.where(is_there, found, np.finfo(np.float32).min).max(-1)


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
