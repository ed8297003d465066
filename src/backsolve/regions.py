"""Regions: Programs inside equations. Branches, loops and calls.

    y… = branch(which, x…; branches)      the outputs of branches[which], which is a bool or an integer
    y… = loop([count,] carried…, fixed…, sequences…; body, goes_on)
    y… = call(x…; callee)
    y  = no_entries()                     an empty stack
    n  = length(stack)
    y  = box(x…; layout)                  several values as one
    x… = unbox(y; layout)

A loop runs `body` for k = 0, 1, … (or count − 1, …, 0 if `reverse`), at most `count` times and as long as
`goes_on` says so before a round. `carried` values go from round to round, `fixed` ones stay, of each sequence a
round k reads entry k. Besides the carried values a round makes entries of new sequences:

    goes_on: (k, carried…, fixed…)          -> bool
    body:    (k, carried…, fixed…, entries…) -> (carried…, made…)

k is weak, as Python's own integers are. A loop that is both counted and has a `count` runs as often as its
first input says, which is at most `count`.

The outputs of a loop are the last carried values, the sequences made, and the number of rounds. A sequence of
a loop with a known `count` is an array with that many entries along its first axis (beyond the last round:
zeros); otherwise, and for entries that are stacks, it is a stack: a value that only loops read and make.

A box is what one call of a recursive function stores for its derivative; it may hold the boxes of the calls
within. So that the type of a box does not grow with what it holds, it says no more than which layout it has. An
empty box, made by no_entries(), holds zeros and empty boxes. To passes and backends that look at types alone, a
box is a stack.

A region sees nothing but its inputs and its own constants. Equations with regions are equal only to themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .errors import ProgramError
from .ir import STACK, Program, Type, type_of

INDEX = Type((), np.dtype(np.int64), weak=True)


@dataclass(frozen=True, eq=False, slots=True)
class Extends:
    """An equation computes all that another one does, and more: then the other one is not needed.

    `inputs` and `outputs` give, for each of the other's, which of ours it is.
    """

    region: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    body: Program
    carried: int
    fixed: int
    sequences: int
    goes_on: Program | None = None
    count: int | None = None  # known while compiling
    counted: bool = False  # given as the first input
    reverse: bool = False
    extends: Extends | None = field(default=None, repr=False)  # it would be shown level upon level
    memory: int | None = None  # bytes that a derivative may store (bs.checkpoint)
    share: int = (
        1  # of what the user gave that is one part of so many: loops within loops have less
    )
    report: Any = field(default=None, repr=False, compare=False)  # of what it stores then
    pieces: tuple[int, ...] = ()  # how often, and how often within each of those, …, it is done
    recompute: bool = (
        False  # a derivative stores what is carried alone, and computes the rest again
    )

    def split(self, inputs: Any) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """The count (or None), what is carried, what is fixed, and the sequences."""
        inputs = list(inputs)
        count = inputs.pop(0) if self.counted else self.count
        a, b = self.carried, self.carried + self.fixed
        return count, inputs[:a], inputs[a:b], inputs[b:]

    def check_inputs(self, types: Sequence[Type]) -> None:
        _, *parts = self.split(types)
        inside = [v.type for v in self.body.inputs[1:]]
        outside = [*parts[0], *parts[1], *[Type(t.shape[1:], t.dtype) for t in parts[2]]]
        _check_types("a loop", outside, inside)
        _check_types(
            "a loop",
            [type_of(a) for a in self.body.outputs[: self.carried]],
            inside[: self.carried],
        )

    def outputs(self) -> list[Type]:
        made = [type_of(a) for a in self.body.outputs]
        return [*made[: self.carried], *map(self.sequence, made[self.carried :]), INDEX]

    def programs(self) -> tuple[Program, ...]:
        return (self.body,) if self.goes_on is None else (self.body, self.goes_on)

    def with_programs(self, programs: Sequence[Program]) -> Loop:
        body, *goes_on = programs
        return replace(self, body=body, goes_on=goes_on[0] if goes_on else None)

    def sequence(self, entry: Type) -> Type:
        """The type of a sequence of such entries, one for each round."""
        count = STACK if self.count is None or entry.is_stack else self.count
        return Type((count, *entry.shape), entry.dtype)


def _check_types(what: str, given: Sequence[Type], expected: Sequence[Type]) -> None:
    for a, b in zip(given, expected, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ProgramError(f"{what} is given a {a} where it reads a {b}", at="")


def no_branch(n: int, where: str = "") -> str:
    return f"there are {n} branches, and no such one" + (f", at {where}" if where else "")


@dataclass(frozen=True, eq=False, slots=True)
class Branches:
    branches: tuple[Program, ...]  # of the same types; 0 is False, 1 is True
    extends: Extends | None = field(default=None, repr=False)  # it would be shown level upon level

    def check_inputs(self, types: Sequence[Type]) -> None:
        for p in self.branches:
            _check_types("a branch", types[1:], [v.type for v in p.inputs])
            _check_types("a branch", [type_of(a) for a in p.outputs], self.outputs())

    def outputs(self) -> list[Type]:
        return [type_of(a) for a in self.branches[0].outputs]

    def at(self, which: Any) -> Program:
        """The branch of a number; there is none below 0."""
        k, n = int(which), len(self.branches)
        if not 0 <= k < n:
            raise IndexError(no_branch(n))
        return self.branches[k]

    def programs(self) -> tuple[Program, ...]:
        return self.branches

    def with_programs(self, programs: Sequence[Program]) -> Branches:
        return replace(self, branches=tuple(programs))


@dataclass(frozen=True, eq=False, slots=True)
class Empty:
    """What an empty stack is made of."""

    type: Type

    def outputs(self) -> list[Type]:
        return [self.type]

    def programs(self) -> tuple[Program, ...]:
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class Length:
    def outputs(self) -> list[Type]:
        return [INDEX]

    def programs(self) -> tuple[Program, ...]:
        return ()


_marks = itertools.count(STACK - 1, -1)
_layouts: WeakValueDictionary[int, Layout] = WeakValueDictionary()


class Layout:
    """What boxes of one kind hold; known once the function is recorded that makes them."""

    def __init__(self) -> None:
        self.types: list[Type] = []
        self.mark = next(_marks)
        self.derived: dict[Any, Any] = {}  # as they are needed
        _layouts[self.mark] = self

    @property
    def type(self) -> Type:
        """Of such a box. The dtype says that it may vary."""
        return Type((self.mark,), np.dtype(np.float64))

    @staticmethod
    def of(t: Type) -> Layout:
        return _layouts[t.shape[0]]


@dataclass(frozen=True, eq=False, slots=True)
class Box:
    layout: Layout

    def outputs(self) -> list[Type]:
        return [self.layout.type]

    def programs(self) -> tuple[Program, ...]:
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class Unbox:
    layout: Layout

    def outputs(self) -> list[Type]:
        return self.layout.types

    def programs(self) -> tuple[Program, ...]:
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class ImplicitEquations:
    """F(x…, p…), whose zero a callee gives; `correction(x, p, r)` is −F_x⁻¹ r, on lists of values."""

    program: Program
    correction: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]


_OF_DERIVATIVES = "'+ᵀ"  # marks behind a callee's name


@dataclass(eq=False, slots=True)
class Callee:
    """A Program that is called; its body may call it again."""

    name: str
    types: list[Type] = field(default_factory=list)  # of its outputs
    program: Program | None = None  # None while it is being recorded
    is_recursive: bool = False  # its body calls it, perhaps through others
    # (inputs, which vary) -> (push, pull), where it has a derivative of its own (bs.Function)
    own: Any = None
    equations: ImplicitEquations | None = None  # of an implicit function
    recompute: bool = False  # a derivative stores the inputs alone (bs.checkpoint)
    memory: int | None = None  # bytes that a derivative may store (bs.checkpoint)
    report: Any = field(default=None, repr=False, compare=False)  # of what it stores then

    extends: Extends | None = field(default=None, repr=False)  # it would be shown level upon level
    derivatives: dict[Any, Any] = field(default_factory=dict)  # as they are needed
    seen: list[Any] = field(default_factory=list)  # passes that have rewritten it
    flags: list[bool] = field(default_factory=list)  # of a derivative: for which values it stands
    where: str = ""  # the user's line, if it is recursive

    @property
    def plain_name(self) -> str:
        """As the user wrote it, of a derivative, too."""
        return self.name.rstrip(_OF_DERIVATIVES)

    @property
    def too_deep(self) -> str:
        """What to say if it calls itself until there is no place."""
        at = f"\n    at {self.where}" if self.where else ""
        return f"`{self.plain_name}` calls itself too many times{at}"

    def outputs(self) -> list[Type]:
        return self.types

    def programs(self) -> tuple[Program, ...]:
        return ()  # a callee is looked into once, wherever it is called from
