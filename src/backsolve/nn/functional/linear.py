"""Linear maps: of whole vectors, of pairs of them, and of vectors with few entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, known, ndim_of, shape_of
from ._reduction import indices, require
from .embedding import embedding_bag


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """x Wᵀ + b: (…, in) with weights (out, in) ↦ (…, out), or weights (in,) ↦ (…).

    >>> import numpy as np
    >>> linear(np.array([1.0, 2.0]), np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([10.0, 0.0]))
    array([21.,  2.])
    """
    x, w = array(input), array(weight)
    if ndim_of(w) not in (1, 2) or not ndim_of(x) or shape_of(x)[-1] != shape_of(w)[-1]:
        raise ShapeError(
            f"linear takes (…, in) and weights (out, in), got {shape_of(x)} and {shape_of(w)}"
        )
    return _plus(np.matmul(x, np.swapaxes(w, 0, 1) if ndim_of(w) == 2 else w), bias)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """x1ᵀ W[k] x2 + b[k]: (…, n), (…, m) and weights (out, n, m) ↦ (…, out)."""
    x1, x2, w = array(input1), array(input2), array(weight)
    fits = ndim_of(w) == 3 and ndim_of(x1) and shape_of(x1)[:-1] == shape_of(x2)[:-1]
    if not fits or (shape_of(x1)[-1], shape_of(x2)[-1]) != shape_of(w)[1:]:
        raise ShapeError(
            "bilinear takes (…, n), (…, m) and weights (out, n, m), got "
            f"{shape_of(x1)}, {shape_of(x2)} and {shape_of(w)}"
        )
    out, n, m = shape_of(w)
    lead = shape_of(x1)[:-1]
    rows = int(np.prod(lead))
    flat = np.reshape(np.swapaxes(w, 0, 1), (n, out * m))
    half = np.reshape(np.matmul(np.reshape(x1, (rows, n)), flat), (rows, out, m))
    y = np.matmul(half, np.reshape(x2, (rows, m, 1)))
    return _plus(np.reshape(y, (*lead, out)), bias)


def sparse_linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """`linear` of vectors with few entries: the SparseLinear of Torch. Weights are (out, in).

    The input is a matrix of scipy.sparse, a vector for each row, or a list of pairs (indices, values). Values
    of an index that comes twice add up. There are derivatives in weights, bias and the values of pairs.

    >>> import numpy as np
    >>> W = np.array([[1.0, 10.0, 100.0]])
    >>> sparse_linear([([2, 0], [1.0, 3.0]), ([], [])], W)
    array([[103.],
           [  0.]])
    """
    w = array(weight)
    if ndim_of(w) != 2:
        raise ShapeError(f"sparse_linear takes weights (out, in), got shape {shape_of(w)}")
    if hasattr(input, "tocsr"):
        if input.shape[-1] != shape_of(w)[1]:
            raise ShapeError(
                f"sparse_linear: input of shape {input.shape} does not fit weights {shape_of(w)}"
            )
        rows = input.tocsr()
        keys, values, sizes = rows.indices, rows.data, np.diff(rows.indptr)
    else:
        keys, values, sizes = _joined(input, dtype_of(w))
    return index_linear(keys, values, sizes, np.swapaxes(w, 0, 1), bias, _name="sparse_linear")


def index_linear(
    keys: Any,
    values: Any,
    sizes: Any,
    weight: Any,
    bias: Any = None,
    *,
    _name: str = "index_linear",
) -> Any:
    """Σ values · weight[keys] + b: the IndexLinear of Torch, with weights (in, out).

    Keys and values of all examples stand one behind the other, `sizes` says how many each has.
    """
    keys, values, sizes, w = array(keys), array(values), array(sizes), array(weight)
    if ndim_of(w) != 2 or shape_of(keys) != shape_of(values) or ndim_of(keys) != 1:
        raise ShapeError(
            f"{_name} takes keys and values of one length and weights of rank 2, got "
            f"{shape_of(keys)}, {shape_of(values)} and {shape_of(w)}"
        )
    require(
        np.equal(np.sum(sizes), shape_of(keys)[0]),
        ValueError,
        f"{_name}: sizes must add up to the number of keys, {shape_of(keys)[0]}",
    )
    indices(_name, "keys", keys, 0, shape_of(w)[0])
    starts = np.cumsum(sizes) - sizes
    return _plus(embedding_bag(keys, w, starts, mode="sum", per_sample_weights=values), bias)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """1 at the class each entry names, 0 elsewhere, along a new last axis; −1: as many as there are.

    >>> import numpy as np
    >>> one_hot(np.array([0, 2]))
    array([[1, 0, 0],
           [0, 0, 1]])
    """
    x = array(tensor)
    if num_classes == -1:
        value = np.asarray(known("one_hot", x, "the number of classes"))
        if not value.size:
            raise ValueError("one_hot: an empty array does not say how many classes there are")
        num_classes = int(value.max()) + 1
    if num_classes < 1:
        raise ValueError(f"one_hot: num_classes must be positive, got {num_classes}")
    indices("one_hot", "tensor", x, 0, num_classes)
    return np.equal(np.expand_dims(x, -1), np.arange(num_classes)).astype(np.int64)


def _joined(pairs: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Keys and values one behind the other, and how many each example has."""
    keys = [np.reshape(array(k), (-1,)).astype(np.int64) for k, _ in pairs]
    values = [np.reshape(array(v), (-1,)).astype(dtype) for _, v in pairs]
    sizes = [shape_of(k)[0] for k in keys]
    for number, (size, v) in enumerate(zip(sizes, values, strict=True)):
        if shape_of(v) != (size,):
            raise ShapeError(
                f"sparse_linear: example {number} has {size} indices and {shape_of(v)[0]} values"
            )
    if not keys:
        return np.zeros(0, int), np.zeros(0, dtype), np.zeros(0, int)
    return np.concatenate(keys), np.concatenate(values), np.array(sizes)


def _plus(y: Any, bias: Any) -> Any:
    return y if bias is None else y + array(bias)
