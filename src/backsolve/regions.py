"""Regions: Programs inside equations. Branches, loops and calls.

    y… = branch(which, x…; branches)      the outputs of branches[which], which is a bool or an integer
    y… = loop([count,] carried…, fixed…, sequences…; body, goes_on)
    y… = call(x…; callee)

A loop runs `body` for k = 0, 1, … (or count − 1, …, 0 if `reverse`), at most `count` times and as long as
`goes_on` says so before a round. `carried` values go from round to round, `fixed` ones stay, of each sequence a
round k reads entry k. Besides the carried values a round makes entries of new sequences:

    goes_on: (k, carried…, fixed…)          -> bool
    body:    (k, carried…, fixed…, entries…) -> (carried…, made…)

The outputs of a loop are the last carried values, the sequences made, and the number of rounds. A sequence of a
loop with a known `count` is an array with that many entries along its first axis (beyond the last round: zeros);
otherwise, and for entries that are stacks, it is a stack: a value that only loops read and make.

A region sees nothing but its inputs and its own constants. Equations with regions are equal only to themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .ir import STACK, Program, Type, type_of

INDEX = Type((), np.dtype(np.int64))


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    body: Program
    carried: int
    fixed: int
    sequences: int
    goes_on: Program | None = None
    count: int | None = None  # known while compiling
    counted: bool = False  # else: given as the first input
    reverse: bool = False

    def split(self, inputs: Any) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """The count (or None), what is carried, what is fixed, and the sequences."""
        inputs = list(inputs)
        count = inputs.pop(0) if self.counted else self.count
        a, b = self.carried, self.carried + self.fixed
        return count, inputs[:a], inputs[a:b], inputs[b:]

    def outputs(self) -> list[Type]:
        made = [type_of(a) for a in self.body.outputs]
        sequences = [self.sequence(t) for t in made[self.carried :]]
        return [*[Type(t.shape, t.dtype) for t in made[: self.carried]], *sequences, INDEX]

    def sequence(self, entry: Type) -> Type:
        """The type of a sequence of such entries, one for each round."""
        known = self.count is not None and not entry.is_stack
        return Type((self.count if known else STACK, *entry.shape), entry.dtype)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, slots=True)
class Branches:
    programs: tuple[Program, ...]  # of the same types; 0 is False, 1 is True

    def outputs(self) -> list[Type]:
        return [Type(t.shape, t.dtype) for t in map(type_of, self.programs[0].outputs)]


@dataclass(eq=False, slots=True)
class Callee:
    """A Program that is called; its body may call it again."""

    name: str
    types: list[Type] = field(default_factory=list)  # of its outputs
    program: Program | None = None  # None while it is being recorded

    def outputs(self) -> list[Type]:
        return self.types
