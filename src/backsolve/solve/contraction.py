"""x ← x + r(x) until nothing is left: fixed points, and linear systems I − J whose J is small.

A loop over a state of fixed types, on packed vectors that do not vary: it runs on arrays, and is staged.

An unknown has no scale but its own: a step is small against what it is now, entry by entry. One whose solution
is 0 is small against the largest that it was. Where rounding alone is left, neither may be reached: that is
seen where nothing falls any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..hooks import hooks
from ..tensor import Staged
from .krylov import Map, note, unit_of

ROUNDINGS = 10  # by which a number, or the largest that it was, may be off
SLACK = 10  # what a pace may be behind at first


class Settled(NamedTuple):
    x: Any
    first: Any  # the largest entry of what was left at the start
    left: Any  # and at the end
    is_done: Any


def settled(
    residual: Map,
    x: Any,
    tol: float,
    eps: float,
    maxiter: int,
    history: list[float],
    memory: int = 0,
    pace: float = 1.0,
) -> Settled:
    """With memory, by Anderson's combination of the last steps; it gives up if a round leaves more than `pace`.

    With dX and dR the differences of the last x and of the last residuals r, one a row:
    x ← x + r − (dX + dR)ᵀ γ, where γ makes |r − dRᵀ γ| least.
    """
    dtype, size = x.dtype, x.shape[0]
    shared = ROUNDINGS * eps * size**0.5
    too_much = 1e-3 * float(np.finfo(dtype).max)  # f would overflow next, and warn of it
    m = min(memory, size)
    slots = np.arange(m)

    def goes_on(state: Any) -> Any:
        *_, left, is_done, _, k = state
        most = too_much if pace == 1.0 else np.minimum(too_much, SLACK * pace**k * first)
        return ~is_done & (left < most) & (k < maxiter)

    def judged(x: Any, r: Any, r_old: Any, left: Any, level: Any, rounding: Any) -> tuple[Any, ...]:
        """With x's size: whether that is the end, or all that moves is nothing beside what x was."""
        now, sizes = np.abs(x), np.abs(r)
        is_near = (sizes <= tol * now) | ((sizes >= np.abs(r_old)) & (sizes <= rounding))
        is_nothing = np.all(is_near | (sizes + now <= tol * level))
        note(history, left)
        return level, largest(x), left, np.all(is_near) & (left < too_much), is_nothing

    def after(x: Any, r: Any, step: Any, judgement: Any) -> tuple[Any, ...]:
        """The next x, what is left there, and more; what moves and is nothing is tried as 0."""
        level, extent, left, _, is_nothing = judgement
        beside = np.where(np.abs(r) > tol * np.abs(x), 0.0, x)
        x_new = np.where(is_nothing, beside, x + step)
        r_new = residual(x_new)
        new = largest(r_new)
        # Where f cannot be taken at 0 it goes on from where it was.
        is_back = is_nothing & ~(new < too_much)
        x_new, r_new = np.where(is_back, x, x_new), np.where(is_back, r, r_new)
        level, new = np.where(is_nothing, tol * level, level), np.where(is_back, left, new)
        rounding = np.where(is_nothing, 0.0, shared * extent)
        return x_new, r_new, *judged(x_new, r_new, r, new, level, rounding)

    def plain_round(state: Any) -> Any:
        x, r, *judgement, k = state
        return *after(x, r, r, judgement), k + 1

    def combined_round(state: Any) -> Any:
        x, r, dX, dR, *judgement, k = state
        D = dR / unit_of(dR)
        G = D @ D.T
        weight = 1e-14 * np.trace(G) + float(np.finfo(dtype).tiny)
        gamma = np.linalg.solve(G + weight * np.eye(m, dtype=dtype), D @ (r / unit_of(dR)))
        x_new, r_new, *rest = after(x, r, r - gamma @ (dX + dR), judgement)
        here = (slots == k % m)[:, None]
        dX, dR = np.where(here, x_new - x, dX), np.where(here, r_new - r, dR)
        return x_new, r_new, dX, dR, *rest, k + 1

    r = residual(x)
    first = largest(r)
    judgement = judged(x, r, r, first, np.maximum(first, largest(x)), 0.0 * first)
    if m:
        none = np.zeros((m, 1), dtype) * x
        start: Any = (x, r, none, none, *judgement, 0)
        found = hooks.while_loop(goes_on, combined_round, start)
    else:
        found = hooks.while_loop(goes_on, plain_round, (x, r, *judgement, 0))
    x, *_, left, is_done, _, _ = found
    return Settled(x, first, left, is_done)


def largest(v: Any) -> Any:
    return np.max(np.abs(v), initial=0.0)


def only_if(flag: Any, make: Callable[[], Any], otherwise: Any) -> Any:
    """make() if the flag is set, and another value of its type else; compiled code asks when it runs."""
    if not isinstance(flag, Staged):
        return make() if flag else otherwise
    found, _ = hooks.while_loop(lambda s: s[1], lambda s: (make(), ~s[1]), (otherwise, flag))
    return found
