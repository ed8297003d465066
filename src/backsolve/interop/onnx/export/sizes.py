"""Lengths that are known when the graph runs: slope · batch + offset.

A function is recorded for three lengths of its batch. Programs that are equal but for numbers which grow evenly
with it become one, in which such numbers are `Size`s. A Size is an integer, too: where a row computes with one
as with any integer, the graph depends on the example. That is found out: it is written for two of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError
from ....ir import Equation, Program, Type, Var, is_uniform


class Size(int):
    """slope · batch + offset; as an integer, what that is for one example."""

    slope: int
    offset: int

    def __new__(cls, value: int, slope: int, offset: int) -> Size:
        made = super().__new__(cls, value)
        made.slope, made.offset = slope, offset
        return made

    def __add__(self, other: int) -> int:
        slope, offset = _parts(other)
        return _size(int(self) + int(other), self.slope + slope, self.offset + offset)

    __radd__ = __add__

    def __neg__(self) -> int:
        return Size(-int(self), -self.slope, -self.offset)

    def __sub__(self, other: int) -> int:
        return self + -other

    def __rsub__(self, other: int) -> int:
        return -self + other

    def __mul__(self, other: int) -> int:
        if isinstance(other, Size):
            return int(self) * int(other)
        return _size(int(self) * other, self.slope * other, self.offset * other)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Size):
            return (self.slope, self.offset) == (other.slope, other.offset)
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.slope, self.offset))


def _parts(n: int) -> tuple[int, int]:
    return (n.slope, n.offset) if isinstance(n, Size) else (0, n)


def _size(value: int, slope: int, offset: int) -> int:
    return Size(value, slope, offset) if slope else offset


@dataclasses.dataclass(frozen=True)
class Uniform:
    """A constant that is one number everywhere, of a length that is free."""

    value: Any
    shape: tuple[int, ...]
    dtype: Any


@dataclasses.dataclass(frozen=True)
class Counting:
    """0, 1, 2, … along one axis, of a length that is free."""

    shape: tuple[int, ...]
    dtype: Any


class DiffersError(Exception):
    """Programs for several lengths are not one; the message says in what."""


def merged(programs: Sequence[Program], batches: Sequence[int], at: int) -> Program:
    """One Program for all lengths, whose Sizes have the values of the example number `at`."""
    return _Merge(batches, at).program(list(programs))


class _Merge:
    def __init__(self, batches: Sequence[int], at: int):
        self.batches, self.at = list(batches), at

    def program(self, many: list[Program]) -> Program:
        variables: dict[Var, Var] = {}

        def var(group: Sequence[Var]) -> Var:
            made = Var(self.type([v.type for v in group]), None, group[0].name)
            for v in group:
                variables[v] = made
            return made

        def atom(group: Sequence[Any], where: str) -> Any:
            if type(group[0]) is not Var:
                return self.value(group, where)
            if any(type(a) is not Var for a in group):
                raise DiffersError(f"the program is another for another length\n    at {where}")
            found = {variables[a] for a in group}
            if len(found) != 1:
                raise DiffersError(f"the program is another for another length\n    at {where}")
            return found.pop()

        counts = {(len(p.equations), len(p.constants), len(p.outputs)) for p in many}
        names = {tuple(e.primitive.name for e in p.equations) for p in many}
        if len(counts) != 1 or len(names) != 1:
            raise DiffersError("the function does other things for another length")
        inputs = tuple([var(group) for group in zip(*[p.inputs for p in many], strict=True)])
        constants = []
        for group in zip(*[p.constants for p in many], strict=True):
            value = self.constant([getattr(c, "_v", c) for _, c in group])
            constants.append((var([v for v, _ in group]), value))
        equations = []
        for es in zip(*[p.equations for p in many], strict=True):
            first = es[0]
            read = tuple(
                [atom(group, first.where) for group in zip(*[e.inputs for e in es], strict=True)]
            )
            params = {k: self.value([e.params[k] for e in es], first.where) for k in first.params}
            outputs = tuple([var(group) for group in zip(*[e.outputs for e in es], strict=True)])
            equations.append(Equation(outputs, first.primitive, read, params, first.where))
        results = tuple([atom(group, "") for group in zip(*[p.outputs for p in many], strict=True)])
        return Program(inputs, tuple(constants), tuple(equations), results)

    def type(self, types: Sequence[Type]) -> Type:
        if len({(t.ndim, t.dtype, t.weak) for t in types}) != 1:
            raise DiffersError("a value has another type for another length")
        shape = tuple(
            [self.value(group, "") for group in zip(*[t.shape for t in types], strict=True)]
        )
        return Type(shape, types[0].dtype, types[0].weak)

    def value(self, group: Sequence[Any], where: str) -> Any:
        first = group[0]
        if type(first) is int:
            return self.integer(group, where)
        if isinstance(first, Program):
            return self.program(list(group))
        if isinstance(first, tuple | list):
            if len({len(x) for x in group}) != 1:
                raise DiffersError(f"the program is another for another length\n    at {where}")
            parts = [self.value(entries, where) for entries in zip(*group, strict=True)]
            return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
        if dataclasses.is_dataclass(first) and not isinstance(first, type):
            fields = [f.name for f in dataclasses.fields(first)]
            kept = {"extends", "report", "derivatives", "seen", "own", "equations"}
            changes = {
                k: self.value([getattr(x, k) for x in group], where)
                for k in fields
                if k not in kept
            }
            return dataclasses.replace(first, **changes)
        if isinstance(first, np.ndarray):
            same = all(np.array_equal(first, x) for x in group)
        else:
            same = all(type(x) is type(first) and (x is first or x == first) for x in group)
        if not same:
            raise DiffersError(f"a number is computed from the length: {first!r}\n    at {where}")
        return first

    def integer(self, group: Sequence[int], where: str) -> int:
        if all(n == group[0] for n in group):
            return group[0]
        rise, run = group[1] - group[0], self.batches[1] - self.batches[0]
        slope = rise // run
        offset = group[0] - slope * self.batches[0]
        if any(slope * b + offset != n for n, b in zip(group, self.batches, strict=True)):
            raise DiffersError(
                f"a length does not grow evenly with the batch: {list(group)}\n    at {where}"
            )
        return Size(group[self.at], slope, offset)

    def constant(self, group: Sequence[Any]) -> Any:
        first = group[0]
        if all(a.shape == first.shape and np.array_equal(a, first) for a in group):
            return first
        shape = self.type([Type(a.shape, a.dtype) for a in group]).shape
        if all(is_uniform(a) and a.flat[0] == first.flat[0] for a in group):
            return Uniform(first.flat[0], shape, first.dtype)
        if all(
            np.array_equal(a.ravel(), np.arange(a.size)) and max(a.shape) == a.size for a in group
        ):
            return Counting(shape, first.dtype)
        raise DiffersError(f"a constant of shape {first.shape} is another for another length")


def batch_error(reason: str) -> ShapeError:
    return ShapeError(
        f"the length of the batch cannot be left open: {reason}\nLeave batch= out for a graph of the "
        "lengths of the example"
    )
