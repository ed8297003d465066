"""The iterations that find x with F(x) = 0, and the check of one that was found elsewhere.

All is on values that do not vary: nothing here is differentiated.

Like the methods of krylov.py they are loops over states of fixed types: they run on arrays, and are staged.

An unknown has no scale but its own: a step is small against what it is now, entry by entry. One whose solution
is 0 is small against the largest that it was. Where rounding alone is left, neither may be reached: that is
seen where nothing falls any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ConvergenceError, ShapeError, SingularError
from ..hooks import hooks
from ..primitives.checks import stop_if
from ..tensor import Staged
from .arguments import count, share
from .contraction import ROUNDINGS, largest, only_if, settled
from .implicit import Point, preconditioner_at, type_of_leaf
from .krylov import norm, note
from .packing import Packing, plain
from .square import How, in_general, report, shown

Residual = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
HALVINGS = 30


def settings(x: Sequence[Any], tol: float | None, maxiter: int) -> tuple[Packing, Any, float]:
    packing = Packing([type_of_leaf(v) for v in x], "the unknowns x0")
    count("maxiter", maxiter)
    return packing, packing.pack(x), share("tol", tol) or packing.eps**0.7


def newton(F: Residual, x0: Sequence[Any], how: How, tol: float | None, maxiter: int) -> list[Any]:
    """x ← x + t d with F_x d = −F, t halved until |F| falls; ends where a step is small against x."""
    packing, x, tol = settings(x0, tol, maxiter)
    eps = packing.eps
    history: list[float] = []

    residual = at_packed(F, packing)

    def goes_on(state: Any) -> Any:
        *_, is_done, is_stuck, k = state
        return ~is_done & ~is_stuck & (k < maxiter)

    def body(state: Any) -> Any:
        x, r, size, most, before, _, _, k = state
        leaves = packing.unpack(x)
        point = Point(F, leaves, (), (), record=False)
        M = preconditioner_at(how, leaves, (), point.unknowns)
        try:
            d = point.linear(how, M).solve(-r, is_step=True)
        except SingularError as error:
            met = f" after {len(history) - 1} rounds; {shown(history)}" if history else ""
            found = SingularError(
                f"Newton's method came to a singular ∂F/∂x{met}. Is there a solution? Start elsewhere"
            )
            found.history = tuple(history)
            raise found from error
        full = _tried(residual, x, d, 0.0 * size + 1.0)
        # An equation in small units may be solved for while |F| is the rounding of another: steps tell.
        is_less = np.all((np.abs(d) < np.abs(before)) | is_small(x + d, d, most))
        is_closer = is_less & (full[2] <= size + ROUNDINGS * eps * first)
        t, r_new, new = hooks.while_loop(
            lambda s: ~(s[2] <= (1 - 1e-4 * s[0]) * size) & ~is_closer & (s[0] > 0.5**HALVINGS),
            lambda s: _tried(residual, x, d, 0.5 * s[0]),
            full,
        )
        falls = is_closer | (new <= (1 - 1e-4 * t) * size)
        x, new = np.where(falls, x + t * d, x), np.where(falls, new, size)
        most = np.maximum(most, finite(np.abs(x)))
        note(history, new)
        is_done = np.all(is_small(x, d, most)) | (new == 0)
        return x, np.where(falls, r_new, r), new, most, d, is_done, ~falls, k + 1

    def is_small(x: Any, d: Any, most: Any) -> Any:
        return np.abs(d) <= tol * finite(np.abs(x)) + ROUNDINGS * eps * most

    r = residual(x)
    first = norm(r)
    note(history, first)
    start = (x, r, first, finite(np.abs(x)), 0.0 * x, first == 0, ~(first == first), 0)
    x, _, size, most, d, is_done, is_stuck, _ = hooks.while_loop(goes_on, body, start)
    # F that does not fall is but its rounding, if a rounding of x makes as much of it, and would not lead far.
    # An x that was nothing but 0 does not tell its scale.
    scale = np.where(np.max(most, initial=0.0) > 0, most, 1.0)
    is_near = norm(d) <= eps**0.5 * norm(scale)
    left = only_if(
        is_stuck & is_near & ~is_done, lambda: _rounding(F, packing, x, scale, first), 0.0 * size
    )
    report(
        "Newton's method",
        "start closer to a solution, or allow a larger maxiter",
        ~is_done & ~(is_stuck & (size <= left)),
        history,
        size,
        first,
    )
    return packing.unpack(x)


def _rounding(F: Residual, packing: Packing, x: Any, scale: Any, first: Any) -> Any:
    """What |F| near x may be for no reason but rounding, of numbers as large as F was and x makes them."""
    point = Point(F, packing.unpack(x), (), (), record=False)
    change = plain(point.push(scale * signs_of(packing), point.is_staged))
    return ROUNDINGS * packing.eps * (first + norm(change))


def signs_of(packing: Packing) -> Any:
    """A general direction: ones of either sign."""
    return np.random.default_rng(0).choice([-1.0, 1.0], packing.size).astype(packing.dtype)


def finite(scale: Any) -> Any:
    """A scale that overflowed as 0: beside it nothing is small."""
    return np.where(scale < np.inf, scale, 0.0)


def _tried(residual: Callable[[Any], Any], x: Any, d: Any, t: Any) -> Any:
    r = residual(x + t * d)
    return t, r, norm(r)


def fixed(
    F: Residual, x0: Sequence[Any], tol: float | None, maxiter: int, memory: int
) -> list[Any]:
    """x ← x − F(x), F = x − f(x); with memory, by Anderson's combination of the last steps."""
    packing, x, tol = settings(x0, tol, maxiter)
    memory = count("memory", memory, least=0)
    history: list[float] = []
    residual = at_packed(F, packing)
    found = settled(lambda x: -residual(x), x, tol, packing.eps, maxiter, history, memory)
    advice = "is f a contraction near x? Try memory=5, bs.root on x - f(x), or a larger maxiter"
    what = "the fixed-point iteration"
    report(what, advice, ~found.is_done, history, found.left, found.first)
    return packing.unpack(found.x)


def solved(F: Residual, zeros: Sequence[Any], how: How) -> list[Any]:
    """x with F(x) = A x − b = 0: one linear solve, as A is its own derivative."""
    point = Point(F, zeros, (), (), record=False)
    b = -point.equations.pack([plain(y) for y in point.outputs])
    M = preconditioner_at(how, zeros, (), point.unknowns)
    x = point.linear(how, M).solve(b)
    leaves = point.unknowns.unpack(x)
    left = norm(values_of(F, point.equations, None, leaves))
    eps = max(point.unknowns.eps, point.equations.eps)
    share = 10 * how.tolerance(eps) + eps ** (1 / 3)
    # Mostly that is little beside b; if not, it may be so beside the numbers that A and x make.
    most = share * norm(b)
    most = only_if(left > most, lambda: share * _size_of_terms(point, x), most)
    is_wrong = left > most  # no NaN, which came in
    message = "at the solution: A must be linear, with A(0) = 0"
    if isinstance(is_wrong, Staged):
        stop_if(is_wrong, "ValueError", f"A x differs from b {message}")
    elif is_wrong:
        raise ShapeError(f"A x differs from b by {float(left):.3g} {message}")
    return leaves


def _size_of_terms(point: Point, x: Any) -> Any:
    """How large the numbers are that are added up in A x."""
    staged = point.is_staged
    change = plain(point.push(np.abs(x) * signs_of(point.unknowns), staged))
    return norm(change) + norm(plain(point.push(x, staged)))


def check_solution(F: Residual, x: Sequence[Any], tol: float | None) -> None:
    """An error if F(x) is more than a relative change of x by `tol`, in a general direction, makes of it."""
    point = Point(F, x, (), (), record=False)
    packed, eps = point.unknowns.pack(x), max(point.unknowns.eps, point.equations.eps)
    tol = eps ** (1 / 3) if tol is None else tol
    way, *ways = in_general(packed.shape[0], packed.dtype, 4)
    # Of an x near 0 nothing tells the scale: solvers that stop at 10⁻¹³ of 1 have found 0.
    near = eps**0.5
    staged = point.is_staged
    change = plain(point.push((np.abs(packed) + near) * way, staged))
    left = np.abs(point.equations.pack([plain(y) for y in point.outputs]))
    residual, most = largest(left), tol * largest(change)
    # Nor does one equation's unit hide what is left of another's.
    scale = largest(packed) + near
    changes = np.stack([plain(point.push(scale * v, staged)) for v in ways])
    is_solved = (residual <= most) & np.all(left <= tol * np.max(np.abs(changes), axis=0))
    what = "the solver of `implicit` gave an x that does not solve F(x, p) = 0"
    advice = "ask it for more, or give another tolerance, check=…; check=False takes x as it is"
    if isinstance(residual, Staged):
        stop_if(~is_solved, "ArithmeticError", f"{what}; {advice}")
    elif not is_solved:
        error = ConvergenceError(
            f"{what}: the largest entry of |F| is {float(residual):.3g}, and may be {float(most):.3g}, "
            f"which is what a relative error of {tol:.1g} in x makes of it; {advice}"
        )
        error.history = (float(residual),)
        raise error


def at_packed(F: Residual, packing: Packing, name: str = "F") -> Callable[[Any], Any]:
    """F as a function of a packed vector, which staged code runs in several places."""
    run = lambda x: values_of(F, packing, x)
    found: Callable[[Any], Any] = hooks.once(run, [packing.type], name)
    return found


def values_of(F: Residual, packing: Packing, x: Any, leaves: Any = None) -> Any:
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
