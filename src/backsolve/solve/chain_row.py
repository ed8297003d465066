"""A chain as one joint row, and its derivatives of any order, each within the chain's budget.

For states x_k and tangents ẋ_k of f = f_n ∘ … ∘ f_1, the pairs (x_k, ẋ_k) are a chain again, of twice the
width. All that a derivative of the solve asks for is a solve of that chain:

    push   J ẋ                             its last tangent
    pull   Jᵀ c, varied along (dx, dc)     the adjoint of x_0 for ẋ_0 = dx and the adjoints (dc, c) in the end
           and its adjoint along m         the adjoint of x_0 for ẋ_0 = m and (0, c); its last tangent

so a second derivative reverses the pairs as the first one reverses the states, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..joint import record_joint
from ..operators import Custom
from ..primitive import P, wrap
from ..row import Row, ancestors, next_index
from ..tensor import Staged, leaf_row
from .forward import forward_substitute
from .reversal import Chain, StepOf, raw, row_of
from .reverse import back_substitute

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
                return self._written_out(values, record).apply(ts)
            return self._push_recorded(values, ts) if record else self._push(ts)

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            if any(isinstance(x, Staged) for x in [*values, *cts]):
                return self._written_out(values, record).T.apply(cts)
            return self._pull_recorded(values, cts) if record else self._pull(cts)

        return Custom(push, pull, name="Reversed")

    # ---- on numbers

    def _push(self, ts: Sequence[Any]) -> tuple[Any, ...]:
        full, closed = self._tangents(ts)
        after, ys = self.chain.push(full[: self.carried], full[self.carried :], closed)
        return tuple([*after, *ys][k] for k in self.varying)

    def _pull(self, cts: Sequence[Any]) -> tuple[Any, ...]:
        filled = [np.zeros(*t) if c is None else c for c, t in zip(cts, self.types, strict=True)]
        full = _spread(filled, self.varying, self.size)
        width = len(self.chain.ends.values)
        starts, columns, closed = self.chain.pull(full[:width], full[width:])
        back = [*starts, *columns]
        return tuple([*[back[k] for k in self.places], *[closed.get(r) for r in self.free]])

    def _tangents(self, ts: Sequence[Any]) -> tuple[list[Any], dict[Row, Any]]:
        """Of all that was given, and of what is closed over."""
        n = len(self.places)
        closed = {r: t for r, t in zip(self.free, ts[n:], strict=True) if t is not None}
        return _spread(ts[:n], self.places, len(self.given)), closed

    # ---- recorded

    def _push_recorded(self, values: Sequence[Any], ts: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._with_tangents(self._filled(values), ts)[1])

    def _pull_recorded(self, values: Sequence[Any], cts: Sequence[Any]) -> tuple[Any, ...]:
        n = len(self.places) + len(self.free)
        found = self._pull([raw(c) for c in cts])
        present = [k for k, g in enumerate(found) if g is not None]
        entering = [k for k, c in enumerate(cts) if c is not None]

        def operator_of(inner: Sequence[Any], record: bool) -> Custom:
            adjoints = _spread(inner[n:], entering, len(cts))

            def solved(tangents: Sequence[Any], of_outputs: Sequence[Any]) -> tuple[Any, Any]:
                """Adjoints toward all that enters, of the tangents by `adjoints`; and the tangents."""
                begin = next_index()
                fresh = [_own_row(v) for v in inner[: len(self.places)]]
                ys, dys = self._with_tangents(self._filled(fresh), tangents)
                outs = [*zip(ys, of_outputs, strict=True), *zip(dys, adjoints, strict=True)]
                seeds = [
                    (row, c)
                    for row, c in [(row_of(y), c) for y, c in outs]
                    if row is not None and c is not None
                ]
                sources: list[Any] = [*[row_of(x) for x in fresh], *self.free]
                is_staged = any(isinstance(x, Staged) for x in [*tangents, *of_outputs, *adjoints])
                back = back_substitute(seeds, sources, oldest=begin, record=record or is_staged)
                return (back, dys) if record else ([*map(_bare, back)], [*map(_bare, dys)])

            def push(ts: Sequence[Any]) -> tuple[Any, ...]:
                back, _ = solved(ts[:n], _spread(ts[n:], entering, len(cts)))
                return tuple(back[k] for k in present)

            def pull(ms: Sequence[Any]) -> tuple[Any, ...]:
                back, images = solved(_spread(ms, present, n), [None] * len(cts))
                return (*back, *[images[k] for k in entering])

            return Custom(push, pull, name="Reversed")

        made = record_joint(
            f"{self.chain.report.name}, reversed",
            operator_of,
            [*[raw(v) for v in values], *[raw(cts[k]) for k in entering]],
            [*[row_of(v) for v in values[: len(self.places)]], *self.free, *[row_of(cts[k]) for k in entering]],
            [found[k] for k in present],
        )  # fmt: skip
        return tuple(_spread(made, present, n))

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
        fresh = [_own_row(v) for v in values[: len(self.places)]]
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
        tangents = [*state[w:], *_spread(entries[n:], along, n)]
        ins = [
            x if t is None else _own_row(x)
            for x, t in zip([*state[:w], *entries[:n]], tangents, strict=True)
        ]
        after, ys = step(k, ins[:w], ins[w:])
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


def _own_row(x: Any) -> Any:
    return P.alias(x) if row_of(x) is not None else wrap(raw(x), leaf_row(raw(x)))


def _bare(x: Any) -> Any:
    return wrap(x._v, None) if isinstance(x, Staged) else raw(x)


def _spread(items: Sequence[Any], keys: Sequence[int], size: int) -> list[Any]:
    found = dict(zip(keys, items, strict=False))
    return [found.get(k) for k in range(size)]


def _is_inexact(v: Any) -> bool:
    return np.asarray(v).dtype.kind in "fc"
