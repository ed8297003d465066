"""Taylor mode: the same system over power series.

Along a curve x(t) each row of a program is a series. A row whose blocks capture nothing is linear: it maps
every coefficient by itself. A product is a convolution; a quotient, or a linear system, undoes one. Any other
row y = f(x) has, by its own blocks,

    y'(t) = Σ_i B_i(x(t), y(t)) x_i'(t)        so        k y_k = [Σ_i B_i(x, y) x_i']_{k−1},

where the right-hand side is again a program of rows, evaluated on series one coefficient at a time. So the
blocks that serve forward and reverse mode give derivatives of every order, in time that grows as a power of
the order: sin asks for cos, which asks for the sin that is already there.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir import Program
from ..operators.nests import label_sizes, split_subscripts
from ..primitive import P, Primitive, row_values
from ..primitives.control import CALL
from ..primitives.scan import shifted
from ..regions import Loop
from ..row import Row
from ..tensor import Tensor
from ..trace import stage
from . import series_spectral
from .fit import fit_ahead
from .rows import Evaluator, raw, type_of_value, vary
from .series import Series, Slope, total
from .series_regions import loop_of_series, own_call

_Two = Callable[[Any, Any], Any]


class _Linear(Series):
    """A row whose blocks capture nothing that varies."""

    def __init__(self, first: Any, row: Row, args: Sequence[Any], saved: Sequence[Any]):
        super().__init__(first)
        self._parts = [(a, row.primitive.block(row, i, saved)) for i, a in _varying(row, args)]
        self._row = row

    def _next(self, k: int) -> Any:
        images = [fit_ahead(b.apply(a[k]), self._row) for a, b in self._parts if a[k] is not None]
        return total(images)

    def degree(self) -> float:
        return max(a.degree() for a, _ in self._parts)


class _Product(Series):
    """A row that is linear in each of its inputs, of which several vary."""

    def __init__(self, first: Any, row: Row, args: Sequence[Any]):
        super().__init__(first)
        self._row, self._args = row, args
        self._places = [i for i, a in enumerate(args) if isinstance(a, Series)]

    def _next(self, k: int) -> Any:
        images = []
        for orders in _splits(k, len(self._places)):
            factors = list(self._args)
            for i, n in zip(self._places, orders, strict=True):
                factors[i] = self._args[i][n]
            if all(factors[i] is not None for i in self._places):
                images.append(self._row.primitive(*factors, **(self._row.params or {})))
        return total([raw(t) for t in images])

    def degree(self) -> float:
        return sum(self._args[i].degree() for i in self._places)


class _Undone(Series):
    """y from B y = a, a product undone: B₀ y_k = a_k − Σ_{j<k} B_{k−j} y_j.

    By its blocks a quotient would ask for y / b, that for y / b², and so on; a linear system for two more of
    them, each of which for two more.
    """

    def __init__(self, first: Any, a: Any, b: Series, times: _Two, undo: _Two):
        super().__init__(first)
        self._a, self._b, self._times, self._undo = a, b, times, undo

    def _next(self, k: int) -> Any:
        known = [
            self._times(self._b[k - j], self[j])
            for j in range(k)
            if self[j] is not None and self._b[k - j] is not None
        ]
        above = self._a[k] if isinstance(self._a, Series) else None
        rest = total(known)
        if rest is not None:
            above = -rest if above is None else above - rest
        return None if above is None else raw(self._undo(self._b[0], above))


class _Smooth(Series):
    """Any other row, by the equation at the head of this file."""

    def __init__(self, first: Any, row: Row, args: Sequence[Any], saved: Sequence[Any], rows: Rows):
        super().__init__(first)
        self._row, self._args, self._saved, self._rows = row, args, saved, rows
        self._slopes: list[Series] | None = None

    def _next(self, k: int) -> Any:
        if self._slopes is None:
            self._slopes = [self._slope(i, a) for i, a in _varying(self._row, self._args)]
        found = total([s[k - 1] for s in self._slopes if s[k - 1] is not None])
        return None if found is None else found * (1.0 / k)

    def _slope(self, i: int, x: Series) -> Series:
        """B_i(x, y) x' as a series: the block is staged as a program of what it captured, and of x'."""
        row, saved = self._row, self._saved
        captured = _captured(row, self._args)
        inner: list[Any] = [self if k == 0 else self._args[k - 1] for k in captured]

        def apply(*traced: Any) -> Any:
            values = list(saved)
            for k, v in zip(captured, traced[:-1], strict=True):
                values[k] = v
            return fit_ahead(row.primitive.block(row, i, values).apply(traced[-1]), row)

        types = [type_of_value(s[0]) for s in inner]
        program, _ = stage(apply, [*types, type_of_value(x[0])])
        found = self._rows.inside(program, [*inner, Slope(x)])[0]
        return found if isinstance(found, Series) else Series(found)


class Rows(Evaluator):
    """Rows evaluated on series."""

    kind = Series

    def __init__(self, order: int) -> None:
        super().__init__()
        self.order = order
        self._in_order: list[Series] = []
        self._depth = 0

    def settle(self) -> None:
        """Compute all coefficients, row after row: asked for from the end, each would ask for another."""
        for k in range(1, self.order + 1):
            for s in self._in_order:
                s[k]

    def nested(self, make: Callable[..., Any], first: Any, a: Series, params: Any) -> Any:
        """A row by a formula of its own, whose parts are computed as far as it asks."""
        self._depth += 1
        try:
            return make(self, first, a, **params)
        finally:
            self._depth -= 1

    def inside(self, program: Program, inputs: Sequence[Any]) -> list[Any]:
        """What a row asks for: computed as far as it asks."""
        self._depth += 1
        try:
            return self.evaluate(program, inputs)
        finally:
            self._depth -= 1

    def afresh(self, order: int) -> Rows:
        return Rows(order)

    def number_of(self, x: Any) -> Any:
        return x[0]

    def opaque(self) -> str:
        return (
            "jet cannot look into what a loop stores for its derivative, nor, inside `jit` and `vmap`, into a "
            "recursion: call the function itself"
        )

    def region(self, prim: Primitive, args: Sequence[Any], region: Any) -> Sequence[Any]:
        if prim is CALL and region.own is not None:
            return own_call(self, region, args)
        return super().region(prim, args, region)

    def staged_loop(self, loop: Loop, args: Sequence[Any]) -> list[Any]:
        return loop_of_series(self, loop, args)

    def make(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        found = self._made_of(prim, args, params)
        if isinstance(found, Series) and not self._depth:
            self._in_order.append(found)
        return found

    def _made_of(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if prim.name == "contract" and len(args) > 2:
            return self._in_pairs(prim, args, params)
        if prim.name == "prod" and args[0][0].size:
            found: Series = self.on(lambda x: _product(x, **params), *args)
            return found
        if prim.name == "cumprod":
            running: Series = self.on(lambda x: _running_product(x, **params), *args)
            return running
        firsts = [raw(a[0]) if isinstance(a, Series) else a for a in args]
        record = any(isinstance(v, Tensor) for v in firsts)
        varied = [
            vary(v) if isinstance(a, Series) else v for a, v in zip(args, firsts, strict=True)
        ]
        y = prim(*varied, **params)
        row = y.row
        if row is None:
            return raw(y)
        first = y if record else y._v
        saved = row_values(row) if record else row.saved
        if prim.name in series_spectral.ROWS:
            return self.nested(series_spectral.ROWS[prim.name], first, args[0], params)
        if prim.name == "det" and self.order > 2 and series_spectral.is_regular_but_one(firsts[0]):
            return self.nested(series_spectral.det, first, args[0], params)
        if not _captured(row, args):
            return _Linear(first, row, args, saved)
        if prim.name in ("multiply", "contract"):
            return _Product(first, row, args)
        if prim.name in ("divide", "reciprocal"):  # by a series: else the row is linear
            a, b = args if len(args) == 2 else (1.0, args[0])
            return _Undone(first, a, b, operator.mul, lambda b, a: a / b)
        if prim.name in ("solve", "triangular_solve"):
            part = _triangle_of(params) if params else operator.matmul
            return _Undone(first, args[1], args[0], part, lambda b, a: prim(b, a, **params))
        if prim.name == "recurrence":  # s_j − a_j s_{j−1} = t_j
            times = lambda a, s: -a * shifted(s, params["axis"], 0.0, params["reverse"])
            return _Undone(first, args[1], args[0], times, lambda a, t: prim(a, t, **params))
        return _Smooth(first, row, args, saved, self)

    def _in_pairs(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Series:
        """A contraction of many operands two at a time, the cheapest pair first: a product of m series at
        once would be of all ways to write k as a sum of m numbers."""
        inputs, output = split_subscripts(params["subscripts"])
        shapes = [np.shape(self.plain(a)) for a in args]
        sizes = label_sizes(params["subscripts"], shapes, params["sizes"])
        left = list(zip(inputs, args, strict=True))
        while len(left) > 2:
            pairs = itertools.combinations(range(len(left)), 2)
            i, j = min(pairs, key=lambda p: self._work(left, p, output, sizes))
            labels = _kept(left, (i, j), output)
            nest = {"subscripts": f"{left[i][0]},{left[j][0]}->{labels}", "sizes": ()}
            made = self.call(prim, (left[i][1], left[j][1]), nest)
            left = [x for k, x in enumerate(left) if k not in (i, j)] + [(labels, made)]
        last = f"{left[0][0]},{left[1][0]}->{output}"
        found: Series = self.call(prim, (left[0][1], left[1][1]), params | {"subscripts": last})
        return found

    def _work(
        self, operands: Sequence[tuple[str, Any]], pair: tuple[int, int], output: str, sizes: Any
    ) -> tuple[int, int]:
        """What a pair takes to contract, to our order, and the size of what it leaves."""
        (a, x), (b, y) = (operands[k] for k in pair)
        m, n = (min(s.degree() if isinstance(s, Series) else 0, self.order) for s in (x, y))
        terms = sum(1 for i in range(int(m) + 1) for j in range(int(n) + 1) if i + j <= self.order)
        return terms * prod(sizes[c] for c in {*a, *b}), prod(
            sizes[c] for c in _kept(operands, pair, output)
        )


def _product(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Along axes by halves, each a product of two."""
    for k in axis:
        while x.shape[k] > 1:
            half = x.shape[k] // 2
            low, high, rest = (
                x[(*[slice(None)] * k, cut)]
                for cut in (slice(half), slice(half, 2 * half), slice(2 * half, None))
            )
            x = low * high if not rest.shape[k] else np.concatenate([low * high, rest], axis=k)
    return x if keepdims else np.squeeze(x, axis)


def _running_product(x: Any, axis: int) -> Any:
    """y_j = x_j y_{j−1} as a recurrence that begins with the first entry."""
    begin = x[(*[slice(None)] * axis, slice(1))]
    rest = x[(*[slice(None)] * axis, slice(1, None))]
    terms = np.concatenate([begin, np.zeros(rest.shape, x.dtype)], axis=axis)
    return P.recurrence(x, terms, axis=axis, reverse=False)


def _triangle_of(params: dict[str, Any]) -> _Two:
    """The product with the triangle that a triangular system reads; ones on a diagonal do not vary."""
    cut = np.tril if params["lower"] else np.triu
    first = 0 if not params["unit"] else -1 if params["lower"] else 1
    return lambda b, y: cut(b, first) @ y


def _kept(operands: Sequence[tuple[str, Any]], pair: tuple[int, int], output: str) -> str:
    """Labels of a pair that others, or the result, still ask for."""
    others = output + "".join(x for k, (x, _) in enumerate(operands) if k not in pair)
    own = operands[pair[0]][0] + operands[pair[1]][0]
    return "".join(c for c in dict.fromkeys(own) if c in others)


def _varying(row: Row, args: Sequence[Any]) -> Iterator[tuple[int, Series]]:
    for i, (parent, a) in enumerate(zip(row.parents, args, strict=True)):
        if parent.__class__ is Row and isinstance(a, Series):
            yield i, a


def _captured(row: Row, args: Sequence[Any]) -> list[int]:
    """Which of (output, *inputs) the blocks captured, of those that vary."""
    return [
        k
        for k, v in enumerate(row.saved[: len(args) + 1])
        if v is not None and (k == 0 or isinstance(args[k - 1], Series))
    ]


def _splits(k: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write k as an ordered sum."""
    if parts == 1:
        yield (k,)
        return
    for n in range(k + 1):
        for rest in _splits(k - n, parts - 1):
            yield (n, *rest)
