"""Index expressions, and how far each index letter runs.

A letter runs over 0 … n−1. What n is follows from the arrays: `A[i]` gives i the length of A, `A[2*i + r]`
the largest range for which no read leaves A.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import IndexingError, ShapeError
from ..ir import Var
from ..tensor import Tensor
from .parse import Statement, entries, reference


@dataclass(frozen=True, eq=False)
class Affine:
    """constant + Σ factor · letter."""

    constant: int
    factors: dict[str, int]

    @property
    def is_plain(self) -> bool:
        return self.constant == 0 and list(self.factors.values()) == [1]

    def ends(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """The smallest and the largest value."""
        steps = [f * max(sizes[c] - 1, 0) for c, f in self.factors.items()]
        low = self.constant + sum(min(s, 0) for s in steps)
        return low, self.constant + sum(max(s, 0) for s in steps)

    def values(self, letters: tuple[str, ...], sizes: Mapping[str, int]) -> Any:
        """All values, as an array with one axis per letter."""
        total = np.asarray(self.constant)
        for k, c in enumerate(letters):
            steps = np.arange(sizes[c]) * self.factors[c]
            total = total + steps.reshape(-1, *[1] * (len(letters) - 1 - k))
        return total


def affine(e: ast.expr, names: Mapping[str, Any], fixed: Mapping[str, int]) -> Affine | None:
    """An index expression as a sum of multiples of letters, or None if it is none."""
    if isinstance(e, ast.Constant) and type(e.value) is int:
        return Affine(e.value, {})
    if isinstance(e, ast.Name):
        if e.id in fixed:
            return Affine(fixed[e.id], {})
        if e.id not in names:
            return Affine(0, {e.id: 1})
        number = whole_number(names[e.id])
        return None if number is None else Affine(number, {})
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub | ast.UAdd):
        inner = affine(e.operand, names, fixed)
        return inner and (_times(inner, -1) if isinstance(e.op, ast.USub) else inner)
    if isinstance(e, ast.BinOp):
        a, b = affine(e.left, names, fixed), affine(e.right, names, fixed)
        if a is None or b is None:
            return None
        if isinstance(e.op, ast.Add):
            return _plus(a, b)
        if isinstance(e.op, ast.Sub):
            return _plus(a, _times(b, -1))
        if isinstance(e.op, ast.Mult) and not (a.factors and b.factors):
            return _times(b, a.constant) if b.factors else _times(a, b.constant)
    return None


def _times(a: Affine, k: int) -> Affine:
    return Affine(a.constant * k, {c: f * k for c, f in a.factors.items() if f * k})


def _plus(a: Affine, b: Affine) -> Affine:
    total = {c: a.factors.get(c, 0) + b.factors.get(c, 0) for c in {**a.factors, **b.factors}}
    return Affine(a.constant + b.constant, {c: f for c, f in total.items() if f})


def whole_number(x: Any) -> int | None:
    """A given integer that is known while the nest is read."""
    if isinstance(x, Tensor):
        x = None if type(x._v) is Var else x._v
    if type(x) is int or (isinstance(x, np.integer | np.ndarray) and x.dtype.kind in "iu"):
        return int(x) if np.ndim(x) == 0 else None
    return None


def given_shape(x: Any) -> tuple[int, ...]:
    """The shape of a new array as `sizes` says it: a tuple, or the length of its one axis."""
    return tuple(int(n) for n in np.atleast_1d(np.asarray(x)).tolist())


@dataclass(frozen=True, eq=False)
class Reference:
    """One axis of one reference: array `name` of this length is read (or written) at `index`."""

    text: str
    name: str
    axis: int
    length: int
    index: Affine
    guarded: bool  # under a condition: what it excludes is not read

    def bound(self, letter: str, sizes: Mapping[str, int]) -> int:
        """For how many values of the letter the index stays within the axis, the others running fully."""
        others = {c: f for c, f in self.index.factors.items() if c != letter}
        low, high = Affine(self.index.constant, others).ends(sizes)
        f = self.index.factors[letter]
        return max(0, (self.length - 1 - high) // f + 1 if f > 0 else low // -f + 1)


class Ranges:
    """The letters of one statement in order of appearance, the target's first, and their ranges."""

    def __init__(self, s: Statement, names: Mapping[str, Any], given: Mapping[str, Any]):
        self.statement, self.names, self.given = s, names, given
        self.letters = list(dict.fromkeys(self._letters()))
        self.references = list(self._references())

    @cached_property
    def sizes(self) -> dict[str, int]:
        sizes = {c: self._explicit(c) for c in self.letters if c in self.given}
        exact = {c: self._exact(c) for c in self.letters if c not in sizes}
        rest = [c for c in self.letters if c not in sizes]
        while rest:
            for c in rest:
                bounds = self._bounds(c)
                if (exact[c] or bounds) and all(
                    x in sizes or x == c for r in bounds for x in r.index.factors
                ):
                    break
            else:
                c = next((c for c in rest if exact[c]), "")
                bounds = []
            if not c:
                raise self.statement.error(
                    f"how far {' and '.join(rest)} runs does not follow from the arrays; "
                    f"say it: sizes=dict({rest[0]}=…)"
                )
            sizes[c] = min(
                [*[r.bound(c, sizes) for r in bounds], *[r.length for r in exact[c][:1]]]
            )
            rest.remove(c)
        self._check(sizes)
        return sizes

    def _explicit(self, letter: str) -> int:
        n = whole_number(self.given[letter])
        if n is None or n < 0:
            raise self.statement.error(
                f"sizes must say how far {letter!r} runs by a whole number, got {self.given[letter]!r}"
            )
        return n

    def _exact(self, letter: str) -> list[Reference]:
        found = [r for r in self.references if r.index.is_plain and letter in r.index.factors]
        for r in found[1:]:
            if r.length != found[0].length:
                a, b = found[0], r
                raise self.statement.error(
                    f"{letter} runs over {a.length} by {a.text} (axis {a.axis}) and over {b.length} by "
                    f"{b.text} (axis {b.axis})",
                    ShapeError,
                )
        return found

    def _bounds(self, letter: str) -> list[Reference]:
        """Affine reads that say how far the letter may run; beside A[i], only those of A itself."""
        mine = [r for r in self.references if letter in r.index.factors]
        exact = {r.name for r in mine if r.index.is_plain}
        windows = [r for r in mine if not r.index.is_plain and not r.guarded]
        return [r for r in windows if r.name in exact] if exact else windows

    def _check(self, sizes: Mapping[str, int]) -> None:
        if not all(sizes.values()):
            return  # no term at all
        for r in self.references:
            low, high = r.index.ends(sizes)
            if not r.guarded and not (low >= 0 and high < r.length) and r.index.factors:
                runs = ", ".join(f"{c} in 0…{sizes[c] - 1}" for c in r.index.factors)
                raise self.statement.error(
                    f"{r.text} leaves axis {r.axis} of length {r.length}: it reads {low}…{high} for {runs}",
                    IndexingError,
                )

    # ---- what stands in the statement

    def _expressions(self) -> Iterator[tuple[ast.expr, bool]]:
        s = self.statement
        yield from ((e, False) for e in s.at)
        yield s.term, s.condition is not None
        if s.condition is not None:
            yield s.condition, False

    def _letters(self) -> Iterator[str]:
        """Names inside brackets that are not arrays, and those that `sizes` knows."""
        for e, _ in self._expressions():
            inside = [e] if any(e is x for x in self.statement.at) else []
            inside += [x for n in ast.walk(e) if isinstance(n, ast.Subscript) for x in entries(n)]
            for n in (n for x in inside for n in _walk(x)):
                if isinstance(n, ast.Name) and n.id not in self.names:
                    yield n.id
            for n in ast.walk(e):
                if isinstance(n, ast.Name) and n.id in self.given and n.id not in self.names:
                    yield n.id
        yield from self.statement.loops

    def _references(self) -> Iterator[Reference]:
        s = self.statement
        if s.name in self.names or s.name in self.given:
            yield from self._axes(reference(s.name, s.at), s.condition is not None)
        for e, guarded in self._expressions():
            yield from self._inside(e, guarded)

    def _inside(self, e: ast.AST, guarded: bool) -> Iterator[Reference]:
        if isinstance(e, ast.IfExp):
            yield from self._inside(e.test, guarded)
            yield from self._inside(e.body, True)
            yield from self._inside(e.orelse, True)
            return
        if isinstance(e, ast.Subscript):
            yield from self._axes(e, guarded)
        for child in ast.iter_child_nodes(e):
            yield from self._inside(child, guarded)

    def _axes(self, e: ast.expr, guarded: bool) -> Iterator[Reference]:
        at: tuple[ast.expr, ...] = ()
        if isinstance(e, ast.Name):
            name = e.id
        elif isinstance(e, ast.Subscript) and isinstance(e.value, ast.Name):
            name, at = e.value.id, entries(e)
        else:
            raise self.statement.error(
                f"only arrays by their names have indices, got {ast.unparse(e)}"
            )
        if name in self.names:
            shape = np.shape(self.names[name])
        elif name == self.statement.name and name in self.given:
            shape = given_shape(self.given[name])
        else:
            raise self.statement.error(f"{name} is no array that was given or assigned before")
        if len(shape) != len(at):
            raise self.statement.error(
                f"{name} has {len(shape)} axes, shape {shape}; {ast.unparse(e)} has {len(at)}",
                ShapeError,
            )
        for axis, (x, n) in enumerate(zip(at, shape, strict=True)):
            if isinstance(x, ast.Slice | ast.Starred):
                raise self.statement.error(f"an index is one number, not {ast.unparse(x)!r}")
            index = affine(x, self.names, {})
            if index is not None:
                yield Reference(ast.unparse(e).replace(", ", ","), name, axis, n, index, guarded)


def _walk(e: ast.AST) -> Iterator[ast.AST]:
    """All of an index expression, without the names of the functions and arrays in it."""
    yield e
    for field in ast.iter_child_nodes(e):
        named = isinstance(e, ast.Call) and field is e.func
        if not named and not (isinstance(e, ast.Subscript) and field is e.value):
            yield from _walk(field)
