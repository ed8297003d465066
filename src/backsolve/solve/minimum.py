"""A minimum, by Newton's method with CG.

Like the iterations of iterate.py this is a loop over a state of fixed types, on values that do not vary.

The units of unknowns decide nothing: a step along the gradient, which has none, is taken as far as f falls and
never ends the search, and where curvatures are far apart CG and the end go by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConvergenceError
from ..hooks import hooks
from ..primitives.checks import raise_if
from ..tensor import Staged
from .contraction import ROUNDINGS, only_if
from .implicit import Point
from .iterate import HALVINGS, Residual, at_packed, finite, settings, signs_of
from .krylov import FLAT, Map, cg, is_indefinite, norm, note, times
from .packing import Packing, plain
from .square import How, report, units_of_rows

CURVED = 1e3  # roundings of the largest curvature, up to which CG takes none for one
MOST_HALVINGS = 100  # where f is nearly flat, a step may lead far up, or not far enough
MOST_LOOKED = 50  # unknowns up to which all ways down are looked for; beyond, so many


def minimum(
    f: Residual, gradient: Residual, x0: Sequence[Any], tol: float | None, maxiter: int
) -> list[Any]:
    """x ← x + t d: d by CG on H d = −g, until curvature is negative; t halved until f falls."""
    packing, x, tol = settings(x0, tol, maxiter)
    eps, least = packing.eps, 0.5**MOST_HALVINGS
    history: list[float] = []
    signs = signs_of(packing)

    value = hooks.once(lambda x: plain(*f(packing.unpack(x), ())), [packing.type], "f")
    slopes = at_packed(gradient, packing, "gradient")

    def goes_on(state: Any) -> Any:
        *_, is_done, is_stuck, k = state
        return ~is_done & ~is_stuck & (k < maxiter)

    def body(state: Any) -> Any:
        x, y, g, first, most, in_units, _, _, k = state
        H = _hessian(gradient, packing, x)
        none = np.ones_like(x) if isinstance(in_units, Staged) else 1.0
        units = only_if(in_units, lambda: _units(H, packing), none)
        # closer as the end comes near: then convergence is faster than linear
        accuracy = np.minimum(0.1, np.sqrt(norm(g) / first))
        rounds = 2 * packing.size + 10
        found = cg(
            H, -g, lambda v: times(units, v), accuracy, rounds, [], units, least=CURVED * eps
        )
        size, slope = norm(g), g @ found.x
        # Where CG met no curvature the step has no unit: it says nothing of how near the end is.
        left = found.residual / norm(times(units, g))
        is_cut = (found.rounds < rounds) & (left > 2 * accuracy)
        is_newton = (slope < 0) & ~(is_cut & (left > 0.5))
        d = np.where(slope < 0, found.x, -g)
        slope = np.where(slope < 0, slope, -(g @ g))
        length = norm(d)
        slack = 10 * eps * np.abs(y)
        full = value(x + d)
        # At the end of the way f may fall by less than its rounding, of which its size tells little
        # (cosh x − 1): there the gradient tells.
        is_near = np.all(np.abs(d) <= eps**0.25 * most + eps * norm(most))
        is_closer = only_if(
            is_newton & is_near & ~(full <= y + 1e-4 * slope + slack),
            lambda: norm(slopes(x + d)) <= 0.5 * size,
            size < 0,
        )
        t, new = hooks.while_loop(
            lambda s: (
                ~(s[1] <= y + 1e-4 * s[0] * slope + slack)
                & ~is_closer
                & (s[0] > np.where(s[1] > y + eps**0.5 * np.abs(y), least, 0.5**HALVINGS))
            ),
            lambda s: (0.5 * s[0], value(x + 0.5 * s[0] * d)),
            (0.0 * slope + 1.0, full),
        )
        t, new, _ = hooks.while_loop(
            lambda s: s[2] & (s[0] < 1 / least),
            lambda s: _farther(s[0], s[1], value(x + 2 * s[0] * d)),
            (t, new, ~is_newton & (t == 1)),
        )
        falls = is_closer | (new <= y + 1e-4 * np.minimum(t, 1.0) * slope + slack)
        before, ahead = size, slopes(x + t * d)
        # What promises less than f's own rounding, and leaves more of a gradient that is rounding, is led by
        # these alone: at a minimum with flat directions there is no other step.
        is_led = falls & ~is_closer & (-slope <= slack) & (norm(ahead) >= size)
        is_led = only_if(
            is_led, lambda: size <= ROUNDINGS * eps * (first + norm(H(most * signs))), is_led
        )
        falls = falls & ~is_led
        x, y = np.where(falls, x + t * d, x), np.where(falls, new, y)
        g = np.where(falls, ahead, g)
        size = norm(g)
        note(history, size)
        now = finite(np.abs(x))
        most = np.maximum(most, now)
        is_small = np.abs(d) <= tol * now + ROUNDINGS * eps * most
        is_rounding = (size > 0.5 * before) & (length <= tol * norm(most))
        is_done = falls & (t == 1) & (np.all(is_small) | is_rounding)
        is_done |= ~falls & (length <= eps**0.5 * norm(most))
        is_done = is_newton & (is_done | np.all(np.abs(d) <= ROUNDINGS * eps * now))
        # Beside an unknown in large units others always look small: then each is judged in units of its own.
        has_units = only_if(
            (is_done | is_cut) & ~in_units,
            lambda: np.max(np.abs(_units(H, packing) - 1), initial=0.0) > 0,
            in_units,
        )
        roots = np.sqrt(units)
        is_nothing = np.abs(d) / roots <= eps**0.5 * np.max(most / roots, initial=0.0)
        is_done = is_done & (~has_units | (in_units & np.all(is_small | is_nothing)))
        is_done |= is_led
        is_stuck = ~falls & (in_units | ~has_units)
        return x, y, g, first, most, has_units, is_done | (size == 0), is_stuck, k + 1

    g = slopes(x)
    size = norm(g)
    note(history, size)
    first, most = np.where(size > 0, size, 1.0), finite(np.abs(x))
    start = (x, value(x), g, first, most, size < 0, size == 0, ~(size == size), 0)
    x, _, g, *_, is_done, _, _ = hooks.while_loop(goes_on, body, start)
    advice = (
        "is there a minimum near x0, and f smooth there? Start closer, or allow a larger maxiter"
    )
    report("the minimisation", advice, ~is_done, history, norm(g), size)
    _check_minimum(gradient, packing, x)
    return packing.unpack(x)


def _farther(t: Any, y: Any, new: Any) -> tuple[Any, Any, Any]:
    falls = new < y
    return np.where(falls, 2 * t, t), np.where(falls, new, y), falls


def _units(H: Any, packing: Packing) -> Any:
    """1 over the curvatures of the unknowns, powers of two, or ones if these are alike."""
    found = units_of_rows(H, packing.size, packing.dtype)
    return np.ones(packing.size, packing.dtype) if isinstance(found, float) else found


def _hessian(gradient: Residual, packing: Packing, x: Any) -> Map:
    point = Point(gradient, packing.unpack(x), (), (), record=False)
    found: Map = hooks.once(point.linear(How(), None).push, [packing.type], "curvature")
    return found


def _is_indefinite(A: Any) -> Any:
    """Whether an eigenvalue is negative beyond the rounding of the matrix itself."""
    A = np.where(np.abs(A) < np.inf, A, 0.0)
    found = np.linalg.eigvalsh(0.5 * (A + A.T))
    least, most = np.min(found, initial=0.0), np.max(found, initial=0.0)
    return least < -FLAT * np.finfo(A.dtype).eps * most


def _check_minimum(gradient: Residual, packing: Packing, x: Any) -> None:
    """A stationary point that f falls away from is no minimum: its derivatives would mean something else."""
    point = Point(gradient, packing.unpack(x), (), (), record=False)
    linear = point.linear(How(), None)
    roots = np.sqrt(_units(linear.push, packing))
    if packing.size <= MOST_LOOKED:
        falls = _is_indefinite(linear.dense() * np.multiply.outer(roots, roots))
    else:
        H = lambda v: roots * linear.push(roots * v)
        drawn = np.random.default_rng(0).normal(size=packing.size).astype(packing.dtype)
        falls = is_indefinite(H, drawn, MOST_LOOKED + 1)
    message = (
        "argmin ended at a saddle or a maximum: the gradient vanishes there, and f falls beside it; "
        "start from another x0, away from what is symmetric"
    )
    raise_if(falls, ConvergenceError, message)
