"""Calls: what is called from several places is translated once; calls that do not wait for each other are one.

XLA writes every call out before it compiles: a function that calls others of its kind twice, and these again,
would be compiled as often as it is called. Calls of the same with other arguments are one call with an axis in
front, so what XLA gets grows with the levels and not with the calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...ir import Equation, Program, Var
from ...regions import Callee, Loop
from .rounds import are_free
from .search import Joined

Step = Equation | Joined
Placed = tuple[int, Step]  # a step, and where it stood in its program

_MOST_HELD = 1 << 28  # bytes that all values of calls made at once may take


class Callees:
    """What a Program calls, from how many places, and as which function of JAX's."""

    def __init__(self, program: Program) -> None:
        self._sites: Counter[Callee] = Counter()
        self._bytes: dict[Callee, int | None] = {}
        self._rounds: dict[Loop, int | None] = {}
        self._functions: dict[Callee, Any] = {}
        self._count(program)

    def _count(self, program: Program) -> None:
        for e in program.equations:
            if not e.primitive.holds_regions:
                continue
            region = e.params["region"]
            for inner in region.programs():
                self._count(inner)
            if isinstance(region, Callee):
                self._sites[region] += 1
                if self._sites[region] == 1 and region.program is not None:
                    self._count(region.program)

    def function(self, callee: Callee, translate: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the arguments: one of JAX's own, if there are several calls of it."""
        if self._sites[callee] < 2:
            return translate
        if callee not in self._functions:
            translate.__name__ = callee.plain_name
            self._functions[callee] = jax.jit(translate)
        return self._functions[callee]

    # ---- which calls are made at once

    def in_groups(self, steps: Sequence[Step]) -> list[list[Placed]]:
        """The steps in an order in which they can run, with calls of the same together where they may be."""
        sites = Counter([c for s in steps if (c := _callee(s)) is not None])
        several = {c for c, n in sites.items() if n > 1 and self._may_be_at_once(c, n)}
        rest = list(enumerate(steps))
        if not several:
            return [[placed] for placed in rest]
        order: list[list[Placed]] = []
        while rest:
            waiting: list[Placed] = []
            ready: list[Placed] = []  # calls
            to_come: set[Var] = set()
            for k, s in rest:
                waits = any(type(a) is Var and a in to_come for a in s.inputs)
                if not waits and _callee(s) not in several:
                    order.append([(k, s)])
                    continue
                to_come.update(outputs_of(s))
                (waiting if waits else ready).append((k, s))
            if ready:
                first = _callee(ready[0][1])
                order.append([(k, s) for k, s in ready if _callee(s) is first])
                waiting += [(k, s) for k, s in ready if _callee(s) is not first]
            rest = sorted(waiting, key=lambda placed: placed[0])
        return order

    def _may_be_at_once(self, callee: Callee, times: int) -> bool:
        held = self._held(callee)
        return held is not None and times * held <= _MOST_HELD

    def _held(self, callee: Callee) -> int | None:
        """The bytes of all values of a call; None if there are branches, or rounds that wait for each other."""
        if callee not in self._bytes:
            self._bytes[callee] = None  # for calls of itself
            if callee.program is not None:
                self._bytes[callee] = self._bytes_of(callee.program)
        return self._bytes[callee]

    def _bytes_of(self, program: Program) -> int | None:
        if any(v.type.is_stack for v in program.inputs):
            return None
        total = 0
        for e in program.equations:
            inside = self._inside(e.params["region"]) if e.primitive.holds_regions else 0
            if inside is None or any(v.type.is_stack for v in e.outputs):
                return None
            total += inside + sum(v.type.nbytes for v in e.outputs)
        return total

    def _inside(self, region: Any) -> int | None:
        if isinstance(region, Callee):
            return self._held(region)
        return self._of_all_rounds(region) if isinstance(region, Loop) else None

    # ---- which rounds are done at once

    def are_at_once(self, loop: Loop) -> bool:
        return self._of_all_rounds(loop) is not None

    def _of_all_rounds(self, loop: Loop) -> int | None:
        """The bytes of all values of all rounds of a loop; None if they go one after the other."""
        if loop not in self._rounds:
            held = self._bytes_of(loop.body) if are_free(loop) else None
            total = None if held is None else held * (loop.count or 0)
            self._rounds[loop] = None if total is None or total > _MOST_HELD else total
        return self._rounds[loop]


def at_once(run: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """run(*args) for each of several lists of arguments of the same types, as one call."""
    if len(arguments) == 1:
        return [run(*arguments[0])]
    axes = [None if all(a is same[0] for a in same) else 0 for same in zip(*arguments, strict=True)]
    if not any(axis == 0 for axis in axes):
        return [run(*args) for args in arguments]
    stacked = [
        same[0] if axis is None else jnp.stack(same)
        for axis, same in zip(axes, zip(*arguments, strict=True), strict=True)
    ]
    results = jax.vmap(run, in_axes=axes)(*stacked)
    return [jax.tree.map(lambda y, k=k: y[k], results) for k in range(len(arguments))]


def outputs_of(s: Step) -> Sequence[Var]:
    return [s.output] if isinstance(s, Joined) else s.outputs


def _callee(s: Step) -> Callee | None:
    if isinstance(s, Joined) or s.primitive.name != "call":
        return None
    return s.params["region"]
