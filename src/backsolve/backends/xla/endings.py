"""Loops that end by `break` on GPUs, with their test as the condition.

    while True:              a; if not c: b
        a                    while not c:
        if c: break    →         a; if not c: b
        b

A `break` is a truth that goes from round to round, a kernel more in each. Where c follows from what a round
hands on, the condition computes it, where it asked for the truth before. The first round goes before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from ...ir import Equation, Program, Var, type_of
from ...primitives.control import BRANCH
from ...regions import Loop
from .search import Search

_MOST = 256  # equations of a round that may be written twice
# What gives the same truth wherever it is computed from the same numbers: nothing here is rounded.
_EXACT = {
    *("slice", "reshape", "negative", "absolute", "isnan", "isinf", "isfinite", "all", "any"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *("logical_not", "logical_and", "logical_or", "logical_xor"),
}


class Ending(NamedTuple):
    """What tells, after a round, whether it was the last."""

    flag: int  # the carried value that says so, which the loop does not carry any more
    test: Program
    places: tuple[int, ...]  # what the test reads, among (carried…, fixed…), the flag included
    if_true: bool  # it ends where the test holds, or where it does not

    def holds(self, m: Any, carried: Sequence[Any], fixed: Sequence[Any]) -> Any:
        """Whether the loop ends."""
        values = [*self.with_flag(carried, False), *fixed]
        ((truth,), _, _) = m.apart(lambda: m.run(self.test, [values[k] for k in self.places]))
        return jnp.asarray(truth) == self.if_true

    def with_flag(self, carried: Sequence[Any], truth: Any) -> list[Any]:
        return [*carried[: self.flag], jnp.asarray(truth), *carried[self.flag :]]

    def without_flag(self, carried: Sequence[Any]) -> list[Any]:
        return [*carried[: self.flag], *carried[self.flag + 1 :]]


def ending_of(e: Equation) -> Ending | None:
    """How a loop ends that begins with a round and goes on as long as a truth is False that it carries."""
    region: Loop = e.params["region"]
    flag = _flag(region)
    if flag is None or region.split(e.inputs)[1][flag] is not False or not _is_short(region.body):
        return None
    body, search = region.body, Search(region.body)
    tested = _tested(search, body.outputs[flag], body.inputs[1 + flag])
    if tested is None:
        return None
    which, if_true = tested
    fixed = body.inputs[1 + region.carried : 1 + region.carried + region.fixed]
    handed_on = [(v, k) for k, v in enumerate([*body.outputs[: region.carried], *fixed])]
    places = {v: k for v, k in handed_on if type(v) is Var and k != flag}
    steps = _steps(search, which, places)
    if steps is None:
        return None
    read = {a for step in steps for a in step.inputs if type(a) is Var} | {which}
    given = [v for v in places if v in read]
    constants = tuple([(v, c) for v, c in body.constants if v in read])
    test = Program(tuple(given), constants, tuple(steps), (which,))
    return Ending(flag, test, tuple([places[v] for v in given]), if_true)


def _flag(region: Loop) -> int | None:
    """The carried value of which the loop asks whether it is False, and nothing else."""
    bounded = region.counted or region.count is not None
    if bounded or region.goes_on is None or len(region.goes_on.equations) != 1:
        return None
    (equation,), (more,) = region.goes_on.equations, region.goes_on.outputs
    carried = region.goes_on.inputs[1 : 1 + region.carried]
    asked = equation.inputs[0]
    if equation.primitive.name != "logical_not" or equation.outputs[0] is not more:
        return None
    return carried.index(asked) if asked in carried else None


def _tested(search: Search, flag: Any, before: Var) -> tuple[Var, bool] | None:
    """What the flag, False before, becomes True by: where this holds (True), or where it does not (False)."""
    made = search.makers.get(flag) if type(flag) is Var else None
    if made is None or made.primitive is not BRANCH:
        return None
    which, *operands = made.inputs
    sides = made.params["region"].branches
    if type(which) is not Var or which.type.dtype != bool or len(sides) != 2:
        return None
    truths = [_truth(p, p.outputs[made.outputs.index(flag)], operands, before) for p in sides]
    return (which, truths[1] is True) if set(truths) == {True, False} else None


def _truth(side: Program, a: Any, operands: Sequence[Any], before: Var) -> bool | None:
    """Which truth a side of a branch gives, if it is known."""
    if type(a) is Var and a in side.inputs:
        a = operands[side.inputs.index(a)]
        a = False if a is before else a
    return a if isinstance(a, bool) else None


def _steps(search: Search, a: Any, given: Any) -> list[Equation] | None:
    """The equations that `a` follows by, exactly, from what is given."""
    if type(a) is not Var or a in given or a in search.constants:
        return []
    made = search.makers.get(a)
    if made is None or made.primitive.name not in _EXACT or _is_complex(made):
        return None
    found: dict[int, Equation] = {}
    for x in made.inputs:
        steps = _steps(search, x, given)
        if steps is None:
            return None
        found.update((id(s), s) for s in steps)
    return [*found.values(), made]


def _is_complex(e: Equation) -> bool:
    """Of complex numbers the absolute value is rounded."""
    return any(type_of(a).dtype.kind == "c" for a in e.inputs)


def _is_short(program: Program) -> bool:
    return _length(program) <= _MOST


def _length(program: Program) -> int:
    """The number of equations, those of branches included; too many where there are loops or calls."""
    total = 0
    for e in program.equations:
        total += 1
        if e.primitive is BRANCH:
            total += sum(map(_length, e.params["region"].branches))
        elif e.primitive.holds_regions:
            return _MOST + 1
    return total
