"""A chain of steps as one joint row, reversed in little memory by a plan of revolve.py.

The first sweep runs ahead and leaves a stack: kept states, each with the stretch of steps behind it, and
recorded steps. To reverse the chain is to take the top off: a recorded step is pulled through, a stretch is run
again from its state and leaves a stack of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import RecomputeError
from ..joint import record_joint
from ..operators import Custom
from ..primitive import P, wrap
from ..row import Row, ancestors, next_index
from ..tensor import Staged, Tensor, leaf_row
from .budget import ChainReport, within
from .fingerprint import fingerprint, is_same
from .forward import forward_substitute
from .reverse import back_substitute
from .revolve import RECORD, Binomial

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
        return State([_raw(y) for y in outs], [_row(y) is not None for y in outs])


@dataclass(slots=True)
class Stretch:
    """Steps i … j, to be reversed from the state at i within a budget of the plan."""

    i: int
    j: int
    budget: int
    state: State


def _raw(x: Any) -> Any:
    return x._v if isinstance(x, Tensor) else x


def _row(x: Any) -> Row | None:
    return x.row if isinstance(x, Tensor) else None


def _nbytes(v: Any) -> int:
    return int(getattr(v, "nbytes", 8 if isinstance(v, int | float | complex) else 0))


def bytes_of_rows(outputs: Sequence[Any], begin: int, known: Sequence[Any] = ()) -> int:
    """What a recorded step holds: arrays that its rows captured, and its results."""
    rows, _ = ancestors([r for r in map(_row, outputs) if r is not None], begin)
    held = {id(v): v for row in rows for v in row.saved if v is not None}
    held.update({id(_raw(y)): _raw(y) for y in outputs})
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
    ):
        self.step, self.start, self.report, self.at = step, start, report, at
        self.sequences, self.sequences_vary = list(sequences), list(sequences_vary)
        self.stack: list[Stretch | Recorded] = []
        self.plan: Any = None
        self.count = 0
        self.made: list[list[Any]] = []
        self.made_vary: list[bool] = []
        self.prints = array("d")  # of what each step gives: a rerun must give the same
        self.free: dict[Row, None] = {}  # rows of what the steps close over
        self.ends: State = start

    # ---- steps

    def record(self, k: int, state: State) -> Recorded:
        begin = next_index()
        ins = [_fresh(v, f) for v, f in zip(state.values, state.varies, strict=True)]
        entries = [
            _fresh(s[self.at(k)], f)
            for s, f in zip(self.sequences, self.sequences_vary, strict=True)
        ]
        with within(None):  # a loop inside a step is recorded with it
            after, ys = self.step(k, list(ins), list(entries))
        self._check(k, [*after, *ys])
        return Recorded(k, begin, [_row(x) for x in [*ins, *entries]], [*after, *ys], len(after))

    def _check(self, k: int, after: Sequence[Any]) -> None:
        """What a step gives, the next state and what it makes, is the same each time."""
        if any(isinstance(y, Staged) for y in after):
            return
        if k == len(self.prints):
            self.prints.append(fingerprint(after))
        elif not is_same(self.prints[k], after):
            raise RecomputeError(
                f"step {k} of a checkpointed chain gave another result when it was run again: it reads "
                "something that has changed (a buffer, a random generator, a Tensor written into). Pass "
                "such things as arguments"
            )

    def ahead(self, k: int, state: State) -> State:
        """One step without keeping what it recorded; what it makes is taken in the first sweep."""
        is_first = k >= len(self.prints)
        done = self.record(k, state)
        self.report.forward_steps += 1
        if is_first:
            self.note(done)
        return done.state()

    def note(self, done: Recorded) -> None:
        """Of a step of the first sweep: what it made, and what it closes over."""
        outs = [r for r in map(_row, done.outputs) if r is not None]
        self.free.update(dict.fromkeys(closed_over(outs, done.begin)))
        ys = done.outputs[done.carried :]
        if not self.made:
            self.made, self.made_vary = [[] for _ in ys], [False] * len(ys)
        for n, (column, y) in enumerate(zip(self.made, ys, strict=True)):
            column.append(_raw(y))
            self.made_vary[n] |= _row(y) is not None

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
                self._push(done, done.size)
                i, state, budget = i + 1, done.state(), self.plan.after_recording(budget, i)
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
        self.stack.append(item)
        self.report.hold(size)

    def run(self, count: int, plan: Any) -> None:
        """The first sweep, of a number of steps that is known."""
        self.count, self.plan = count, plan
        self.stack = []
        if count:
            self.expand(Stretch(0, count, plan.budget, self.start))

    def run_while(self, goes_on: Callable[[list[Any]], bool], slots: int) -> None:
        """The first sweep, of steps that end by a condition: states at even distances, which double."""
        self.plan = Binomial(slots)
        kept: list[tuple[int, State]] = []
        state, k, apart = self.start, 0, 1
        while goes_on(state.values):
            if k % apart == 0:
                if len(kept) == slots:
                    apart *= 2
                    kept = [(p, s) for p, s in kept if p % apart == 0]
                if k % apart == 0 and len(kept) < slots:
                    kept.append((k, state))
            state = self.ahead(k, state)
            k += 1
        self.count, self.ends, self.stack = k, state, []
        ends = [p for p, _ in kept[1:]] + [k]
        for n, ((p, s), end) in enumerate(zip(kept, ends, strict=True)):
            self._push(Stretch(p, end, slots - n, s), s.size)

    # ---- derivatives

    def pull(self, cts: list[Any], made: list[Any]) -> tuple[list[Any], list[Any], dict[Row, Any]]:
        """Adjoints of the first state, of the sequences, and of what is closed over."""
        if not self.stack and self.count:  # pulled before: the stack is used up
            self.expand(Stretch(0, self.count, self.plan.budget, self.start))
        columns = [
            np.zeros(np.shape(s), np.asarray(s).dtype) if f else None
            for s, f in zip(self.sequences, self.sequences_vary, strict=True)
        ]
        free: dict[Row, Any] = {}
        sources = list(self.free)
        while self.stack:
            top = self.stack.pop()
            if isinstance(top, Stretch):
                self.report.kept_bytes -= top.state.size
                self.expand(top)
                continue
            at = self.at(top.k)
            given = [*cts, *[None if c is None else c[at] for c in made]]
            seeds = [
                (y.row, c)
                for y, c in zip(top.outputs, given, strict=True)
                if c is not None and _row(y) is not None
            ]
            fresh = [r for r in top.inputs if r is not None]
            found = iter(back_substitute(seeds, [*fresh, *sources], oldest=top.begin))
            ins = [None if r is None else next(found) for r in top.inputs]
            for r, g in zip(sources, found, strict=True):
                if g is not None:
                    free[r] = free[r] + g if r in free else g
            cts = ins[: len(ins) - len(columns)]
            for column, g in zip(columns, ins[len(cts) :], strict=True):
                if g is not None and column is not None:
                    column[at] = g
            self.report.kept_bytes -= top.size
            del seeds, top
        return cts, columns, free

    def push(
        self, ts: list[Any], columns: list[Any], free: dict[Row, Any]
    ) -> tuple[list[Any], list[Any]]:
        """Tangents of the last state and of what was made; each step is forgotten behind its tangent."""
        state = self.start
        made: list[list[Any]] = [[] for _ in self.made]
        for k in range(self.count):
            done = self.record(k, state)
            self.report.forward_steps += 1
            given = [*ts, *[None if c is None else c[self.at(k)] for c in columns]]
            seeds = [
                (r, t)
                for r, t in zip(done.inputs, given, strict=True)
                if r is not None and t is not None
            ]
            outs = [_row(y) for y in done.outputs]
            rows, _ = ancestors([r for r in outs if r is not None], done.begin)
            images = forward_substitute(rows, [*seeds, *free.items()], outs)
            ts = images[: done.carried]
            for column, y, t in zip(
                made, done.outputs[done.carried :], images[done.carried :], strict=True
            ):
                column.append(np.zeros_like(_raw(y)) if t is None else t)
            state = done.state()
        return ts, [self.stacked(c) for c in made]

    def stacked(self, column: list[Any]) -> Any:
        order = sorted(range(len(column)), key=self.at)
        return np.stack([column[k] for k in order])

    def written_out(self, state: list[Any], columns: list[Any]) -> tuple[list[Any], list[Any]]:
        """All steps on Tensors, recorded as they are: for derivatives of the derivative."""
        made: list[list[Any]] = [[] for _ in self.made]
        with within(None):
            for k in range(self.count):
                state, ys = self.step(k, state, [c[self.at(k)] for c in columns])
                for column, y in zip(made, ys, strict=True):
                    column.append(y)
        return state, [self.stacked(c) for c in made]


def closed_over(outputs: list[Row], start: int, inputs: Sequence[Row] = ()) -> list[Row]:
    """Rows older than the call that its results rest on, other than through its inputs."""
    rows, _ = ancestors(outputs, start)
    found = dict.fromkeys(r for r in outputs if r.index < start)
    own = set(inputs)
    for row in rows:
        if row not in own:
            found.update(
                dict.fromkeys(p for p in row.parents if p.__class__ is Row and p.index < start)
            )
    return list(found)


def _fresh(v: Any, varies: bool) -> Any:
    return wrap(v, leaf_row(v)) if varies else v


def joint_of(
    chain: Chain, leaves: Sequence[Any], columns: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The last state and the sequences made, as Tensors that one joint row has made.

    `leaves` and `columns` are the first state and the sequences as they were given, with their rows.
    """
    ends, width = chain.ends, len(chain.ends.values)
    made = [chain.stacked(c) for c in chain.made]
    given = [*leaves, *columns]
    places = [k for k, x in enumerate(given) if _row(x) is not None]
    outputs = [*ends.values, *made]
    flags = [*ends.varies, *chain.made_vary]
    varying = [k for k, flag in enumerate(flags) if flag and _is_inexact(outputs[k])]
    free = list(chain.free)
    if not varying or not (places or free):
        return list(ends.values), made
    shapes = [(np.shape(outputs[k]), np.asarray(outputs[k]).dtype) for k in varying]

    def recorded(values: Sequence[Any]) -> Custom:
        begin = next_index()
        fresh = dict(
            zip(places, [P.alias(v) if isinstance(v, Tensor) else v for v in values], strict=False)
        )
        ins = [fresh.get(k, _raw(x)) for k, x in enumerate(given)]
        after, ys = chain.written_out(ins[: len(leaves)], ins[len(leaves) :])
        outs = [_row([*after, *ys][k]) for k in varying]
        sources: list[Any] = [*[_row(ins[k]) for k in places], *free]

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            rows, _ = ancestors([r for r in outs if r is not None], begin)
            seeds = [(r, t) for r, t in zip(sources, ts, strict=True) if t is not None]
            return tuple(forward_substitute(rows, seeds, outs, record=True))

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [
                (r, c) for r, c in zip(outs, cts, strict=True) if r is not None and c is not None
            ]
            return tuple(back_substitute(seeds, sources, oldest=begin, record=True))

        return Custom(push, pull, name="Reversed")

    def operator_of(values: Sequence[Any], record: bool) -> Custom:
        if record:
            return recorded(values)

        def spread(items: Sequence[Any], keys: Sequence[int], size: int) -> list[Any]:
            found = dict(zip(keys, items, strict=False))
            return [found.get(k) for k in range(size)]

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            full = spread(ts, places, len(given))
            closed = {r: t for r, t in zip(free, ts[len(places) :], strict=True) if t is not None}
            after, ys = chain.push(full[: len(leaves)], full[len(leaves) :], closed)
            return tuple([*after, *ys][k] for k in varying)

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            filled = [np.zeros(*t) if c is None else c for c, t in zip(cts, shapes, strict=True)]
            full = spread(filled, varying, len(outputs))
            starts, of_columns, closed = chain.pull(full[:width], full[width:])
            back = [*starts, *of_columns]
            return tuple([*[back[k] for k in places], *[closed.get(r) for r in free]])

        return Custom(push, pull, name="Reversed")

    parents = [*[_row(given[k]) for k in places], *free]
    inputs = [*[_raw(given[k]) for k in places], *[None] * len(free)]
    tensors = record_joint(
        chain.report.name, operator_of, inputs, parents, [outputs[k] for k in varying]
    )
    for k, y in zip(varying, tensors, strict=True):
        outputs[k] = y
    return outputs[:width], outputs[width:]


def _is_inexact(v: Any) -> bool:
    return np.asarray(v).dtype.kind in "fc"
