"""Where a ReLU was flat: read from its result again, if that is kept for a gradient of weights anyway.

    y = where(x ≤ 0, 0, x)      x ≤ 0 holds where y ≤ 0 does, at 0 and at NaN, too
    y = where(x > 0, x, 0)      x > 0 holds where y > 0 does

Left alone, the kernel that makes y would write these truths beside it, and they would be kept up to the
backward pass, a byte an entry. The barrier says that they are to be had later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jax import lax

from ...ir import Equation, Program, Var
from ...primitive import P
from .search import Joined

_Step = Equation | Joined
_TRUTHS: dict[Any, Any] = {P.less_equal: lax.le, P.greater: lax.gt}
_NARROW = 2  # bytes of an entry: to read wider ones again costs more than to keep truths
# entries as they are, among others
_MOVES = frozenset({"cast", "permute", "reshape", "slice", "unslice", "windows"})


def with_truths_again(program: Program, steps: Sequence[_Step]) -> Sequence[_Step]:
    """The steps, with truths behind ReLUs from their results."""
    factors = _factors(program)
    truths: dict[Var, Equation] = {}
    now: dict[Var, Var] = {}
    kept: list[_Step] = []
    for step in steps:
        step = _reading(step, now)
        kept.append(step)
        if isinstance(step, Joined):
            continue
        if step.primitive in _TRUTHS:
            truths[step.outputs[0]] = step
        elif step.primitive is P.where and _is_relu(step, truths):
            (y,), c = step.outputs, step.inputs[0]
            if factors[y] > 1 and y.dtype.itemsize <= _NARROW:
                now[c] = Var(c.type)
                kept.append(Joined((y,), now[c], partial(_again, truths[c].primitive)))
    return kept


def _reading(step: _Step, now: Mapping[Any, Var]) -> _Step:
    inputs = tuple([now.get(a, a) if type(a) is Var else a for a in step.inputs])
    return replace(step, inputs=inputs) if isinstance(step, Joined) else step.reading(inputs)


def _is_relu(e: Equation, truths: Mapping[Any, Equation]) -> bool:
    c, a, b = e.inputs
    truth = truths.get(c) if type(c) is Var else None
    if truth is None:
        return False
    x, bound = truth.inputs
    zero, given = (a, b) if truth.primitive is P.less_equal else (b, a)
    numbers = all(type(n) is not Var and n == 0 for n in (bound, zero))
    return numbers and given is x and type(x) is Var and x.type == e.outputs[0].type


def _factors(program: Program) -> Counter[Any]:
    """How many contractions read each variable, as it is or moved: with weights, and for their gradient."""
    found: Counter[Any] = Counter()
    for e in reversed(program.equations):
        for a in {a for a in e.inputs if type(a) is Var}:
            if e.primitive is P.contract:
                found[a] += 1
            elif e.primitive.name in _MOVES:
                found[a] += found[e.outputs[0]]
    return found


def _again(truth: Any, m: Any, y: Any) -> Any:
    y = lax.optimization_barrier(y)
    return _TRUTHS[truth](y, lax.full_like(y, 0))
