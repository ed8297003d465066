"""Square linear maps, to be solved with: directly, or by Krylov methods, and what is said where they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConvergenceError, ShapeError, SingularError, StructureError
from ..hooks import hooks
from ..primitives.checks import CHECK, code_of, stop_if
from ..tensor import Staged
from .krylov import METHODS, Map, Outcome, norm

DIRECT = 128  # unknowns up to which the matrix is formed and solved
LEAST_ROUNDS = 100
ALIKE = 10  # powers of two between rows, which a tolerance has room for
MOST_REPEATS = 8  # of a solve for what is left
LEAST_DECADE = -12  # of a residual that compiled code tells


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

    def tolerance(self, eps: float) -> float:
        return eps**0.7 if self.tol is None else self.tol


def report(
    what: str, advice: str, failed: Any, history: Sequence[float], last: Any, first: Any
) -> None:
    """Raise if `failed`, with the residuals; of compiled code, when it runs, with the last beside the first."""
    if isinstance(failed, Staged):
        _stop_with_decade(what, advice, failed, last, first)
    elif failed:
        error = ConvergenceError(
            f"{what} did not converge in {max(len(history) - 1, 0)} rounds; {shown(history)}. {advice}"
        )
        error.history = tuple(history)
        raise error


def shown(history: Sequence[float]) -> str:
    sizes = [f"{r:.3g}" for r in history]
    if len(sizes) > 8:
        sizes = [*sizes[:3], "…", *sizes[-4:]]
    return f"residuals: {', '.join(sizes)}"


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

    `dense` gives the matrix; both it and the products give values without rows, to the precision `eps`.
    """

    def __init__(
        self,
        push: Map,
        pull: Map,
        dense: Callable[[], Any],
        size: int,
        eps: float,
        how: How,
        M: Any = None,
    ):
        self.push, self.pull, self.dense = push, pull, dense
        self.size, self.eps, self.how, self.M = size, eps, how, M
        self._matrix: Any = None
        self._exponents: dict[str, Any] = {}  # of rows, and of columns

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
        tol = how.tolerance(self.eps)
        rounds = how.maxiter or max(LEAST_ROUNDS, 10 * self.size)
        options = {"restart": how.restart} if method == "gmres" else {}
        A = self.pull if transposed else self.push
        left, right = self._scales(b.dtype, method != "gmres", transposed)

        def precondition(v: Any) -> Any:
            if M is None:
                return v
            z = M[transposed](np.ldexp(v, -left))
            if np.shape(z) != np.shape(v):
                raise ShapeError(
                    "a preconditioner must give what has the form of its argument: of "
                    f"{np.size(v)} numbers it made {np.size(z)}"
                )
            return np.ldexp(z, -right)

        def once(b: Any) -> Outcome:
            in_units = lambda v: np.ldexp(A(np.ldexp(v, right)), left)
            return METHODS[method](in_units, b, precondition, tol, rounds, history, **options)

        b = np.ldexp(b, left)
        if method == "gmres":
            y, _, residual, limit, _ = once(b)
        else:
            y, residual, limit = _in_equal_units(once, b, left, 100 * tol)
        advice = {
            "cg": "CG needs a symmetric, positive definite matrix (else: method='minres' or 'gmres')",
            "minres": "MINRES needs a symmetric matrix (else: method='gmres')",
            "gmres": "the matrix may be singular",
        }[method]
        more = "give a preconditioner, a larger maxiter or a larger tol, or take method='direct'"
        failed = ~(residual <= limit)
        report(method.upper(), f"{advice}; or {more}", failed, history, residual, norm(b))
        return np.ldexp(y, right)

    def _scales(self, dtype: Any, is_symmetric: bool, transposed: bool) -> Any:
        """Powers of two for the equations and the unknowns of a solve, so that no unit hides what is left in
        another. What are equations of A are unknowns of Aᵀ."""
        of_rows = self._exponents_of(self.push, "rows", dtype)
        if is_symmetric:
            return -(of_rows // 2), -(of_rows // 2)
        if not transposed:
            return -of_rows, 0 * of_rows
        in_units = lambda v: self.pull(np.ldexp(v, -of_rows))
        return -self._exponents_of(in_units, "columns", dtype), -of_rows

    def _exponents_of(self, A: Map, name: str, dtype: Any) -> Any:
        found = self._exponents.get(name)
        if found is None:
            found = _exponents(A, self.size, dtype)
            if not isinstance(found, Staged):
                self._exponents[name] = found
        return found


def _in_equal_units(once: Callable[[Any], Outcome], b: Any, units: Any, share: float) -> Any:
    """x, the norm of b − A x and its limit, both with each equation in a unit of its own.

    A matrix that is to stay symmetric takes half of the unit on either side; the other half decides whether
    what is left of b is solved for once more.
    """

    def size_of(r: Any) -> Any:
        return norm(np.ldexp(r, units))

    limit = share * size_of(b)

    def goes_on(state: Any) -> Any:
        _, _, size, before, is_solved, k = state
        pays = (size > limit) & is_solved & (size < 0.5 * before) & (k < MOST_REPEATS)
        return (k == 0) | pays

    def body(state: Any) -> Any:
        x, r, size, _, _, k = state
        step, r, residual, most, _ = once(r)
        return x + step, r, size_of(r), size, residual <= most, k + 1

    size = size_of(b)
    x, _, size, *_ = hooks.while_loop(goes_on, body, (0.0 * b, b, size, size, size == size, 0))
    return x, size, limit


def _exponents(A: Map, size: int, dtype: Any) -> Any:
    """Of the rows of A, by the larger of two general images; 0 for all if they are much alike."""
    one, other = in_general(size, dtype, 2)
    rows = np.maximum(np.abs(A(one)), np.abs(A(other)))
    counts = (rows > 0) & (rows < np.inf)
    e = np.where(counts, np.frexp(np.where(counts, rows, 1.0))[1], 0)
    most, least = np.max(e, initial=0, where=counts), np.min(e, initial=0, where=counts)
    return np.where(counts & (most - least > ALIKE), e, 0)


def in_general(size: int, dtype: Any, count: int) -> Any:
    """Vectors of either sign, in general position."""
    rng = np.random.default_rng(0)
    shape = (count, size)
    return (rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.5, shape)).astype(dtype)


def _check_regular(A: Any) -> None:
    singular = not np.isfinite(A).all()
    if not singular and A.size:
        try:
            inverse = np.linalg.inv(A)
        except np.linalg.LinAlgError:
            singular = True
        else:
            rows, columns = _units(A)
            in_units = np.abs(A) / rows[:, None] / columns
            of_inverse = columns[:, None] * np.abs(inverse) * rows
            condition = np.linalg.norm(in_units, 1) * np.linalg.norm(of_inverse, 1)
            singular = not condition * np.finfo(A.dtype).eps < 1
    if singular:
        raise SingularError(_is_singular(A))


def _solved_regular(A: Any, b: Any) -> Any:
    """A⁻¹ b in compiled code, with an estimate of |A⁻¹|: by a second right-hand side in general position."""
    n = A.shape[0]
    if not n:
        return b
    rows, columns = _units(A)
    w = rows * np.random.default_rng(0).choice([-1.0, 1.0], n).astype(A.dtype)
    both = np.linalg.solve(A, np.stack([b, w], axis=1))
    condition = np.max(np.sum(np.abs(A) / rows[:, None] / columns, axis=0))
    condition = condition * np.max(columns * np.abs(both[:, 1])) * n**0.5
    stop_if(~(condition * np.finfo(A.dtype).eps < 1), "LinAlgError", _is_singular(A))
    return both[:, 0]


def _units(A: Any) -> tuple[Any, Any]:
    """Of equations and of unknowns: none makes A singular."""
    rows = np.max(np.abs(A), axis=1)
    rows = np.where(rows > 0, rows, 1.0)
    columns = np.max(np.abs(A) / rows[:, None], axis=0)
    return rows, np.where(columns > 0, columns, 1.0)


def _is_singular(A: Any) -> str:
    return (
        f"the {A.shape[0]} × {A.shape[0]} matrix of a linear system is singular, or not finite: the equations "
        "do not say how the unknowns move. Does every unknown occur in them, and is the solution isolated?"
    )
