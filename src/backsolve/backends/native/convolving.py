"""The adjoint of a convolution as a convolution: windows of the padded adjoint times the kernel turned around.

    y[… j …] = Σ_k t[… j − d k …] w[… k …]      the fold of a product of t and w, if windows are one step apart
             = Σ_k s[… j + d k …] w[… K−1−k …]   s is t with d (K − 1) zeros before it, and as many behind

So no array of windows is made and added up (lattices.py). Of y only the part that is read is computed: where
the convolution has padded its argument, that is all but a margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir import Equation, Shape, Var
from ...operators.nests import split_subscripts
from ...operators.slice import key_of
from ...operators.windows import Cut
from ...primitive import P
from .lattice_products import is_worth_it, multiply
from .lattices import RANK
from .steps import Zero
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

MARGIN = 1.3  # times as many entries of y as of t, from which on the fold is faster

Box = tuple[tuple[int, int], ...]  # from where to where, along the axes that are cut


@dataclass(frozen=True)
class Adjoint:
    """A product that waits for its fold: t counts the windows, w has the entries inside."""

    t: Var
    w: Var
    labels: tuple[str, str]
    output: str
    cut: Cut
    box: Box  # what is read of y

    @property
    def kept(self) -> str:
        return self.output[: -len(self.cut.axes)]

    @property
    def inside(self) -> str:
        return self.output[-len(self.cut.axes) :]

    @property
    def places(self) -> tuple[int, ...]:
        """The axes of t that count windows."""
        return tuple(self.labels[0].index(self.output[k]) for k in self.cut.axes)

    @property
    def is_worth_it(self) -> bool:
        rows, columns = ([c for c in x if c in self.kept] for x in self.labels[::-1])
        inner = {c: n for c, n in zip(self.labels[1], self.w.shape, strict=True) if c not in rows}
        if max(len(rows), len(columns), len(inner)) > RANK:
            return False
        wanted = prod(high - low for low, high in self.box)
        counted = prod(self.t.shape[k] for k in self.places)
        m = prod(self.w.shape) // prod(inner.values())
        n = prod(self.t.shape[self.labels[0].index(c)] for c in columns)
        terms = prod(inner.values())
        return wanted <= MARGIN * counted and is_worth_it(m, n, terms, self.t.dtype)


def leave_to_fold(schedule: Schedule, e: Equation) -> bool:
    """Whether the product waits for the fold that is its only reader."""
    out = e.outputs[0]
    reader = _only_reader(schedule, out)
    if reader is None or reader.primitive is not P.fold or out.dtype.kind != "f":
        return False
    product = _adjoint(schedule, e, reader)
    if product is None or not product.is_worth_it:
        return False
    for a in (product.t, product.w):  # what it reads must stay
        schedule.last_use[a] = max(schedule.last_use[a], schedule.last_use[out])
    schedule.folded[out] = product
    return True


def _only_reader(schedule: Schedule, a: Var) -> Equation | None:
    readers = schedule.readers.get(a, [])
    return readers[0] if len(readers) == 1 == schedule.uses[a] else None


def _adjoint(schedule: Schedule, e: Equation, fold: Equation) -> Adjoint | None:
    labels, output = split_subscripts(e.params["subscripts"])
    cut = fold.params["cut"]
    names = [*labels, output]
    if len(labels) != 2 or e.params["sizes"] or any(len(set(x)) < len(x) for x in names):
        return None
    if set(cut.step) != {1} or any(
        type(a) is not Var or a.dtype != fold.outputs[0].dtype for a in e.inputs
    ):
        return None
    shared = set(labels[0]) & set(labels[1])
    if not shared or shared | set(output) != set("".join(labels)) or shared & set(output):
        return None
    counts, inside = {output[k] for k in cut.axes}, set(output[-len(cut.axes) :])
    for k in (0, 1):
        if counts <= set(labels[k]) and inside <= set(labels[1 - k]):
            box = _part_that_is_read(schedule, fold.outputs[0], cut)
            t, w = e.inputs[k], e.inputs[1 - k]
            return Adjoint(t, w, (labels[k], labels[1 - k]), output, cut, box)
    return None


def _part_that_is_read(schedule: Schedule, y: Var, cut: Cut) -> Box:
    whole = tuple((0, y.shape[k]) for k in cut.axes)
    reader = _only_reader(schedule, y)
    if reader is None or reader.primitive is not P.slice:
        return whole
    key: tuple[Any, ...] = key_of(reader.params["spec"])
    if not all(type(k) is slice for k in key):
        return whole
    key = (*key, *[slice(None)] * (len(y.shape) - len(key)))
    part = []
    for axis, size, _, dilation in zip(*cut, strict=True):
        n, reach = y.shape[axis], dilation * (size - 1)
        start, stop, step = key[axis].indices(n)
        if step != 1 or stop <= start or start > reach or n - stop > reach:
            return whole
        part.append((start, stop))
    return tuple(part)


def fold_product(schedule: Schedule, e: Equation) -> bool:
    """Lower a fold that a product waits for; False if none does."""
    product = schedule.folded.pop(e.inputs[0], None)
    if product is None:
        return False
    cut, places = product.cut, product.places
    t, w = (schedule.in_memory(a) for a in (product.t, product.w))
    padded = _padded(schedule, t, product)
    windows = Cut(places, cut.size, cut.step, cut.dilation).view(padded.imaginary)
    turned = tuple(
        slice(None, None, -1 if c in product.inside else None) for c in product.labels[1]
    )
    operands = [padded.with_(windows), w.with_(w.imaginary[turned])]
    labels = [product.labels[0] + product.inside, product.labels[1]]
    found = multiply(schedule, operands, labels, product.kept)
    assert found is not None
    schedule.views[e.outputs[0]] = _around(found, product, e.outputs[0].shape)
    return True


def _padded(schedule: Schedule, t: View, product: Adjoint) -> View:
    """t with so many zeros around it that windows reach all that is read of y."""
    shape, inner = list(t.shape), [slice(None)] * len(t.shape)
    for at, size, dilation, (low, high) in zip(
        product.places, product.cut.size, product.cut.dilation, product.box, strict=True
    ):
        before = dilation * (size - 1) - low
        inner[at] = slice(before, before + t.shape[at])
        shape[at] = before + high
    if tuple(shape) == t.shape:
        return t
    padded = schedule.new_buffer(tuple(shape), t.dtype)
    schedule.steps.append(Zero(padded.buffer))
    schedule.copy(t, padded.with_(padded.imaginary[tuple(inner)]))
    return padded


def _around(part: View, product: Adjoint, shape: Shape) -> View:
    """A look at the whole of y, of which only a part is there: nobody looks at the rest."""
    strides = part.imaginary.strides
    lows = zip(product.cut.axes, product.box, strict=True)
    before = sum(strides[axis] * low for axis, (low, _) in lows)
    moved = np.lib.stride_tricks.as_strided(part.imaginary, (2, *shape), (-before, *strides))
    return part.with_(moved[1])
