"""A chain as one joint row, and its derivatives of any order, each within the chain's budget.

For states x_k and tangents ẋ_k of f = f_n ∘ … ∘ f_1, the pairs (x_k, ẋ_k) are a chain again, of twice the
width. The push is its last tangent, and derivatives of the pull are solves of that chain (reversed_row.py): a
second derivative reverses the pairs as the first one reverses the states, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir import Type
from ..joint import record_joint
from ..operators import Custom
from ..row import Row, ancestors, next_index
from ..tensor import Staged, lent
from .chain_stack import seed_is_stacked, staged_solve
from .forward import forward_substitute
from .reversal import Chain, StepOf, raw, row_of
from .reverse import back_substitute
from .reversed_row import own_row, reversed_row, spread

# (step, first state, sequences) -> (last state, sequences made): another chain as long, in the same budget
Again = Callable[[StepOf, list[Any], list[Any]], tuple[list[Any], list[Any]]]


def joint_of(
    chain: Chain, leaves: Sequence[Any], columns: Sequence[Any], again: Again
) -> tuple[list[Any], list[Any]]:
    """The last state and the sequences made, as Tensors that one joint row has made.

    `leaves` and `columns` are the first state and the sequences as they were given, with their rows.
    """
    made = [chain.stacked(c) for c in chain.made]
    outputs = [*chain.ends.values, *made]
    flags = [*chain.ends.varies, *chain.made_vary]
    varying = [k for k, flag in enumerate(flags) if flag and _is_inexact(outputs[k])]
    row = _ChainRow(chain, [*leaves, *columns], len(leaves), varying, outputs, again)
    if varying and (row.places or row.free):
        parents = [*[row_of(row.given[k]) for k in row.places], *row.free]
        inputs = [*[raw(row.given[k]) for k in row.places], *[None] * len(row.free)]
        tensors = record_joint(
            chain.report.name, row.operator_of, inputs, parents, [outputs[k] for k in varying]
        )
        for k, y in zip(varying, tensors, strict=True):
            outputs[k] = y
    width = len(chain.ends.values)
    return outputs[:width], outputs[width:]


class _ChainRow:
    def __init__(
        self,
        chain: Chain,
        given: list[Any],
        carried: int,
        varying: list[int],
        outputs: list[Any],
        again: Again,
    ):
        self.chain, self.given, self.carried, self.again = chain, given, carried, again
        self.places = [k for k, x in enumerate(given) if row_of(x) is not None]
        self.free = list(chain.free)
        self.varying, self.size = varying, len(outputs)
        self.types = [(np.shape(outputs[k]), np.asarray(outputs[k]).dtype) for k in varying]

    def operator_of(self, values: Sequence[Any], record: bool) -> Custom:
        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            if any(isinstance(x, Staged) for x in [*values, *ts]):
                if self._is_for_a_stack(values, record):
                    types = [Type(*t) for t in self.types]
                    return tuple(staged_solve(self._push, ts, types))
                return self._written_out(values, record).apply(ts)
            return self._push_recorded(values, ts) if record else self._push(ts)

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            if any(isinstance(x, Staged) for x in [*values, *cts]):
                if self._is_for_a_stack(values, record):
                    return tuple(staged_solve(self._pull, cts, self._types_of_inputs()))
                return self._written_out(values, record).T.apply(cts)
            return self._pull_recorded(values, cts) if record else self._pull(cts)

        return Custom(push, pull, name="Reversed")

    def _types_of_inputs(self) -> list[Type]:
        given: list[Any] = [np.asarray(raw(self.given[k])) for k in self.places]
        return [Type(x.shape, x.dtype) for x in [*given, *self.free]]

    def _is_for_a_stack(self, values: Sequence[Any], record: bool) -> bool:
        """Whether one equation will do: it is run on bare stacks, and has one dtype."""
        dtypes = {t.dtype for t in self._types_of_inputs()} | {dtype for _, dtype in self.types}
        is_staged = any(isinstance(x, Staged) for x in values)
        return seed_is_stacked() and not record and not is_staged and len(dtypes) == 1

    # ---- on numbers: one seed, or a stack of `size`

    def _push(self, ts: Sequence[Any], size: int | None = None) -> tuple[Any, ...]:
        full, closed = self._tangents(ts)
        after, ys = self.chain.push(full[: self.carried], full[self.carried :], closed, size)
        return tuple([*after, *ys][k] for k in self.varying)

    def _pull(self, cts: Sequence[Any], size: int | None = None) -> tuple[Any, ...]:
        lead = () if size is None else (size,)
        filled = [
            np.zeros((*lead, *shape), dtype) if c is None else c
            for c, (shape, dtype) in zip(cts, self.types, strict=True)
        ]
        full = spread(filled, self.varying, self.size)
        width = len(self.chain.ends.values)
        starts, columns, closed = self.chain.pull(full[:width], full[width:], size)
        back = [*starts, *columns]
        return tuple([*[back[k] for k in self.places], *[closed.get(r) for r in self.free]])

    def _tangents(self, ts: Sequence[Any]) -> tuple[list[Any], dict[Row, Any]]:
        """Of all that was given, and of what is closed over."""
        n = len(self.places)
        closed = {r: t for r, t in zip(self.free, ts[n:], strict=True) if t is not None}
        return spread(ts[:n], self.places, len(self.given)), closed

    # ---- recorded

    def _push_recorded(self, values: Sequence[Any], ts: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._with_tangents(self._filled(values), ts)[1])

    def _pull_recorded(self, values: Sequence[Any], cts: Sequence[Any]) -> tuple[Any, ...]:
        found = [*map(raw, self._pull([*map(raw, cts)]))]
        pairs = lambda fresh, tangents: self._with_tangents(self._filled(fresh), tangents)
        name = f"{self.chain.report.name}, reversed"
        return reversed_row(name, values[: len(self.places)], self.free, cts, found, pairs)

    def _filled(self, values: Sequence[Any]) -> list[Any]:
        fresh = dict(zip(self.places, values, strict=False))
        return [fresh.get(k, raw(x)) for k, x in enumerate(self.given)]

    def _with_tangents(self, given: list[Any], ts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs that vary and their tangents, by the chain of pairs."""
        full, closed = self._tangents(ts)
        n = self.carried
        along = [k for k, t in enumerate(full[n:]) if t is not None]
        step = _pairs(self.chain.step, along, closed)
        sequences = [*given[n:], *[full[n + k] for k in along]]
        is_staged = any(isinstance(x, Staged) for x in [*given, *ts])
        run = self.chain.written_out if is_staged else self.again
        after, made = run(step, [*given[:n], *full[:n]], sequences)
        w, m = len(after) // 2, len(made) // 2
        values, tangents = [*after[:w], *made[:m]], [*after[w:], *made[m:]]
        return [values[k] for k in self.varying], [tangents[k] for k in self.varying]

    def _written_out(self, values: Sequence[Any], record: bool) -> Custom:
        """All steps on Tensors, recorded as they are: in a Program that is being staged."""
        begin = next_index()
        fresh = [own_row(v) for v in values[: len(self.places)]]
        ins = self._filled(fresh)
        n = self.carried
        after, ys = self.chain.written_out(self.chain.step, ins[:n], ins[n:])
        outs = [row_of([*after, *ys][k]) for k in self.varying]
        sources: list[Any] = [*[row_of(ins[k]) for k in self.places], *self.free]

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            rows, _ = ancestors([r for r in outs if r is not None], begin)
            seeds = [(r, t) for r, t in zip(sources, ts, strict=True) if t is not None]
            return tuple(forward_substitute(rows, seeds, outs, record=record))

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [
                (r, c) for r, c in zip(outs, cts, strict=True) if r is not None and c is not None
            ]
            return tuple(back_substitute(seeds, sources, oldest=begin, record=record))

        return Custom(push, pull, name="Reversed")


def _pairs(step: StepOf, along: Sequence[int], closed: dict[Row, Any]) -> StepOf:
    """The step on states with tangents behind them; entries `along` of the sequences have tangents, too."""

    def both(k: int, state: list[Any], entries: list[Any]) -> tuple[list[Any], list[Any]]:
        begin = next_index()
        w, n = len(state) // 2, len(entries) - len(along)
        tangents = [*state[w:], *spread(entries[n:], along, n)]
        ins = [
            x if t is None else own_row(x)
            for x, t in zip([*state[:w], *entries[:n]], tangents, strict=True)
        ]
        after, ys = step(k, [*map(lent, ins[:w])], [*map(lent, ins[w:])])
        outs = [row_of(y) for y in [*after, *ys]]
        seeds = [(x.row, t) for x, t in zip(ins, tangents, strict=True) if t is not None]
        rows, _ = ancestors([r for r in outs if r is not None], begin)
        images = forward_substitute(rows, [*seeds, *closed.items()], outs, record=True)
        made = [
            np.zeros_like(raw(y)) if t is None else t
            for y, t in zip(ys, images[len(after) :], strict=True)
        ]
        return [*after, *images[: len(after)]], [*ys, *made]

    return both


def _is_inexact(v: Any) -> bool:
    return np.asarray(v).dtype.kind in "fc"
