"""Implicit blocks: x(p) with F(x, p) = 0, by the implicit function theorem.

    F_x dx + F_p dp = 0        so        dx = −F_x⁻¹ F_p dp        p̄ = −F_pᵀ F_x⁻ᵀ x̄

Of the system that is a block above the diagonal: row x reads itself. However x was found, it is one row (a
joint one) that keeps x and p alone. Its operator runs F once, on fresh rows, and solves with F_x: forward
substitution through those rows is v ↦ F_x v, back substitution is w ↦ F_xᵀ w.

Higher orders need no more. A solution y of A y = b is x(p) of F(y, b) = A y − b, where A rests on the rows of F
that it was read from: if a solve is recorded, y becomes an implicit row in turn, solved by the same matrix, or
with the same products, at all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ConvergenceError, ShapeError, SingularError, StructureError
from ..hooks import hooks
from ..ir import Type, type_of
from ..joint import record_joint
from ..operators import Custom, Operator
from ..primitive import P, wrap
from ..primitives.checks import CHECK, code_of, stop_if
from ..row import Row, ancestors, descendants, next_index
from ..tensor import Staged, Tensor, leaf_row
from ..trace import is_for_later
from .forward import forward_substitute
from .krylov import METHODS, Map
from .many import Plain, forward_jacobian
from .packing import Packing, plain
from .reverse import back_substitute

DIRECT = 128  # unknowns up to which the matrix is formed and solved
LEAST_ROUNDS = 100
LEAST_DECADE = -12  # of a residual that compiled code tells

# F(x, p), on lists of leaves, to a list of leaves
Equations = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class How:
    """How the linear systems are solved."""

    method: str = "auto"
    preconditioner: Any = None  # (x leaves, p leaves) -> operator or function, on leaves
    tol: float | None = None
    maxiter: int | None = None
    restart: int = 30
    large: str = "gmres"  # what "auto" takes where the matrix would be large
    most_compiled: int = DIRECT  # unknowns up to which compiled code takes it to be small

    def __post_init__(self) -> None:
        if self.method not in ("auto", "direct", *METHODS):
            raise StructureError(
                f"method is one of auto, direct, {', '.join(METHODS)}; got {self.method!r}"
            )
        if self.maxiter is not None and self.maxiter < 1:
            raise StructureError(f"maxiter must be at least 1, got {self.maxiter}")
        if self.tol is not None and not 0 < self.tol < 1:
            raise StructureError(f"tol must lie between 0 and 1, got {self.tol}")
        if self.restart < 1:
            raise StructureError(f"restart must be at least 1, got {self.restart}")

    def tolerance(self, dtype: Any) -> float:
        return float(np.finfo(dtype).eps ** 0.7) if self.tol is None else self.tol


def report(
    what: str, advice: str, failed: Any, history: Sequence[float], last: Any, first: Any
) -> None:
    """Raise if `failed`, with the residuals; of compiled code, when it runs, with the last beside the first."""
    if isinstance(failed, Staged):
        _stop_with_decade(what, advice, failed, last, first)
    elif failed:
        shown = [f"{r:.3g}" for r in history]
        if len(shown) > 8:
            shown = [*shown[:3], "…", *shown[-4:]]
        error = ConvergenceError(
            f"{what} did not converge in {max(len(history) - 1, 0)} rounds; "
            f"residuals: {', '.join(shown)}. {advice}"
        )
        error.history = tuple(history)
        raise error


def _stop_with_decade(what: str, advice: str, failed: Any, last: Any, first: Any) -> None:
    """What compiled code says is written beforehand: one message for each power of ten."""
    failures = [
        ("ArithmeticError", f"{what} did not converge: the last residual {size}; {advice}")
        for size in (
            *[f"is below 1e{k:+03d} of the first" for k in range(LEAST_DECADE, 1)],
            "is not below the first",
            "is not a number",
        )
    ]
    codes = [code_of(*failure) for failure in failures]
    relative = last / np.where(first > 0, first, 1.0)
    code: Any = np.int64(codes[0])
    for k, next_one in zip(range(LEAST_DECADE, 1), codes[1:], strict=False):
        code = np.where(relative >= 10.0**k, np.int64(next_one), code)
    code = np.where(relative == relative, code, np.int64(codes[-1]))
    code = np.where(failed, code, np.int64(0))
    CHECK(code, messages=tuple(zip(codes, failures, strict=True)))


class Linear:
    """A square map between packed vectors, to be solved with: v ↦ A v, w ↦ Aᵀ w, and A itself if it is small.

    `dense` gives the matrix; both it and the products give values without rows.
    """

    def __init__(
        self, push: Map, pull: Map, dense: Callable[[], Any], size: int, how: How, M: Any = None
    ):
        self.push, self.pull, self.dense = push, pull, dense
        self.size, self.how, self.M = size, how, M
        self._matrix: Any = None

    def method(self, is_staged: bool) -> str:
        most = self.how.most_compiled if is_staged else DIRECT
        if self.how.method != "auto":
            return self.how.method
        return "direct" if self.size <= most and self.M is None else self.how.large

    def matrix(self) -> Any:
        if self._matrix is None:
            A = self.dense()
            if isinstance(A, Staged):  # of this recording alone
                return A
            _check_regular(A)
            self._matrix = A
        return self._matrix

    def solve(self, b: Any, transposed: bool = False, is_step: bool = False) -> Any:
        """A⁻¹ b. If it is but a step of an iteration, compiled code leaves a singular A to that."""
        method = self.method(isinstance(b, Staged))
        if method == "direct":
            A = self.matrix()
            A = A.T if transposed else A
            if is_step or not isinstance(A, Staged):
                return np.linalg.solve(A, b)
            return _solved_regular(A, b)
        history: list[float] = []
        how, M = self.how, self.M
        tol = how.tolerance(b.dtype)
        rounds = how.maxiter or max(LEAST_ROUNDS, 10 * self.size)
        options = {"restart": how.restart} if method == "gmres" else {}
        precondition = (lambda v: v) if M is None else M[1] if transposed else M[0]
        A = self.pull if transposed else self.push
        y, residual, limit, _ = METHODS[method](A, b, precondition, tol, rounds, history, **options)
        advice = {
            "cg": "CG needs a symmetric, positive definite matrix (else: method='minres' or 'gmres')",
            "minres": "MINRES needs a symmetric matrix (else: method='gmres')",
            "gmres": "the matrix may be singular",
        }[method]
        more = "give a preconditioner, a larger maxiter or a larger tol, or take method='direct'"
        failed = ~(residual <= limit)
        report(method.upper(), f"{advice}; or {more}", failed, history, residual, np.sqrt(b @ b))
        return y


def _check_regular(A: Any) -> None:
    singular = not np.isfinite(A).all()
    if not singular and A.size:
        try:
            inverse = np.linalg.inv(A)
        except np.linalg.LinAlgError:
            singular = True
        else:
            condition = np.linalg.norm(A, 1) * np.linalg.norm(inverse, 1)
            singular = not condition * np.finfo(A.dtype).eps < 1
    if singular:
        raise SingularError(_is_singular(A))


def _solved_regular(A: Any, b: Any) -> Any:
    """A⁻¹ b in compiled code, with an estimate of |A⁻¹|: by a second right-hand side in general position."""
    n = A.shape[0]
    w = np.random.default_rng(0).choice([-1.0, 1.0], n).astype(A.dtype)
    both = np.linalg.solve(A, np.stack([b, w], axis=1))
    condition = np.linalg.norm(A, 1) * np.max(np.abs(both[:, 1])) * n**0.5
    stop_if(~(condition * np.finfo(A.dtype).eps < 1), "LinAlgError", _is_singular(A))
    return both[:, 0]


def _is_singular(A: Any) -> str:
    return (
        f"the {A.shape[0]} × {A.shape[0]} matrix of a linear system is singular, or not finite: the equations "
        "do not say how the unknowns move. Does every unknown occur in them, and is the solution isolated?"
    )


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
        rule = lambda F, x, p, varying, record: _at(F, x, p, varying, [], later, None, record)
        return list(hooks.call_closed(F, x, p, rule))
    varying = [k for k, v in enumerate(p) if varies(v)]
    free = Point(F, x, p, varying, record=False).free
    parents = [*[p[k].row for k in varying], *free]
    if not parents:
        return x
    frozen = [None if varies(v) else v for v in p]

    def operator_of(values: Sequence[Any], record: bool) -> Operator:
        full = list(frozen)
        for k, v in zip(varying, values[: len(varying)], strict=True):
            full[k] = v
        push, pull = _at(F, x, full, varying, free, how, known, record)
        return Custom(push, pull, name="Implicit")

    inputs = [*[p[k]._v for k in varying], *[None] * len(free)]
    raw = [v._v if isinstance(v, Tensor) else v for v in x]
    return record_joint("implicit", operator_of, inputs, parents, raw)


def _at(
    F: Equations,
    x: Sequence[Any],
    p: list[Any],
    varying: Sequence[int],
    free: Sequence[Row],
    how: How,
    known: tuple[Linear, bool] | None,
    record: bool,
) -> tuple[Any, Any]:
    """dp ↦ dx and its adjoint, at these values."""
    solution = at_solution(F, x, p, how, known) if record else x
    point = Point(F, solution, p, varying, record)
    if not set(point.free) <= set(free):
        raise StructureError(
            "F of an implicit function read other varying values when it was run again for the derivative; it "
            "must depend on its arguments, and on what does not change, alone"
        )
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
