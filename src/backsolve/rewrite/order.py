"""Entries are read before the array is overwritten: then it can be overwritten where it lies.

The adjoint of `x[i] = v` sets an entry to 0 and reads what it was. In that order a backend would have to copy
the whole array in every round of a loop.
"""

from __future__ import annotations

from typing import Any

from ..ir import Equation, Program, Var
from .regions import inside

LARGE = 16  # entries above which an array is worth it
FAR = 64  # equations that may have to move along
_READS = ("gather", "slice")


def read_first(program: Program) -> Program:
    """In all regions: what stands outside of them runs once."""
    return inside(program, lambda p: read_first(_read_first(p)))


def _read_first(program: Program) -> Program:
    equations = program.equations
    readers: dict[Var, list[int]] = {}
    writers: set[Var] = set()
    is_late = False
    for k, e in enumerate(equations):
        if _is_read(e):
            readers.setdefault(e.inputs[0], []).append(k)
            is_late = is_late or e.inputs[0] in writers
        else:
            writers.update(a for a in e.inputs if type(a) is Var)
    if not is_late:
        return program
    order = _Order(equations, readers).run()
    return Program(program.inputs, program.constants, tuple(order), program.outputs)


def _is_read(e: Equation) -> bool:
    if e.primitive.name not in _READS or type(e.inputs[0]) is not Var:
        return False
    size = e.inputs[0].type.size
    return size > LARGE and 2 * e.outputs[0].type.size <= size


class _Order:
    def __init__(self, equations: tuple[Equation, ...], readers: dict[Var, list[int]]):
        self.equations, self.readers = equations, readers
        self.makers = {v: k for k, e in enumerate(equations) for v in e.outputs}
        self.rests_on: list[int] = []  # of each equation, as bits: itself and all that it needs
        for k, e in enumerate(equations):
            bits = 1 << k
            for a in e.inputs:
                if type(a) is Var and a in self.makers:
                    bits |= self.rests_on[self.makers[a]]
            self.rests_on.append(bits)
        self.done: list[Equation] = []
        self.seen = 0  # as bits

    def run(self) -> list[Equation]:
        for k in range(len(self.equations)):
            if self.seen >> k & 1:
                continue
            e = self.equations[k]
            for a in e.inputs if not _is_read(e) else ():
                self._read_now(a, k)
            self._take(1 << k)
        return self.done

    def _read_now(self, a: Any, writer: int) -> None:
        for r in self.readers.get(a, ()) if type(a) is Var else ():
            ahead = self.rests_on[r] & ~self.seen
            if ahead >> writer & 1 or ahead.bit_count() > FAR or self._holds_regions(ahead):
                continue
            self._take(ahead)

    def _holds_regions(self, bits: int) -> bool:
        return any(self.equations[k].primitive.holds_regions for k in _numbers(bits))

    def _take(self, bits: int) -> None:
        """In the order in which they stood, which is one that they allow."""
        self.done += [self.equations[k] for k in _numbers(bits)]
        self.seen |= bits


def _numbers(bits: int) -> list[int]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found
