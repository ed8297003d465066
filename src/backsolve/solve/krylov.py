"""Krylov methods for A x = b, of which nothing is known but v ↦ A v: CG, MINRES and GMRES.

Vectors are flat and real (a complex one is packed as its two parts). Each method is written once, as a
`while_loop` over a state of fixed types: on arrays that is plain Python, inside `jit` and `vmap` one loop of
the compiled program. SciPy's methods would do for arrays alone. In compiled code the history is not kept.

    CG       A symmetric and positive definite: least error in the norm of A
    MINRES   A symmetric: least residual, by a three-term recurrence
    GMRES    any A: least residual over the space, which starts again after `restart` vectors

A preconditioner is a function v ↦ M v with M ≈ A⁻¹; for CG and MINRES it must be symmetric, positive definite.

Equations may be far apart in size. `units` are 1 over their sizes, or 1.0: what is left of b must be little
beside b in these, so that no large equation hides a small one, and beside b as it is, and in the units `too`,
for a large equation of which b is small. That may be beyond what rounding allows; then the first will do.

The squares of small or large numbers are no numbers (10⁻²³ in single precision): every b is solved for as a
multiple of a power of two, which costs no digit, and lengths are taken of vectors whose largest entry is 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..hooks import hooks
from ..ir import Var
from ..primitive import FUNCTIONS
from ..tensor import Tensor

Map = Callable[[Any], Any]
FLAT = 1e4  # roundings of the largest curvature, up to which there is none


class Outcome(NamedTuple):
    x: Any
    left: Any  # b − A x, computed anew; of GMRES in units
    residual: Any  # its norm, in units
    limit: Any  # what it should be at most
    rounds: Any


def unit_of(v: Any) -> Any:
    """The largest entry, or 1 where that is no scale: v / unit_of(v) has squares."""
    most = np.max(np.abs(v), initial=0.0)
    return np.where((most > 0) & (most < np.inf), most, 1.0)


def norm(v: Any) -> Any:
    """|v|, without overflow or underflow."""
    with np.errstate(over="ignore", invalid="ignore"):  # what diverges is reported, not warned of
        unit = unit_of(v)
        v = v / unit
        return unit * np.sqrt(v @ v)


def _length(r: Any) -> Any:
    """|r| of what is left of a b in its units: if its square underflows it is small enough."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(r @ r)


def _root(r: Any, y: Any) -> Any:
    """√(r·y), 0 if that is negative."""
    p, q = unit_of(r), unit_of(y)
    return np.sqrt(p) * np.sqrt(q) * np.sqrt(np.maximum((r / p) @ (y / q), 0.0))


def note(history: list[float], size: Any) -> None:
    """Remember a residual, if it is a number."""
    value = getattr(size, "_v", size)
    if type(value) is not Var:
        history.append(float(value))


Method = Callable[..., Outcome]


def _in_units_of_b(method: Method) -> Method:
    """The same for a b of any size: solved for as 2ᵉ b, its largest entry between ½ and 1 in its units."""

    @functools.wraps(method)
    def run(
        A: Map,
        b: Any,
        M: Map,
        tol: float,
        maxiter: int,
        history: list[float],
        units: Any = 1.0,
        **options: Any,
    ) -> Outcome:
        if not b.shape[0]:
            none = np.zeros((), b.dtype)[()]
            return Outcome(b, b, none, none, 0)
        most = np.max(np.abs(times(units, b)), initial=0.0)
        e = np.where(most < np.inf, np.frexp(most)[1], 0)
        sizes: list[float] = []
        found = method(A, np.ldexp(b, -e), M, tol, maxiter, sizes, units, **options)
        with np.errstate(over="ignore"):
            history.extend(float(np.ldexp(size, e)) for size in sizes)
            x, left, residual, limit = [np.ldexp(v, e) for v in found[:-1]]
            return Outcome(x, left, residual, limit, found.rounds)

    return run


def times(units: Any, v: Any) -> Any:
    """v in these units; 1.0 stands for no change."""
    return v if isinstance(units, float) else units * v


def _sizes_of(b: Any, units: Any, too: Any = 1.0) -> Callable[[Any], Any]:
    """How much is left of b, by the norm in its units: the largest measure, in these, in none and in `too`."""
    if isinstance(units, float) and isinstance(too, float):
        return _length
    whole = _length(times(units, b))
    scales = []
    for others in (1.0,) if isinstance(too, float) else (1.0, too):
        size = norm(times(others, b))
        scales.append(others * (whole / np.where((size > 0) & (size < np.inf), size, 1.0)))

    def largest(r: Any) -> Any:
        size = _length(times(units, r))
        for scale in scales:
            size = np.maximum(size, _length(scale * r))
        return size

    return largest


@_in_units_of_b
def cg(
    A: Map,
    b: Any,
    M: Map,
    tol: float,
    maxiter: int,
    history: list[float],
    units: Any = 1.0,
    least: float = 0.0,
) -> Outcome:
    """Conjugate gradients. Stops, far from the limit, where A is not positive definite: if a curvature is not
    above `least` of the largest it met."""
    size_of = _sizes_of(b, units)
    size = size_of(b)
    limit = tol * size
    z = M(b)
    note(history, size)

    def goes_on(state: Any) -> Any:
        *_, size, is_positive, k = state
        return (size > limit) & is_positive & (k < maxiter)

    def body(state: Any) -> Any:
        x, r, p, rz, pp, most, _, _, k = state  # pp = p · M⁻¹ p
        Ap = A(p)
        curvature = p @ Ap
        is_positive = (curvature > least * most * pp) & (rz > 0)
        step = np.where(is_positive, rz / np.where(is_positive, curvature, 1.0), 0.0)
        x, r = x + step * p, r - step * Ap
        z = M(r)
        new = r @ z
        most = np.maximum(most, curvature / np.where(pp > 0, pp, 1.0))
        beta = new / np.where(rz > 0, rz, 1.0)
        p = z + beta * p
        size = size_of(r)
        note(history, size)
        return x, r, p, new, new + beta * beta * pp, most, size, is_positive, k + 1

    rz = b @ z
    start = (np.zeros_like(b), b, z, rz, rz, 0.0 * rz, size, size == size, 0)
    x, *_, k = hooks.while_loop(goes_on, body, start)
    left = b - A(x)
    return Outcome(x, left, _length(times(units, left)), 100 * limit, k)


def is_indefinite(A: Map, b: Any, maxiter: int) -> Any:
    """Whether one of the conjugate directions that begin with b has negative curvature, beyond rounding.

    Of a drawn b these find, in as many rounds as A has different eigenvalues, whether one is negative.
    """
    eps = float(np.finfo(b.dtype).eps)
    rounding = eps**0.5
    limit = 1e-3 * norm(b)

    def goes_on(state: Any) -> Any:
        *_, size, curvature, _, k = state
        return (size > limit) & (curvature > rounding) & (k < maxiter)

    def body(state: Any) -> Any:
        r, p, _, _, most, k = state
        Ap, rr = A(p), r @ r
        curvature = p @ Ap
        step = np.where(curvature > 0, rr / np.where(curvature > 0, curvature, 1.0), 0.0)
        r = r - step * Ap
        length = norm(p)
        size = norm(Ap)
        most = np.maximum(most, size / np.where(length > 0, length, 1.0))
        is_flat = size <= FLAT * eps * most * length
        share = np.where(is_flat, 0.0, curvature / np.where(is_flat, 1.0, length * size))
        return r, r + (r @ r / np.where(rr > 0, rr, 1.0)) * p, norm(r), share, most, k + 1

    start = (b, b, norm(b), 0.0 * norm(b) + 1.0, 0.0 * norm(b), 0)
    *_, curvature, _, _ = hooks.while_loop(goes_on, body, start)
    return curvature < -rounding


@_in_units_of_b
def minres(
    A: Map, b: Any, M: Map, tol: float, maxiter: int, history: list[float], units: Any = 1.0
) -> Outcome:
    """Of a symmetric A. It stops by the roots of the units: what is left in these is solved for once more."""
    size_of = _sizes_of(b, units)
    limit = 100 * tol * size_of(b)

    def goes_on(state: Any) -> Any:
        _, _, size, before, k = state
        return (size > limit) & (size < 0.5 * before) & (k < maxiter)

    def body(state: Any) -> Any:
        x, r, size, _, k = state
        step, rounds = _lanczos(A, r, M, tol, maxiter - k, history)
        x, r = x + step, r - A(step)
        return x, r, size_of(r), size, k + rounds

    x, k = _lanczos(A, b, M, tol, maxiter, history)
    left = b - A(x)
    if not isinstance(units, float):
        x, left, _, _, k = hooks.while_loop(
            goes_on, body, (x, left, size_of(left), 3.0 * size_of(b), k)
        )
    return Outcome(x, left, _length(times(units, left)), limit, k)


def _lanczos(
    A: Map, b: Any, M: Map, tol: float, maxiter: Any, history: list[float]
) -> tuple[Any, Any]:
    """Paige and Saunders (1975): Lanczos' tridiagonal matrix, made triangular by rotations on the way."""
    y = M(b)
    first = _root(b, y)
    zero = 0.0 * b
    none = 0.0 * first
    note(history, first)
    tiny = float(np.finfo(b.dtype).tiny)

    def goes_on(state: Any) -> Any:
        (*_, left), k = state[2], state[3]
        return (left > tol * first) & (k < maxiter)

    def body(state: Any) -> Any:
        (x, w, w_old), (r_old, r, y), (beta, beta_old, dbar, epsilon, c, s, left), k = state
        v = y / beta
        y = A(v) - np.where(beta_old > 0, beta / np.where(beta_old > 0, beta_old, 1.0), 0.0) * r_old
        alpha = v @ y
        y = y - (alpha / beta) * r
        r_old, r = r, y
        y = M(r)
        beta_old, beta = beta, _root(r, y)
        # the rotation before, on the new column; then one of its own
        epsilon_old, delta, gbar = epsilon, c * dbar + s * alpha, s * dbar - c * alpha
        epsilon, dbar = s * beta, -c * beta
        gamma = np.maximum(np.hypot(gbar, beta), tiny)
        c, s = gbar / gamma, beta / gamma
        phi, left = c * left, s * left
        w_old, w = w, (v - epsilon_old * w_old - delta * w) / gamma
        note(history, left)
        return (
            (x + phi * w, w, w_old),
            (r_old, r, y),
            (beta, beta_old, dbar, epsilon, c, s, left),
            k + 1,
        )

    scalars = (first, none, none, none, none - 1.0, none, first)
    (x, _, _), _, _, k = hooks.while_loop(
        goes_on, body, ((zero, zero, zero), (b, b, y), scalars, 0)
    )
    return x, k


@_in_units_of_b
def gmres(
    A: Map,
    b: Any,
    M: Map,
    tol: float,
    maxiter: int,
    history: list[float],
    units: Any = 1.0,
    restart: int = 30,
    too: Any = 1.0,
) -> Outcome:
    """Saad and Schultz (1986), preconditioned from the right: the residual, in units, is that of A x = b.

    The Hessenberg matrix H of a cycle becomes R = Q H by rotations, one a round; Q is kept as a matrix. What is
    not there yet of V is zero, and of R the identity, so that every round computes with the same shapes.
    """
    size_of = _sizes_of(b, units, too)
    b, product = times(units, b), A
    A = lambda v: times(units, product(v))
    m = max(1, min(restart, b.shape[0], maxiter))
    limit = tol * _length(b)
    places, small = np.arange(m + 1), float(np.finfo(b.dtype).eps)

    def cycle(state: Any) -> Any:
        x, r, size, _, _, k = state
        enough = np.where(size > limit, limit, tol * size)
        beta = np.where(size > 0, size, 1.0)
        V = np.where((places == 0)[:, None], r / beta, 0.0)
        Q = np.eye(m + 1, dtype=b.dtype) + 0.0 * beta
        R = np.eye(m, dtype=b.dtype) + 0.0 * beta

        def goes_on(state: Any) -> Any:
            *_, j, left = state
            return (j < m) & (left > enough) & (k + j < maxiter)

        def step(state: Any) -> Any:
            V, Q, R, j, _ = state
            here, below = (places == j), (places == j + 1)
            at, under = here.astype(b.dtype), below.astype(b.dtype)
            w = A(M(V[j]))
            before = norm(w)
            w, h = _orthogonal(V, w, j)
            length = norm(w)
            length = np.where(length > 10 * small * before, length, 0.0 * length)
            t = Q @ (h + length * under)
            a, d = at @ t, under @ t
            rho = np.hypot(a, d)
            safe = np.where(rho > 0, rho, 1.0)
            c, s = a / safe, d / safe
            top, bottom = at @ Q, under @ Q
            Q = np.where(here[:, None], c * top + s * bottom, Q)
            Q = np.where(below[:, None], c * bottom - s * top, Q)
            column = np.where(here, safe, np.where(below, 0.0, t))
            R = np.where(places[:m] == j, column[:m, None], R)
            V = _placed(V, j + 1, w / np.where(length > 0, length, 1.0))
            left = np.abs(size * (under @ Q[:, 0]))
            note(history, left)
            return V, Q, R, j + 1, left

        V, Q, R, j, _ = hooks.while_loop(goes_on, step, (V, Q, R, 0, size))
        g = np.where(places[:m] < j, size * Q[:m, 0], 0.0)
        x = x + M(np.linalg.solve(R, g) @ V[:m])
        r = b - A(x)
        return x, r, _length(r), size_of(r / units), size, k + j

    def goes_on(state: Any) -> Any:
        *_, size, most, before, k = state
        # A cycle that gains nothing will not do so next time, either.
        return (most > limit) & (k < maxiter) & (size < (1 - 1e-6) * before)

    size = _length(b)
    note(history, size)
    start = (0.0 * b, b, size, size, 2.0 * size, 0)
    x, r, size, _, _, k = hooks.while_loop(goes_on, cycle, start)
    # The estimate that ends a cycle and the residual itself differ by rounding.
    return Outcome(x, r, size, 2 * limit, k)


def _orthogonal(V: Any, w: Any, j: Any) -> tuple[Any, Any]:
    """w less its parts along the rows 0 … j of V, and these parts, one for each row of V."""
    h = np.zeros(V.shape[0], w.dtype)
    if not any(isinstance(x, Tensor) for x in (V, w, j)):
        B = V[: j + 1]
        for _ in range(2):  # Gram and Schmidt, twice: once leaves too much
            part = B @ w
            w, h[: j + 1] = w - part @ B, h[: j + 1] + part
        return w, h

    def step(state: Any) -> Any:
        w, h, i = state
        row = FUNCTIONS["getitem"](V, i)  # V may be known, where i is not
        part = row @ w
        return w - part * row, _placed(h, i, part), i + 1

    w, h, _ = hooks.while_loop(lambda s: s[2] <= j, step, (w, h + 0.0 * w[0], 0))
    return w, h


def _placed(V: Any, j: Any, row: Any) -> Any:
    """V, which nobody else reads, with another row j."""
    if any(isinstance(x, Tensor) for x in (V, j, row)):
        return FUNCTIONS["setitem"](V, j, row)
    V[j] = row
    return V


METHODS: dict[str, Method] = {"cg": cg, "gmres": gmres, "minres": minres}
