"""The recursion of ctc_loss on NumPy's arrays, with its derivative: what eager mode runs.

With p[t, s] the logarithm of all that enters state s at time t, before its label is read,

    dα[t+1, s] = Σ_k e^(α[t, s−k] − p[t, s]) dα[t, s−k] + d emitted[t, s]        k = 0, 1, 2

so both derivatives are a linear recursion with known weights, and no step of it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...api import jvp, vjp
from ...joint import record_joint
from ...operators import Custom
from ...primitive import wrap
from ...tensor import Tensor


def eager_paths(formula: Callable[..., Any], emitted: Any, skips: Any, given: Any) -> Any:
    """formula(emitted, skips, given), which is α behind the last step (see ctc.py), by loops of NumPy."""
    skips, given = np.asarray(skips), np.asarray(given)
    if not isinstance(emitted, Tensor):
        return _Paths(emitted, skips, given).end
    paths = _Paths(emitted.value, skips, given)
    if emitted.row is None:
        return wrap(paths.end, None)

    def operator_of(values: Sequence[Any], record: bool) -> Custom:
        def again(x: Any) -> Any:
            return formula(x, skips, given)

        def push(ts: Sequence[Any]) -> tuple[Any]:
            if record or isinstance(ts[0], Tensor):
                return (jvp(again, tuple(values), tuple(ts))[1],)
            return (paths.push(ts[0]),)

        def pull(cts: Sequence[Any]) -> tuple[Any]:
            if record or isinstance(cts[0], Tensor):
                return (vjp(again, *values)[1](cts[0])[0],)
            return (paths.pull(cts[0]),)

        return Custom(push, pull, name="ctc_paths")

    return record_joint("ctc_paths", operator_of, [emitted._v], [emitted.row], [paths.end])[0]


class _Paths:
    def __init__(self, emitted: Any, skips: Any, given: Any):
        time, batch, states = emitted.shape
        self.running = np.arange(time)[:, None, None] < given[:, None]
        # two states in front of the first, where nobody ever is
        self.alpha = np.full((time + 1, batch, states + 2), -np.inf, emitted.dtype)
        self.entering = np.empty_like(emitted)
        self.closed = np.where(skips, 0.0, -np.inf).astype(emitted.dtype)
        self.alpha[0, :, 2] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            for t in range(time):
                before, after = self.alpha[t], self.alpha[t + 1, :, 2:]
                parts = before[:, 2:], before[:, 1:-1], before[:, :-2] + self.closed
                most = np.maximum(np.maximum(parts[0], parts[1]), parts[2])
                shift = np.where(most == -np.inf, 0, most)
                total = sum(np.exp(part - shift) for part in parts)
                self.entering[t] = np.log(total) + shift
                np.add(self.entering[t], emitted[t], out=after)
                np.copyto(after, before[:, 2:], where=~self.running[t])
        self.end = self.alpha[-1, :, 2:].copy()

    @cached_property
    def weights(self) -> tuple[Any, Any, Any]:
        """Of the state itself, the one before and the one before that, for each state and time."""
        before, never = self.alpha[:-1], self.entering == -np.inf
        parts = before[..., 2:], before[..., 1:-1], before[..., :-2] + self.closed
        level = np.where(never, 0, self.entering)
        used = np.logical_and(self.running, ~never)
        own, one, two = (np.where(used, np.exp(part - level), 0) for part in parts)
        return np.where(self.running, own, 1), one, two

    def push(self, t: Any) -> Any:
        d = np.zeros_like(self.end)
        for own, one, two, entry in zip(*self.weights, np.where(self.running, t, 0), strict=True):
            new = own * d + entry
            new[:, 1:] += one[:, 1:] * d[:, :-1]
            new[:, 2:] += two[:, 2:] * d[:, :-2]
            d = new
        return d

    def pull(self, ct: Any) -> Any:
        found = np.empty_like(self.entering)
        own, one, two = self.weights
        d = np.asarray(ct)
        for t in range(len(found) - 1, -1, -1):
            found[t] = d
            new = own[t] * d
            new[:, :-1] += one[t, :, 1:] * d[:, 1:]
            new[:, :-2] += two[t, :, 2:] * d[:, 2:]
            d = new
        return np.where(self.running, found, 0)
