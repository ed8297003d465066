"""One statement on arrays: products by `contract`, the rest element by element in one pass.

Everything is said in the library's own primitives, so derivatives, batches and compilation need nothing more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..primitive import P
from .indices import Ranges, affine
from .parse import Statement, entries
from .targets import Target, written
from .values import (
    JOIN,
    Spread,
    chosen,
    combined,
    contracted,
    dtype_of,
    lined_up,
    reduced,
    smallest,
)

# Windows of so many entries are walked one by one: each is a slice, and nothing is copied.
_MOST_OFFSETS = 64
# Windows are copied side by side if the loops around them do so many times more, up to so many entries.
_FEWER, _MOST_COPIED = 4, 1 << 24


def run(s: Statement, names: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """The new value of the array that the statement assigns."""
    ranges = Ranges(s, names, given)
    nest = _Nest(s, names, given, ranges)
    nest.check()
    offsets = nest.offsets()
    start = names.get(s.name)
    if s.how == "+=" and offsets and prod(ranges.sizes[c] for c in offsets) <= _MOST_OFFSETS:
        total = start
        for at in product(*[range(ranges.sizes[c]) for c in offsets]):
            nest.fix(dict(zip(offsets, at, strict=True)))
            total = nest.assigned(total)
        if total is not None:
            return total
        nest.fix({})  # an empty window: no term
    return nest.assigned(start)


class _Nest(Target):
    """All terms of a statement, combined and put in their places."""

    def check(self) -> None:
        s = self.statement
        summed = [c for c in self.sizes if c not in self.kept]
        if s.how == "=" and summed:
            raise s.error(
                f"{summed[0]} stands only on the right of `=`: say how its terms combine, "
                "by +=, *=, max= or min="
            )
        reads = [n for e in (s.term, s.condition) if e is not None for n in ast.walk(e)]
        for n in reads:
            if isinstance(n, ast.Name) and n.id == s.name and s.name not in self.names:
                raise s.error(f"{n.id} is read before it is assigned")
        if s.name in self.names:
            target = [ast.unparse(e) for e in s.at]
            for n in reads:
                at = _indices_of(n, s.name)
                if at is not None and (at != target or summed or not self.is_plain_target()):
                    raise s.error(
                        f"the nest reads {ast.unparse(n)} and writes {s.name}[{', '.join(target)}]: its "
                        "rounds would need an order; use bs.scan or a loop under bs.jit for a recurrence"
                    )

    def offsets(self) -> list[str]:
        """Letters to walk one by one, so that every window is a slice: all but the longest of each index.

        None, if all windows side by side are still much less than the whole iteration space, as where many
        channels look at each: then they are written out, for one product.
        """
        found: dict[str, None] = {}
        s = self.statement
        references = [
            (entries(n), self.names[n.value.id].shape)
            for n in ast.walk(s.term)
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
        ]
        written = dict.fromkeys(self._overlapping(s.at, self.shape))
        largest = 0
        for at, shape in references:
            overlapping = self._overlapping(at, shape)
            found.update(dict.fromkeys(overlapping))
            if overlapping:
                letters = {n.id for e in at for n in ast.walk(e) if isinstance(n, ast.Name)}
                largest = max(largest, prod(self.sizes.get(c, 1) for c in letters))
        whole = prod(self.sizes.values())
        if not written and _FEWER * largest <= whole and largest <= _MOST_COPIED:
            return []
        return list({**found, **written})

    def _overlapping(self, at: Sequence[ast.expr], shape: Sequence[int]) -> list[str]:
        found: list[str] = []
        for e, n in zip(at, shape, strict=True):
            index = affine(e, self.names, {})
            if index is not None and len(index.factors) > 1 and self.as_blocks(index, n) is None:
                longest = max(index.factors, key=lambda c: self.sizes[c])
                found += [c for c in index.factors if c != longest]
        return found

    # ---- the right side

    def total(self) -> Spread:
        """All terms, combined over the letters that the target lacks."""
        s = self.statement
        kept = self.kept
        gone = {c: n for c, n in self.sizes.items() if c not in kept}
        condition = None if s.condition is None else self.value(s.condition)
        guard = () if condition is None else ((condition, True),)
        if condition is not None and not set(condition.letters) <= set(kept):
            term = self.value(s.term, guard)
            missing = Spread(smallest(s.how, dtype_of(term.value)))
            term = chosen(self.order, condition, term, missing)
            return reduced(term, s.how, kept, gone)
        total = None
        if s.how == "+=" and gone:
            total = self._sum(s.term, kept, gone, guard)
        if total is None:
            term = self.value(s.term, guard)
            total = term if s.how == "=" else reduced(term, s.how, kept, gone)
        if condition is None:
            return total
        missing = Spread(smallest(s.how, dtype_of(total.value)))
        other = self._before() if s.how == "=" else missing
        return chosen(self.order, condition, total, other)

    def _before(self) -> Spread:
        """What stands where nothing is written."""
        if self.statement.name not in self.names:
            return Spread(0, (), True)
        return self.read(self.statement.name, self.statement.at, ())

    def _sum(
        self, e: ast.expr, kept: Sequence[str], gone: Mapping[str, int], guard: Any
    ) -> Spread | None:
        """A sum of products, each product as a nest of its own if that saves the whole iteration space."""
        terms = list(_terms(e))
        if not any(_is_product(t) for _, t in terms):
            return None
        total: Spread | None = None
        for minus, t in terms:
            part = self._product(t, kept, gone, guard)
            if total is None:
                total = combined(np.negative, self.order, part) if minus else part
            else:
                total = combined(np.subtract if minus else np.add, self.order, total, part)
        return total

    def _product(
        self, e: ast.expr, kept: Sequence[str], gone: Mapping[str, int], guard: Any
    ) -> Spread:
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Div):
            below = self.value(e.right, guard)
            if not set(below.letters) & set(gone):
                above = self._product(e.left, kept, gone, guard)
                return combined(np.divide, self.order, above, below)
        factors = _factors(e)
        values = [self.value(x, guard) for x in factors]
        wide = [(x, v) for x, v in zip(factors, values, strict=True) if v.letters]
        every = {c for _, v in wide for c in v.letters}
        plain = all(isinstance(x, ast.Subscript) for x, _ in wide)
        saves = plain or not any(set(v.letters) == every for _, v in wide)
        if len(wide) < 2 or not every & set(gone) or not saves:
            whole = values[0]
            for v in values[1:]:
                whole = combined(np.multiply, self.order, whole, v)
            return reduced(whole, "+=", kept, gone)
        numbers = [v for v in values if not v.letters]
        total = contracted([v for _, v in wide], kept)
        for v in numbers:
            total = combined(np.multiply, self.order, total, v)
        return reduced(total, "+=", kept, {c: n for c, n in gone.items() if c not in every})

    # ---- the left side

    def assigned(self, start: Any) -> Any:
        """The target after this statement, which found `start` there (None: nothing)."""
        s, kept = self.statement, self.kept
        if self.is_plain_target():
            total = self.full(self.total(), kept)
            if start is None or s.how == "=":
                return total
            return JOIN[s.how](start, total)
        if s.how in ("max=", "min=", "*="):
            return self._by_comparison(start)
        total = self.total()
        value = self.full(total, kept)
        if s.how == "=":
            dtype = dtype_of(value) if start is None else np.result_type(dtype_of(start), value)
            old = np.zeros(self.shape, dtype) if start is None else start
            return written(old, self.key(kept), value, dtype)
        added = self.scattered(value, kept)
        return added if start is None else np.add(start, added)

    def _by_comparison(self, start: Any) -> Any:
        """max=, min= or *= at places that meet: every entry of the target looks at all terms."""
        s = self.statement
        axes = [f"_{k}" for k in range(len(self.shape))]
        order = [*axes, *self.order]
        hit = Spread(np.True_)
        for e, a, n in zip(s.at, axes, self.shape, strict=True):
            place = self.value(e)
            here = combined(np.equal, order, place, Spread(np.arange(n), (a,)))
            hit = combined(np.logical_and, order, hit, here)
        condition = None if s.condition is None else self.value(s.condition)
        if condition is not None:
            hit = combined(np.logical_and, order, hit, condition)
        term = self.value(s.term, () if condition is None else ((condition, True),))
        picked = chosen(order, hit, term, Spread(smallest(s.how, dtype_of(term.value))))
        total = reduced(picked, s.how, axes, self.sizes)
        value = lined_up(total, axes)
        value = value if np.shape(value) == self.shape else P.broadcast_to(value, shape=self.shape)
        return value if start is None else JOIN[s.how](start, value)


def _indices_of(n: ast.AST, name: str) -> list[str] | None:
    """How a node reads the array `name`; None if it does not."""
    if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.value.id == name:
        inner = n.slice.elts if isinstance(n.slice, ast.Tuple) else [n.slice]
        return [ast.unparse(e) for e in inner]
    return None


def _terms(e: ast.expr, minus: bool = False) -> Iterator[tuple[bool, ast.expr]]:
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add | ast.Sub):
        yield from _terms(e.left, minus)
        yield from _terms(e.right, minus != isinstance(e.op, ast.Sub))
    elif isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
        yield from _terms(e.operand, not minus)
    else:
        yield minus, e


def _factors(e: ast.expr) -> list[ast.expr]:
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
        return [*_factors(e.left), *_factors(e.right)]
    return [e]


def _is_product(e: ast.expr) -> bool:
    while isinstance(e, ast.BinOp) and isinstance(e.op, ast.Div):
        e = e.left
    return len(_factors(e)) > 1
