"""The components of arrays of short rows, in the Program that is being written: for components.py."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..ir import Equation, Program, Shape, Type, Var, type_of
from ..primitive import P, Primitive
from .clean import COMMUTE, drop_unused
from .engine import raw


def is_row(shape: Shape, lead: Shape, most: int) -> bool:
    return shape[: len(lead)] == lead and 1 <= prod(shape[len(lead) :]) <= most


class Rows:
    """The Program being written: the components of arrays, made once each.

    The components of a value are an array of atoms, of the shape of a row. Each atom is a variable of the shape
    `lead`, or one number for all rows.
    """

    def __init__(self, program: Program, lead: Shape):
        self.program, self.lead = program, lead
        self.equations: list[Equation] = []
        self.constants: list[tuple[Var, Any]] = []
        self.arrays = {v: raw(c) for v, c in program.constants}
        self.parts: dict[Var, Any] = {}  # components of rows, by variable
        self.shared: dict[
            Var, Any
        ] = {}  # the numbers of small arrays, which are the same for all rows
        self.wholes: set[Var] = {*program.inputs, *self.arrays}  # what exists as an array
        self.known: dict[Any, Var] = {}  # equations so far
        self.numbers: dict[Any, Var] = {}
        self.blanks: dict[Any, Var] = {}  # the zeros around a part, by dtype
        self.where = ""

    def keep(self, e: Equation) -> None:
        """An equation that works on whole arrays."""
        for a in e.inputs:
            self.whole(a)
        self.wholes.update(e.outputs)
        self.equations.append(e)

    def split(self, e: Equation, components: Callable[[Rows, Equation, Shape], Any]) -> bool:
        """The same on components, as a rule has it; False if they would not have its dtype."""
        out = e.outputs[0]
        row = out.shape[len(self.lead) :]
        found = components(self, e, row)
        if any(type_of(a).dtype != out.dtype for a in found.flat):
            return False
        self.parts[out] = found.reshape(row)
        return True

    def finished(self) -> Program:
        """What was written, with its outputs in one piece."""
        program = self.program
        for a in program.outputs:
            self.whole(a)
        constants = (*program.constants, *self.constants)
        equations = tuple(self.equations)
        return drop_unused(Program(program.inputs, constants, equations, program.outputs))

    # ---- into components and back

    def of(self, a: Any, ndim: int, row: Shape) -> Any:
        """The components of an atom that is broadcast to `ndim` axes, spread over rows of a shape."""
        if type(a) is not Var:
            return np.broadcast_to(atoms([a], ()), row)
        is_rows = a.type.ndim == ndim and a.shape[: len(self.lead)] == self.lead
        return np.broadcast_to(self.own(a) if is_rows else self.small(a), row)

    def own(self, a: Var) -> Any:
        """The components of rows."""
        if a not in self.parts:
            depth = len(self.lead)
            full = ((None, None, None),) * depth
            self.parts[a] = self.each(a.shape[depth:], lambda at: self.cut(a, (*full, *at), at))
        return self.parts[a]

    def small(self, a: Var) -> Any:
        """The numbers of a small array, without leading axes of length 1."""
        if a not in self.shared:
            self.whole(a)
            self.shared[a] = self._numbers(a)
        return self.shared[a]

    def _numbers(self, a: Var) -> Any:
        shape = a.shape
        while len(shape) and shape[0] == 1:
            shape = shape[1:]
        front = (0,) * (len(a.shape) - len(shape))
        known = self.arrays.get(a)
        if isinstance(known, np.ndarray | np.generic):
            values = np.asarray(known)
            return self.each(shape, lambda at: self.number(values[(*front, *at)]))
        return self.each(shape, lambda at: self.cut(a, (*front, *at), (*front, *at)))

    def each(self, shape: Shape, make: Callable[[Any], Any]) -> Any:
        return atoms([make(tuple(map(int, at))) for at in np.ndindex(*shape)], shape)

    def cut(self, a: Var, spec: Any, at: Any) -> Any:
        """Entry `at` of a row, of all rows."""
        return self.emit(P.slice, a, spec=spec) if at else a

    def whole(self, a: Any) -> None:
        """Put the components of a variable side by side, where somebody reads all of it."""
        if type(a) is not Var or a not in self.parts or a in self.wholes:
            return
        self.wholes.add(a)
        parts = list(self.parts[a].flat)
        if len(parts) == 1:
            self.define(a, laying(parts[0]), parts[0], shape=a.shape)
            return
        pieces = [self.emit(laying(c), c, shape=(*self.lead, 1)) for c in parts]
        axis, starts = len(self.lead), tuple(range(len(pieces) + 1))
        joined = (*self.lead, len(pieces))
        if joined == a.shape:
            self.define(a, P.concatenate, *pieces, axis=axis, starts=starts)
        else:
            side_by_side = self.emit(P.concatenate, *pieces, axis=axis, starts=starts)
            self.define(a, P.reshape, side_by_side, shape=a.shape)

    def define(self, a: Var, primitive: Primitive, *inputs: Any, **params: Any) -> None:
        self.equations.append(Equation((a,), primitive, inputs, params, self.where))

    # ---- equations

    def number(self, value: Any) -> Var:
        """One known number, of a dtype."""
        value = np.asarray(value)
        key = (value.dtype.str, value.tobytes())
        if key not in self.numbers:
            self.numbers[key] = Var(Type((), value.dtype))
            self.constants.append((self.numbers[key], value))
        return self.numbers[key]

    def emit(self, primitive: Primitive, *inputs: Any, **params: Any) -> Any:
        atoms = [
            ("", str(a.serial)) if type(a) is Var else (type(a).__name__, repr(a)) for a in inputs
        ]
        if primitive.name in COMMUTE:
            atoms.sort()
        key = (primitive, tuple(atoms), tuple(sorted(params.items())))
        if key not in self.known:
            (t,) = primitive.infer([type_of(a) for a in inputs], params)
            self.known[key] = Var(t)
            self.define(self.known[key], primitive, *inputs, **params)
        return self.known[key]

    def blank(self, dtype: np.dtype[Any]) -> Var:
        """The zero around a part: nothing is added by it, not even to a −0."""
        if dtype not in self.blanks:
            self.blanks[dtype] = Var(Type((), dtype))
            self.constants.append((self.blanks[dtype], np.zeros((), dtype)))
        return self.blanks[dtype]


def laying(component: Any) -> Primitive:
    return P.broadcast_to if type_of(component).shape == () else P.reshape


def atoms(items: list[Any], shape: Shape) -> Any:
    found = np.empty(len(items), object)
    found[:] = items
    return found.reshape(shape)
