"""The left side of a nest: the shape of what is made, and values put in their places."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import IndexingError
from ..primitive import P
from ..tensor import Tensor, tensor
from .expressions import Expressions, Guard
from .indices import Affine, Ranges, affine, given_shape
from .parse import Statement
from .values import Spread, dtype_of, lined_up


class Target(Expressions):
    """A statement with the ranges of its letters, some of them fixed at a number, and the array it makes."""

    def __init__(
        self, s: Statement, names: Mapping[str, Any], given: Mapping[str, Any], ranges: Ranges
    ):
        super().__init__(s, names, ranges.letters, ranges.sizes)
        self.shape_given = given.get(s.name)
        self.whole = ranges.sizes
        if s.name not in names:
            self.shape = self._new_shape()
        else:
            self.shape = np.shape(names[s.name])

    def fix(self, at: dict[str, int]) -> None:
        self.fixed = at
        self.sizes = {c: n for c, n in self.whole.items() if c not in at}

    @property
    def kept(self) -> list[str]:
        """The letters of the target."""
        mine = {n.id for e in self.statement.at for n in ast.walk(e) if isinstance(n, ast.Name)}
        return [c for c in self.order if c in mine and c in self.sizes]

    def _new_shape(self) -> tuple[int, ...]:
        s = self.statement
        if self.shape_given is not None:
            return given_shape(self.shape_given)
        shape: list[int] = []
        for e in s.at:
            index = affine(e, self.names, {})
            if index is None:
                raise s.error(
                    f"how long an axis {s.name} has where {ast.unparse(e)} is written does not follow; pass "
                    f"{s.name} as an array, or sizes=dict({s.name}=(…))"
                )
            low, high = index.ends(self.sizes)
            empty = any(not self.sizes[c] for c in index.factors)
            if low < 0 and not empty:
                raise s.error(f"{ast.unparse(e)} goes down to {low}", IndexingError)
            shape.append(0 if empty else high + 1)
        return tuple(shape)

    def is_plain_target(self) -> bool:
        """Whether every entry of the target is written, each by its own letter."""
        at = [affine(e, self.names, self.fixed) for e in self.statement.at]
        letters = [c for x in at if x is not None for c in x.factors]
        if len(set(letters)) < len(letters) or not all(x is not None and x.is_plain for x in at):
            return False
        return tuple(self.sizes[c] for c in letters) == self.shape

    def full(self, x: Spread, kept: Sequence[str]) -> Any:
        """A value on all letters of the target, in order."""
        shape = tuple(self.sizes[c] for c in kept)
        value = lined_up(x, kept) if x.letters else x.value
        if np.shape(value) == shape:
            return value if hasattr(value, "dtype") else np.asarray(value)[()]
        return P.broadcast_to(value, shape=shape)

    def key(self, kept: Sequence[str], axes: Sequence[int] | None = None) -> tuple[Any, ...]:
        """Where each round writes: per axis one number or one array over the kept letters."""
        found = []
        for k in range(len(self.shape)) if axes is None else axes:
            e, n = self.statement.at[k], self.shape[k]
            index = affine(e, self.names, self.fixed)
            if index is None:
                place = lined_up(self.value(e), kept)
            elif not index.factors and -n <= index.constant < 0:
                place = np.asarray(index.constant)
            else:
                place = lined_up(self.index_values(e, index, n, self._guard(kept)), kept)
            found.append(place)
        return tuple(found)

    def _guard(self, kept: Sequence[str]) -> Guard:
        """The condition, where it says of every place that is written whether it is."""
        s = self.statement
        if s.condition is None or s.how == "=":
            return ()
        condition = self.value(s.condition)
        return ((condition, True),) if set(condition.letters) <= set(kept) else ()

    def scattered(self, value: Any, kept: Sequence[str]) -> Any:
        """Zeros with all terms added in their places."""
        spec = self._slices()
        if spec is not None:
            letters = [c for _, c in spec if c is not None]
            turned = P.permute(value, axes=tuple(list(kept).index(c) for c in letters))
            return P.unslice(turned, spec=tuple(x for x, _ in spec), shape=self.shape)
        at = [affine(e, self.names, self.fixed) for e in self.statement.at]
        plain = [c for x in at if x is not None and x.is_plain for c in x.factors]
        inside = {c for x, e in zip(at, self.statement.at, strict=True) for c in self._of(x, e)}
        inside |= {c for c in plain if plain.count(c) > 1}
        inside |= {c for condition, _ in self._guard(kept) for c in condition.letters}
        rows = [
            k
            for k, x in enumerate(at)
            if x is None
            or not x.is_plain
            or set(x.factors) & inside
            or self.sizes[next(iter(x.factors))] != self.shape[k]
        ]
        rest = [k for k in range(len(at)) if k not in rows]
        behind = [next(iter(x.factors)) for k, x in enumerate(at) if x is not None and k in rest]
        ahead = [c for c in kept if c not in behind]
        key = self.key(ahead, rows)
        turned = P.permute(value, axes=tuple(list(kept).index(c) for c in [*ahead, *behind]))
        shape = tuple(self.shape[k] for k in [*rows, *rest])
        lead = tuple(self.sizes[c] for c in ahead)
        key = tuple(P.broadcast_to(i, shape=lead) if np.shape(i) != lead else i for i in key)
        out = self.indexed(lambda: P.scatter_add(turned, *key, shape=shape))
        order = [*rows, *rest]
        back = tuple(order.index(k) for k in range(len(order)))
        return out if order == sorted(order) else P.permute(out, axes=back)

    def _of(self, x: Affine | None, e: ast.expr) -> Iterator[str]:
        """Letters of an axis that is not written whole, one entry after the other."""
        if x is None:
            yield from (n.id for n in ast.walk(e) if isinstance(n, ast.Name) and n.id in self.sizes)
        elif not x.is_plain:
            yield from x.factors

    def _slices(self) -> list[tuple[Any, str | None]] | None:
        """Per axis of the target the slice that is written and its letter, if slices say it all."""
        spec: list[tuple[Any, str | None]] = []
        for e, n in zip(self.statement.at, self.shape, strict=True):
            index = affine(e, self.names, self.fixed)
            found = None if index is None else self.as_slice(index, n)
            if found is None:
                return None
            spec.append(found)
        letters = [c for _, c in spec if c is not None]
        return spec if len(set(letters)) == len(letters) else None


def written(old: Any, key: tuple[Any, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    """`old` with other entries at `key`; what is there stays as it was."""
    new = old.astype(dtype) if dtype_of(old) != dtype else old.copy()
    if isinstance(value, Tensor) or any(isinstance(k, Tensor) for k in key):
        new = new if isinstance(new, Tensor) else tensor(new)
    new[key] = value
    return new
