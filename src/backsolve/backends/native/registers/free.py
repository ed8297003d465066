"""Which loops have rounds that are free of each other: then threads may share them.

What a round hands on must be arrays in which it keeps to its own entries: read and written at k + c (or c − k)
along the first axis and nowhere else, in branches and inner loops as well. The Programs are run on what is
known of values: that they are such arrays, or such indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir import Equation, Program, Var, type_of
from ....regions import Branches, Loop


@dataclass(frozen=True)
class Index:
    """offset + sign · k, of the round k."""

    offset: int
    sign: int


@dataclass(frozen=True)
class Whole:
    """A carried array, changed at most in the round's own entries."""

    number: int


@dataclass(frozen=True)
class Part:
    """Zeros but for entries at an index."""

    at: Index


class _MeetsError(Exception):
    """Something that another round may touch."""


def rounds_are_free(loop: Loop) -> bool:
    if loop.count is None or loop.counted or loop.goes_on is not None:
        return False
    carried = [Whole(c) for c in range(loop.carried)]
    rest = [None] * (loop.fixed + loop.sequences)
    try:
        found = _Walk(loop).run(loop.body, [Index(0, 1), *carried, *rest])
    except _MeetsError:
        return False
    return found[: loop.carried] == carried and not any(
        isinstance(x, Whole) for x in found[loop.carried :]
    )


class _Walk:
    def __init__(self, loop: Loop):
        self.rounds = loop.count or 0
        self.lengths = [
            v.shape[0] if v.shape else 0 for v in loop.body.inputs[1 : 1 + loop.carried]
        ]
        self.places: dict[int, Index] = {}  # of arrays: where a round touches them

    def run(self, program: Program, inputs: Sequence[Any]) -> list[Any]:
        """What is known of the outputs."""
        known: dict[Any, Any] = dict(zip(program.inputs, inputs, strict=True))
        for e in program.equations:
            found = self.equation(e, [known.get(a) if type(a) is Var else None for a in e.inputs])
            known.update(zip(e.outputs, found, strict=True))
        return [known.get(a) if type(a) is Var else None for a in program.outputs]

    def equation(self, e: Equation, inputs: list[Any]) -> list[Any]:
        name, region = e.primitive.name, e.params.get("region")
        if isinstance(region, Branches):
            return self.agreed([self.run(side, inputs[1:]) for side in region.branches])
        if isinstance(region, Loop):
            return self.inner(region, inputs)
        if name == "gather" and isinstance(inputs[0], Whole):
            self.touch(inputs[0], self.index(e, inputs[1]))
            return [None]
        if (
            name == "scatter_set"
            and isinstance(inputs[0], Whole)
            and not isinstance(inputs[1], Whole)
        ):
            self.touch(inputs[0], self.index(e, inputs[2]))
            return [inputs[0]]
        if (
            name in ("add", "subtract")
            and isinstance(inputs[0], Whole)
            and isinstance(inputs[1], Part)
        ):
            self.touch(inputs[0], inputs[1].at)
            return [inputs[0]]
        if any(isinstance(x, Whole) for x in inputs):
            raise _MeetsError
        if (
            name == "scatter_add"
            and isinstance(inputs[1], Index)
            and not type_of(e.inputs[1]).shape
        ):
            return [Part(inputs[1])]
        return [self.moved(e, inputs)] if len(e.outputs) == 1 else [None] * len(e.outputs)

    def agreed(self, ways: list[list[Any]]) -> list[Any]:
        """What all sides of a branch say."""
        found = []
        for options in zip(*ways, strict=True):
            same = all(x == options[0] for x in options)
            if not same and any(isinstance(x, Whole) for x in options):
                raise _MeetsError
            found.append(options[0] if same else None)
        return found

    def inner(self, loop: Loop, inputs: list[Any]) -> list[Any]:
        _, carried, fixed, sequences = loop.split(inputs)
        if any(isinstance(x, Whole) for x in sequences):
            raise _MeetsError
        carried = [x if isinstance(x, Whole) else None for x in carried]  # others may change
        if loop.goes_on is not None:
            self.run(loop.goes_on, [None, *carried, *fixed])
        found = self.run(loop.body, [None, *carried, *fixed, *[None] * len(sequences)])
        made = found[loop.carried :]
        if any(isinstance(x, Whole) for x in made) or any(
            isinstance(a, Whole) and a != b for a, b in zip(carried, found, strict=False)
        ):
            raise _MeetsError
        return [*carried, *[None] * (len(made) + 1)]

    def index(self, e: Equation, at: Any) -> Index:
        first = e.inputs[2 if e.primitive.name == "scatter_set" else 1]
        if not isinstance(at, Index) or type_of(first).shape:
            raise _MeetsError
        return at

    def touch(self, array: Whole, at: Index) -> None:
        """All of a round's reads and writes are in one place, counted from the front."""
        ends = (at.offset, at.offset + at.sign * (self.rounds - 1))
        inside = min(ends) >= 0 and max(ends) < self.lengths[array.number]
        if not inside or self.places.setdefault(array.number, at) != at:
            raise _MeetsError

    def moved(self, e: Equation, inputs: list[Any]) -> Index | None:
        """An index of another form, or with a known number added."""
        name = e.primitive.name
        x = inputs[0] if inputs else None
        if name in ("alias", "cast_discrete", "reshape"):
            return x if isinstance(x, Index) else None
        if name not in ("add", "subtract") or type_of(e.outputs[0]).shape:
            return None
        a, b = e.inputs
        sign = 1 if name == "add" else -1
        if isinstance(x, Index) and type(b) is int:
            return Index(x.offset + sign * b, x.sign)
        y = inputs[1]
        if isinstance(y, Index) and type(a) is int:
            return Index(a + sign * y.offset, sign * y.sign)
        return None
