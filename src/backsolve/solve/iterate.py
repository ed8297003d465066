"""The iterations that find x with F(x) = 0, and the check of one that was found elsewhere.

All is on values that do not vary: nothing here is differentiated.

Like the methods of krylov.py they are loops over states of fixed types: they run on arrays, and are staged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ConvergenceError, ShapeError, SingularError, StructureError
from ..hooks import hooks
from ..primitives.checks import stop_if
from ..tensor import Staged
from .implicit import Point, preconditioner_at, type_of_leaf
from .krylov import cg, is_indefinite, norm, note
from .packing import Packing, plain
from .square import How, report, shown

Residual = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
HALVINGS = 30
MOST_LOOKED = 50  # directions in which a minimum is looked at for a way down


def _settings(x: Sequence[Any], tol: float | None, maxiter: int) -> tuple[Packing, Any, float]:
    packing = Packing([type_of_leaf(v) for v in x], "the unknowns x0")
    if tol is not None and not 0 < tol < 1:
        raise StructureError(f"tol must lie between 0 and 1, got {tol}")
    if maxiter < 1:
        raise StructureError(f"maxiter must be at least 1, got {maxiter}")
    return packing, packing.pack(x), tol or float(np.finfo(packing.dtype).eps ** 0.7)


def newton(F: Residual, x0: Sequence[Any], how: How, tol: float | None, maxiter: int) -> list[Any]:
    """x ← x + t d with F_x d = −F, t halved until |F| falls; ends where a step is small against x."""
    packing, x, tol = _settings(x0, tol, maxiter)
    rounding = float(np.finfo(packing.dtype).eps ** 0.5)
    history: list[float] = []

    def residual(x: Any) -> Any:
        return _values(F, packing, x)

    def goes_on(state: Any) -> Any:
        *_, is_done, is_stuck, k = state
        return ~is_done & ~is_stuck & (k < maxiter)

    def body(state: Any) -> Any:
        x, r, size, _, _, k = state
        leaves = packing.unpack(x)
        point = Point(F, leaves, (), (), record=False)
        M = preconditioner_at(how, leaves, (), point.unknowns)
        try:
            d = point.linear(how, M).solve(-r, is_step=True)
        except SingularError as error:
            found = SingularError(
                f"Newton's method came to a singular ∂F/∂x after {len(history) - 1} rounds; "
                f"{shown(history)}. Is there a solution? Start elsewhere"
            )
            found.history = tuple(history)
            raise found from error
        t, r, new = hooks.while_loop(
            lambda s: ~(s[2] <= (1 - 1e-4 * s[0]) * size) & (s[0] > 0.5**HALVINGS),
            lambda s: _tried(residual, x, d, 0.5 * s[0]),
            _tried(residual, x, d, 0.0 * size + 1.0),
        )
        falls = new <= (1 - 1e-4 * t) * size
        length, scale = norm(d), _finite(1.0 + norm(x))
        # Where rounding alone is left of |F|, it cannot fall.
        is_done = (length <= tol * scale) | (new == 0) | (~falls & (length <= rounding * scale))
        x, new = np.where(falls, x + t * d, x), np.where(falls, new, size)
        note(history, new)
        return x, np.where(falls, r, residual(x)), new, is_done, ~falls, k + 1

    r = residual(x)
    size = norm(r)
    note(history, size)
    x, _, size, is_done, *_ = hooks.while_loop(
        goes_on, body, (x, r, size, size == 0, ~(size == size), 0)
    )
    report(
        "Newton's method",
        "start closer to a solution, or allow a larger maxiter",
        ~is_done,
        history,
        size,
        norm(r),
    )
    return packing.unpack(x)


def _finite(scale: Any) -> Any:
    """A scale that overflowed as 0: beside it nothing is small."""
    return np.where(scale < np.inf, scale, 0.0)


def _tried(residual: Callable[[Any], Any], x: Any, d: Any, t: Any) -> Any:
    r = residual(x + t * d)
    return t, r, norm(r)


def fixed(
    F: Residual, x0: Sequence[Any], tol: float | None, maxiter: int, memory: int
) -> list[Any]:
    """x ← x − F(x), F = x − f(x); with memory, by Anderson's combination of the last steps.

    With dX and dR the differences of the last x and of the last residuals r = −F, one a row:
    x ← x + r − (dX + dR)ᵀ γ, where γ makes |r − dRᵀ γ| least.
    """
    packing, x, tol = _settings(x0, tol, maxiter)
    if memory < 0:
        raise StructureError(f"memory must be 0 or more, got {memory}")
    history: list[float] = []
    m = min(memory, packing.size)
    slots = np.arange(m)

    def goes_on(state: Any) -> Any:
        x, *_, size, k = state
        return (size > tol * _finite(1.0 + norm(x))) & (size < np.inf) & (k < maxiter)

    def plain_round(state: Any) -> Any:
        x, r, _, k = state
        x = x + r
        r = -_values(F, packing, x)
        note(history, norm(r))
        return x, r, norm(r), k + 1

    def combined_round(state: Any) -> Any:
        x, r, dX, dR, _, k = state
        G = dR @ dR.T
        weight = 1e-14 * np.trace(G) + float(np.finfo(packing.dtype).tiny)
        gamma = np.linalg.solve(G + weight * np.eye(m, dtype=packing.dtype), dR @ r)
        step = r - gamma @ (dX + dR)
        r_new = -_values(F, packing, x + step)
        here = (slots == k % m)[:, None]
        dX, dR = np.where(here, step, dX), np.where(here, r_new - r, dR)
        note(history, norm(r_new))
        return x + step, r_new, dX, dR, norm(r_new), k + 1

    r = -_values(F, packing, x)
    note(history, norm(r))
    if m:
        none = np.zeros((m, 1), packing.dtype) * x
        start: Any = (x, r, none, none, norm(r), 0)
        x, *_, size, _ = hooks.while_loop(goes_on, combined_round, start)
    else:
        x, _, size, _ = hooks.while_loop(goes_on, plain_round, (x, r, norm(r), 0))
    advice = "is f a contraction near x? Try memory=5, bs.root on x - f(x), or a larger maxiter"
    report(
        "the fixed-point iteration",
        advice,
        ~(size <= tol * _finite(1.0 + norm(x))),
        history,
        size,
        norm(r),
    )
    return packing.unpack(x)


def minimum(
    f: Residual, gradient: Residual, x0: Sequence[Any], tol: float | None, maxiter: int
) -> list[Any]:
    """x ← x + t d: d by CG on H d = −g, until curvature is negative; t halved until f falls."""
    packing, x, tol = _settings(x0, tol, maxiter)
    eps = float(np.finfo(packing.dtype).eps)
    history: list[float] = []

    def value(x: Any) -> Any:
        (y,) = f(packing.unpack(x), ())
        return plain(y)

    def goes_on(state: Any) -> Any:
        *_, is_done, is_stuck, k = state
        return ~is_done & ~is_stuck & (k < maxiter)

    def body(state: Any) -> Any:
        x, y, g, first, _, _, k = state
        point = Point(gradient, packing.unpack(x), (), (), record=False)
        H = point.linear(How(), None).push
        # closer as the end comes near: then convergence is faster than linear
        accuracy = np.minimum(0.1, np.sqrt(norm(g) / first))
        d = cg(H, -g, lambda v: v, accuracy, 2 * packing.size + 10, []).x
        slope = g @ d
        d = np.where(slope < 0, d, -g)
        slope = np.where(slope < 0, slope, -(g @ g))
        slack = 10 * eps * np.abs(y)
        t, new = hooks.while_loop(
            lambda s: ~(s[1] <= y + 1e-4 * s[0] * slope + slack) & (s[0] > 0.5**HALVINGS),
            lambda s: (0.5 * s[0], value(x + 0.5 * s[0] * d)),
            (0.0 * slope + 1.0, value(x + d)),
        )
        falls = new <= y + 1e-4 * t * slope + slack
        x, y = np.where(falls, x + t * d, x), np.where(falls, new, y)
        g = _values(gradient, packing, x)
        note(history, norm(g))
        length, scale = t * norm(d), _finite(1.0 + norm(x))
        is_done = (falls & (t == 1) & (length <= tol * scale)) | (norm(g) == 0)
        is_done = is_done | (~falls & (norm(d) <= eps**0.5 * scale))
        return x, y, g, first, is_done, ~falls, k + 1

    g = _values(gradient, packing, x)
    size = norm(g)
    note(history, size)
    start = (x, value(x), g, np.where(size > 0, size, 1.0), size == 0, ~(size == size), 0)
    x, _, g, _, is_done, _, _ = hooks.while_loop(goes_on, body, start)
    advice = (
        "is there a minimum near x0, and f smooth there? Start closer, or allow a larger maxiter"
    )
    report("the minimisation", advice, ~is_done, history, norm(g), size)
    _check_minimum(gradient, packing, x)
    return packing.unpack(x)


def _check_minimum(gradient: Residual, packing: Packing, x: Any) -> None:
    """A stationary point that f falls away from is no minimum: its derivatives would mean something else."""
    H = Point(gradient, packing.unpack(x), (), (), record=False).linear(How(), None).push
    drawn = np.random.default_rng(0).normal(size=packing.size).astype(packing.dtype)
    falls = is_indefinite(H, drawn, min(packing.size, MOST_LOOKED) + 1)
    message = (
        "argmin ended at a saddle or a maximum: the gradient vanishes there, and f falls beside it; "
        "start from another x0, away from what is symmetric"
    )
    if isinstance(falls, Staged):
        stop_if(falls, "ArithmeticError", message)
    elif falls:
        raise ConvergenceError(message)


def solved(F: Residual, zeros: Sequence[Any], how: How) -> list[Any]:
    """x with F(x) = A x − b = 0: one linear solve, as A is its own derivative."""
    point = Point(F, zeros, (), (), record=False)
    b = -point.equations.pack([plain(y) for y in point.outputs])
    M = preconditioner_at(how, zeros, (), point.unknowns)
    x = point.linear(how, M).solve(b)
    leaves = point.unknowns.unpack(x)
    left = norm(_values(F, point.equations, None, leaves))
    if not isinstance(left, Staged) and not left <= _rounding_of(point, x, how) + 1e-300:
        raise ShapeError(
            f"A x differs from b by {float(left):.3g} at the solution: A must be linear, with A(0) = 0"
        )
    return leaves


def _rounding_of(point: Point, x: Any, how: How) -> Any:
    """What may be left of A x − b: the method's tolerance and rounding, of numbers as large as A and x make."""
    way = np.random.default_rng(0).choice([-1.0, 1.0], x.shape).astype(x.dtype)
    share = 10 * how.tolerance(x.dtype) + float(np.finfo(x.dtype).eps ** (1 / 3))
    return share * (
        norm(plain(point.push(np.abs(x) * way, False))) + norm(plain(point.push(x, False)))
    )


def check_solution(F: Residual, x: Sequence[Any], tol: float | None) -> None:
    """An error if F(x) is more than a relative change of x by `tol`, in a general direction, makes of it."""
    point = Point(F, x, (), (), record=False)
    packed, dtype = point.unknowns.pack(x), point.unknowns.dtype
    tol = float(np.finfo(dtype).eps ** (1 / 3)) if tol is None else tol
    rng = np.random.default_rng(0)
    way = rng.choice([-1.0, 1.0], packed.shape) * rng.uniform(0.5, 1.5, packed.shape)
    change = plain(point.push((1 + np.abs(packed)) * way.astype(dtype), point.is_staged))
    residual = np.max(np.abs(point.equations.pack([plain(y) for y in point.outputs])))
    most = tol * np.max(np.abs(change))
    what = "the solver of `implicit` gave an x that does not solve F(x, p) = 0"
    advice = "ask it for more, or give another tolerance, check=…; check=False takes x as it is"
    if isinstance(residual, Staged):
        stop_if(~(residual <= most), "ArithmeticError", f"{what}; {advice}")
    elif not residual <= most:
        error = ConvergenceError(
            f"{what}: the largest entry of |F| is {float(residual):.3g}, and may be {float(most):.3g}, "
            f"which is what a relative error of {tol:.1g} in x makes of it; {advice}"
        )
        error.history = (float(residual),)
        raise error


def _values(F: Residual, packing: Packing, x: Any, leaves: Any = None) -> Any:
    """F at a packed vector, as one."""
    found = list(F(packing.unpack(x) if leaves is None else leaves, ()))
    types = packing.types
    if len(found) == len(types) and all(
        np.shape(y) == t.shape for y, t in zip(found, types, strict=True)
    ):
        return packing.pack([plain(y) for y in found])
    other = Packing([type_of_leaf(y) for y in found], "the values of F(x, p)")
    if other.size != packing.size:
        raise ShapeError(
            f"F(x, p) must have as many values as x has entries: got {other.size} for {packing.size}"
        )
    return other.pack([plain(y) for y in found])
