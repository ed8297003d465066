"""A function together with its pullback, recorded once and parted where the seeds come in.

The first part gives the results, and what the second needs of the way to them. The second takes that and the
seeds to the adjoints, and runs forward only what costs little. Where keeping costs more than it spares there is
no second part, and who asks for adjoints computes all anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..api import vjp
from ..compiled import jit
from ..compiled.specialise import record, seconds_of
from ..control.linear import cut
from ..ir import Program, Type, Var
from ..primitive import wrap
from ..rewrite import rewrite
from ..tensor import Staged
from ..trace import evaluate
from .keeping import least
from .transformed import is_smooth, restricted, smooth_of, with_gradient

# Seconds: what a framework takes to keep one array more, and a byte of new memory to be written and read.
_HANDED_ON, _WRITTEN = 2.5e-6, 3e-10


class Pullback:
    """(arguments, what was kept, seeds of the results that are `given`) ↦ adjoints."""

    def __init__(self, program: Program, given: tuple[int, ...]):
        self.program, self.given = program, given
        self._run = jit(lambda *values: tuple(evaluate(program, values)))

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return self._run(*values)


Run = Callable[..., tuple[Any, Sequence[Any], Pullback | None]]


def with_pullback(f: Callable[..., Any], places: Sequence[int]) -> Run:
    """(result, kept, pullback) for the arguments at `places`, when it is compiled.

    Of one real number the adjoints themselves are `kept`, and there is no pullback. Nor is there one where it
    does not pay: then nothing is kept.
    """

    def run(*xs: Any) -> tuple[Any, Sequence[Any], Pullback | None]:
        staged = all(isinstance(x, Staged) for x in xs)
        joint = recorded(f, [x._v.type for x in xs], places) if staged else None
        if joint is None:
            return (*with_gradient(f, places)(*xs), None)
        first, pullback = joint.parted()
        found, count = evaluate(first, xs), joint.structure.size
        return joint.structure.unflatten(found[:count]), found[count:], pullback

    return run


@dataclass(frozen=True)
class Joint:
    """(arguments, seeds) ↦ (results, adjoints); without seeds, adjoints of one number, or none."""

    program: Program
    structure: tree.Structure  # of the results
    given: tuple[int, ...]  # the results that seeds are for

    def parted(self) -> tuple[Program, Pullback | None]:
        """What runs first, and gives the results and what is kept; and what takes that to the adjoints."""
        if not self.given:
            return self.program, None
        whole = rewrite(self.program)
        inputs, outputs, constants = whole.inputs, whole.outputs, whole.constants
        n, m = len(inputs) - len(self.given), self.structure.size
        parts = cut(whole, n, m)
        free = {*inputs[:n], *[v for v, _ in constants]}
        kept, again = least(parts.crossing, parts.first, free)
        value = Program(inputs[:n], constants, tuple(parts.first), outputs[:m])
        if not kept:
            return value, None
        first = Program(inputs[:n], constants, tuple(parts.first), (*outputs[:m], *kept))
        entering = (*inputs[:n], *kept, *inputs[n:])
        second = Program(entering, constants, (*again, *parts.second), outputs[m:])
        anew = Program(inputs, constants, whole.equations, outputs[m:])
        if not _pays(first, second, value, anew, kept):
            return value, None
        return first, Pullback(second, self.given)


def recorded(f: Callable[..., Any], types: Sequence[Type], places: Sequence[int]) -> Joint | None:
    """The function with its pullback on arguments of these types; None if it closes over what varies."""
    seeds: list[Any] = []
    given: list[int] = []
    structures: list[tree.Structure] = []

    def both(*values: Any) -> list[Any]:
        part = restricted(f, values, places, lambda y: (smooth_of(y), y))
        smooth, pull, result = vjp(part, *[values[k] for k in places], has_aux=True)
        leaves, structure = tree.flatten(result)
        results, structure = tree.without_fixed(structure, leaves)
        structures.append(structure)
        if not smooth:
            return results
        if len(smooth) == 1 and not smooth[0].shape and smooth[0].dtype.kind == "f":
            return [*results, *pull([np.ones((), smooth[0].dtype)])]
        recorder = values[0]._v.recorder
        seeds.extend([wrap(Var(Type(y.shape, y.dtype), recorder), None) for y in smooth])
        given.extend([k for k, y in enumerate(results) if is_smooth(y)])
        return [*results, *pull(list(seeds))]

    program = record(both, list(types))
    if program is None:
        return None
    inputs = (*program.inputs, *[s._v for s in seeds])
    program = Program(inputs, program.constants, program.equations, program.outputs)
    return Joint(program, structures[0], tuple(given))


def _pays(
    first: Program, second: Program, value: Program, anew: Program, kept: Sequence[Var]
) -> bool:
    """Whether two parts take less time than the value and then all anew, as far as that can be told."""
    needed = sum([_HANDED_ON + _WRITTEN * v.type.nbytes for v in kept])
    known = seconds_of(value)
    if known is not None and known < needed:  # no more can be spared
        return False
    times = [known, *[seconds_of(program) for program in (anew, first, second)]]
    found = [t for t in times if t is not None]
    if len(found) < len(times):  # NumPy runs them, equation by equation
        return True
    return found[0] + found[1] - found[2] - found[3] > needed
