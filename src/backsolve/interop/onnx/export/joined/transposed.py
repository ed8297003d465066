"""ConvTranspose, where what a contraction with a kernel gives is added up as windows.

Entries that are cut off afterwards are its padding, zeros behind its output padding.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from .....ir import Equation, type_of
from .....operators.nests import split_subscripts
from .....operators.windows import Cut
from ..sizes import Size
from .base import Walk, both_ways, is_like, made_by, padding, per_channel, recogniser, shaped


class _Labels(NamedTuple):
    """The loops of the contraction: (N, g, c, space) and (g, c, o, inside) to (N, g, o, space, inside)."""

    batch: str
    group: str
    summed: str
    made: str
    space: str
    inside: str

    @staticmethod
    def of(x: str, w: str, output: str, dims: int, grouped: bool) -> _Labels | None:
        lead = len(output) - 2 * dims
        if lead != 2 + grouped or any(len(set(s)) != len(s) for s in (x, w, output)):
            return None
        batch, group, made = output[0], output[1 : 1 + grouped], output[lead - 1]
        summed = "".join(c for c in x if c in w and c not in output)
        space, inside = output[lead : lead + dims], output[lead + dims :]
        fits = (
            len(summed) == 1
            and sorted(x) == sorted(batch + group + summed + space)
            and sorted(w) == sorted(group + summed + made + inside)
        )
        return _Labels(batch, group, summed, made, space, inside) if fits else None


class _Transposed(NamedTuple):
    image: Any
    kernel: Any
    axes: tuple[str, str]  # their labels
    labels: _Labels
    cut: Cut
    begin: list[int]  # how many entries are cut off before
    end: list[int]  # and how many zeros come behind; less than none are cut off

    def written(self, walk: Walk, bias: str | None = None) -> str:
        g, r = walk.g, self.labels
        x, w = self.axes
        given = []
        wanted = r.batch + r.group + r.summed + r.space, r.group + r.summed + r.made + r.inside
        for a, labels, order, first in zip(
            (self.image, self.kernel), (x, w), wanted, (1, 0), strict=True
        ):
            shape = [type_of(a).shape[labels.index(c)] for c in order]
            if r.group:  # its channels are those of all groups
                shape[first : first + 2] = [prod(shape[first : first + 2])]
            if labels == order:
                given.append(shaped(walk, a, shape))
                continue
            y = g.transpose(walk.value(a), [labels.index(c) for c in order])
            given.append(g.reshape(y, shape) if r.group else y)
        cut, groups = self.cut, type_of(self.kernel).shape[w.index(r.group)] if r.group else 1
        more = [max(n, 0) for n in self.end]
        return str(
            g.ConvTranspose(
                *given, *([] if bias is None else [bias]), kernel_shape=list(cut.size), strides=list(cut.step),
                dilations=list(cut.dilation), pads=[*self.begin, *[max(-n, 0) for n in self.end]],
                output_padding=more if any(more) else None, group=groups,
            )
        )  # fmt: skip


@recogniser("fold", "slice", "unslice")
def transposed(walk: Walk, e: Equation) -> str | None:
    found = _found(walk, e)
    return None if found is None else found.written(walk)


@recogniser("add")
def with_bias(walk: Walk, e: Equation) -> str | None:
    out = e.outputs[0].type
    for y, bias in both_ways(e):
        source = walk.maker(y)
        if source is None or walk.reads(y) != 1 or type_of(y) != out:
            continue
        found = _found(walk, source)
        if found is None or found.labels.group:  # ONNX's own evaluator has but the first group's
            continue
        vector = per_channel(walk, bias, out.shape, out.dtype)
        if vector is not None:
            return found.written(walk, vector)
    return None


def _found(walk: Walk, e: Equation) -> _Transposed | None:
    if e.primitive.name == "fold":
        return _folded(walk, e)
    if e.primitive.name not in ("slice", "unslice") or walk.reads(e.inputs[0]) != 1:
        return None
    (a,), (y,) = e.inputs, e.outputs
    source = walk.maker(a)
    found = None if source is None else _found(walk, source)
    if found is None or type_of(a).dtype != y.type.dtype:
        return None
    if e.primitive.name == "slice":
        return _cut_off(found, padding(y, e.params["spec"], type_of(a).shape, found.cut))
    return _put_around(found, padding(a, e.params["spec"], e.params["shape"], found.cut))


def _cut_off(found: _Transposed, around: Any) -> _Transposed | None:
    if around is None:
        return None
    begin = [n + more for n, more in zip(found.begin, around.before, strict=True)]
    end = [n - less for n, less in zip(found.end, around.after, strict=True)]
    return found._replace(begin=begin, end=end)


def _put_around(found: _Transposed, around: Any) -> _Transposed | None:
    if around is None or any(around.before):
        return None
    end = [n + more for n, more in zip(found.end, around.after, strict=True)]
    for was, now, step in zip(found.end, end, found.cut.step, strict=True):
        if now > was and (was < 0 or now >= step):
            return None
    return found._replace(end=end)


def _folded(walk: Walk, e: Equation) -> _Transposed | None:
    (windows,), out, cut = e.inputs, e.outputs[0].type, e.params["cut"]
    dims = len(cut.axes)
    if cut.axes != tuple(range(2, 2 + dims)) or dims > 3 or out.ndim != 2 + dims:
        return None
    if out.dtype.kind != "f" or 0 in out.shape or walk.reads(windows) != 1:
        return None
    source = made_by(walk, windows, "contract", "reshape")
    grouped = source is not None and source.primitive.name == "reshape"
    if source is not None and grouped:
        before, now = type_of(source.inputs[0]).shape, type_of(windows).shape
        joined = len(before) == len(now) + 1 and before[0] == now[0] and before[3:] == now[2:]
        once = walk.reads(source.inputs[0]) == 1
        source = made_by(walk, source.inputs[0], "contract") if joined and once else None
    if source is None or len(source.inputs) != 2:
        return None
    if not all(is_like(a, out.dtype) for a in (*source.inputs, windows)):
        return None
    (left, right), output = split_subscripts(source.params["subscripts"])
    a, b = source.inputs
    for image, kernel, axes in ((a, b, (left, right)), (b, a, (right, left))):
        labels = _Labels.of(*axes, output, dims, grouped)
        if labels is not None:
            reach = _reach(cut, type_of(windows).shape[2 : 2 + dims])
            end = [n - far for n, far in zip(out.shape[2:], reach, strict=True)]
            known = not any(isinstance(n, Size) for n in end)
            if known and all(n < step for n, step in zip(end, cut.step, strict=True)):
                return _Transposed(image, kernel, axes, labels, cut, [0] * dims, end)
    return None


def _reach(cut: Cut, counts: Any) -> list[int]:
    """How long an array is that so many windows cover."""
    return [
        (n - 1) * step + apart * (size - 1) + 1
        for n, size, step, apart in zip(counts, cut.size, cut.step, cut.dilation, strict=True)
    ]
