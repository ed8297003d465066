"""MaxPool and AveragePool, where the windows of an array alone are reduced."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .....ir import Equation, Type, type_of
from .....operators.windows import Cut
from ..graph import Graph
from .base import Padded, Walk, made_by, not_padded, padding, recogniser, without_zeros
from .means import averaged


@recogniser("max", "first_max")
def largest(walk: Walk, e: Equation) -> str | None:
    source = _windows(walk, e)
    if source is None:
        return None
    g, cut = walk.g, source.params["cut"]
    padded = _inside_infinities(walk, source.inputs[0], cut)
    y = g.MaxPool(
        _of_two_axes(walk, padded, cut), dilations=list(cut.dilation), **_options(padded, cut)
    )
    return _as_before(g, y, e, cut)


@recogniser("sum")
def total(walk: Walk, e: Equation) -> str | None:
    mean = _mean(walk, e)
    if mean is None:
        return None
    count = prod(e.inputs[0].type.shape[k] for k in e.params["axis"])
    return str(walk.g.Mul(mean, walk.g.number(count, e.outputs[0].type.dtype)))


@recogniser("multiply")
def average(walk: Walk, e: Equation) -> str | None:
    """A sum over windows, times one over the number of their entries."""
    source = averaged(walk, e)
    return None if source is None else _mean(walk, source)


def _mean(walk: Walk, e: Equation) -> str | None:
    source = _windows(walk, e)
    if source is None or any(d > 1 for d in source.params["cut"].dilation):
        return None  # operators of that version have none
    g, cut = walk.g, source.params["cut"]
    padded = without_zeros(walk, source.inputs[0], cut)
    if any(
        p >= n for n, *ps in zip(cut.size, padded.before, padded.after, strict=True) for p in ps
    ):
        padded = not_padded(source.inputs[0], cut)  # an average of nothing
    y = g.AveragePool(_of_two_axes(walk, padded, cut), count_include_pad=1, **_options(padded, cut))
    return _as_before(g, y, e, cut)


def _windows(walk: Walk, e: Equation) -> Equation | None:
    """The equation that cuts, along the last axes, the windows whose entries are all reduced here."""
    source = made_by(walk, e.inputs[0], "windows")
    if source is None or e.params["keepdims"]:
        return None
    out, cut, t = e.outputs[0].type, source.params["cut"], type_of(source.inputs[0])
    dims = len(cut.axes)
    inner = tuple(range(t.ndim, t.ndim + dims))
    last = tuple(range(t.ndim - dims, t.ndim))
    fits = tuple(e.params["axis"]) == inner and tuple(cut.axes) == last and dims <= 3
    floats = out.dtype.kind == "f" and t.dtype == out.dtype and 0 not in out.shape
    return source if fits and floats else None


def _options(padded: Padded, cut: Cut) -> dict[str, Any]:
    pads = [*padded.before, *padded.after]
    return {"kernel_shape": list(cut.size), "strides": list(cut.step), "pads": pads}


def _of_two_axes(walk: Walk, padded: Padded, cut: Cut) -> str:
    """With a batch and channels in front, as operators want it."""
    t: Type = type_of(padded.array)
    a, lead = walk.value(padded.array), t.ndim - len(cut.axes)
    if lead == 2:
        return str(a)
    return walk.g.reshape(a, [1, prod(t.shape[:lead]), *t.shape[lead:]])


def _as_before(g: Graph, y: str, e: Equation, cut: Cut) -> str:
    shape = e.outputs[0].type.shape
    return y if len(shape) == len(cut.axes) + 2 else g.reshape(y, shape)


def _inside_infinities(walk: Walk, a: Any, cut: Cut) -> Padded:
    source = made_by(walk, a, "slice_update")
    if source is None:
        return not_padded(a, cut)
    around, part = source.inputs
    if walk.number(around) != -np.inf or type_of(part).dtype != type_of(a).dtype:
        return not_padded(a, cut)
    return padding(part, source.params["spec"], type_of(a).shape, cut) or not_padded(a, cut)
