"""One operator for several equations: Conv, MaxPool, AveragePool, Relu.

A recogniser gets the walk, which knows what made a value, and gives the name of the result, or None.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from ....ir import Equation, Type, type_of
from ....operators.nests import split_subscripts
from ....operators.windows import Cut
from .graph import Graph


class Walk(Protocol):
    g: Graph

    def value(self, a: Any) -> Any: ...
    def maker(self, a: Any) -> Equation | None: ...
    def number(self, a: Any) -> Any: ...


class Padded(NamedTuple):
    """An array that is cut into windows, and what an operator puts around it: entries before and after."""

    array: Any
    before: list[int]
    after: list[int]


def rectified(walk: Walk, e: Equation) -> str | None:
    """Relu, written as where(x <= 0, 0, x)."""
    test, zero, x = e.inputs
    source, out = walk.maker(test), e.outputs[0].type
    if source is None or source.primitive.name != "less_equal" or out.dtype.kind != "f":
        return None
    left, right = source.inputs
    if left is not x or type_of(x) != out:
        return None
    if any(type(a) not in (int, float) or a != 0 for a in (right, zero)):
        return None
    return walk.g.Relu(walk.value(x))


# ---- pools


def pooled(walk: Walk, e: Equation) -> str | None:
    """MaxPool or AveragePool, where the windows of an array alone are reduced."""
    source = walk.maker(e.inputs[0])
    if source is None or source.primitive.name != "windows" or e.params["keepdims"]:
        return None
    g, out, cut = walk.g, e.outputs[0].type, source.params["cut"]
    t = type_of(source.inputs[0])
    dims = len(cut.axes)
    lead = t.ndim - dims
    inner = tuple(range(t.ndim, t.ndim + dims))
    if tuple(e.params["axis"]) != inner or tuple(cut.axes) != tuple(range(lead, t.ndim)):
        return None
    if out.dtype.kind != "f" or t.dtype != out.dtype or dims > 3 or 0 in out.shape:
        return None
    options = {"kernel_shape": list(cut.size), "strides": list(cut.step)}
    if e.primitive.name == "sum":
        if any(d > 1 for d in cut.dilation):
            return None  # operators of that version have none
        a = _of_two_axes(g, walk.value(source.inputs[0]), t, lead)
        y = g.Mul(g.AveragePool(a, **options), g.number(prod(cut.size), out.dtype))
    else:
        padded = _inside_infinities(walk, source.inputs[0], cut)
        t = type_of(padded.array)
        a = _of_two_axes(g, walk.value(padded.array), t, lead)
        pads = [*padded.before, *padded.after]
        y = g.MaxPool(a, dilations=list(cut.dilation), pads=pads, **options)
    return y if lead == 2 else g.reshape(y, out.shape)


def _of_two_axes(g: Graph, a: str, t: Type, lead: int) -> str:
    """With a batch and channels in front, as operators want it."""
    return a if lead == 2 else g.reshape(a, [1, prod(t.shape[:lead]), *t.shape[lead:]])


def _inside_infinities(walk: Walk, a: Any, cut: Cut) -> Padded:
    nothing = Padded(a, [0] * len(cut.axes), [0] * len(cut.axes))
    source = walk.maker(a)
    if source is None or source.primitive.name != "slice_update":
        return nothing
    around, part = source.inputs
    if walk.number(around) != -np.inf or type_of(part).dtype != type_of(a).dtype:
        return nothing
    whole = type_of(a).shape
    return _padding(part, source.params["spec"], whole, cut) or nothing


def _padding(part: Any, spec: Any, whole: Any, cut: Cut) -> Padded | None:
    """How far a part stands inside of the whole, if only along axes that are cut."""
    inner = type_of(part).shape
    if len(inner) != len(whole) or any(type(entry) is not tuple for entry in spec):
        return None
    before, after = [0] * len(whole), [0] * len(whole)
    for k, entry in enumerate(spec):
        if entry == (None, None, None):
            continue
        start, _, step = entry
        if step not in (None, 1) or k not in cut.axes or (start or 0) < 0:
            return None
        before[k] = start or 0
        after[k] = whole[k] - before[k] - inner[k]
    return Padded(part, [before[k] for k in cut.axes], [after[k] for k in cut.axes])


# ---- convolutions


def convolved(walk: Walk, e: Equation) -> str | None:
    """Conv, where the windows of an array are contracted with a kernel."""
    out = e.outputs[0].type
    if len(e.inputs) != 2 or out.dtype.kind != "f" or 0 in out.shape:
        return None
    if any(type_of(a).dtype != out.dtype for a in e.inputs):
        return None
    labels, output = split_subscripts(e.params["subscripts"])
    if any(len(set(s)) != len(s) for s in (*labels, output)):
        return None
    for k in (0, 1):
        found = _windows(walk, e.inputs[k])
        roles = found and _Roles.of(labels[k], labels[1 - k], output, found[1])
        if found and roles:
            return _conv(walk, e, found[0], roles, e.inputs[1 - k])
    return None


def _windows(walk: Walk, a: Any) -> tuple[Equation, Cut] | None:
    """The equation that cuts windows; their channels may have been divided into groups since."""
    source = walk.maker(a)
    if source is None:
        return None
    if source.primitive.name == "windows":
        return source, source.params["cut"]
    if source.primitive.name != "reshape":
        return None
    inner = walk.maker(source.inputs[0])
    if inner is None or inner.primitive.name != "windows":
        return None
    before, now, cut = type_of(source.inputs[0]).shape, type_of(a).shape, inner.params["cut"]
    divided = len(now) == len(before) + 1 and now[0] == before[0] and now[3:] == before[2:]
    return (inner, cut.moved(1)) if divided and min(cut.axes) == 2 else None


class _Roles(NamedTuple):
    """What the loops of a contraction are to a convolution."""

    image: str
    kernel: str
    batch: str
    group: str
    summed: str
    made: str
    space: str
    inside: str
    output: str

    @staticmethod
    def of(x: str, w: str, output: str, cut: Cut) -> _Roles | None:
        rank = len(x) - len(cut.axes)
        space, inside = "".join(x[k] for k in cut.axes), x[rank:]
        channels = [c for k, c in enumerate(x[:rank]) if k not in cut.axes]
        batch = "".join(c for c in channels if c in output and c not in w)
        group = "".join(c for c in channels if c in output and c in w)
        summed = "".join(c for c in channels if c not in output and c in w)
        made = "".join(c for c in w if c in output and c not in x)
        fits = (
            len(cut.axes) <= 3
            and len(batch + group + summed) == len(channels)
            and sorted(output) == sorted(batch + group + made + space)
            and sorted(w) == sorted(group + made + summed + inside)
        )
        return (
            _Roles(x[:rank], w, batch, group, summed, made, space, inside, output) if fits else None
        )


def _conv(walk: Walk, e: Equation, source: Equation, r: _Roles, kernel: Any) -> str:
    g, cut, out = walk.g, source.params["cut"], e.outputs[0].type
    padded = _without_zeros(walk, source.inputs[0], cut)
    weights = dict(zip(r.kernel, type_of(kernel).shape, strict=True))
    counts = dict(zip(r.output, out.shape, strict=True))
    size = lambda names, of: prod([of[c] for c in names])
    image, t = walk.value(padded.array), type_of(padded.array)
    if t.ndim == len(r.image):  # else its channels are not divided yet, as Conv wants them
        lengths = dict(zip(r.image, t.shape, strict=True))
        image = g.transpose(
            image, [r.image.index(c) for c in r.batch + r.group + r.summed + r.space]
        )
        if (len(r.batch), len(r.group + r.summed)) != (1, 1):
            lead = [size(r.batch, lengths), size(r.group + r.summed, lengths)]
            image = g.reshape(image, [*lead, *[lengths[c] for c in r.space]])
    filters = r.group + r.made + r.summed + r.inside
    w = g.transpose(walk.value(kernel), [r.kernel.index(c) for c in filters])
    if (len(r.group + r.made), len(r.summed)) != (1, 1):
        lead = [size(r.group + r.made, weights), size(r.summed, weights)]
        w = g.reshape(w, [*lead, *[weights[c] for c in r.inside]])
    y = g.Conv(
        image, w, kernel_shape=list(cut.size), strides=list(cut.step), dilations=list(cut.dilation),
        pads=[*padded.before, *padded.after], group=size(r.group, counts),
    )  # fmt: skip
    made = r.batch + r.group + r.made + r.space
    if (len(r.batch), len(r.group + r.made)) != (1, 1):
        y = g.reshape(y, [counts[c] for c in made])
    return g.transpose(y, [made.index(c) for c in r.output])


def _without_zeros(walk: Walk, a: Any, cut: Cut) -> Padded:
    """The array that is cut, and zeros around it that Conv can put there itself."""
    nothing = Padded(a, [0] * len(cut.axes), [0] * len(cut.axes))
    source = walk.maker(a)
    if source is None or source.primitive.name != "unslice":
        return nothing
    part = source.inputs[0]
    if type_of(part).dtype != type_of(a).dtype:
        return nothing
    return _padding(part, source.params["spec"], source.params["shape"], cut) or nothing


RECOGNISERS = {
    "contract": convolved,
    "where": rectified,
    "max": pooled,
    "first_max": pooled,
    "sum": pooled,
}
