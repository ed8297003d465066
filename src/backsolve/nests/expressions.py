"""Expressions of a nest as values over the iteration space: references, operators, functions, conditions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ..errors import IndexingError
from ..numpy import elementwise as _fills  # noqa: F401  (fills FUNCTIONS)
from ..primitive import FUNCTIONS, PRIMITIVES, P
from .indices import Affine, affine
from .parse import Statement, entries
from .values import Spread, chosen, combined, lined_up

_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
}
_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_UNARY: dict[type[ast.unaryop], Any] = {
    ast.USub: np.negative,
    ast.UAdd: lambda x: x,
    ast.Not: np.logical_not,
    ast.Invert: np.invert,
}
_NUMBERS = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan}
FULL = (None, None, None)
_FOLDS = {"max": np.maximum, "min": np.minimum}

Guard = tuple[tuple[Spread, bool], ...]  # conditions that hold (or do not) where a value is read


def _function(name: str) -> Callable[..., Any] | None:
    """An element-wise function by the name that NumPy has for it."""
    if name in ("where", "clip") or getattr(PRIMITIVES.get(name), "elementwise", False):
        return FUNCTIONS[name]
    known = FUNCTIONS.get(name)
    is_alias = known is not None and getattr(PRIMITIVES.get(known.__name__), "elementwise", False)
    return known if is_alias else None


class Expressions:
    """Evaluates the expressions of one statement."""

    def __init__(
        self,
        s: Statement,
        names: Mapping[str, Any],
        order: Sequence[str],
        sizes: dict[str, int],
    ):
        self.statement, self.names, self.order, self.sizes = s, names, order, sizes
        self.fixed: dict[str, int] = {}

    def value(self, e: ast.expr, guard: Guard = ()) -> Spread:
        make = getattr(self, f"_{type(e).__name__.lower()}", None)
        if make is None:
            raise self.statement.error(
                f"{ast.unparse(e)} is no part of the language of nests: it has references, numbers, operators, "
                "comparisons, element-wise functions and conditions"
            )
        return make(e, guard)

    def _constant(self, e: ast.Constant, guard: Guard) -> Spread:
        if type(e.value) not in (int, float, complex, bool):
            raise self.statement.error(f"expected a number, got {e.value!r}")
        return Spread(e.value, (), True)

    def _name(self, e: ast.Name, guard: Guard) -> Spread:
        if e.id in self.fixed:
            return Spread(self.fixed[e.id], (), True)
        if e.id in self.sizes:
            return Spread(np.arange(self.sizes[e.id]), (e.id,), True)
        if e.id in self.names:
            x = self.names[e.id]
            shape = np.shape(x)
            if shape:
                letters = ", ".join("ijklmn"[: len(shape)])
                raise self.statement.error(
                    f"{e.id} has shape {shape}: say which entry, {e.id}[{letters}]"
                )
            return Spread(x, (), type(x) in (int, float, complex, bool))
        if e.id in _NUMBERS:
            return Spread(_NUMBERS[e.id], (), True)
        raise self.statement.error(f"{e.id} is no array that was given or assigned before")

    def _binop(self, e: ast.BinOp, guard: Guard) -> Spread:
        f = _BINARY.get(type(e.op))
        if f is None:
            raise self.statement.error(
                f"{ast.unparse(e)}: write the loops of a product, A[i,k] * B[k,j]"
            )
        return combined(f, self.order, self.value(e.left, guard), self.value(e.right, guard))

    def _unaryop(self, e: ast.UnaryOp, guard: Guard) -> Spread:
        return combined(_UNARY[type(e.op)], self.order, self.value(e.operand, guard))

    def _compare(self, e: ast.Compare, guard: Guard) -> Spread:
        sides = [self.value(x, guard) for x in (e.left, *e.comparators)]
        found = []
        for op, a, b in zip(e.ops, sides, sides[1:], strict=False):
            if type(op) not in _COMPARE:
                raise self.statement.error(f"{ast.unparse(e)} compares no numbers")
            found.append(combined(_COMPARE[type(op)], self.order, a, b))
        return reduce(lambda a, b: combined(np.logical_and, self.order, a, b), found)

    def _boolop(self, e: ast.BoolOp, guard: Guard) -> Spread:
        f = np.logical_and if isinstance(e.op, ast.And) else np.logical_or
        parts = [self.value(x, guard) for x in e.values]
        return reduce(lambda a, b: combined(f, self.order, a, b), parts)

    def _ifexp(self, e: ast.IfExp, guard: Guard) -> Spread:
        condition = self.value(e.test, guard)
        if not condition.letters and type(condition.value) in (bool, int, np.bool_):
            return self.value(e.body if condition.value else e.orelse, guard)
        a = self.value(e.body, (*guard, (condition, True)))
        b = self.value(e.orelse, (*guard, (condition, False)))
        return chosen(self.order, condition, a, b)

    def _call(self, e: ast.Call, guard: Guard) -> Spread:
        name = e.func.attr if isinstance(e.func, ast.Attribute) else getattr(e.func, "id", "")
        if e.keywords or any(isinstance(a, ast.Starred) for a in e.args):
            raise self.statement.error(f"{ast.unparse(e)}: functions here take plain arguments")
        args = [self.value(a, guard) for a in e.args]
        if name in _FOLDS and len(args) > 1:
            return reduce(lambda a, b: combined(_FOLDS[name], self.order, a, b), args)
        if name == "where" and len(args) == 3:
            return chosen(self.order, *args)
        f = _function(name) if name not in _FOLDS else None
        if f is None:
            raise self.statement.error(
                f"{ast.unparse(e)}: {name or 'this'} is no element-wise function (as sin, exp, maximum, where)"
            )
        return combined(f, self.order, *args)

    # ---- references

    def _subscript(self, e: ast.Subscript, guard: Guard) -> Spread:
        assert isinstance(e.value, ast.Name)  # indices.py has turned others away
        return self.read(e.value.id, entries(e), guard)

    def read(self, name: str, at: Sequence[ast.expr], guard: Guard) -> Spread:
        """An entry for every value of the letters: slices where they do, else one gather."""
        x = self.names[name]
        if not at:
            return Spread(x, (), type(x) in (int, float, complex, bool))
        x, indices = self._in_blocks(x, at)
        places: list[Any] = []  # per axis (slice or number, letter), or a Spread of indices
        for (e, index), n in zip(indices, x.shape, strict=True):
            place: Any = None if index is None else self.as_slice(index, n)
            if place is None and index is not None:
                place = self.index_values(e, index, n, guard)
            places.append(self.value(e, guard) if place is None else place)
        x, places = _cut(x, places)
        rows = {c for p in places if isinstance(p, Spread) for c in p.letters}
        if any(isinstance(p, Spread) for p in places):
            taken = [k for k, p in enumerate(places) if isinstance(p, Spread) or p[1] in rows]
            ahead = [c for c in self.order if c in rows]
            found = [self._as_indices(places[k]) for k in taken]
            rest = [k for k in range(len(places)) if k not in taken]
            x = P.permute(x, axes=(*taken, *rest)) if taken + rest != sorted(taken + rest) else x
            key = [lined_up(i, ahead) for i in found]
            inner = x
            x = self.indexed(lambda: P.gather(inner, *key))
            places = [*[(None, c) for c in ahead], *[places[k] for k in rest]]
        letters = [c for _, c in places]
        if len(set(letters)) < len(letters):
            return _diagonal(x, letters)
        return Spread(x, tuple(letters))

    def _in_blocks(self, x: Any, at: Sequence[ast.expr]) -> tuple[Any, list[Any]]:
        """The array with an axis of its own for each letter of 2·i + r, and the index of every axis."""
        indices: list[tuple[ast.expr, Affine | None]] = []
        spec: list[Any] = []
        shape: list[int] = []
        for e, n in zip(at, x.shape, strict=True):
            index = affine(e, self.names, self.fixed)
            letters = None if index is None else self.as_blocks(index, n)
            pieces = [self.sizes[c] for c in letters or ()]
            spec.append((0, prod(pieces), 1) if letters and prod(pieces) < n else FULL)
            shape.extend(pieces or [n])
            indices.extend((e, Affine(0, {c: 1})) for c in letters or ())
            if letters is None:
                indices.append((e, index))
        if any(s != FULL for s in spec):
            x = P.slice(x, spec=tuple(spec))
        return (x if len(shape) == len(at) else P.reshape(x, shape=tuple(shape))), indices

    def _as_indices(self, place: Any) -> Spread:
        if isinstance(place, Spread):
            return place
        letter = place[1]
        return Spread(np.arange(self.sizes[letter]), (letter,))

    def as_slice(self, index: Affine, n: int) -> tuple[Any, str | None] | None:
        """An index of at most one letter as (slice or number, letter), if it stays within the axis."""
        if len(index.factors) > 1:
            return None
        if not index.factors:
            k = index.constant
            return (k, None) if -n <= k < n else None
        ((letter, f),) = index.factors.items()
        size = self.sizes[letter]
        low, high = index.ends(self.sizes)
        if size and not (low >= 0 and high < n):
            return None
        if index.is_plain and size == n:
            return FULL, letter
        stop = index.constant + f * size
        if not size:
            return (0, 0, 1), letter
        return (index.constant, None if stop < 0 else min(stop, n), f), letter

    def as_blocks(self, index: Affine, n: int) -> tuple[str, str] | None:
        """2·i + r with r in 0, 1: an axis cut into pieces that do not overlap, (i, r)."""
        if len(index.factors) != 2 or index.constant:
            return None
        (r, small), (i, big) = sorted(index.factors.items(), key=lambda item: item[1])
        fits = small == 1 and big == self.sizes[r] and big * self.sizes[i] <= n
        return (i, r) if fits else None

    def index_values(self, e: ast.expr, index: Affine, n: int, guard: Guard) -> Spread:
        """The numbers that an affine index takes; where a condition forbids the read, 0."""
        letters = tuple(c for c in self.order if c in index.factors)
        places = Spread(index.values(letters, self.sizes), letters)
        low, high = index.ends(self.sizes)
        if (low >= 0 and high < n) or not places.value.size:
            return places
        outside = (places.value < 0) | (places.value >= n)
        for condition, holds in guard:
            c = condition if holds else combined(np.logical_not, self.order, condition)
            places = chosen(self.order, c, places, Spread(0, (), True))
        value: Any = places.value
        if guard and not isinstance(value, np.ndarray | np.integer):  # known only when it runs
            return Spread(np.where(value < 0, n, value), places.letters)
        if not guard or np.any((value < 0) | (value >= n)):
            bad = value if guard else index.values(letters, self.sizes)[outside]
            raise self.statement.error(
                f"{ast.unparse(e)} goes over {np.min(bad)}…{np.max(bad)} on an axis of length {n}",
                IndexingError,
            )
        return places

    def indexed(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except IndexError as error:
            raise self.statement.error(str(error), IndexingError) from None


def _cut(x: Any, places: list[Any]) -> tuple[Any, list[Any]]:
    """What slices and single numbers leave of the array, and the places of the axes that are left."""
    spec = [FULL if isinstance(p, Spread) else p[0] for p in places]
    if any(s != FULL for s in spec):
        x = P.slice(x, spec=tuple(spec))
    return x, [p for p in places if isinstance(p, Spread) or p[1] is not None]


def _diagonal(x: Any, letters: Sequence[str]) -> Spread:
    """A[i, i]: one axis for both."""
    every = list(dict.fromkeys(letters))
    labels = dict(zip(every, "abcdefghijklmnopqrstuvwxyz", strict=False))
    inside, outside = "".join(labels[c] for c in letters), "".join(labels[c] for c in every)
    return Spread(P.contract(x, subscripts=f"{inside}->{outside}", sizes=()), tuple(every))
