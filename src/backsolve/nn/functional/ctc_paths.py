"""The recursion of ctc_loss on NumPy's arrays, with its derivative: what eager mode runs.

With p[t, s] the logarithm of all that enters state s at time t, before its label is read,

    dα[t+1, s] = Σ_k e^(α[t, s−k] − p[t, s]) dα[t, s−k] + d emitted[t, s]        k = 0, 1, 2

so both derivatives are a linear recursion with known weights, and no step of it is recorded.

All examples stand in one line, each behind two states where nobody ever is (α = p = −∞): a step is one formula
of shifted parts of that line. The recursion runs on to the end of time; an example's result is read, and its
adjoint enters, where its input ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...api import jvp, vjp
from ...joint import record_joint
from ...operators import Custom
from ...primitive import wrap
from ...tensor import Tensor
from ._one_pass import Step


def eager_paths(formula: Callable[..., Any], x: Any, read: Any, skips: Any, given: Any) -> Any:
    """formula(x), which is α behind the last step of each example (see ctc.py), by loops of NumPy."""
    if not isinstance(x, Tensor):
        return _Paths(np.asarray(x), read, skips, given).end
    paths = _Paths(np.asarray(x._v), read, skips, given)
    if x.row is None:
        return wrap(paths.end, None)

    def operator_of(values: Sequence[Any], record: bool) -> Custom:
        def push(ts: Sequence[Any]) -> tuple[Any]:
            if record or isinstance(ts[0], Tensor):
                return (jvp(formula, tuple(values), tuple(ts))[1],)
            return (paths.push(ts[0]),)

        def pull(cts: Sequence[Any]) -> tuple[Any]:
            if record or isinstance(cts[0], Tensor):
                return (vjp(formula, *values)[1](cts[0])[0],)
            return (paths.pull(cts[0]),)

        return Custom(push, pull, name="ctc_paths")

    return record_joint("ctc_paths", operator_of, [x._v], [x.row], [paths.end])[0]


@Step
def _entering(own: Any, one: Any, two: Any, closed: Any) -> Any:
    two = two + closed
    most = np.maximum(np.maximum(own, one), two)
    shift = np.where(most == -np.inf, 0, most)
    return np.log(np.exp(own - shift) + np.exp(one - shift) + np.exp(two - shift)) + shift


def _part(alpha: Any, p: Any, d: Any) -> Any:
    return np.where(p == -np.inf, 0, np.exp(alpha - p) * d)


@Step
def _pushed(own: Any, one: Any, two: Any, closed: Any, p: Any, d: Any, d1: Any, d2: Any) -> Any:
    return _part(own, p, d) + _part(one, p, d1) + _part(two + closed, p, d2)


@Step
def _pulled(alpha: Any, closed: Any, p: Any, p1: Any, p2: Any, d: Any, d1: Any, d2: Any) -> Any:
    return _part(alpha, p, d) + _part(alpha, p1, d1) + _part(alpha + closed, p2, d2)


class _Paths:
    def __init__(self, x: Any, read: Any, skips: Any, given: Any):
        self.time, self.batch, self.classes = x.shape
        self.states = read.shape[1]
        self.dtype, self.given = x.dtype, given
        self.line = self.batch * (self.states + 2)
        self.places = (read + self.classes * np.arange(self.batch)[:, None]).reshape(-1)
        self.closed = self._empty()
        self._cells(self.closed)[...] = np.where(skips, 0.0, -np.inf)
        self.alpha = np.full((self.time + 1, self.line + 2), -np.inf, self.dtype)
        self.p = np.full((self.time, self.line + 2), -np.inf, self.dtype)
        # In front of time all stands in state 0: from there a path begins with a blank or the first label.
        self._cells(self.alpha[0])[:, 0] = 0
        self.end = np.empty((self.batch, self.states), self.dtype)
        emitted = self._read(x)
        step = _entering.chosen(self.dtype, self.p.size)
        with np.errstate(all="ignore"):
            for t in range(self.time):
                step(
                    *self._before(self.alpha[t]),
                    self.closed[2 : self.line],
                    out=self._own(self.p[t]),
                )
                cells = self._cells(self.alpha[t + 1])
                np.add(self._cells(self.p[t]), emitted[t], out=cells)
        self.p[:, : self.line].reshape(self.time, self.batch, -1)[..., :2] = -np.inf
        for n, t in enumerate(given):
            self.end[n] = self._cells(self.alpha[t])[n]

    def _empty(self, value: float = -np.inf) -> Any:
        return np.full(self.line + 2, value, self.dtype)

    def _cells(self, line: Any) -> Any:
        """The states of all examples, without those where nobody is."""
        return line[: self.line].reshape(self.batch, -1)[:, 2:]

    def _own(self, line: Any) -> Any:
        return line[2 : self.line]

    def _before(self, line: Any) -> list[Any]:
        """Each state, the one before it and the one before that."""
        return [line[2 - k : self.line - k] for k in range(3)]

    def _behind(self, line: Any) -> list[Any]:
        return [line[2 + k : self.line + k] for k in range(3)]

    def _read(self, x: Any) -> Any:
        """What is emitted: of each time the logarithms of the labels that the states read."""
        flat = np.take(x.reshape(self.time, -1), self.places, axis=1)
        return flat.reshape(self.time, self.batch, self.states)

    def push(self, t: Any) -> Any:
        emitted = self._read(np.asarray(t))
        d, new, end = self._empty(0.0), self._empty(0.0), np.zeros_like(self.end)
        step = _pushed.chosen(self.dtype, self.p.size)
        with np.errstate(all="ignore"):
            for k in range(self.time):
                parts = (*self._before(self.alpha[k]), self._own(self.closed), self._own(self.p[k]))
                step(*parts, *self._before(d), out=self._own(new))
                d, new = new, d
                self._cells(d)[...] += emitted[k]
                ended = self.given == k + 1
                end[ended] = self._cells(d)[ended]
        return end

    def pull(self, ct: Any) -> Any:
        found = np.zeros((self.time, self.batch * self.classes), self.dtype)
        ct = np.asarray(ct)
        d, new = self._empty(0.0), self._empty(0.0)
        step = _pulled.chosen(self.dtype, self.p.size)
        closed = self._behind(self.closed)[2]
        with np.errstate(all="ignore"):
            for t in range(max(self.given, default=0) - 1, -1, -1):
                ends = self.given == t + 1
                self._cells(d)[ends] = ct[ends]
                cells = self._cells(d).reshape(-1)
                found[t] = np.bincount(self.places, cells, minlength=found.shape[1])
                parts = (self._own(self.alpha[t]), closed, *self._behind(self.p[t]))
                step(*parts, *self._behind(d), out=self._own(new))
                d, new = new, d
        found = found.reshape(self.time, self.batch, self.classes)
        found[np.arange(self.time)[:, None] >= self.given] = 0
        return found
