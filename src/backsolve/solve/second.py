"""Second derivatives ahead: one pass that carries, with every row y, its partials y_k = ∂y/∂x_k and y_kk.

From the rows' own blocks B_i and their derivatives (Einstein's sum over the inputs i, j of the row):

    y_k  = B_i a_k^i                         y_kk = B_i a_kk^i + D²y (a_k^i, a_k^j)

The first is forward mode. In the second all that an element-wise row asks of the directions is Σ_k a_k^i a_k^j,
a product or contraction asks Σ_k a_k ⊗ b_k as one more summed label, and a linear row nothing. For the
Laplacian their sum is taken at every row, so that Δy is one array; for a Hessian's diagonal it is kept apart.

Everything is computed when it is asked for: a row that only linear ones read needs no partials.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..operators import Contraction, Diagonal, Operator
from ..operators.contraction import _LETTERS
from ..operators.nests import split_subscripts
from ..primitive import P, Primitive, row_values
from ..primitives.control import BRANCH, CALL, LOOP
from ..row import Row, ancestors
from ..tensor import Staged, Tensor
from .fit import fit_ahead, fit_back
from .forward import forward_substitute
from .partials import Partials, all_over_stack, over_stack
from .rows import Evaluator, raw, type_of_value, vary

# Rows that move entries about: so they do with the columns of partials.
_MOVES = ("reshape", "permute", "broadcast_to", "slice", "gather")


class Second:
    """An input: a value with its first partials; its second are zero."""

    def __init__(self, value: Any, first: Partials):
        self.value = value
        self._first = first

    @property
    def first(self) -> Partials:
        return self._first

    @property
    def second(self) -> Any:
        """Δy, or Partials if the directions are kept apart; None is zero by structure."""
        return None


class Rows(Evaluator):
    """Rows evaluated on such values; `apart` keeps the second derivatives of each direction."""

    kind = Second

    def __init__(self, apart: bool) -> None:
        super().__init__()
        self.apart = apart

    def number_of(self, x: Any) -> Any:
        return x.value

    def opaque(self) -> str:
        return (
            "second derivatives ahead cannot look into a recursion inside `jit`, nor into what a loop stores "
            "for its derivative: take np.trace or np.diagonal of bs.hessian(f)"
        )

    def region(self, prim: Primitive, args: Sequence[Any], region: Any) -> Sequence[Any]:
        is_own = prim is CALL and region.own is not None  # with a derivative by hand, or implicit
        if not is_own and (prim not in (LOOP, BRANCH) or not self.is_staged(args)):
            return super().region(prim, args, region)
        if any(type_of_value(self.plain(a)).is_stack for a in args):
            raise UnsupportedError(self.opaque())
        whole = _Region(prim, args, region, self.apart)
        count = next(a.first.count for a in args if isinstance(a, Second))
        return [
            _OfRegion(whole, k, count, self.apart) if y.dtype.kind in "fc" else y
            for k, y in enumerate(whole.values)
        ]

    def make(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        firsts = [raw(a.value) if isinstance(a, Second) else a for a in args]
        record = any(isinstance(v, Tensor) for v in firsts)
        varied = [
            vary(v) if isinstance(a, Second) else v for a, v in zip(args, firsts, strict=True)
        ]
        y = prim(*varied, **params)
        if not isinstance(y, Tensor) or y.row is None:
            return raw(y)
        return _Made(y if record else y._v, y.row, record, firsts, args, self.apart)


class _Region:
    """A region that stays one: it is run along every direction, all of them as one batch."""

    def __init__(self, prim: Primitive, args: Sequence[Any], region: Any, apart: bool):
        self._prim, self._region, self._apart = prim, region, apart
        self._args = {i: a for i, a in enumerate(args) if isinstance(a, Second)}
        self._firsts = [raw(a.value) if isinstance(a, Second) else a for a in args]
        self._record = any(isinstance(v, Tensor) for v in self._firsts)
        self.values = [raw(y) for y in self._run(*self._firsts)]

    def _run(self, *xs: Any) -> list[Any]:
        found: list[Any] = self._prim(*xs, region=self._region)
        return found

    @cached_property
    def firsts(self) -> list[Any]:
        return self._each({i: a.first for i, a in self._args.items()}, 1)

    @cached_property
    def seconds(self) -> list[Any]:
        bends = self._each({i: a.first for i, a in self._args.items()}, 2)
        if not self._apart:
            bends = [np.sum(t, axis=0) for t in bends]
        bent = {i: a.second for i, a in self._args.items() if a.second is not None}
        if not bent:
            return bends
        pushed = self._each(bent, 1) if self._apart else self._settled(self._along(bent, 1))
        return [a + b for a, b in zip(bends, pushed, strict=True)]

    def _each(self, moves: dict[int, Partials], order: int) -> list[Any]:
        """The derivatives of this order along each of the directions, stacked."""
        stacks = [t.dense() for t in moves.values()]
        found = all_over_stack(
            lambda *ts: self._along(dict(zip(moves, ts, strict=True)), order), stacks
        )
        return self._settled(found)

    def _settled(self, ys: Sequence[Any]) -> list[Any]:
        """Without the rows that were made here, if nobody outside differentiates."""
        return [y._v if isinstance(y, Tensor) and not self._record else y for y in ys]

    def _along(self, moves: dict[int, Any], order: int) -> list[Any]:
        f: Callable[..., Sequence[Any]] = self._run
        for _ in range(order):
            f = functools.partial(all_along, f, moves)
        found = f(*self._firsts)
        return [
            np.zeros(y.shape, y.dtype) if t is None else t
            for t, y in zip(found, self.values, strict=True)
        ]


class _OfRegion(Second):
    """One of the results of a region."""

    def __init__(self, region: _Region, k: int, count: int, apart: bool):
        self.value = region.values[k]
        self._region, self._k, self._count, self._apart = region, k, count, apart

    @property
    def first(self) -> Partials:
        return Partials(self._count, self._region.firsts[self._k])

    @property
    def second(self) -> Any:
        found = self._region.seconds[self._k]
        return Partials(self._count, found) if self._apart else found


class _Made(Second):
    """What a row made of such values."""

    def __init__(
        self,
        value: Any,
        row: Row,
        record: bool,
        firsts: Sequence[Any],
        args: Sequence[Any],
        apart: bool,
    ):
        self.value = value
        self._row, self._firsts, self._args, self._apart = row, firsts, args, apart
        self._record = record
        self._saved = row_values(row) if record else row.saved
        self._inputs = [
            (i, a)
            for i, (parent, a) in enumerate(zip(row.parents, args, strict=True))
            if parent.__class__ is Row and isinstance(a, Second)
        ]

    @cached_property
    def first(self) -> Partials:
        images = [self._push(i, a.first) for i, a in self._inputs]
        return _sum(images)

    @cached_property
    def second(self) -> Any:
        parts = []
        for i, a in self._inputs:
            if a.second is None:
                continue
            if self._apart:
                parts.append(self._push(i, a.second))
            else:
                parts.append(fit_ahead(self._block(i).apply(a.second), self._row))
        parts.extend(self._bends())
        return _sum(parts) if parts else None

    def _block(self, i: int) -> Operator:
        block: Operator = self._row.primitive.block(self._row, i, self._saved)
        return block

    def _push(self, i: int, t: Partials) -> Partials:
        """Partials of input i through its block."""
        row, prim, block = self._row, self._row.primitive, self._block(i)
        if prim.elementwise:
            t = t.spread(row.shape)
            if (
                type(block) is Diagonal
                and t.values.dtype == row.dtype
                and np.ndim(block.d) <= row.ndim
            ):
                return t.weighed(block.d)
            return t.mapped(lambda x: fit_ahead(block.apply(x), row), t.columns)
        if t.columns is not None:
            if prim.name in _MOVES and not any(isinstance(x, Tensor) for x in self._firsts[1:]):
                params = row.params or {}
                moved = [prim.run(c, *self._firsts[1:], **params) for c in t.columns]
                return t.mapped(lambda x: fit_ahead(block.apply(x), row), np.stack(moved))
            if row.size == 1 and row.dtype.kind != "c":
                parent = row.parents[i]
                weights = fit_back(block.pull(np.ones(row.shape, row.dtype)), parent)
                found = t.summed(weights)
                return Partials(t.count, np.reshape(found.values, (t.count, *row.shape)))
        whole = Partials(t.count, t.dense())
        return whole.mapped(lambda x: fit_ahead(block.apply(x), row), None)

    def _bends(self) -> Iterator[Any]:
        """The terms of D²y(a_k, a_k)."""
        prim, row = self._row.primitive, self._row
        numbers = [i for i, _ in self._inputs]
        bent = [(i, j) for i in numbers for j in numbers if _asks(prim, i, j, len(self._args))]
        if not bent:
            return
        if any(r.dtype.kind == "c" for r in (row, *row.parents) if isinstance(r, Row)):
            yield self._by_directions()
        elif prim.elementwise:
            for i, j in bent:
                if i > j or (j, i) not in bent:  # symmetric: zero if one is
                    continue
                curve = self._curve(i, j)
                if curve is None:
                    continue
                met = self._first_of(i).spread(row.shape).times(self._first_of(j).spread(row.shape))
                factor = curve if i == j else 2 * curve
                yield met.weighed(factor) if self._apart else met.total() * factor
        elif prim.name == "contract":
            for i, j in bent:
                if i < j:
                    yield self._contracted(i, j)
        else:
            yield self._by_directions()

    def _first_of(self, i: int) -> Partials:
        found: Partials = self._args[i].first
        return found

    def _curve(self, i: int, j: int) -> Any:
        """∂²y/∂a_i∂a_j of an element-wise row, an array of its shape."""
        prim, params = self._row.primitive, self._row.params or {}
        if prim.name == "multiply":
            return 1.0
        shape = self._row.shape
        spread = [
            np.broadcast_to(x, shape) if n in (i, j) and np.shape(x) != shape else x
            for n, x in enumerate(self._firsts)
        ]
        one = {n: np.ones(shape, self._args[n].value.dtype) for n in (i, j)}

        def slope(*xs: Any) -> Any:
            return along(lambda *inner: prim(*inner, **params), xs, {i: one[i]})

        return self._settled(along(slope, spread, {j: one[j]}))

    def _settled(self, y: Any) -> Any:
        """Without the rows that were made here, if nobody outside differentiates."""
        return y._v if isinstance(y, Tensor) and not self._record else y

    def _contracted(self, i: int, j: int) -> Any:
        """2 Σ_k of the contraction with a_k and b_k in the places of two operands."""
        params = self._row.params or {}
        inputs, output = split_subscripts(params["subscripts"])
        a, b = self._first_of(i), self._first_of(j)
        operands = [raw(x) for x in self._firsts]
        if inputs[i] == inputs[j] and len(set(inputs[i])) == len(inputs[i]):
            met = a.times(b).weighed(2)  # entry meets entry: one operand for two
            rest = [x for n, x in enumerate(inputs) if n != j]
            hole = i - (j < i)
            kept = tuple(None if n == i else x for n, x in enumerate(operands) if n != j)
            at = self._args[i].value
            nest = Contraction(f"{','.join(rest)}->{output}", hole, kept, at, params["sizes"])
            if not self._apart:
                return nest.apply(met.total())
            if self._row.size == 1:
                weights = nest.pull(np.ones(self._row.shape, self._row.dtype))
                return Partials(
                    a.count, np.reshape(met.summed(weights).values, (a.count, *self._row.shape))
                )
            return Partials(a.count, met.dense()).mapped(nest.apply, None)
        new = next(c for c in _LETTERS if c not in params["subscripts"])
        inputs[i], inputs[j] = new + inputs[i], new + inputs[j]
        operands[i], operands[j] = a.dense(), b.dense()
        nest_of = f"{','.join(inputs)}->{new if self._apart else ''}{output}"
        found = P.contract(*operands, subscripts=nest_of, sizes=params["sizes"])
        found = 2 * raw(found)
        return Partials(a.count, found) if self._apart else found

    def _by_directions(self) -> Any:
        """Any other row: twice along every direction, all of them as one batch."""
        prim, params = self._row.primitive, self._row.params or {}
        numbers = [i for i, _ in self._inputs]
        stacks = [self._first_of(i).dense() for i in numbers]

        def twice(*ts: Any) -> Any:
            moves = dict(zip(numbers, ts, strict=True))

            def once(*xs: Any) -> Any:
                return along(lambda *inner: prim(*inner, **params), xs, moves)

            found = along(once, self._firsts, moves)
            return np.zeros(self._row.shape, self._row.dtype) if found is None else found

        count = self._first_of(numbers[0]).count
        found = self._settled(over_stack(twice, stacks))
        return Partials(count, found) if self._apart else np.sum(found, axis=0)


def along(f: Callable[..., Any], xs: Sequence[Any], moves: dict[int, Any]) -> Any:
    """The derivative of f(*xs) where xs[i] moves along moves[i]; None is zero. Nests."""
    return all_along(lambda *inner: [f(*inner)], moves, *xs)[0]


def all_along(f: Callable[..., Sequence[Any]], moves: dict[int, Any], *xs: Any) -> list[Any]:
    """The same of an f of several results."""
    varied = [vary(raw(x)) if i in moves else x for i, x in enumerate(xs)]
    ys = f(*varied)
    outputs = [y.row if isinstance(y, Tensor) else None for y in ys]
    live = [r for r in outputs if r is not None]
    fresh = [varied[i].row for i in moves]
    if not live or any(r is None for r in fresh):
        return [None] * len(ys)
    rows, older = ancestors(live, min(r.index for r in fresh))
    record = older or any(isinstance(y, Staged) for y in ys) or any(r.parents for r in fresh)
    record = record or any(isinstance(t, Tensor) for t in moves.values())
    pairs = [(varied[i].row, t) for i, t in moves.items()]
    return forward_substitute(rows, pairs, outputs, record=record)


def _asks(prim: Primitive, i: int, j: int, count: int) -> bool:
    """Whether the block of input i varies with input j: it captured it, or the output."""
    asked = prim.asks(i, count)
    return 0 in asked or j + 1 in asked


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for t in parts[1:]:
        total = total.plus(t) if isinstance(t, Partials) else total + t
    return total
