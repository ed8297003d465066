"""Arrays of which every part is written: put together once, and never read or written between.

    x[0] = v;  b = x[1];  x[1] = w  …  x           b = the old x[1];  concatenate(v, w, …)

A network that keeps the states of its layers in one array writes it layer by layer, and the adjoint sets to 0
and adds up the same parts. Each step would be a pass over the array, or a copy where the old one is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from ..ir import Equation, Program, Shape, Var, is_uniform
from ..primitive import P
from .clean import drop_unused
from .engine import raw
from .parts import Box, box_of, in_line
from .regions import inside

_Place = tuple[tuple[int, int], ...]
OLD = "what the base has there"


def assemble(program: Program) -> Program:
    """In all regions: what stands outside of them runs once."""
    return inside(program, lambda p: assemble(_assemble(p)))


@dataclass
class _Written:
    """An array: another one, but for the parts in some places, each the sum of some atoms."""

    base: Var
    parts: dict[_Place, tuple[Any, ...]] = field(default_factory=dict)

    def set(self, place: _Place, a: Any) -> _Written | None:
        if not self.is_apart(place, but=place):
            return None
        return _Written(self.base, {**self.parts, place: (a,)})

    def add(self, place: _Place, a: Any) -> _Written | None:
        had = self.parts.get(place)
        if had is None and not self.is_apart(place):
            return None
        return _Written(self.base, {**self.parts, place: (*(had or (OLD,)), a)})

    def is_apart(self, place: _Place, but: _Place | None = None) -> bool:
        return all(p == but or _are_apart(p, place) for p in self.parts)


def _are_apart(a: _Place, b: _Place) -> bool:
    return any(x[1] <= y[0] or y[1] <= x[0] for x, y in zip(a, b, strict=True))


def _assemble(program: Program) -> Program:
    found = _Found(program)
    ends = {v: line for v in program.outputs if (line := found.whole(v)) is not None}
    return found.rebuilt(ends) if ends else program


class _Found:
    def __init__(self, program: Program):
        self.program = program
        self.makers = {e.outputs[0]: e for e in program.equations if e.outputs}
        self.readers: dict[Var, list[Equation]] = {}
        for e in program.equations:
            for a in e.inputs:
                if type(a) is Var:
                    self.readers.setdefault(a, []).append(e)
        self.zeros = {v for v, c in program.constants if is_uniform(raw(c)) and not raw(c).flat[0]}
        self.written: dict[Var, _Written] = {}
        for e in program.equations:
            now = self._written(e)
            if now is not None:
                self.written[e.outputs[0]] = now

    def _written(self, e: Equation) -> _Written | None:
        """What an equation makes of an array by writing a part of it."""
        if e.primitive.name == "slice_update":
            a, v = e.inputs
            place = _place(e)
            fits = type(a) is Var and type(v) is Var and (v.dtype, v.type.weak) == (a.dtype, False)
            if place is None or not fits:
                return None
            return self.written.get(a, _Written(a)).set(place, v)
        if e.primitive.name != "add":
            return None
        for a, b in (e.inputs, e.inputs[::-1]):
            part = self.makers.get(b) if type(b) is Var else None
            if part is None or part.primitive.name != "unslice" or type(a) is not Var:
                continue
            place = _place(part)
            if place is not None and a.type == b.type == e.outputs[0].type:
                return self.written.get(a, _Written(a)).add(place, part.inputs[0])
        return None

    # ---- which arrays are assembled

    def whole(self, v: Any) -> list[tuple[Box, Any]] | None:
        """The parts of which this array consists, in order, if nobody needs what it was on the way."""
        now = self.written.get(v) if type(v) is Var else None
        if now is None or len(now.parts) < 2:
            return None
        pieces = [(list(place), atoms) for place, atoms in now.parts.items()]
        for axis in range(len(v.shape)):
            line: list[tuple[Box, Any]] | None = in_line(v.shape, axis, pieces)
            if line is not None:
                return line if self._is_read_in_parts(v) else None
        return None

    def _is_read_in_parts(self, v: Var) -> bool:
        """Whether all that reads the versions of an array on its way to v can do without them."""
        outputs = set(self.program.outputs)
        base = self.written[v].base
        while v is not base:
            before = self._before(v)
            readers = self.readers.get(before, ()) if before is not base else ()
            on = self.makers[v]
            if any(e is not on and self._instead(e) is None for e in readers) or before in outputs:
                return False
            v = before
        return True

    def _before(self, v: Var) -> Var:
        """The version of an array before its last writing."""
        base = self.written[v].base
        for a in self.makers[v].inputs:
            if a is base or (a in self.written and self.written[a].base is base):
                return a
        raise AssertionError("what is written was something before")

    def _instead(self, e: Equation) -> tuple[Any, ...] | Var | None:
        """What a reader of a part can read instead: the atoms of that part, or the base."""
        if e.primitive.name != "slice":
            return None
        now, place = self.written[e.inputs[0]], _place(e, e.inputs[0].shape)
        if place is None:
            return None
        return now.parts.get(place) or (now.base if now.is_apart(place) else None)

    # ---- the Program without them

    def rebuilt(self, ends: dict[Any, list[tuple[Box, Any]]]) -> Program:
        versions = set()
        for v in ends:
            base = self.written[v].base
            while v is not base:
                versions.add(v)
                v = self._before(v)
        equations: list[Equation] = []
        for e in self.program.equations:
            if e.primitive.name == "slice" and e.inputs[0] in versions:
                read = self._instead(e)
                if isinstance(read, Var):
                    e = replace(e, inputs=(read,))
                elif read is not None:
                    made = _Made(e, equations, self.written[e.inputs[0]].base, self.zeros)
                    box = box_of(e.inputs[0].shape, e.params["spec"]) or []
                    e = made.named(made.total(read, box, e.outputs[0].shape))
            elif e.outputs and e.outputs[0] in ends:
                e = self._joined(e, ends[e.outputs[0]], equations)
            equations.append(e)
        return drop_unused(replace(self.program, equations=tuple(equations)))

    def _joined(
        self, e: Equation, line: list[tuple[Box, Any]], equations: list[Equation]
    ) -> Equation:
        made = _Made(e, equations, self.written[e.outputs[0]].base, self.zeros)
        shape = e.outputs[0].shape
        axis = next(k for k, n in enumerate(shape) if line[0][0][k] != (0, n))
        parts = [made.total(atoms, box, _shape(box)) for box, atoms in line]
        starts = tuple([box[axis][0] for box, _ in line] + [shape[axis]])
        params = {"axis": axis, "starts": starts}
        return replace(e, primitive=P.concatenate, inputs=tuple(parts), params=params)


class _Made:
    """Equations that are made on the way to one, on behalf of its line."""

    def __init__(self, like: Equation, equations: list[Equation], base: Var, zeros: set[Var]):
        self.like, self.equations, self.base, self.zeros = like, equations, base, zeros

    def total(self, atoms: Sequence[Any], place: Box, shape: Shape) -> Any:
        """The sum of atoms as an array of this shape; zeros are left out."""
        total = None
        for a in [a for a in atoms if a not in self.zeros] or atoms[:1]:
            if a is OLD:
                spec = tuple((start, stop, None) for start, stop in place)
                a = self.emit(P.slice, self.base, spec=spec)
            a = self.laid(a, shape)
            total = a if total is None else self.emit(P.add, total, a)
        return total

    def laid(self, a: Any, shape: Shape) -> Any:
        t = a.type
        if t.shape == shape:
            return a
        if t.size == prod(shape):
            return self.emit(P.reshape, a, shape=shape)
        return self.emit(P.broadcast_to, a, shape=shape)

    def emit(self, primitive: Any, *inputs: Any, **params: Any) -> Var:
        (t,) = primitive.infer([a.type for a in inputs], params)
        v = Var(t)
        self.equations.append(Equation((v,), primitive, inputs, params, self.like.where))
        return v

    def named(self, a: Any) -> Equation:
        """The equation that gives an atom the name of the one that it stands for."""
        shape = self.like.outputs[0].shape
        return replace(self.like, primitive=P.reshape, inputs=(a,), params={"shape": shape})


def _place(e: Equation, shape: Shape | None = None) -> _Place | None:
    box = box_of(e.outputs[0].shape if shape is None else shape, e.params["spec"])
    return None if box is None else tuple(box)


def _shape(box: Box) -> Shape:
    return tuple(stop - start for start, stop in box)
