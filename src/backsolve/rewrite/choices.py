"""Choices in rounds: both sides are computed, and one is taken.

    if c: y[i] = a          y[i] = where(c, a, y[i])
    if c: s += a       →    s += where(c, a, 0)
    z = a if c else b       z = where(c, a, b)

Then the rounds of a loop may be free of each other (rounds.py), and run on whole arrays. Only for numbers: what
is done with arrays is worth a real choice. An index of a side that is not taken may lie outside; it becomes 0
there. No derivative is taken of the result: a side that is not taken may compute a NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P
from ..primitives.control import BRANCH
from ..regions import Branches, Loop
from .affine import affine
from .clean import drop_unused, merge_repeated
from .engine import raw

FEWEST = 64  # rounds
SMALL = 16  # entries
MOST = 400  # equations
FEW = 1  # functions, which vectors compute in every round as fast as jumps in some
FAILING = ("floor_divide", "remainder", "power", "left_shift", "right_shift")  # of integers
INDICES = {"gather": 1, "scatter_set": 2, "scatter_add": 1}  # where they begin among the inputs
WRITES = ("scatter_set", "scatter_add")
CHEAP = (
    *(
        "add",
        "subtract",
        "multiply",
        "negative",
        "square",
        "absolute",
        "sign",
        "maximum",
        "minimum",
    ),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *("logical_and", "logical_or", "logical_not", "where", "gather"),
    *("alias", "cast", "cast_discrete", "reshape", "broadcast_to"),
)
QUICK = ("divide", "sqrt", "reciprocal", "floor", "ceil", "isnan", "remainder", "floor_divide")
PLAIN = ("alias", "cast", "cast_discrete", "reshape", "broadcast_to")


def without_branches(loop: Loop) -> Loop | None:
    """The loop without branches in its body, if it has some, all are simple, and it pays."""
    if not _pays(loop):
        return None
    try:
        return replace(loop, body=_Chooser(loop).body())
    except _TooMuchError:
        return None


def _pays(loop: Loop) -> bool:
    """Unless one side is empty, and the other long: it may be a rare case."""
    regions = [e.params["region"] for e in loop.body.equations if e.primitive is BRANCH]
    if not regions or (loop.count or 0) < FEWEST:
        return False
    for region in regions:
        names = [[e.primitive.name for e in _all(side)] for side in region.branches]
        functions = sum(name not in (*CHEAP, *WRITES, *QUICK) for side in names for name in side)
        if functions > FEW and not all(names):
            return False
    return True


def _all(program: Program) -> Iterator[Equation]:
    for e in program.equations:
        if isinstance(e.params.get("region"), Branches):
            for side in e.params["region"].branches:
                yield from _all(side)
        else:
            yield e


class _TooMuchError(Exception):
    """Something that is not done where it is not asked for."""


@dataclass
class _Update:
    """One step on the way from an old value to a new one."""

    primitive: Any  # scatter_set, or add or subtract
    value: Any  # what is written, or added
    part: Equation | None = None  # if it is added in one place: the entries among zeros


class _Chooser:
    def __init__(self, loop: Loop):
        self.loop, self.k = loop, loop.body.inputs[0]
        self.constants = list(loop.body.constants)
        self.equations: list[Equation] = []
        self.makers: dict[Var, Equation] = {}
        self.sums: dict[Any, list[Var]] = {}  # of parts among zeros

    def body(self) -> Program:
        body = self.loop.body
        known = {v: v for v in (*body.inputs, *[v for v, _ in body.constants])}
        outputs = self.run(body, known, None)
        every = Program(body.inputs, tuple(self.constants), tuple(self.equations), tuple(outputs))
        return drop_unused(merge_repeated(every))  # a side may say again what the condition did

    def run(self, program: Program, names: dict[Var, Any], taken: Any) -> list[Any]:
        """The equations of a Program, under a condition; its outputs."""
        for e in program.equations:
            inputs = [names[a] if type(a) is Var else a for a in e.inputs]
            if e.primitive is BRANCH:
                outs = self.choose(inputs, e.params["region"], taken, e.where)
            elif e.primitive.holds_regions and taken is None:
                outs = [Var(v.type) for v in e.outputs]
                self.equations.append(replace(e, inputs=tuple(inputs), outputs=tuple(outs)))
            elif e.primitive.holds_regions or e.primitive.has_effect:
                raise _TooMuchError
            else:
                if taken is not None:
                    inputs = self.guarded(e, inputs, taken)
                outs = [self.again(e, inputs)]
            names.update(zip(e.outputs, outs, strict=True))
        return [names[a] if type(a) is Var else a for a in program.outputs]

    def again(self, e: Equation, inputs: list[Any]) -> Any:
        """An equation as it was; a sum of parts is added part by part."""
        if e.primitive is P.add and (both := self.set_and_added(inputs, e)) is not None:
            return both
        parts = self.sums.get(inputs[-1]) if e.primitive in (P.add, P.subtract) else None
        if parts is None:
            return self.emit(e.primitive, inputs, e.params, e.where, e.outputs[0].type)
        y = inputs[0]
        for part in parts:
            y = self.emit(e.primitive, [y, part], {}, e.where, e.outputs[0].type)
        return y

    def set_and_added(self, inputs: Sequence[Any], e: Equation) -> Var | None:
        """y[i] = v; y[i] += t is y[i] = v + t: so for the adjoint of an entry that is overwritten."""
        written, part = (self.makers.get(a) if type(a) is Var else None for a in inputs)
        if written is None or part is None or written.primitive is not P.scatter_set:
            return None
        y, v, *at = written.inputs
        t, *indices = part.inputs
        if (
            part.primitive is not P.scatter_add
            or at != indices
            or any(type_of(i).shape for i in at)
        ):
            return None
        total = self.emit(P.add, [v, t], {}, e.where)
        return self.emit(P.scatter_set, [y, total, *at], written.params, e.where, e.outputs[0].type)

    def choose(self, inputs: Sequence[Any], region: Branches, taken: Any, at: str) -> list[Any]:
        which, *args = inputs
        if len(region.branches) != 2 or type_of(which).dtype.kind != "b":
            raise _TooMuchError
        other = self.emit(P.logical_not, [which], {}, at)
        masks = [other, which]
        if taken is not None:
            masks = [self.emit(P.logical_and, [taken, mask], {}, at) for mask in masks]
        sides = []
        for program, mask in zip(region.branches, masks, strict=True):
            names = dict(zip(program.inputs, args, strict=True))
            for v, c in program.constants:
                names[v] = Var(v.type)
                self.constants.append((names[v], c))
            sides.append(self.run(program, names, mask))
        no, yes = sides
        return [
            self.joined(which, masks, a, b, t, at)
            for a, b, t in zip(yes, no, region.outputs(), strict=True)
        ]

    def emit(
        self, primitive: Any, inputs: Sequence[Any], params: Any, at: str, t: Type | None = None
    ) -> Var:
        if len(self.equations) > MOST:
            raise _TooMuchError
        if t is None:
            (t,) = primitive.infer([type_of(a) for a in inputs], params)
        var = Var(t)
        e = Equation((var,), primitive, tuple(inputs), params, at)
        self.equations.append(e)
        self.makers[var] = e
        return var

    # ---- what a side may do

    def guarded(self, e: Equation, inputs: list[Any], taken: Any) -> list[Any]:
        """The inputs of an equation that also runs where it is not asked for."""
        name, out = e.primitive.name, e.outputs[0].type
        if name in INDICES:
            first = INDICES[name]
            shape = e.params["shape"] if name == "scatter_add" else type_of(inputs[0]).shape
            indices = inputs[first:]
            if any(type_of(i).shape != () for i in indices) or 0 in shape:
                raise _TooMuchError
            safe = [self.safe(i, n, taken, e) for i, n in zip(indices, shape, strict=False)]
            return [*inputs[:first], *safe]
        small = out.size <= SMALL and (e.primitive.elementwise or name in PLAIN)
        if not small and name not in ("add", "subtract"):  # of an array and a part: see `steps`
            raise _TooMuchError
        may_fail = name in FAILING and out.dtype.kind in "iu"
        if may_fail and (type(inputs[1]) is not int or inputs[1] <= 0):
            raise _TooMuchError
        return inputs

    def safe(self, i: Any, n: int, taken: Any, e: Equation) -> Any:
        if type(i) is not Var:
            return i
        place = affine(i, self.k, self.makers)
        if place is not None:
            ends = [place[0], place[0] + place[1] * (int(self.loop.count or 1) - 1)]
            if min(ends) >= 0 and max(ends) < n:
                return i
        zero = self.emit(P.multiply, [i, 0], {}, e.where)
        return self.emit(P.where, [taken, i, zero], {}, e.where, i.type)

    # ---- what comes out

    def joined(self, which: Any, masks: list[Any], a: Any, b: Any, t: Type, at: str) -> Any:
        if a is b or (type(a) is type(b) is not Var and a == b):
            return a
        if t.size > SMALL:
            parts = [self.parts_of(a), self.parts_of(b)]
            if parts[0] is not None and parts[1] is not None:
                return self.sum_of(parts[0], parts[1], which, masks, at)
        ways = [self.steps(a), self.steps(b)]
        common = next((x for x, _ in ways[0] if any(x is y for y, _ in ways[1])), None)
        if common is not None:
            updates = [[u for _, u in way[: [x for x, _ in way].index(common)]] for way in ways]
            both = self.same_place(updates[0], updates[1], which, at)
            if both is not None:
                return self.emit(P.scatter_set, [common, *both], {}, at, t)
            y = common
            for way, mask in zip(updates, masks[::-1], strict=True):
                for update in reversed(way):
                    y = self.updated(y, update, mask, at)
            return y
        return self.emit(P.where, [which, a, b], {}, at, self.small(t))

    def same_place(
        self, yes: list[_Update], no: list[_Update], which: Any, at: str
    ) -> list[Any] | None:
        """If both sides write one entry, and the same one: what is written, and where."""
        if len(yes) != 1 or len(no) != 1 or any(u.primitive is not P.scatter_set for u in yes + no):
            return None
        a, b = yes[0].part, no[0].part
        assert a is not None
        assert b is not None
        if list(a.inputs[2:]) != list(b.inputs[2:]) or a.params or b.params:
            return None
        values = [a.inputs[1], b.inputs[1]]
        if all(type(v) is not Var for v in values) and values[0] == values[1]:
            return [values[0], *a.inputs[2:]]
        t = self.small(Type(self.entry_shape(a), a.outputs[0].dtype))
        return [self.emit(P.where, [which, *values], {}, at, t), *a.inputs[2:]]

    def entry_shape(self, written: Equation) -> tuple[int, ...]:
        return type_of(written.inputs[0]).shape[len(written.inputs) - 2 :]

    def steps(self, a: Any) -> list[tuple[Any, Any]]:
        """The values from `a` back to what it started from, each with the step that led to it."""
        found: list[tuple[Any, Any]] = []
        while True:
            e = self.makers.get(a) if type(a) is Var else None
            update = None
            if e is not None and e.primitive is P.scatter_set:
                update, start = _Update(P.scatter_set, e.inputs[1], e), e.inputs[0]
            elif e is not None and e.primitive in (P.add, P.subtract):
                start, value = e.inputs
                if type(start) is not Var or start.type != a.type:
                    start, value = value, start
                fits = type(start) is Var and start.type == a.type
                if fits and not (e.primitive is P.subtract and start is e.inputs[1]):
                    part = self.makers.get(value) if type(value) is Var else None
                    is_part = part is not None and part.primitive is P.scatter_add
                    update = _Update(e.primitive, value, part if is_part else None)
            found.append((a, update))
            if update is None:
                return found
            a = start

    def updated(self, y: Any, update: _Update, mask: Any, at: str) -> Any:
        part = update.part
        if update.primitive is P.scatter_set:
            assert part is not None
            indices = part.inputs[2:]
            old = self.emit(P.gather, [y, *indices], {}, at)
            new = self.emit(P.where, [mask, update.value, old], {}, at, self.small(old.type))
            return self.emit(P.scatter_set, [y, new, *indices], part.params, at, y.type)
        term = update.value
        if part is not None:
            term = self.masked(part, mask, at)
        elif y.type.size > SMALL:
            raise _TooMuchError
        else:
            term = self.zero_unless(mask, term, at)
        return self.emit(update.primitive, [y, term], {}, at, y.type)

    # ---- parts among zeros

    def parts_of(self, a: Any) -> list[Equation] | None:
        """The entries that an array is zeros but for, if it is made so."""
        if a in self.sums:
            return [self.makers[part] for part in self.sums[a]]
        e = self.makers.get(a) if type(a) is Var else None
        if e is None:
            zero = next((raw(c) for v, c in self.constants if v is a), a)
            return [] if type(zero) is not Var and not np.any(zero) else None
        if e.primitive is P.scatter_add:
            return [e]
        if e.primitive is not P.add:
            return None
        found = [self.parts_of(x) for x in e.inputs]
        return None if None in found else [part for parts in found for part in parts or ()]

    def sum_of(
        self, yes: list[Equation], no: list[Equation], which: Any, masks: list[Any], at: str
    ) -> Any:
        if len(yes) == len(no) == 1 and yes[0].inputs[1:] == no[0].inputs[1:]:
            (a, *indices), b = yes[0].inputs, no[0].inputs[0]
            t = self.small(type_of(a))
            value = self.emit(P.where, [which, a, b], {}, at, t)
            return self.emit(P.scatter_add, [value, *indices], yes[0].params, at)
        made = [self.masked(part, masks[1], at) for part in yes]
        made += [self.masked(part, masks[0], at) for part in no]
        if not made:
            raise _TooMuchError
        total = made[0]
        for part in made[1:]:
            total = self.emit(P.add, [total, part], {}, at)
        if len(made) > 1:
            self.sums[total] = made
        return total

    def masked(self, part: Equation, mask: Any, at: str) -> Var:
        value = self.zero_unless(mask, part.inputs[0], at)
        return self.emit(P.scatter_add, [value, *part.inputs[1:]], part.params, at)

    def small(self, t: Type) -> Type:
        if t.size > SMALL:
            raise _TooMuchError
        return t

    def zero_unless(self, mask: Any, value: Any, at: str) -> Any:
        t = self.small(type_of(value))
        zero = False if t.dtype.kind == "b" else t.dtype.type(0).item()
        return self.emit(P.where, [mask, value, zero], {}, at, t if type(value) is Var else None)
