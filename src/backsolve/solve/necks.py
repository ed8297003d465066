"""The rounds of one loop, solved side by side.

A round's rows are copied once, with what their blocks captured in all rounds as stacks; a substitution through
the copy, batched over the rounds, is one through every round. What couples the rounds are the rows that the
next one reads: with A_t from one neck to the next,

    ahead   s_t = A_t s_{t−1} + b_t        back   y_t = A_tᵀ y_{t+1} + b_t

which is a recurrence (primitives/chains.py), in log depth, and in order where products of the A_t would vanish
or overflow. Carried rows that do not read each other in a circle (a state, and a sum of what is made of it) are
solved for one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..at_once import run_at_once
from ..batch import evaluate_batched
from ..errors import FreedGraphError
from ..ir import Type
from ..operators.cast import convert
from ..primitive import P, row_values, wrap
from ..row import FREED, Row
from ..tensor import Tensor, leaf_row
from ..trace import stage
from .feeds import Differentials, Feed, Place, joined
from .forward import forward_substitute
from .reverse import back_substitute
from .rounds import Rounds

Known = dict[Row, tuple[Any, bool]]  # of an input of the copy: differentials, and whether a stack


class Loop:
    def __init__(self, rows: Sequence[Row], rounds: Rounds, record: bool, places: dict[Row, Place]):
        self.rounds, self.count = rounds, rounds.count
        self.by_position = [
            rows[rounds.start + i : rounds.end : rounds.period] for i in range(rounds.period)
        ]
        self.inside = [i for i in range(rounds.period) if i not in rounds.apart]
        self.wanted: list[int] = []  # positions whose differentials others read
        self.inputs: dict[int, Row] = {}  # of carried positions
        self.first: dict[int, Row] = {}  # what the first round reads in their place
        self.feeds: dict[Any, tuple[Row, Feed]] = {}
        self.copies: dict[int, Row] = {}
        self.values: list[Any] = []  # what blocks captured, as stacks
        self._slots: list[tuple[Row, int]] = []  # and whose it is
        self._saved: dict[Row, list[Any]] = {}
        for j in rounds.carried:
            self.inputs[j] = _leaf(self.by_position[j][0])
        for i in self.inside:
            self.copies[i] = self._copied(i, record, places)
        self._find_reach()
        self.components = [Component(self, c) for c in _components(self)]

    def _copied(self, i: int, record: bool, places: dict[Row, Place]) -> Row:
        originals = self.by_position[i]
        first = originals[0]
        parents: list[Any] = []
        for s, read in enumerate(self.rounds.reads[i]):
            if read is None:  # constant here, though blocks may ask for its type
                parents.append(first.parents[s])
            elif read.where == "own":
                parents.append(self.copies[read.position])
            elif read.where == "before":
                self.first[read.position] = first.parents[s]
                parents.append(self.inputs[read.position])
            else:
                parents.append(self._fed([row.parents[s] for row in originals], places))
        copy = Row(
            first.primitive, tuple(parents), (), first.params, first.shape, first.dtype, None
        )
        if any(row.saved is FREED for row in originals):
            raise FreedGraphError("the rows of this result were freed; keep retain_graph=True")
        saved = [row_values(row) if record else row.saved for row in originals]
        self._saved[copy] = list(saved[0][: len(parents) + 1])
        for k, same in enumerate(self._saved[copy]):
            values = [s[k] for s in saved]
            if same is not None and not _are_same(values):
                self.values.append(_stacked(values))
                self._slots.append((copy, k))
        return copy

    def _fed(self, rows: list[Row], places: dict[Row, Place]) -> Row:
        key = tuple(map(id, rows))
        if key not in self.feeds:
            self.feeds[key] = _leaf(rows[0]), Feed(rows, places)
        return self.feeds[key][0]

    def _find_reach(self) -> None:
        """Which inputs each row of the copy depends on."""
        self.reach: dict[Row, set[Row]] = {}
        for leaf in (*self.inputs.values(), *[leaf for leaf, _ in self.feeds.values()]):
            self.reach[leaf] = {leaf}
        for copy in self.copies.values():
            self.reach[copy] = set().union(*[self.reach.get(p, ()) for p in copy.parents])

    def leading_to(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of the copy that these depend on, in order."""
        needed = set(rows)
        for copy in reversed(self.copies.values()):
            if copy in needed:
                needed.update(p for p in copy.parents if p in self.reach)
        return [copy for copy in self.copies.values() if copy in needed]

    # ---- substitution through all rounds as one batch

    def run(
        self, solve: Callable[..., Any], at: Sequence[Row] = (), seeds: Sequence[Any] = ()
    ) -> list[Any]:
        """`solve` on seeds of some rows of the copy, given as (value, whether a stack over rounds)."""

        def whole(*args: Any) -> Any:
            saved = {row: list(values) for row, values in self._saved.items()}
            for (row, k), value in zip(self._slots, args[len(at) :], strict=True):
                saved[row][k] = value
            for row, values in saved.items():
                row.saved = tuple(values)
            return solve(*args[: len(at)])

        types = [Type(r.shape, r.dtype) for r in at]
        types += [Type(v.shape[1:], v.dtype) for v in self.values]
        values = [*[value for value, _ in seeds], *self.values]
        flags = [*[is_stack for _, is_stack in seeds], *[True] * len(self.values)]
        with np.errstate(all="ignore"):
            found = run_at_once(whole, values, self.count, flags)
            if found is None:
                program, _ = stage(whole, types, lasting=True)
                found = evaluate_batched(program, values, flags, self.count)
            return found

    def push(self, known: Known, positions: Sequence[int]) -> list[Any]:
        """The differentials at these positions in all rounds, by those that are known; None is zero."""
        reached = [i for i in positions if self.reach[self.copies[i]] & known.keys()]
        if not reached:
            return [None] * len(positions)
        at, outputs = list(known), [self.copies[i] for i in reached]
        rows = self.leading_to(outputs)
        images = self.run(
            lambda *seeds: _filled(
                forward_substitute(rows, zip(at, seeds, strict=True), outputs), outputs
            ),
            at,
            [known[leaf] for leaf in at],
        )
        found = dict(zip(reached, images, strict=True))
        return [found.get(i) for i in positions]

    def pull(self, seeds: dict[int, Any], leaves: Sequence[Row]) -> list[Any]:
        """The adjoints of inputs of the copy in all rounds; None is zero."""
        reached = {leaf for i in seeds for leaf in self.reach[self.copies[i]]}
        wanted = [leaf for leaf in leaves if leaf in reached]
        if not wanted:
            return [None] * len(leaves)
        entered = {row for row, found in self.reach.items() if not found.isdisjoint(wanted)}
        used = [i for i in seeds if self.copies[i] in entered]
        at = [self.copies[i] for i in used]
        images = self.run(
            lambda *given: _filled(
                back_substitute(zip(at, given, strict=True), wanted, reached=entered), wanted
            ),
            at,
            [(seeds[i], True) for i in used],
        )
        found = dict(zip(wanted, images, strict=True))
        return [found.get(leaf) for leaf in leaves]

    # ---- the solve

    def ahead(self, at: Differentials) -> None:
        known: Known = {}
        for leaf, feed in self.feeds.values():
            t = feed.ahead(at)
            if t is not None:
                known[leaf] = t, not feed.is_shared
        for component in self.components:
            begun = [at.get(self.first[j]) for j in component.positions]
            terms = self.push(known, component.positions)
            if all(t is None for t in (*terms, *begun)):
                continue
            states = component.states(self, terms, begun)
            for j, s, t in zip(component.positions, states, begun, strict=True):
                before = _nothing(s[0], 1) if t is None else t[None]
                known[self.inputs[j]] = joined([before, s[:-1]]), True
                at.stacks[self, j] = s
        rest = [i for i in self.wanted if (self, i) not in at.stacks]
        for i, t in zip(rest, self.push(known, rest), strict=True):
            if t is not None:
                at.stacks[self, i] = t

    def back(self, at: Differentials) -> None:
        seeds = {i: at.stacks[self, i] for i in self.inside if (self, i) in at.stacks}
        for component in reversed(self.components):
            terms = self.pull(seeds, [self.inputs[j] for j in component.positions])
            if all(t is None for t in terms):
                continue
            for j, y in zip(component.positions, component.adjoints(self, terms), strict=True):
                at.add(self.first[j], y[0])
                later = joined([y[1:], _nothing(y[0], 1)])
                seeds[j] = seeds[j] + later if j in seeds else later
        leaves = [leaf for leaf, _ in self.feeds.values()]
        for (_, feed), g in zip(self.feeds.values(), self.pull(seeds, leaves), strict=True):
            if g is not None:
                feed.back(at, g)


class Component:
    """Carried rows that read each other over the rounds, and the recurrence between them, of real numbers.

    Where everything between is element by element, it is one of a few numbers for each entry (*lanes*).
    """

    def __init__(self, loop: Loop, positions: Sequence[int]):
        self.positions, self.count = positions, loop.count
        self.leaves = [loop.inputs[j] for j in positions]
        self.rows = [loop.copies[j] for j in positions]
        ways = [r for r in loop.leading_to(self.rows) if loop.reach[r] & set(self.leaves)]
        shape = self.rows[0].shape
        self.has_lanes = all(r.shape == shape for r in self.rows) and all(
            r.primitive.elementwise and r.shape == shape for r in ways
        )
        self.ways = ways
        self.lanes = self.rows[0].size if self.has_lanes else 1
        self.width = sum(len(_units(r)) * (1 if self.has_lanes else r.size) for r in self.rows)
        self.is_single = self.has_lanes and self.width == 1
        self._factors: Any = None

    def factors(self, loop: Loop) -> Any:
        """A_t, as the recurrence takes them: (rounds, …) of single numbers, else (…, rounds, n, n)."""
        if self._factors is None:
            (found,) = loop.run(self._by_lanes if self.has_lanes else self._by_columns)
            self._factors = found[..., 0, 0] if self.is_single else np.moveaxis(found, 0, -3)
        return self._factors

    def _by_lanes(self) -> list[Any]:
        columns = []
        for leaf in self.leaves:
            for unit in _units(leaf):
                seed = np.full(leaf.shape, unit, leaf.dtype)
                images = forward_substitute(self.ways, [(leaf, seed)], self.rows)
                columns.append(np.stack(self._real(_filled(images, self.rows)), axis=-1))
        return [np.stack(columns, axis=-1)]

    def _by_columns(self) -> list[Any]:
        columns = []
        for leaf in self.leaves:
            n = leaf.size
            program, _ = stage(
                lambda seed, leaf=leaf: _filled(
                    forward_substitute(self.ways, [(leaf, seed)], self.rows), self.rows
                ),
                [Type(leaf.shape, leaf.dtype)],
                lasting=True,
            )
            for unit in _units(leaf):
                basis = (np.eye(n) * unit).astype(leaf.dtype).reshape(n, *leaf.shape)
                images = self._real(evaluate_batched(program, [basis], [True], n))
                columns.append(np.concatenate([np.reshape(x, (n, -1)) for x in images], axis=1))
        return [np.transpose(np.concatenate(columns))]

    def _real(self, values: Sequence[Any]) -> list[Any]:
        """Complex arrays as two real ones."""
        found: list[Any] = []
        for x in values:
            found += [np.real(x), np.imag(x)] if x.dtype.kind == "c" else [x]
        return found

    def states(self, loop: Loop, terms: Sequence[Any], begun: Sequence[Any]) -> list[Any]:
        """Of all rounds, after what the first one begins with; None is zero."""
        t = self._packed(terms, self.count)
        if any(x is not None for x in begun):
            start = self._packed([None if x is None else x[None] for x in begun], 1)
            a = self.factors(loop)
            if self.is_single:
                t = joined([t[:1] + a[:1] * start, t[1:]])
            else:
                first = t[..., :1, :] + np.sum(a[..., :1, :, :] * start[..., None, :], axis=-1)
                t = np.concatenate([first, t[..., 1:, :]], axis=-2)
        return self._unpacked(self._recurrence(loop, t, back=False))

    def adjoints(self, loop: Loop, terms: Sequence[Any]) -> list[Any]:
        return self._unpacked(self._recurrence(loop, self._packed(terms, self.count), back=True))

    def _recurrence(self, loop: Loop, t: Any, *, back: bool) -> Any:
        a = self.factors(loop)
        if self.is_single:
            return P.recurrence(a, t, axis=0, reverse=back)
        return P.block_recurrence(np.swapaxes(a, -1, -2) if back else a, t, reverse=back)

    def _packed(self, values: Sequence[Any], count: int) -> Any:
        """Stacks of `count` as the recurrence takes them: (rounds, …) or (…, rounds, n)."""
        parts = self._real(
            [
                np.zeros((count, *r.shape), r.dtype) if t is None else t
                for t, r in zip(values, self.rows, strict=True)
            ]
        )
        if self.is_single:
            return parts[0]
        if self.has_lanes:
            return np.moveaxis(np.stack(parts, axis=-1), 0, -2)
        return np.concatenate([np.reshape(x, (count, -1)) for x in parts], axis=1)

    def _unpacked(self, s: Any) -> list[Any]:
        count = self.count
        if self.is_single:
            return self._complex([s])
        if self.has_lanes:
            s = np.moveaxis(s, -2, 0)
            return self._complex([s[..., k] for k in range(self.width)])
        parts, first = [], 0
        for r in self.rows:
            for _ in _units(r):
                parts.append(np.reshape(s[:, first : first + r.size], (count, *r.shape)))
                first += r.size
        return self._complex(parts)

    def _complex(self, parts: Sequence[Any]) -> list[Any]:
        left = iter(parts)
        found = []
        for r in self.rows:
            x = next(left)
            found.append(convert(x + 1j * next(left) if r.dtype.kind == "c" else x, r.dtype))
        return found


def _components(loop: Loop) -> list[list[int]]:
    """Carried positions that depend on each other over the rounds, those that others depend on first."""
    leaf = loop.inputs
    reads = {j: {k for k in leaf if leaf[k] in loop.reach[loop.copies[j]]} for j in leaf}
    for k in leaf:  # paths through k
        for j in leaf:
            if k in reads[j]:
                reads[j] = reads[j] | reads[k]
    groups = {tuple(k for k in leaf if k == j or (k in reads[j] and j in reads[k])) for j in leaf}
    return [list(g) for g in sorted(groups, key=lambda g: (len(reads[g[0]] | set(g)), g))]


def _leaf(row: Row) -> Row:
    return leaf_row(Type(row.shape, row.dtype))


def _units(row: Row) -> tuple[complex, ...]:
    return (1, 1j) if row.dtype.kind == "c" else (1,)


def _filled(images: Sequence[Any], rows: Sequence[Row]) -> list[Any]:
    return [
        np.zeros(r.shape, r.dtype) if t is None else t for t, r in zip(images, rows, strict=True)
    ]


def _nothing(t: Any, count: int) -> Any:
    return np.zeros((count, *t.shape), t.dtype)


def _are_same(values: Sequence[Any]) -> bool:
    """Whether one value stands for all rounds: the same object, or the same bare number."""
    first = values[0]
    if isinstance(first, Tensor):
        return all(v._v is first._v and v.row is first.row for v in values)
    if first.__class__ in (int, float, bool, complex):
        return all(v.__class__ is first.__class__ and v == first for v in values)
    if isinstance(first, Type):
        return True
    return all(v is first for v in values)


def _stacked(values: Sequence[Any]) -> Any:
    if not any(isinstance(v, Tensor) for v in values):
        return np.array(values)
    return np.stack([v if isinstance(v, Tensor) else wrap(np.asarray(v), None) for v in values])
