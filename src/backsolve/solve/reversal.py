"""A chain of steps as one joint row, reversed in little memory by a plan of revolve.py.

The first sweep runs ahead and leaves a stack: kept states, each with the stretch of steps behind it, and
recorded steps. To reverse the chain is to take the top off: a recorded step is pulled through, a stretch is run
again from its state and leaves a stack of its own.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import RecomputeError
from ..primitive import wrap
from ..row import Row, ancestors, next_index
from ..tensor import Staged, Tensor, leaf_row, lent
from .budget import ChainReport, LargerStepError, Shelf, within
from .chain_stack import over_stack
from .fingerprint import fingerprint, is_near, is_same, outside_of
from .forward import forward_substitute
from .reverse import back_substitute
from .revolve import RECORD, Binomial, thinned

# (k, state, entries of the sequences) -> (state, entries made), all of them lists of leaves
StepOf = Callable[[int, list[Any], list[Any]], tuple[list[Any], list[Any]]]


@dataclass(slots=True)
class State:
    values: list[Any]  # raw
    varies: list[bool]

    @property
    def size(self) -> int:
        return sum(_nbytes(v) for v in self.values)


@dataclass(slots=True)
class Recorded:
    k: int
    begin: int
    inputs: list[Row | None]  # of the state, then of the entries
    outputs: list[Any]  # the state, then the entries made
    carried: int
    size: int = 0

    def state(self) -> State:
        outs = self.outputs[: self.carried]
        return State([raw(y) for y in outs], [row_of(y) is not None for y in outs])


@dataclass(slots=True)
class Stretch:
    """Steps i … j, to be reversed from the state at i within a budget of the plan."""

    i: int
    j: int
    budget: int
    state: State


def raw(x: Any) -> Any:
    return x._v if isinstance(x, Tensor) else x


def row_of(x: Any) -> Row | None:
    return x.row if isinstance(x, Tensor) else None


def _nbytes(v: Any) -> int:
    return int(getattr(v, "nbytes", 8 if isinstance(v, int | float | complex) else 0))


def bytes_of_rows(outputs: Sequence[Any], begin: int, known: Sequence[Any] = ()) -> int:
    """What a recorded step holds: arrays that its rows captured, and its results."""
    rows, _ = ancestors([r for r in map(row_of, outputs) if r is not None], begin)
    held = {id(v): v for row in rows for v in row.saved if v is not None}
    held.update({id(raw(y)): raw(y) for y in outputs})
    for v in known:
        held.pop(id(v), None)
    return sum(_nbytes(v) for v in held.values())


class Chain:
    """`count` steps from a state; `sequences` are raw arrays of which step k reads entry `at(k)`."""

    def __init__(
        self,
        step: StepOf,
        start: State,
        sequences: Sequence[Any],
        sequences_vary: Sequence[bool],
        report: ChainReport,
        at: Callable[[int], int] = lambda k: k,
        shelves: Sequence[Shelf] = (),
    ):
        self.step, self.start, self.report, self.at = step, start, report, at
        self.sequences, self.sequences_vary = list(sequences), list(sequences_vary)
        self.stack: list[Stretch | Recorded] = []
        self.shelves = shelves  # where what is on the stack is counted
        self.work = threading.Lock()  # held by who takes steps
        self.plan: Any = None
        self.memory: int | None = None  # that the first sweep may keep
        self.count = 0
        self.made: list[list[Any]] = []
        self.made_vary: list[bool] = []
        self.prints = array("d")  # of what each step gives: a rerun must give the same
        self.inner = array("d")  # and of what it takes from outside
        self.free: dict[Row, None] = {}  # rows of what the steps close over
        self.ends: State = start

    # ---- steps

    def record(self, k: int, state: State) -> Recorded:
        begin = next_index()
        ins = [fresh(v, f) for v, f in zip(state.values, state.varies, strict=True)]
        entries = [
            fresh(s[self.at(k)], f)
            for s, f in zip(self.sequences, self.sequences_vary, strict=True)
        ]
        with within(None):  # a loop inside a step is recorded with it
            after, ys = self.step(k, [*map(lent, ins)], [*map(lent, entries)])
        self._check(k, begin, [*after, *ys])
        return Recorded(k, begin, [row_of(x) for x in [*ins, *entries]], [*after, *ys], len(after))

    def _check(self, k: int, begin: int, after: Sequence[Any]) -> None:
        """What a step takes and gives, the next state and what it makes, is the same each time."""
        if any(isinstance(y, Staged) for y in after):
            return
        outs = [r for r in map(row_of, after) if r is not None]
        rows, _ = ancestors(outs, begin)
        # Whether they are over or not: those of a `jvp` are while it pushes through them.
        free = closed_over(outs, begin, rows=rows)
        if k == len(self.prints):
            self.prints.append(fingerprint(after))
            self.inner.append(outside_of(rows))
            self.free.update(dict.fromkeys(free))
        elif not (
            is_same(self.prints[k], after)
            and is_near(self.inner[k], outside_of(rows))
            and self.free.keys() >= set(free)
        ):
            raise RecomputeError(
                f"step {k} of a checkpointed chain gave another result when it was run again: it reads "
                "something that has changed (a buffer, a random generator, a Tensor written into). Pass "
                "such things as arguments"
            )

    def forget(self) -> None:
        """What was run was to be measured: the first sweep is yet to come."""
        del self.prints[:], self.inner[:]
        self.made, self.made_vary = [], []
        self._clear()

    def ahead(self, k: int, state: State) -> State:
        """One step without keeping what it recorded; what it makes is taken in the first sweep."""
        is_first = k >= len(self.prints)
        done = self.record(k, state)
        self.report.forward_steps += 1
        if is_first:
            self.note(done)
        return done.state()

    def note(self, done: Recorded) -> None:
        """Of a step of the first sweep: what it made."""
        ys = done.outputs[done.carried :]
        if not self.made:
            self.made, self.made_vary = [[] for _ in ys], [False] * len(ys)
        for n, (column, y) in enumerate(zip(self.made, ys, strict=True)):
            column.append(raw(y))
            self.made_vary[n] |= row_of(y) is not None

    # ---- the sweeps

    def expand(self, part: Stretch) -> None:
        """Run a stretch until its last step is recorded on top of the stack."""
        i, budget, state = part.i, part.budget, part.state
        while True:
            k = self.plan.action(i, part.j, budget)
            if k == RECORD:
                is_first = i >= len(self.prints)
                done = self.record(i, state)
                self.report.recorded_steps += 1
                if is_first:
                    self.note(done)
                done.size = bytes_of_rows(done.outputs, done.begin, state.values)
                if self.memory is not None and self.report.kept_bytes + done.size > self.memory:
                    found = [r.size for r in self.stack if isinstance(r, Recorded)]
                    raise LargerStepError(max([done.size, *found]))
                self._push(done, done.size)
                i, state, budget = i + 1, done.state(), self.plan.after_recording(budget, i, part.j)
                if i == part.j:
                    self.ends = state
                    return
            else:
                self._push(Stretch(i, k, budget, state), state.size)
                while i < k:
                    state = self.ahead(i, state)
                    i += 1
                budget = self.plan.after_keeping(budget, k)

    def _push(self, item: Stretch | Recorded, size: int) -> None:
        for shelf in self.shelves:
            shelf.make_room(self, size)
            shelf.hold(size)
        self.stack.append(item)
        self.report.hold(size)

    def _let_go(self, size: int) -> None:
        self.report.kept_bytes -= size
        for shelf in self.shelves:
            shelf.hold(-size)

    def give_up(self) -> None:
        if self.work.acquire(blocking=False):
            self._clear()
            self.work.release()

    def _clear(self) -> None:
        self.stack = []
        self._let_go(self.report.kept_bytes)

    def run(self, count: int, plan: Any, memory: int | None = None) -> None:
        """The first sweep, of a number of steps that is known; an error if they store more than `memory`."""
        self.count, self.plan, self.memory = count, plan, memory
        with self.work:
            self._whole()
        self.memory = None

    def _whole(self) -> None:
        if self.count:
            self.expand(Stretch(0, self.count, self.plan.budget, self.start))

    def run_while(self, goes_on: Callable[[list[Any]], bool], slots: int) -> None:
        """The first sweep, of steps that end by a condition: states at even distances, which double.

        Once the number of steps is known, those stay that leave the best schedule for what lies between.
        """
        self.plan = Binomial(slots)
        kept: dict[int, State] = {}
        state, k, apart = self.start, 0, 1
        for shelf in self.shelves:
            shelf.make_room(self, slots * state.size)
        while goes_on(state.values):
            if k % apart == 0:
                if len(kept) == slots:
                    apart *= 2
                    kept = {p: s for p, s in kept.items() if p % apart == 0}
                if k % apart == 0 and len(kept) < slots:
                    kept[k] = state
            state = self.ahead(k, state)
            k += 1
        self.count, self.ends, self.stack = k, state, []
        places = thinned(list(kept), k, slots)
        for n, (p, end) in enumerate(zip(places, [*places[1:], k], strict=True)):
            self._push(Stretch(p, end, slots - n, kept[p]), kept[p].size)

    # ---- derivatives

    def pull(
        self, cts: list[Any], made: list[Any], size: int | None = None
    ) -> tuple[list[Any], list[Any], dict[Row, Any]]:
        """Adjoints of the first state, of the sequences, and of what is closed over; or stacks of `size`."""
        with self.work:
            try:
                return self._pulled(cts, made, size)
            except BaseException:  # what is left of the stack is of no use any more
                self._clear()
                raise

    def _pulled(
        self, cts: list[Any], made: list[Any], size: int | None
    ) -> tuple[list[Any], list[Any], dict[Row, Any]]:
        lead, entry = _leading(size)
        if not self.stack:  # pulled before, or given up
            self._whole()
        columns = [
            np.zeros((*lead, *np.shape(s)), np.asarray(s).dtype) if f else None
            for s, f in zip(self.sequences, self.sequences_vary, strict=True)
        ]
        free: dict[Row, Any] = {}
        sources = list(self.free)
        while self.stack:
            top = self.stack.pop()
            if isinstance(top, Stretch):
                self._let_go(top.state.size)
                self.expand(top)
                continue
            at = entry(self.at(top.k))
            given = [*cts, *[None if c is None else c[at] for c in made]]
            fresh = [r for r in top.inputs if r is not None]
            wanted = [*fresh, *sources]

            def solve(given: Sequence[Any], top: Recorded = top, wanted: Any = wanted) -> list[Any]:
                seeds = [
                    (y.row, c)
                    for y, c in zip(top.outputs, given, strict=True)
                    if c is not None and row_of(y) is not None
                ]
                return back_substitute(seeds, wanted, oldest=top.begin)

            found = iter(over_stack(solve, given, size))
            ins = [None if r is None else next(found) for r in top.inputs]
            for r, g in zip(sources, found, strict=True):
                if g is not None:
                    free[r] = free[r] + g if r in free else g
            cts = ins[: len(ins) - len(columns)]
            for column, g in zip(columns, ins[len(cts) :], strict=True):
                if g is not None and column is not None:
                    column[at] = g
            self._let_go(top.size)
            del solve, top
        return cts, columns, free

    def push(
        self, ts: list[Any], columns: list[Any], free: dict[Row, Any], size: int | None = None
    ) -> tuple[list[Any], list[Any]]:
        """Tangents of the last state and of what was made, or stacks of `size`; each step is forgotten behind
        its tangent."""
        lead, entry = _leading(size)
        state = self.start
        made: list[list[Any]] = [[] for _ in self.made]
        for k in range(self.count):
            done = self.record(k, state)
            self.report.forward_steps += 1
            at = entry(self.at(k))
            given = [*ts, *[None if c is None else c[at] for c in columns], *free.values()]
            outs = [row_of(y) for y in done.outputs]
            rows, _ = ancestors([r for r in outs if r is not None], done.begin)
            ins = [*done.inputs, *free]

            def solve(
                given: Sequence[Any], rows: Any = rows, ins: Any = ins, outs: Any = outs
            ) -> list[Any]:
                pairs = zip(ins, given, strict=True)
                seeds = [(r, t) for r, t in pairs if r is not None and t is not None]
                return forward_substitute(rows, seeds, outs)

            images = over_stack(solve, given, size)
            ts = images[: done.carried]
            for column, y, t in zip(
                made, done.outputs[done.carried :], images[done.carried :], strict=True
            ):
                value = np.asarray(raw(y))
                column.append(np.zeros((*lead, *value.shape), value.dtype) if t is None else t)
            state = done.state()
        return ts, [self.stacked(c, len(lead)) for c in made]

    def stacked(self, column: list[Any], axis: int = 0) -> Any:
        order = sorted(range(len(column)), key=self.at)
        return np.stack([column[k] for k in order], axis)

    def written_out(
        self, step: StepOf, state: list[Any], columns: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """As many of another step on Tensors, recorded as they are."""
        made: list[list[Any]] = []
        with within(None):
            for k in range(self.count):
                state, ys = step(k, [*map(lent, state)], [c[self.at(k)] for c in columns])
                made = made or [[] for _ in ys]
                for column, y in zip(made, ys, strict=True):
                    column.append(y)
        return state, [self.stacked(c) for c in made]


def _leading(size: int | None) -> tuple[tuple[int, ...], Callable[[int], Any]]:
    """The axis of a stack in front of an array's own, and where entry k of such arrays lies."""
    if size is None:
        return (), lambda k: k
    return (size,), lambda k: (slice(None), k)


def closed_over(
    outputs: list[Row],
    start: int,
    inputs: Sequence[Row] = (),
    rows: Sequence[Row] | None = None,
) -> list[Row]:
    """Rows older than the call that its results rest on, other than through its inputs; `rows`: its own."""
    rows = ancestors(outputs, start)[0] if rows is None else rows
    found = dict.fromkeys(r for r in outputs if r.index < start)
    own = set(inputs)
    for row in rows:
        if row not in own:
            found.update(
                dict.fromkeys(p for p in row.parents if p.__class__ is Row and p.index < start)
            )
    return list(found)


def fresh(v: Any, varies: bool) -> Any:
    return wrap(v, leaf_row(v)) if varies else v
