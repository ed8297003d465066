"""Convolutions, found where a Program has products with windows (pools: pools.py).

    contract(windows(x), w)      entries of x at step·s + dilation·k, summed over k: a convolution
    contract(windows(x), t)      summed over s: the same with s and k, step and dilation exchanged
    fold(contract(t, w))         t spread out by `step`, with the kernel turned around

As written they would make every window; XLA's convolutions make none. Zeros put around x before, and a part
taken of a fold after, are their padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...ir import Equation, Program, Shape, Var
from ...operators.nests import split_subscripts
from ...operators.slice import key_of
from ...operators.windows import Cut
from . import pools
from .convolving import Form, convolve, spread
from .search import Joined, Search

_MOST_AXES = 3  # that cuDNN's kernels slide along
# if nobody reads them
_IDLE = {"windows", "fold", "contract", "unslice", "slice_update", "reshape", "where", *pools.IDLE}


def joined(program: Program) -> Sequence[Equation | Joined]:
    """The equations, with convolutions and pools in the place of what makes them."""
    if not any(e.primitive.name in ("windows", "fold") for e in program.equations):
        return program.equations
    search = _Search(program)
    steps: list[Equation | Joined] = [
        search.join(e) or pools.join(search, e) or e for e in program.equations
    ]
    needed = {a for a in program.outputs if type(a) is Var}
    kept: list[Equation | Joined] = []
    for step in reversed(steps):
        is_read = any(v in needed for v in _outputs(step))
        if is_read or (isinstance(step, Equation) and step.primitive.name not in _IDLE):
            kept.append(step)
            needed.update([a for a in step.inputs if type(a) is Var])
    return kept[::-1]


def _outputs(step: Equation | Joined) -> Sequence[Var]:
    return [step.output] if isinstance(step, Joined) else step.outputs


@dataclass(frozen=True)
class _Windows:
    """Windows of x, looked at in a shape, with zeros before the axes that are cut, and behind them."""

    x: Var
    shape: Shape
    before: Shape
    cut: Cut


class _Search(Search):
    def join(self, e: Equation) -> Joined | None:
        rule = _RULES.get(e.primitive.name)
        if rule is None or e.outputs[0].dtype.kind != "f" or not e.outputs[0].type.size:
            return None
        return rule(self, e)

    def maker_behind_mask(self, a: Any, name: str) -> Equation | None:
        """The same, also behind a mask that hides only zeros of what is made."""
        where = self.maker(a, "where")
        if where is None:
            return self.maker(a, name)
        condition, value, zero = where.inputs
        e = self.maker(value, name)
        mask = self.constants.get(condition) if type(condition) is Var else None
        if e is None or mask is None or type(zero) is Var or zero != 0:
            return None
        return e if np.all(mask | ~self.nonzeros(e)) else None

    def nonzeros(self, e: Equation) -> Any:
        """Where windows, or what is folded of them, may be other than zero: a mask that broadcasts."""
        cut, x = e.params["cut"], e.inputs[0]
        if e.primitive.name == "fold":
            shape = tuple(n if k in cut.axes else 1 for k, n in enumerate(e.outputs[0].shape))
            return cut.add(np.zeros(shape, bool), np.ones(cut.shape(shape), bool))
        shape = tuple(n if k in cut.axes else 1 for k, n in enumerate(x.shape))
        inner, before = self.inner(x, cut.axes)
        mask = np.zeros(shape, bool)
        key = [slice(None)] * len(shape)
        for axis, start in zip(cut.axes, before, strict=True):
            key[axis] = slice(start, start + inner.shape[axis])
        mask[tuple(key)] = True
        return cut.view(mask)

    # ---- products with windows

    def convolution(self, e: Equation) -> Joined | None:
        labels, output = split_subscripts(e.params["subscripts"])
        if len(e.inputs) != 2 or e.params["sizes"]:
            return None
        for k, (a, other) in enumerate([e.inputs, e.inputs[::-1]]):
            w = self.windows(a)
            if w is None or type(other) is not Var:
                continue
            mine, its = labels[k][: len(w.shape)], labels[1 - k]
            inside, counting = labels[k][len(w.shape) :], "".join(mine[i] for i in w.cut.axes)
            step, dilation = w.cut.step, w.cut.dilation
            for space, by, apart in (
                ((counting, inside, counting), step, dilation),
                ((counting, counting, inside), dilation, step),
            ):
                form = Form.of((mine, its, output), space)
                if form is not None:
                    run = partial(convolve, form, w.shape, w.before, by, apart, e.outputs[0])
                    return Joined((w.x, other), e.outputs[0], run)
        return None

    def windows(self, a: Any) -> _Windows | None:
        """What something is windows of; their leading axes may have got another shape."""
        reshaped = self.maker(a, "reshape")
        e = self.maker_behind_mask(reshaped.inputs[0] if reshaped else a, "windows")
        if e is None or type(e.inputs[0]) is not Var or len(e.params["cut"].axes) > _MOST_AXES:
            return None
        x, before = self.inner(e.inputs[0], e.params["cut"].axes)
        if reshaped is None:
            return _Windows(x, x.shape, before, e.params["cut"])
        more = _more_axes(e.params["cut"], e.outputs[0].shape, reshaped.outputs[0].shape)
        if more is None:
            return None
        first = min(e.params["cut"].axes)
        lead = reshaped.outputs[0].shape[: first + more]
        return _Windows(x, (*lead, *x.shape[first:]), before, e.params["cut"].moved(more))

    def inner(self, x: Var, axes: Sequence[int]) -> tuple[Var, Shape]:
        """What stands in x among zeros before and behind some axes, and how many are before it."""
        nothing = x, (0,) * len(axes)
        around = self.maker(x, "unslice")
        starts = None if around is None else _starts(around.params["spec"], x.shape)
        if around is None or starts is None or type(around.inputs[0]) is not Var:
            return nothing
        if not _differ_only(axes, x.shape, around.inputs[0].shape):
            return nothing
        return around.inputs[0], tuple(starts[axis] for axis in axes)

    # ---- folds of products

    def fold(self, e: Equation) -> Joined | None:
        return self.part_of_fold(e, e.outputs[0], [0] * len(e.outputs[0].shape))

    def slice(self, e: Equation) -> Joined | None:
        """A part of a fold; a mask between them may hide what the fold never reaches."""
        fold = self.maker_behind_mask(e.inputs[0], "fold")
        if fold is None:
            return None
        out, whole = e.outputs[0], fold.outputs[0].shape
        starts = _starts(e.params["spec"], whole)
        if starts is None or not _differ_only(fold.params["cut"].axes, whole, out.shape):
            return None
        return self.part_of_fold(fold, out, starts)

    def part_of_fold(self, fold: Equation, out: Var, starts: Sequence[int]) -> Joined | None:
        cut, product = fold.params["cut"], fold.inputs[0]
        at = tuple(starts[axis] for axis in cut.axes)
        size = tuple(out.shape[axis] for axis in cut.axes)
        reshaped = self.maker(product, "reshape")
        if reshaped is not None:
            before = reshaped.inputs[0]
            more = _more_axes(cut, reshaped.outputs[0].shape, before.shape)
            if more is None:
                return None
            cut, product = cut.moved(more), before
        e = self.maker(product, "contract")
        if e is None or len(e.inputs) != 2 or e.params["sizes"] or len(cut.axes) > _MOST_AXES:
            return None
        labels, output = split_subscripts(e.params["subscripts"])
        rank = len(output) - len(cut.axes)
        inside, counting = output[rank:], "".join(output[axis] for axis in cut.axes)
        for k, (t, w) in enumerate([e.inputs, e.inputs[::-1]]):
            form = Form.of((labels[k], labels[1 - k], output[:rank]), (counting, inside, counting))
            if form is not None and type(t) is type(w) is Var:
                return Joined((t, w), out, partial(spread, form, cut, at, size, out))
        return None

    def where(self, e: Equation) -> Joined | None:
        """A whole fold, behind a mask that hides only what it never reaches."""
        fold = self.maker_behind_mask(e.outputs[0], "fold")
        if fold is None:
            return None
        return self.part_of_fold(fold, e.outputs[0], [0] * len(e.outputs[0].shape))


_RULES: dict[str, Callable[[_Search, Equation], Joined | None]] = {
    "contract": _Search.convolution,
    "fold": _Search.fold,
    "slice": _Search.slice,
    "where": _Search.where,
}


def _more_axes(cut: Cut, shape: Shape, other: Shape) -> int | None:
    """How many axes more another shape has before those that are cut, if all else is alike."""
    first, more = min(cut.axes), len(other) - len(shape)
    return more if first + more >= 0 and other[first + more :] == shape[first:] else None


def _differ_only(axes: Sequence[int], a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(k in axes or a[k] == b[k] for k in range(len(a)))


def _starts(spec: Any, shape: Shape) -> list[int] | None:
    """Where along each axis a part begins, if it is in one piece."""
    key: tuple[Any, ...] = key_of(spec)
    if not all(type(k) is slice for k in key):
        return None
    key = (*key, *[slice(None)] * (len(shape) - len(key)))
    found = [k.indices(n) for k, n in zip(key, shape, strict=True)]
    return [start for start, _, _ in found] if all(step == 1 for _, _, step in found) else None
