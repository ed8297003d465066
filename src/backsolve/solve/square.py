"""Square linear maps, to be solved with: directly, or by Krylov methods, and what is said where they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConvergenceError, ShapeError, SingularError, StructureError
from ..primitives.checks import CHECK, code_of, stop_if
from ..tensor import Staged
from .arguments import check_preconditioner, count, share
from .contraction import only_if, settled
from .krylov import METHODS, Map, norm, times

DIRECT = 128  # unknowns up to which the matrix is formed and solved
LEAST_ROUNDS = 100
MOST_ROUNDS, PACE = 60, 0.6  # of a contraction: what is slower is solved in another way
ALIKE = 10  # powers of two between rows, which a tolerance has room for
LEAST_DECADE = -12  # of a residual that compiled code tells


@dataclass(frozen=True)
class How:
    """How the linear systems are solved."""

    method: str = "auto"
    preconditioner: Any = None  # (x leaves, p leaves) -> operator or function, on leaves
    tol: float | None = None
    maxiter: int | None = None
    restart: int = 30
    large: str = (
        "gmres"  # or "cg", "contraction": what "auto" takes where the matrix would be large
    )
    most_compiled: int = DIRECT  # unknowns up to which compiled code takes it to be small

    def __post_init__(self) -> None:
        methods = ("auto", "direct", *METHODS)
        if not isinstance(self.method, str) or self.method not in methods:
            raise StructureError(f"method is one of {', '.join(methods)}; got {self.method!r}")
        if self.preconditioner is not None:
            check_preconditioner(self.preconditioner)
        if self.maxiter is not None:
            object.__setattr__(self, "maxiter", count("maxiter", self.maxiter))
        object.__setattr__(self, "tol", share("tol", self.tol))
        object.__setattr__(self, "restart", count("restart", self.restart))

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
        self._known: dict[str, Any] = {}  # units of rows, and of columns

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
        if method != "contraction":
            return self._by(method, b, transposed, is_step)
        A, tol = self.pull if transposed else self.push, self.how.tolerance(self.eps)
        found = settled(lambda x: b - A(x), b, tol, self.eps, MOST_ROUNDS, [], pace=PACE)
        otherwise = "direct" if self.size <= DIRECT else "gmres"
        return only_if(~found.is_done, lambda: self._by(otherwise, b, transposed), found.x)

    def _by(self, method: str, b: Any, transposed: bool, is_step: bool = False) -> Any:
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
        A = self.pull if transposed else self.push
        units, of_unknowns = self._units(b.dtype, method != "gmres", transposed)
        options: dict[str, Any] = {}
        if method == "gmres":
            options = {"restart": how.restart}
            if transposed and not isinstance(of_unknowns, float):
                options["too"] = self._unit_of(self.pull, "columns alone", b.dtype)

        def precondition(v: Any) -> Any:
            if M is None:
                return times(of_unknowns, v)
            z = M[transposed](v / units if method == "gmres" else v)
            if np.shape(z) != np.shape(v):
                raise ShapeError(
                    "a preconditioner must give what has the form of its argument: of "
                    f"{np.size(v)} numbers it made {np.size(z)}"
                )
            return z

        y, _, residual, limit, _ = METHODS[method](
            A, b, precondition, tol, rounds, history, units, **options
        )
        advice = {
            "cg": "CG needs a symmetric, positive definite matrix (else: method='minres' or 'gmres')",
            "minres": "MINRES needs a symmetric matrix (else: method='gmres')",
            "gmres": "the matrix may be singular",
        }[method]
        more = "give a preconditioner, a larger maxiter or a larger tol, or take method='direct'"
        failed = ~((residual <= limit) & (limit < np.inf))
        report(
            method.upper(), f"{advice}; or {more}", failed, history, residual, norm(times(units, b))
        )
        return y

    def _units(self, dtype: Any, is_symmetric: bool, transposed: bool) -> Any:
        """Powers of two by which equations and unknowns are multiplied, so that no unit hides what is left in
        another. What are equations of A are unknowns of Aᵀ."""
        of_rows = self._unit_of(self.push, "rows", dtype)
        if is_symmetric:  # half of a unit on either side: as a preconditioner that is all of it
            return of_rows, of_rows
        if not transposed:
            return of_rows, 1.0
        in_units = lambda v: self.pull(times(of_rows, v))
        return self._unit_of(in_units, "columns", dtype), of_rows

    def _unit_of(self, A: Map, name: str, dtype: Any) -> Any:
        found = self._known.get(name)
        if found is None:
            found = units_of_rows(A, self.size, dtype)
            if not isinstance(found, Staged):
                self._known[name] = found
        return found


def units_of_rows(A: Map, size: int, dtype: Any) -> Any:
    """1 over their sizes, by the larger of two general images; 1.0 if they are known to be alike."""
    one, other = in_general(size, dtype, 2)
    rows = np.maximum(np.abs(A(one)), np.abs(A(other)))
    counts = (rows > 0) & (rows < np.inf)
    e = np.where(counts, np.frexp(np.where(counts, rows, 1.0))[1], 0)
    far = np.iinfo(np.int16).max
    most, least = np.max(e, initial=-far, where=counts), np.min(e, initial=far, where=counts)
    differ = most - least > ALIKE
    if not isinstance(differ, Staged) and not differ:
        return 1.0
    e = np.where(counts & differ, e, 0)
    largest = np.finfo(dtype).maxexp - 2
    return np.ldexp(dtype.type(1), np.clip(-e, -largest, largest))


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
            condition = np.linalg.norm(A, 1) * np.linalg.norm(inverse, 1)
            if not condition * np.finfo(A.dtype).eps < 1:  # or its units are far apart
                rows, columns = _sizes(A)
                condition = np.linalg.norm(columns[:, None] * inverse * rows, 1)
                singular = not condition * np.finfo(A.dtype).eps < 1
    if singular:
        raise SingularError(_is_singular(A))


def _solved_regular(A: Any, b: Any) -> Any:
    """A⁻¹ b in compiled code, with an estimate of |A⁻¹|: by a second right-hand side in general position."""
    n = A.shape[0]
    if not n:
        return b
    rows, columns = _sizes(A)
    w = rows * np.random.default_rng(0).choice([-1.0, 1.0], n).astype(A.dtype)
    both = np.linalg.solve(A, np.stack([b, w], axis=1))
    condition = np.max(columns * np.abs(both[:, 1])) * n**0.5
    stop_if(~(condition * np.finfo(A.dtype).eps < 1), "LinAlgError", _is_singular(A))
    return both[:, 0]


def _sizes(A: Any) -> tuple[Any, Any]:
    """Of equations, and of unknowns in these: beside them |A| is 1, and no unit makes it singular."""
    rows = np.max(np.abs(A), axis=1)
    rows = np.where(rows > 0, rows, 1.0)
    return rows, (1 / rows) @ np.abs(A)


def _is_singular(A: Any) -> str:
    return (
        f"the {A.shape[0]} × {A.shape[0]} matrix of a linear system is singular, or not finite: the equations "
        "do not say how the unknowns move. Does every unknown occur in them, and is the solution isolated?"
    )
