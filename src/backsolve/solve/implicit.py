"""Implicit blocks: x(p) with F(x, p) = 0, by the implicit function theorem.

    F_x dx + F_p dp = 0        so        dx = −F_x⁻¹ F_p dp        p̄ = −F_pᵀ F_x⁻ᵀ x̄

Of the system that is a block above the diagonal: row x reads itself. However x was found, it is one row (a
joint one). F is run once more at x, on fresh rows, and its operator solves with F_x: forward substitution
through those rows is v ↦ F_x v, back substitution is w ↦ F_xᵀ w. What F closes over may have changed when the
derivative is asked for; these rows have what it was.

Higher orders need no more. A solution y of A y = b is x(p) of F(y, b) = A y − b, where A rests on the rows of F
that it was read from: if a solve is recorded, y becomes an implicit row in turn, solved by the same matrix, or
with the same products, at all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import RecomputeError, ShapeError
from ..hooks import hooks
from ..ir import Type, type_of
from ..joint import held, record_joint
from ..operators import Custom, Operator
from ..primitive import P, wrap
from ..row import Row, ancestors, descendants, next_index
from ..tensor import Staged, Tensor, leaf_row
from ..trace import evaluate, is_for_later, stage
from .budget import eager_budget, within
from .fingerprint import are_same, prints_of
from .forward import forward_substitute
from .krylov import Map
from .many import Plain, forward_jacobian
from .packing import Packing, plain
from .reverse import back_substitute
from .square import How, Linear

# F(x, p), on lists of leaves, to a list of leaves
Equations = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


class Point:
    """F at (x, p), as operators: its rows, run once."""

    def __init__(
        self, F: Equations, x: Sequence[Any], p: Sequence[Any], varying: Sequence[int], record: bool
    ):
        self.begin = next_index()
        xs = [_fresh(v, record) for v in x]
        ps = list(p)
        for k in varying:
            ps[k] = _fresh(p[k], record)
        outputs = list(F(xs, ps))
        self.x_rows: list[Row] = [v.row for v in xs]
        self.p_rows: list[Row] = [ps[k].row for k in varying]
        self.outputs = outputs
        self.outs: list[Any] = [y.row if isinstance(y, Tensor) else None for y in outputs]
        live = [r for r in self.outs if r is not None]
        self.rows, _ = ancestors(live, self.begin)
        self.is_staged = any(isinstance(y, Staged) for y in outputs)
        own = {*self.x_rows, *self.p_rows}
        self.free = _closed_over(live, self.rows, self.begin, own)
        self.unknowns = Packing([type_of_leaf(v) for v in xs], "the unknowns x of F(x, p) = 0")
        self.equations = Packing([type_of_leaf(y) for y in outputs], "the values of F(x, p)")
        if self.unknowns.size != self.equations.size:
            raise ShapeError(
                f"F(x, p) must have as many equations as unknowns: got values of {_shapes(outputs)} for x of "
                f"{_shapes(xs)}"
            )
        self._below = descendants(self.rows, self.x_rows)

    def push(self, v: Any, record: bool) -> Any:
        """F_x v."""
        seeds = zip(self.x_rows, self.unknowns.unpack(v), strict=True)
        images = forward_substitute(self._below, seeds, self.outs, record=record)
        return self.equations.pack(images)

    def pull(self, w: Any, record: bool) -> Any:
        """F_xᵀ w."""
        return self.unknowns.pack(self.pull_to(self.x_rows, w, record))

    def pull_to(self, sources: Sequence[Row], w: Any, record: bool) -> list[Any]:
        pairs = [
            (r, g)
            for r, g in zip(self.outs, self.equations.unpack(w), strict=True)
            if r is not None
        ]
        reached = {*descendants(self.rows, sources), *sources}
        pairs = [(r, g) for r, g in pairs if r in reached]
        wanted = [*sources, *self.free]  # the walk ends at these, whether they are asked for or not
        found = back_substitute(pairs, wanted, oldest=self.begin, record=record, reached=reached)
        return list(found[: len(sources)])

    def push_from(self, sources: Sequence[Row], ts: Sequence[Any], record: bool) -> Any:
        seeds = [(r, t) for r, t in zip(sources, ts, strict=True) if t is not None]
        rows = descendants(self.rows, [r for r, _ in seeds])
        known = {r for r, _ in seeds}
        outs = [r if r in known or r in set(rows) else None for r in self.outs]
        return self.equations.pack(forward_substitute(rows, seeds, outs, record=record))

    def linear(self, how: How, M: Any) -> Linear:
        record = self.is_staged
        return Linear(
            lambda v: plain(self.push(v, record)),
            lambda w: plain(self.pull(w, record)),
            lambda: plain(self._dense(record)),
            self.unknowns.size,
            max(self.unknowns.eps, self.equations.eps),
            how,
            M,
        )

    def _dense(self, record: bool) -> Any:
        columns = []
        for row in self.x_rows:
            for unit in (1, 1j) if row.dtype.kind == "c" else (1,):
                live = [r for r in self.outs if r is not None]
                by = Plain(self._below, [row], record)
                found = iter(forward_jacobian(by, live, row, unit) if live else ())
                stacks = [next(found) if r is not None else None for r in self.outs]
                columns.append(self._packed_stacks(stacks, row.size))
        return np.concatenate(columns, axis=0).T if len(columns) > 1 else columns[0].T

    def _packed_stacks(self, stacks: Sequence[Any], count: int) -> Any:
        """As `pack`, of many at once: one a row."""
        pieces: list[Any] = []
        for s, t in zip(stacks, self.equations.types, strict=True):
            flat = (
                np.zeros((count, t.size), t.dtype) if s is None else np.reshape(s, (count, t.size))
            )
            pieces += [np.real(flat), np.imag(flat)] if t.dtype.kind == "c" else [flat]
        whole = np.concatenate(pieces, axis=1) if len(pieces) > 1 else pieces[0]
        return whole if whole.dtype == self.equations.dtype else whole.astype(self.equations.dtype)


def at_solution(
    F: Equations,
    x: Sequence[Any],
    p: Sequence[Any],
    how: How,
    known: tuple[Linear, bool] | None = None,
) -> list[Any]:
    """x, values without rows that solve F(x, p) = 0, as ones that vary with p and all that F closes over.

    `known` is F_x to solve with (or, if the flag is set, its transpose), where that is there already.
    """
    x = [plain(v) for v in x]
    if is_for_later(*x, *p):  # of what is known now, nothing will be at hand then
        later = how if known is None else replace(how, preconditioner=None)
        rule = lambda F, x, p, varying, record: _at(F, x, p, varying, None, later, None, record)
        return list(hooks.call_closed(F, x, p, rule))
    varying = [k for k, v in enumerate(p) if varies(v)]
    p = held(p)
    F = _in_budget(F)
    if any(isinstance(v, Staged) for v in [*x, *p]):
        F = _as_it_is_now(F, x, p)
    first = Point(F, x, p, varying, record=False)
    parents = [*[p[k].row for k in varying], *first.free]
    if not parents:
        return x
    free = first.free

    def operator_of(values: Sequence[Any], record: bool) -> Operator:
        full = list(p)
        for k, v in zip(varying, values[: len(varying)], strict=True):
            full[k] = v
        push, pull = _at(F, x, full, varying, first, how, known, record)
        return Custom(push, pull, name="Implicit")

    inputs = [*[p[k]._v for k in varying], *[None] * len(free)]
    raw = [v._v if isinstance(v, Tensor) else v for v in x]
    return record_joint("implicit", operator_of, inputs, parents, raw)


def _at(
    F: Equations,
    x: Sequence[Any],
    p: list[Any],
    varying: Sequence[int],
    first: Point | None,
    how: How,
    known: tuple[Linear, bool] | None,
    record: bool,
) -> tuple[Any, Any]:
    """dp ↦ dx and its adjoint, at these values; `first` is F as it was where x was found."""
    solution = at_solution(F, x, p, how, known) if record else x
    free: Sequence[Row] = () if first is None else first.free
    if first is not None and not record:
        point = first
    else:
        point = Point(F, solution, p, varying, record)
        _check_same(point, first)
    sources = [*point.p_rows, *free]
    if known is None:
        M = preconditioner_at(how, x, p, point.unknowns)
        A, turned = point.linear(how, M), False
    else:
        A, turned = known

    def solved(b: Any, transposed: bool) -> Any:
        y = A.solve(plain(b), transposed != turned)
        if not record:
            return y
        product = point.pull if transposed else point.push
        equations: Equations = lambda v, p: [product(v[0], True) - p[0]]
        return at_solution(equations, [y], [b], how, (A, transposed != turned))[0]

    def push(ts: Sequence[Any]) -> tuple[Any, ...]:
        b = point.push_from(sources, ts, record)
        return tuple(point.unknowns.unpack(-solved(b, False)))

    def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
        w = solved(point.unknowns.pack(cts), True)
        return tuple(point.pull_to(sources, -w, record))

    return push, pull


def _in_budget(F: Equations) -> Equations:
    """F with the budget that holds now, whoever runs it: its rows are the same each time."""
    budget = eager_budget()
    if budget is None:
        return F

    def run(x: Sequence[Any], p: Sequence[Any]) -> Sequence[Any]:
        with within(budget):
            return F(x, p)

    return run


def _as_it_is_now(F: Equations, x: Sequence[Any], p: Sequence[Any]) -> Equations:
    """F as a Program: what it closes over may be another when a derivative of the derivative asks for it."""
    n = len(x)
    places = [
        k for k, v in enumerate(p) if isinstance(v, Tensor | np.ndarray)
    ]  # not: texts, functions

    def flat(*values: Any) -> list[Any]:
        full = list(p)
        for k, v in zip(places, values[n:], strict=True):
            full[k] = v
        return list(F(values[:n], full))

    program, _ = stage(flat, [type_of_leaf(v) for v in [*x, *[p[k] for k in places]]], lasting=True)
    return lambda x, p: evaluate(program, [*x, *[p[k] for k in places]])


def _check_same(point: Point, first: Point | None) -> None:
    """F, run once more, reads and gives what it did where x was found."""
    if first is None:
        return
    reads_others = not set(point.free) <= set(first.free)
    if not reads_others and (point.is_staged or first.is_staged):  # a Program does not change
        return
    if reads_others or not are_same(prints_of(first.rows), point.rows):
        raise RecomputeError(
            f"F of an implicit function {'read' if reads_others else 'gave'} other values when it was run "
            "again for the derivative of a derivative: it reads something that has changed (a loop variable, a "
            "buffer, an attribute). Pass such things as arguments"
        )


def preconditioner_at(how: How, x: Sequence[Any], p: Sequence[Any], packing: Packing) -> Any:
    """(M, Mᵀ) on packed vectors, at values without rows; a function stands for both."""
    if how.preconditioner is None:
        return None
    made = how.preconditioner([plain(v) for v in x], [plain(v) if varies(v) else v for v in p])
    both = (made.apply, made.T.apply) if isinstance(made, Operator) else (made, made)

    def packed(M: Any) -> Map:
        return lambda v: plain(packing.pack(list(M(packing.unpack(v)))))

    return packed(both[0]), packed(both[1])


def _fresh(v: Any, record: bool) -> Any:
    if isinstance(v, Tensor):
        return P.alias(v) if record and v.row is not None else wrap(v._v, leaf_row(v._v))
    return wrap(v, leaf_row(v))


def varies(v: Any) -> bool:
    return isinstance(v, Tensor) and v.row is not None


def type_of_leaf(v: Any) -> Type:
    return Type(v.shape, v.dtype) if isinstance(v, Tensor) else type_of(np.asarray(v))


def _shapes(values: Sequence[Any]) -> str:
    """With a word for complex ones, which count twice."""
    types = [type_of_leaf(v) for v in values]
    return " and ".join(f"{t.shape}" + " complex" * (t.dtype.kind == "c") for t in types)


def _closed_over(
    outputs: Sequence[Row], rows: Sequence[Row], begin: int, own: set[Any]
) -> list[Row]:
    """Rows older than the run that its results rest on, other than through its arguments."""
    found = dict.fromkeys(r for r in outputs if r.index < begin)
    for row in rows:
        if row not in own:
            found.update(
                dict.fromkeys(p for p in row.parents if p.__class__ is Row and p.index < begin)
            )
    return list(found)
