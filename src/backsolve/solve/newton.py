"""A nonlinear recurrence for all steps at once, by Newton's method on its system.

    h_t = f_t(h_{t−1})         r_t = f_t(h_{t−1}) − h_t         A_t = ∂f_t/∂h at h_{t−1}
    δ_t = A_t δ_{t−1} + r_t    h ← h + δ

Every round linearises all steps side by side and solves the chain of their blocks by a scan. Whatever the
blocks, round k leaves the first k states exact; with these it converges quadratically where the chain is not
chaotic. If the residual grows, the blocks are damped: δ_t = c A_t δ_{t−1} + r_t vanishes at the same states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ConvergenceError
from .scan import solve_chain

LEAST_DAMPING = 1 / 16


def shifted(start: Any, states: Any) -> Any:
    """h_{t−1} for each t."""
    return np.concatenate([start[None], states[:-1]])


def newton(
    linearised: Callable[[Any], tuple[Any, Any]],
    start: Any,
    guess: Any,
    rounds: int,
    tolerance: float | None,
    history: list[float],
) -> Any:
    """The states, on bare arrays; `linearised(h before)` gives what follows each, and the blocks.

    `history` receives the largest residual of every round.
    """
    tolerance = float(np.finfo(guess.dtype).eps) ** (2 / 3) if tolerance is None else tolerance
    states, damping = guess, 1.0
    with np.errstate(all="ignore"):
        after, factors = linearised(shifted(start, states))
        residual = after - states
        error = float(largest(residual, states, start))
        history.append(error)
        for _ in range(rounds):
            if not np.isfinite(error):
                break
            step = solve_chain(factors if damping == 1 else factors * damping, residual)
            trial = states + step
            after, next_factors = linearised(shifted(start, trial))
            next_residual = after - trial
            next_error = float(largest(next_residual, trial, start))
            history.append(next_error)
            if next_error <= tolerance and largest(step, trial, start) <= tolerance**0.5:
                # One solve more costs little and squares what is left.
                return trial + solve_chain(next_factors, next_residual)
            if damping > LEAST_DAMPING and not next_error <= 2 * error:  # it grows, or is no number
                damping /= 4  # once more from here
                continue
            states, factors, residual, error = trial, next_factors, next_residual, next_error
            damping = min(1.0, 2 * damping)
    failure = ConvergenceError(
        f"Newton's method on {len(guess)} steps did not converge in {rounds} rounds; the largest residuals: "
        + ", ".join(f"{r:.1e}" for r in history[-12:])
        + '. A chaotic recurrence has no better way than method="sequential"; for others give a `guess` of the '
        "states, or more `rounds`"
    )
    failure.history = tuple(history)
    raise failure


def largest(a: Any, states: Any, start: Any) -> Any:
    """Of the entries, each beside its state: where one state grows, the others must still be right.

    One that passes through 0 is measured by the state before, and one that is but the rounding of others by
    these. A chain may decay to numbers too small to have all their digits.
    """
    limits = np.finfo(states.dtype)
    size = np.abs(states)
    size = size + shifted(np.abs(start), size)
    others = np.max(size, axis=1, keepdims=True, initial=0.0)
    scale = size + 1e-4 * others + float(limits.tiny / limits.eps)
    return np.max(np.abs(a) / scale, initial=0.0)
