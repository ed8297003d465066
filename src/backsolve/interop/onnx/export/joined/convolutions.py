"""Conv, where the windows of an array are contracted with a kernel; a bias with it, where one is added."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from .....ir import Equation, type_of
from .....operators.nests import split_subscripts
from .....operators.windows import Cut
from .base import (
    Walk,
    both_ways,
    made_by,
    per_channel,
    recogniser,
    shaped,
    without_zeros,
)


@recogniser("contract")
def convolved(walk: Walk, e: Equation) -> str | None:
    found = _convolution(walk, e)
    if found is None:
        return None
    g, r = walk.g, found.roles
    y = found.written(walk)
    made = r.batch + r.group + r.made + r.space
    if not found.is_plain:
        counts = dict(zip(r.output, e.outputs[0].type.shape, strict=True))
        y = g.reshape(y, [counts[c] for c in made])
    return g.transpose(y, [made.index(c) for c in r.output])


@recogniser("reshape")
def of_groups(walk: Walk, e: Equation) -> str | None:
    """Channels that were divided into groups, and are joined as Conv gives them."""
    found = _joined(walk, e.outputs[0], e)
    return None if found is None else found.written(walk)


@recogniser("add")
def with_bias(walk: Walk, e: Equation) -> str | None:
    out = e.outputs[0].type
    for y, bias in both_ways(e):
        source = made_by(walk, y, "contract", "reshape")
        if source is None or walk.reads(y) != 1 or type_of(y) != out:
            continue
        found = _joined(walk, y, source)
        vector = found and per_channel(walk, bias, out.shape, out.dtype)
        if found and vector:
            return found.written(walk, vector)
    return None


def _joined(walk: Walk, y: Any, source: Equation) -> _Convolution | None:
    """The convolution that gave an array (N, C, …), which may have been reshaped from groups."""
    if source.primitive.name == "contract":
        found = _convolution(walk, source)
        return found if found and found.is_plain and found.is_in_order else None
    inner = made_by(walk, source.inputs[0], "contract")
    if inner is None or walk.reads(source.inputs[0]) != 1:
        return None
    found = _convolution(walk, inner)
    same = found is not None and tuple(type_of(y).shape) == tuple(found.shape)
    return found if found and found.is_in_order and same else None


def _convolution(walk: Walk, e: Equation) -> _Convolution | None:
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
            return _Convolution(e, found[0], roles, e.inputs[1 - k])
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


class _Convolution(NamedTuple):
    e: Equation
    source: Equation
    roles: _Roles
    kernel: Any

    @property
    def is_plain(self) -> bool:
        """One axis of examples, one of channels."""
        r = self.roles
        return (len(r.batch), len(r.group + r.made)) == (1, 1)

    @property
    def is_in_order(self) -> bool:
        r = self.roles
        return r.output == r.batch + r.group + r.made + r.space

    @property
    def shape(self) -> list[int]:
        """(N, C, …), as Conv gives it."""
        r = self.roles
        counts = dict(zip(r.output, self.e.outputs[0].type.shape, strict=True))
        lead = [prod([counts[c] for c in names]) for names in (r.batch, r.group + r.made)]
        return [*lead, *[counts[c] for c in r.space]]

    def written(self, walk: Walk, bias: str | None = None) -> str:
        g, cut, r = walk.g, self.source.params["cut"], self.roles
        padded = without_zeros(walk, self.source.inputs[0], cut)
        weights = dict(zip(r.kernel, type_of(self.kernel).shape, strict=True))
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
        order = [r.kernel.index(c) for c in r.group + r.made + r.summed + r.inside]
        filters = [size(r.group + r.made, weights), size(r.summed, weights)]
        filters += [weights[c] for c in r.inside]
        if order == sorted(order):
            w = shaped(walk, self.kernel, filters)
        else:
            w = g.transpose(walk.value(self.kernel), order)
            if (len(r.group + r.made), len(r.summed)) != (1, 1):
                w = g.reshape(w, filters)
        return str(
            g.Conv(
                image, w, *([] if bias is None else [bias]), kernel_shape=list(cut.size),
                strides=list(cut.step), dilations=list(cut.dilation),
                pads=[*padded.before, *padded.after], group=size(r.group, weights),
            )
        )  # fmt: skip
