"""`contract`: products of matrices, after axes were moved and joined; Einsum is left for three arrays and more.

Convolutions, and biases with products, are found in joined/.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .....ir import Equation
from .....operators.nests import label_sizes, split_subscripts
from ..graph import Graph
from ..sizes import Size
from .base import as_dtype, out_of, row, types_of


@row("contract")
def contract(g: Graph, e: Equation, inputs: list[str]) -> str:
    out = out_of(e)
    dtype = np.dtype(np.int64) if out.dtype.kind == "b" else out.dtype
    given = as_dtype(g, e, inputs, dtype)
    subscripts = e.params["subscripts"]
    labels, output = split_subscripts(subscripts)
    sizes = label_sizes(subscripts, [t.shape for t in types_of(e)], e.params["sizes"])
    distinct = "".join(dict.fromkeys(output))
    known = "".join(c for c in distinct if any(c in x for x in labels))
    y = _product(g, given, labels, known, sizes, dtype)
    if distinct != known:
        y = g.unsqueeze(y, [k for k, c in enumerate(distinct) if c not in known])
        y = g.expand(y, [sizes[c] for c in distinct])
    if distinct != output:
        y = _diagonal(g, y, distinct, output, sizes, dtype)
    return g.cast(y, dtype, out.dtype)


def _product(
    g: Graph, given: list[str], labels: list[str], output: str, sizes: Any, dtype: Any
) -> str:
    if len(given) == 1 and len(set(labels[0])) == len(labels[0]):
        (x,), (a,) = labels, given
        gone = [k for k, c in enumerate(x) if c not in output]
        if gone:
            a = g.ReduceSum(a, g.sizes(gone), keepdims=0)
        left = [c for c in x if c in output]
        return g.transpose(a, [left.index(c) for c in output])
    if len(given) == 2:
        y = _matmul(g, given, labels, output, dtype)
        y = y or _matmul(g, given[::-1], labels[::-1], output, dtype)
        if y is not None:
            return y
        y = _moved(g, given, labels, output, sizes, dtype)
        if y is not None:
            return y
    return g.Einsum(*given, equation=f"{','.join(labels)}->{output}")


def _matmul(g: Graph, given: list[str], labels: list[str], output: str, dtype: Any) -> str | None:
    """…ij,jk->…ik or …ij,…jk->…ik, the last two axes of either perhaps exchanged."""
    (a, b), (x, y) = given, labels
    if len(x) < 2 or len(y) < 2 or len(set(x)) != len(x) or len(set(y)) != len(y):
        return None
    is_flat = len(y) == 2
    lead = "" if is_flat else y[:-2]
    for right, turned in ((y[-2:], False), (y[-1] + y[-2], True)):
        j, k = right[0], right[1]
        for left, swapped in ((x, False), (x[:-2] + x[-1] + x[-2], True)):
            fits = left[-1] == j and left[:-1] + k == output and k not in left
            if not fits or not (is_flat or lead == left[:-2]):
                continue
            if len(x) == 2 and is_flat and dtype.kind == "f":
                if not swapped and not turned:
                    return g.MatMul(a, b)
                return g.Gemm(a, b, transA=int(swapped) or None, transB=int(turned) or None)
            if swapped:
                a = g.transpose(a, [*range(len(x) - 2), len(x) - 1, len(x) - 2])
            if turned:
                b = g.transpose(b, [*range(len(y) - 2), len(y) - 1, len(y) - 2])
            return g.MatMul(a, b)
    return None


_MULTIPLIED = ("float16", "float32", "float64", "int32", "int64", "uint32", "uint64")


def _moved(
    g: Graph, given: list[str], labels: list[str], output: str, sizes: Any, dtype: Any
) -> str | None:
    """One product of matrices (or of numbers): loops of both, of the left alone, summed, of the right alone."""
    if dtype.name not in _MULTIPLIED or any(len(set(x)) != len(x) for x in labels):
        return None
    given, labels = list(given), list(labels)
    for k in (0, 1):  # sums over one of them alone
        x, other = labels[k], labels[1 - k]
        kept = "".join(c for c in x if c in output or c in other)
        gone = [i for i, c in enumerate(x) if c not in kept]
        if gone:
            given[k], labels[k] = g.ReduceSum(given[k], g.sizes(gone), keepdims=0), kept
    x, y = labels
    shared = "".join(c for c in output if c in x and c in y)
    summed = "".join(c for c in x if c in y and c not in output)
    left, right = ("".join(c for c in output if c in z and c not in shared) for z in labels)
    if not summed:
        return _entries(g, given, labels, output)
    if not left and not right:
        y = _entries(g, given, labels, output + summed)
        axes = list(range(len(output), len(output + summed)))
        return str(g.ReduceSum(y, g.sizes(axes), keepdims=0))
    if any(sum(isinstance(sizes[c], Size) for c in z) > 1 for z in (left, summed, right)):
        return None
    if not shared and len(left) == 1 != len(right):
        given, x, y, left, right = given[::-1], y, x, right, left
    lines = [*left] if left and not shared and len(right) == 1 else [left]  # axes before a matrix
    a = _matrices(g, given[0], x, [*shared, *lines, summed], sizes)
    b = _matrices(g, given[1], y, [*shared, summed, right], sizes)
    made, z = shared + left + right, g.MatMul(a, b)
    if any(len(names) != 1 for names in (*lines, right)):
        z = g.reshape(z, [sizes[c] for c in made])
    return g.transpose(z, [made.index(c) for c in output])


def _matrices(g: Graph, a: str, labels: str, groups: list[str], sizes: Any) -> str:
    """An array with its axes in this order, those of a group as one."""
    a = g.transpose(a, [labels.index(c) for c in "".join(groups)])
    if all(len(names) == 1 for names in groups):
        return a
    return g.reshape(a, [prod([sizes[c] for c in names]) for names in groups])


def _entries(g: Graph, given: list[str], labels: list[str], output: str) -> str:
    """Products entry by entry, with axes of length 1 where one array has none."""
    parts = []
    for a, x in zip(given, labels, strict=True):
        a = g.transpose(a, [x.index(c) for c in output if c in x])
        parts.append(g.unsqueeze(a, [k for k, c in enumerate(output) if c not in x]))
    return str(g.Mul(*parts))


def _diagonal(g: Graph, y: str, distinct: str, output: str, sizes: Any, dtype: Any) -> str:
    """What stands where all places of a label agree, among zeros."""
    first: dict[str, int] = {}
    mask: Any = np.ones((1,) * len(output), bool)
    for axis, c in enumerate(output):
        numbers = np.arange(sizes[c]).reshape([-1 if k == axis else 1 for k in range(len(output))])
        if c in first:
            before = np.arange(sizes[c]).reshape(
                [-1 if k == first[c] else 1 for k in range(len(output))]
            )
            mask = mask & (before == numbers)
        else:
            first[c] = axis
    y = g.unsqueeze(y, [k for k, c in enumerate(output) if first[c] != k])
    return g.Where(g.constant(mask), y, g.number(0, dtype))
