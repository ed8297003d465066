"""Patterns of Programs with loops, branches and calls: the system over booleans, region by region.

A value that varies carries the places of its Jacobian that may differ from zero. A row multiplies them by
those of its blocks; a call is looked into; of a branch, all sides are joined. A loop runs round by round if it
counts to a known number that is not large, so that x[k] is one place. Otherwise its rounds are joined, from the
first on, until nothing is added: then the counter is any number and x[k] any place. All rounds at which a loop
may stop are joined, too.

What cannot be looked into (recursion, derivatives by hand) is full: each of its results may depend on all that
it reads. Of a tape that grows, one row is kept: what any of its entries may depend on. More places than there
are cost time, never a wrong entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import frozen
from ..errors import UnsupportedError
from ..ir import Program, Type, Var
from ..operators.base import Operator
from ..operators.entries import places_of, without_complex_parts
from ..operators.entries.limit import Limits, within
from ..primitive import Primitive, wrap
from ..primitives.control import BRANCH, CALL, LOOP
from ..regions import INDEX, Branches, Callee, Loop
from ..system import typed_block
from ..tensor import Staged, is_stack
from ..trace import Recorder, stage
from .rows import Evaluator, raw, type_of_value, vary

MOST_STEPS = 20_000  # equations of rounds that are looked at one by one
MOST_JOINS = 200  # rounds until a joined loop must have come to rest
MOST_ENTRIES = 20_000_000
_LISTS = 4  # times that entries of one block may be listed until they stand in their places


@dataclass(eq=False)
class Reached:
    """A value of which the type alone matters, and a sparse boolean matrix: by what inputs it is reached."""

    value: Any
    places: Any


def program_patterns(program: Program, varies: Sequence[bool]) -> list[Any]:
    """Of each output, over the entries of all inputs that vary: its pattern, or None if none reaches it."""
    import scipy.sparse as sp

    found: list[Any] = []

    def run(*inputs: Any) -> list[Any]:
        size = sum(x.size for x, v in zip(inputs, varies, strict=True) if v)
        given, start = [], 0
        for x, v in zip(inputs, varies, strict=True):
            if v:
                here = sp.eye_array(x.size, size, k=start, dtype=bool, format="csr")
                start += x.size
            given.append(Reached(x, here) if v else x)
        rows = Rows(inputs[0]._v.recorder)
        constants = [
            (v, rows.unknown(v.type) if isinstance(c, Staged) else c) for v, c in program.constants
        ]
        inside = Program(program.inputs, tuple(constants), program.equations, program.outputs)
        results = rows.evaluate(inside, given)
        found.extend(y.places if isinstance(y, Reached) else None for y in results)
        return []

    stage(run, [v.type for v in program.inputs])
    return found


class Rows(Evaluator):
    kind = Reached

    def __init__(self, recorder: Recorder):
        super().__init__()
        self._recorder = recorder
        self._blocks: dict[Any, list[tuple[int, Any]]] = {}
        self._steps = 0

    def number_of(self, x: Any) -> Any:
        return x.value

    def unknown(self, t: Type) -> Any:
        return wrap(Var(t, self._recorder), None)

    def make(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        self._steps += 1
        key = (prim, frozen(params), *[_key(a) for a in args])
        value = raw(prim(*[self.plain(a) for a in args], **params))
        if key not in self._blocks:
            y = prim(*[vary(a.value) if isinstance(a, Reached) else a for a in args], **params)
            self._blocks[key] = [] if y.row is None else _blocks(y.row)
        images = [
            args[i].places if block is None else _product(block, args[i].places)
            for i, block in self._blocks[key]
            if isinstance(args[i], Reached)
        ]
        places = _union(images)
        return value if places is None else Reached(value, places)

    # ---- regions

    def region(self, prim: Primitive, args: Sequence[Any], region: Any) -> Sequence[Any]:
        if prim in (LOOP, BRANCH, CALL):
            return super().region(prim, args, region)
        return self._full(region.outputs(), args)

    def _called(self, callee: Callee, args: Sequence[Any]) -> list[Any]:
        if callee.program is None or callee.own is not None or callee.is_recursive:
            return self._full(callee.outputs(), args)
        return self.evaluate(callee.program, args)

    def _full(self, types: Sequence[Type], args: Sequence[Any]) -> list[Any]:
        """Results of which each entry may depend on all that the arguments depend on."""
        reached = _any_row([a.places for a in args if isinstance(a, Reached)])
        return [self._reached_by(t, reached) for t in types]

    def _reached_by(self, t: Type, reached: Any) -> Any:
        """A value of which each entry is reached by what is in this one row."""
        value = self.unknown(t)
        if reached is None or t.dtype.kind not in "fc":
            return value
        return Reached(value, reached if t.is_stack else _repeated(reached, t.size))

    def _branch(self, region: Branches, args: Sequence[Any]) -> Sequence[Any]:
        which, *operands = args
        if not isinstance(self.plain(which), Staged):
            return super()._branch(region, args)
        sides = [self.evaluate(side, operands) for side in region.branches]
        return [
            self._joined_values(t, ways) for t, *ways in zip(region.outputs(), *sides, strict=True)
        ]

    def _joined_values(self, t: Type, ways: Sequence[Any]) -> Any:
        """Any one of these values."""
        if all(w is ways[0] for w in ways):
            return ways[0]
        places = _union([w.places for w in ways if isinstance(w, Reached)])
        value = self.unknown(t)
        return value if places is None else Reached(value, places)

    def _loop(self, loop: Loop, args: Sequence[Any]) -> list[Any]:
        types = loop.outputs()
        limit = self.plain(loop.split(args)[0])
        known = limit is not None and not isinstance(limit, Staged)
        count = int(limit) if known else loop.count
        grows = any(t.is_stack for t in (*types, *[v.type for v in loop.body.inputs])) or any(
            is_stack(self.plain(s)) for s in loop.split(args)[3]
        )
        if (
            not grows
            and count is not None
            and self._steps + count * len(loop.body.equations) <= MOST_STEPS
        ):
            return self._rounds(loop, args, count, known and loop.goes_on is None)
        return self._rest(loop, args, types)

    def _rounds(self, loop: Loop, args: Sequence[Any], count: int, is_exact: bool) -> list[Any]:
        """Round by round; all that a loop may stop at are joined, unless it is exact."""
        _, carried, fixed, sequences = loop.split(args)
        types = loop.outputs()
        made: list[list[Any]] = [[] for _ in types[loop.carried : -1]]
        seen = [[x] for x in carried]
        for k in reversed(range(count)) if loop.reverse else range(count):
            entries = [self._entry(s, k) for s in sequences]
            results = self.evaluate(loop.body, [k, *carried, *fixed, *entries])
            carried = results[: loop.carried]
            for column, y in zip([*seen, *made], results, strict=True):
                column.append(y)
        if not is_exact:
            carried = [self._joined_values(t, ways) for t, ways in zip(types, seen, strict=False)]
        order = slice(None, None, -1) if loop.reverse else slice(None)
        stacks = [
            self._stacked(t, column[order])
            for t, column in zip(types[loop.carried : -1], made, strict=True)
        ]
        return [*carried, *stacks, count if is_exact else self.unknown(INDEX)]

    def _rest(self, loop: Loop, args: Sequence[Any], types: Sequence[Type]) -> list[Any]:
        """Rounds joined until nothing is added: the same for every number of them.

        If that takes too many, every value that is carried may depend on all that the loop reads.
        """
        _, carried, fixed, sequences = loop.split(args)
        state = [
            x if isinstance(x, Reached) else self.unknown(t)
            for x, t in zip(carried, types, strict=False)
        ]
        inside = loop.body.inputs[1 + loop.carried + loop.fixed :]
        entries = [self._any_entry(s, v.type) for s, v in zip(sequences, inside, strict=True)]
        k = self.unknown(INDEX)
        for joins in itertools.count():
            if joins == MOST_JOINS:
                state = self._full(types[: loop.carried], [*state, *fixed, *entries])
            results = self.evaluate(loop.body, [k, *state, *fixed, *entries])
            joined = [
                self._joined_values(t, [a, b])
                for t, a, b in zip(types, state, results, strict=False)
            ]
            done = sum(map(_count, joined)) == sum(map(_count, state))
            state = joined
            if done:
                made = zip(types[loop.carried : -1], results[loop.carried :], strict=True)
                stacks = [
                    self._full([t], [y])[0] if t.is_stack else self._stacked(t, [y] * t.shape[0])
                    for t, y in made
                ]
                return [*state, *stacks, self.unknown(INDEX)]
        raise AssertionError("what is full cannot grow")

    def _entry(self, sequence: Any, k: int) -> Any:
        if not isinstance(sequence, Reached):
            return raw(sequence[k])
        value = sequence.value[k]
        return Reached(value, sequence.places[k * value.size : (k + 1) * value.size])

    def _any_entry(self, sequence: Any, t: Type) -> Any:
        if is_stack(self.plain(sequence)):
            return self._full([t], [sequence])[0]
        entry = self.unknown(t)
        if not isinstance(sequence, Reached):
            return entry
        places = sequence.places.tocoo()
        rows = places.coords[0] % max(entry.size, 1)
        return Reached(entry, _matrix(rows, places.coords[1], (entry.size, places.shape[1])))

    def _stacked(self, t: Type, entries: Sequence[Any]) -> Any:
        """A sequence of these entries; beyond the last round are zeros."""
        import scipy.sparse as sp

        value = self.unknown(t)
        width = [e.places.shape[1] for e in entries if isinstance(e, Reached)]
        if not width:
            return value
        size = Type(t.shape[1:], t.dtype).size
        none = sp.csr_array((size, width[0]), dtype=bool)
        parts = [e.places if isinstance(e, Reached) else none for e in entries]
        parts += [none] * (t.shape[0] - len(parts))
        check_count(sum(p.nnz for p in parts))
        return Reached(value, sp.vstack(parts, format="csr"))


def _count(x: Any) -> int:
    return x.places.nnz if isinstance(x, Reached) else 0


def _key(a: Any) -> Any:
    """What the pattern of a row depends on: of indices and switches their numbers, of others the types."""
    if isinstance(a, Reached):
        return "varies", type_of_value(a.value)
    if isinstance(a, Staged):
        return type_of_value(a)
    values = np.asarray(raw(a))
    if values.dtype.kind in "iub":
        return values.shape, values.dtype, values.tobytes()
    return type_of_value(values)


def _blocks(row: Any) -> list[tuple[int, Any]]:
    """For each input that varies: the pattern of its block; None is the identity's."""
    return [
        (i, _pattern(typed_block(row, i, record=True)))
        for i, p in enumerate(row.parents)
        if p is not None
    ]


def _pattern(block: Operator) -> Any:
    with within(Limits(entries=_LISTS * MOST_ENTRIES, products=_LISTS * MOST_ENTRIES)):
        e = places_of(without_complex_parts(block))
    check_count(e.nnz)
    parts = [t.listed() for t in e.terms]
    rows, cols = (
        np.concatenate([np.zeros(0, np.intp), *[getattr(p, k) for p in parts]])
        for k in ("rows", "cols")
    )
    shape = e.out_type.size, e.in_type.size
    counting = np.arange(rows.size)
    if shape == (rows.size, rows.size) and all(np.array_equal(x, counting) for x in (rows, cols)):
        return None
    return _matrix(rows, cols, shape)


def _matrix(rows: Any, cols: Any, shape: tuple[int, int]) -> Any:
    import scipy.sparse as sp

    found = sp.csr_array((np.ones(rows.size, bool), (rows, cols)), shape=shape)
    found.sum_duplicates()
    return found


def _product(block: Any, places: Any) -> Any:
    """block @ places; of what may be too large, a few rows at a time: it is refused before it is made."""
    import scipy.sparse as sp

    met = np.diff(places.indptr)[block.indices]
    before = np.concatenate([[0], np.cumsum(met, dtype=np.int64)])[block.indptr]
    if before[-1] <= MOST_ENTRIES:
        return block @ places
    parts, start, total = [], 0, 0
    while start < block.shape[0]:
        end = int(np.searchsorted(before, before[start] + MOST_ENTRIES, side="right")) - 1
        end = max(end, start + 1)
        parts.append(block[start:end] @ places)
        total += parts[-1].nnz
        check_count(total)
        start = end
    return sp.vstack(parts, format="csr")


def _any_row(all_places: Sequence[Any]) -> Any:
    """One row: the columns that any row of these has."""
    if not all_places:
        return None
    cols = np.unique(np.concatenate([p.indices for p in all_places]))
    return _matrix(np.zeros(cols.size, np.intp), cols, (1, all_places[0].shape[1]))


def _repeated(row: Any, count: int) -> Any:
    import scipy.sparse as sp

    check_count(row.nnz * count)
    indptr = np.arange(count + 1) * row.nnz
    whole = np.ones(row.nnz * count, bool), np.tile(row.indices, count), indptr
    return sp.csr_array(whole, shape=(count, row.shape[1]))


def _union(all_places: Iterable[Any]) -> Any:
    total = None
    for places in all_places:
        total = places if total is None else total + places
        check_count(total.nnz)
    return total


def check_count(count: int) -> None:
    if count > MOST_ENTRIES:
        raise UnsupportedError(
            f"the pattern has more than {MOST_ENTRIES} entries: it is not found, give it"
        )
