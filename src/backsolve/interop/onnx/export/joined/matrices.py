"""Gemm: a product of two matrices and a bias."""

from __future__ import annotations

from .....ir import Equation, type_of
from .....operators.nests import split_subscripts
from .base import Walk, both_ways, is_like, made_by, recogniser


@recogniser("add")
def with_bias(walk: Walk, e: Equation) -> str | None:
    out = e.outputs[0].type
    if out.dtype.kind != "f" or out.ndim != 2:
        return None
    for y, bias in both_ways(e):
        source = made_by(walk, y, "contract")
        if source is None or walk.reads(y) != 1 or type_of(y) != out:
            continue
        if not is_like(bias, out.dtype) or tuple(type_of(bias).shape) != out.shape[1:]:
            continue
        found = _gemm(walk, source, bias)
        if found is not None:
            return found
    return None


def _gemm(walk: Walk, e: Equation, bias: object) -> str | None:
    labels, output = split_subscripts(e.params["subscripts"])
    if len(labels) != 2 or not all(is_like(a, e.outputs[0].type.dtype) for a in e.inputs):
        return None
    pair = list(zip(labels, e.inputs, strict=True))
    for (x, a), (y, b) in (pair, pair[::-1]):
        for left, turned in ((x, 0), (x[::-1], 1)):
            for right, swapped in ((y, 0), (y[::-1], 1)):
                if (
                    len({*left, *right}) == 3
                    and left[1:] == right[:1]
                    and left[0] + right[1:] == output
                ):
                    given = [walk.value(v) for v in (a, b, bias)]
                    return str(walk.g.Gemm(*given, transA=turned or None, transB=swapped or None))
    return None
