"""exp(x − logsumexp x), the derivative of logsumexp, from the exponentials that logsumexp has taken already."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Program, Var
from ..operators.broadcast import reduced_shape


def repeated_exponentials(program: Program) -> dict[Var, Equation]:
    """For each exp(x − logsumexp x) of the Program, its output and the logsumexp."""
    made = {v: e for e in program.equations for v in e.outputs}
    found = {}
    for e in program.equations:
        if e.primitive.name == "exp":
            total = _total(made, e.inputs[0])
            if total is not None:
                found[e.outputs[0]] = total
    return found


def _total(made: dict[Any, Equation], difference: Any) -> Equation | None:
    less = made.get(difference)
    if less is None or less.primitive.name != "subtract":
        return None
    x, shift = less.inputs
    total = _behind(made, shift)
    if total is None or total.primitive.name != "logsumexp" or total.inputs[0] is not x:
        return None
    kept = reduced_shape(x.shape, total.params["axis"], True)
    return total if shift.shape == kept and less.outputs[0].shape == x.shape else None


def _behind(made: dict[Any, Equation], a: Any) -> Equation | None:
    """What made `a`, behind views, and behind the guard that makes 0 of −∞."""
    e = made.get(a)
    while e is not None and e.primitive.name in ("reshape", "real", "where"):
        if e.primitive.name == "where":
            test, zero, value = e.inputs
            guard = made.get(test)
            is_guard = guard is not None and guard.primitive.name == "isneginf" and zero == 0
            if (
                guard is None
                or not is_guard
                or _behind(made, value) is not _behind(made, guard.inputs[0])
            ):
                return None
            e = made.get(value)
        else:
            e = made.get(e.inputs[0])
    return e


def finite_top(x: Any, axis: tuple[int, ...]) -> Any:
    """The largest entry, but a finite number: beside an infinite entry finite ones have the share 0."""
    most = float(np.finfo(x.dtype).max)
    return np.clip(np.max(x, axis=axis, keepdims=True), -most, most)


def share_of_total(x: Any, axis: tuple[int, ...]) -> Any:
    """eˣ / Σ eˣ; 0 where all of x is −∞. Written as logsumexp is, so that both share their exponentials."""
    powers = np.exp(x - finite_top(x, axis))
    total = np.sum(powers, axis=axis, keepdims=True)
    return powers / np.where(np.equal(total, 0), 1, total)
