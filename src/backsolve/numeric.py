"""Numerical differentiation: derivatives from values of `f` alone, each with an error estimate.

All of them differentiate g(t) = f(x + t v) at t = 0. Taylor's series gives the four methods:

    forward      (g(h) - g(0)) / h       =  g' + h g''/2    + ...
    central      (g(h) - g(-h)) / 2h     =  g' + h² g'''/6  + ...    (even powers only)
    complex      Im g(ih) / h            =  g' - h² g'''/6  + ...    (no subtraction: h may be tiny)
    richardson   central at h, h/4, h/16, ... combined to cancel h², h⁴, ...  (Ridders' table)

The terms left out are the *truncation* error and shrink with h. Each value of g is off by a *noise*
of about eps (|g| + |x g'|), as f rounds its result and x + h v is rounded too; division by h turns
it into a *rounding* error that grows as h shrinks. Their sum is least at h ~ eps^(1/2) for forward
and eps^(1/3) for central, times the length over which f varies: there the default steps stand.
Values do not show all: believe an error where f is smooth, does not oscillate within a step, and
does not cancel much larger numbers inside. All is computed in the dtype of x, with the step given.

>>> d = derivative(np.sin, 1.0)
>>> abs(d.value - np.cos(1.0)) < d.error < 1e-9
np.True_
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
Function = Callable[[Any], Any]
Method = Literal["central", "forward", "complex", "richardson"]
Step = float | None
Pair = tuple[Array, Array]  # a value and its error
RATIO = 4  # of each step to the next in Ridders' table
QUIET = np.errstate(all="ignore")  # what is not finite is an error of ours, or a try that loses


@dataclass(frozen=True, eq=False)
class Estimate:
    """A derivative and how far to trust it; the first three have one shape.

    `error` estimates |value - truth|, truncation plus rounding. `step` is the h that was used (for
    "richardson" the first and largest one), `evaluations` how many times f was called.
    """

    value: Any
    error: Any
    step: Any
    evaluations: int


def derivative(f: Function, x: complex, method: Method = "central", step: Step = None) -> Estimate:
    """The derivative of `f` at the scalar `x`; `f` may return a number or an array.

    At a complex x a real f gives df/dx + i df/dy (steepest ascent), a holomorphic f gives f'(x).

    >>> derivative(np.exp, 0.0, method="forward", step=1e-14).error > 1e-3  # too small: rounding
    np.True_
    """
    s = _Sampler(f, x, method, "derivative")
    if s.x.shape:
        raise ValueError(f"numeric.derivative needs a scalar x, got shape {s.x.shape}; use grad")
    return _columns(s, step)


def directional(
    f: Function, x: ArrayLike, v: ArrayLike, method: Method = "central", step: Step = None
) -> Estimate:
    """The derivative of f(x + t v) by the real number t, at t = 0: the Jacobian times `v`.

    >>> np.round(directional(lambda x: x * x, [1.0, 2.0], v=[1.0, -1.0]).value, 6)
    array([ 2., -4.])
    """
    s, v = _Sampler(f, x, method, "directional"), np.asarray(v)
    if v.shape != s.x.shape:
        raise ValueError(f"numeric.directional needs v of x's shape {s.x.shape}, got {v.shape}")
    return Estimate(*_along(s, v.astype(s.x.dtype, casting="same_kind"), step), s.evaluations)


def jacobian(f: Function, x: ArrayLike, method: Method = "central", step: Step = None) -> Any:
    """All partial derivatives, of shape f(x).shape + x.shape; for complex x see `derivative`.

    >>> jacobian(lambda x: x[0] * x, np.array([2.0, 3.0]), method="complex")
    array([[4., 0.],
           [3., 2.]])
    """
    return _columns(_Sampler(f, x, method, "jacobian"), step).value


def grad(f: Function, x: ArrayLike, method: Method = "central", step: Step = None) -> Any:
    """The gradient of a real scalar function; at a complex x, df/dx + i df/dy.

    >>> grad(lambda x: np.sum(x**3), np.array([1.0, 2.0]), method="complex")
    array([ 3., 12.])
    """
    return _columns(_Sampler(f, x, method, "grad").need_real_scalar(), step).value


def hessian(f: Function, x: ArrayLike, step: Step = None) -> Any:
    """All second derivatives of a real scalar function of real `x`, of shape x.shape + x.shape.

    >>> np.round(hessian(lambda x: x[0] ** 2 * x[1], np.array([1.0, 3.0])), 6)
    array([[6., 2.],
           [2., 0.]])
    """
    s = _Sampler(f, x, "richardson", "hessian").need_real_scalar()
    if s.x.dtype.kind == "c":
        raise TypeError(f"numeric.hessian needs a real x, got {s.x.dtype}; split it into two parts")
    unit = [s.unit(j) for j in range(s.x.size)]
    steps = [_steps(s, e, step) for e in unit]
    out = np.empty((s.x.size, s.x.size), np.result_type(s.y, s.x))
    for i, j in combinations_with_replacement(range(s.x.size), 2):
        pairs = dict.fromkeys([(steps[i][k], steps[j][k]) for k in (0, -1)])
        tried = [(*_mixed(s, a * unit[i], b * unit[j], a * b), a) for a, b in pairs]
        out[i, j] = out[j, i] = _settle(s, tried)[0]
    return out.reshape(s.x.shape * 2)[()]


class _Sampler:
    """`f` around one `x`: counts its calls, checks what it returns, and knows how noisy it is."""

    @QUIET
    def __init__(self, f: Function, x: Any, method: str, caller: str) -> None:
        self.f, self.method, self.caller, self.evaluations = f, method, caller, 0
        self.x = x = np.array(getattr(x, "value", x))
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
        if x.dtype.kind not in "fc":
            raise TypeError(
                f"numeric.{caller} needs a floating-point or complex x, got {x.dtype};"
                " write 2.0 for 2, or convert with np.asarray(x, dtype=float)"
            )
        self.real = x.real.dtype.type
        self.y = y = self.need_finite(self(0 * x))
        self.shape = y.shape
        self.eps = eps = max(float(np.finfo(x.dtype).eps), float(np.finfo(y.dtype).eps))
        # Ridders' rows: from h = 1/4 down to eps^(1/3), where rounding starts to win
        self.rows = max(3, 1 + math.ceil(math.log(0.25 / eps ** (1 / 3), RATIO)))
        # x is known to eps |x|, so f is known to eps sum_j |x_j ∂f/∂x_j| at best. One sample with
        # random signs sees the size of that sum: |f(x + √eps (± x)) - f(x)| / √eps.
        tilt = math.sqrt(eps) * np.random.default_rng(0).choice((-1, 1), x.shape).astype(self.real)
        spread = np.abs(self(tilt * x) - y) / math.sqrt(eps)
        self.spread = np.where(np.isfinite(spread), spread, np.zeros_like(spread))

    def __call__(self, move: Any) -> Array:
        self.evaluations += 1
        out = self.f(self.x + move)
        y = np.array(getattr(out, "value", out))
        if y.dtype.kind in "biu":
            y = y.astype(self.real)
        if y.dtype.kind not in "fc":
            raise TypeError(f"f must return a number or an array of numbers, got {y.dtype}: {y!r}")
        if y.shape != (shape := getattr(self, "shape", y.shape)):
            raise ValueError(f"f must keep its shape near x; it gave {shape}, then {y.shape}")
        return y

    def unit(self, j: int) -> Array:
        return np.reshape(np.arange(self.x.size) == j, self.x.shape).astype(self.x.dtype)

    def noise(self, *values: Array) -> Array:
        """How far each of these values of f may be off."""
        return np.asarray(self.eps * (np.max(np.abs(np.stack(values)), axis=0) + self.spread))

    def need_finite(self, y: Array) -> Array:
        if not np.all(np.isfinite(y)):
            raise ValueError(
                f"numeric.{self.caller} got non-finite values {y} from f at or near x = {self.x};"
                " move x off the edge of f's domain, or try a smaller step or method='forward'"
            )
        return y

    def need_real_scalar(self) -> _Sampler:
        if self.y.shape or self.y.dtype.kind == "c":
            raise (ValueError if self.y.shape else TypeError)(
                f"numeric.{self.caller} needs f to return one real number, got {self.y.dtype} of"
                f" shape {self.y.shape}; reduce it (np.sum, .real), or use numeric.jacobian"
            )
        return self


def _forward(s: _Sampler, v: Array, h: Any) -> Pair:
    y1, y2, y4 = s(h * v), s(2 * h * v), s(4 * h * v)
    d, d2, d4 = (y1 - s.y) / h, (y2 - s.y) / (2 * h), (y4 - s.y) / (4 * h)
    # h g''/2 is what 2h and h differ by; the next term can hide it there, but not at 4h as well
    truncation = np.maximum(np.abs(d2 - d), np.abs(d4 - d) / 3)
    return d, truncation + 2 * s.noise(s.y, y1) / abs(h) + s.eps * np.abs(d)


def _difference(s: _Sampler, v: Array, h: Any) -> Pair:
    """The central difference, and its rounding error alone."""
    up, down = s(h * v), s(-h * v)
    d = (up - down) / (2 * h)
    return d, s.noise(up, down) / abs(h) + s.eps * np.abs(d)


def _central(s: _Sampler, v: Array, h: Any) -> Pair:
    (d, rounding), (d2, _) = _difference(s, v, h), _difference(s, v, 2 * h)
    return d, np.abs(d2 - d) / 3 + rounding  # h² g'''/6 is a third of what 2h and h differ by


def _richardson(s: _Sampler, v: Array, h: Any) -> Pair:
    return _extrapolate([_difference(s, v, h / RATIO**k) for k in range(s.rows)])


def _complex(s: _Sampler, v: Array, h: Any) -> Pair:
    wide, narrow = _lengths(s.x, v)
    delta = s.real(s.eps ** (1 / 3) * narrow)  # a real step, for the checks below
    z, z2, z3 = s(1j * h * v), s(2j * h * v), s((delta + 1j * h) * v)
    d, d2, d3 = z.imag / h, z2.imag / (2 * h), z3.imag / h
    size, change = np.abs(z.real), z3.real - z.real
    dropped = (d == 0) & (d3 == 0) & (np.abs(change) > 1000 * s.eps * size)
    if "c" in s.x.dtype.kind + s.y.dtype.kind or z.dtype.kind != "c" or np.any(dropped):
        raise TypeError(
            f"method='complex' needs a real x (got {s.x.dtype}) and an analytic f, real at x (got"
            f" {s.y.dtype}), complex at x + ih (got {z.dtype}) that never drops the imaginary part"
            " (does f use abs, real, astype, a real buffer?); use 'central' or 'richardson'"
        )
    # rounding of x moves g' by eps |x g''| with d3 - d = delta g''; spread: partials that cancel
    rounding = 4 * s.eps * (np.abs(d) + wide * np.abs(d3 - d) / delta + s.spread / wide)
    # By the mean value theorem change/delta is g' somewhere in between, if f is analytic
    # (Cauchy-Riemann). What is beyond that and beyond noise, f lost of its imaginary part.
    expected = np.abs(d3 - d) + 16 * s.eps * (size + wide * np.abs(d)) / delta
    lost = np.maximum(np.abs(change / delta - d) - expected, 0)
    underflow = np.finfo(z.dtype).smallest_subnormal / abs(h)
    return d, np.abs(d2 - d) / 3 + rounding + lost + underflow


# (sampler, direction, step) -> value, error; and from eps the step for an f that varies over 1
METHODS: dict[str, tuple[Callable[[_Sampler, Array, Any], Pair], Callable[[float], float]]] = {
    "central": (_central, lambda eps: eps ** (1 / 3)),
    "forward": (_forward, lambda eps: eps ** (1 / 2)),
    "complex": (_complex, lambda eps: eps**2),
    "richardson": (_richardson, lambda eps: 1 / 4),
}


@QUIET
def _mixed(s: _Sampler, u: Array, w: Array, area: Any) -> Pair:
    """(f(+u+w) - f(+u-w) - f(-u+w) + f(-u-w)) / 4 area, extrapolated: it has even powers only."""
    rows = []
    for q in (s.real(RATIO**-k) for k in range(s.rows)):
        up, down, qq = s(q * (u + w)), s(-q * (u + w)), area * q * q
        across = 2 * s.y if np.array_equal(u, w) else s(q * (u - w)) + s(q * (w - u))
        rows.append(((up - across + down) / (4 * qq), s.noise(up, down, s.y) / abs(qq)))
    return _extrapolate(rows)


def _extrapolate(rows: Sequence[Pair]) -> Pair:
    """Ridders' table over estimates T(h), T(h/4), ... whose errors are c1 h² + c2 h⁴ + ...

        T_j(h) = T_{j-1}(h) + (T_{j-1}(h) - T_{j-1}(4h)) / (4^{2j} - 1)      cancels h^{2j}

    The error of an entry is how far it moved from its two parents, plus the rounding error that it
    carries. The least error wins, for each output by itself; entries that are not finite lose.
    """
    best, error = np.full_like(rows[0][0], np.nan), np.full_like(rows[0][1], np.inf)
    above: list[Pair] = []
    for row in rows:
        line = [row]
        if above:  # a finer row that contradicts a lucky agreement of coarse ones
            radius = np.abs(row[0] - above[0][0]) + row[1]
            error = np.fmax(error, np.abs(best - row[0]) - radius)
        for j, (old, old_rounding) in enumerate(above):
            (new, rounding), c = line[j], float(RATIO ** (2 * j + 2))
            t, carried = new + (new - old) / (c - 1), (c * rounding + old_rounding) / (c - 1)
            moved = np.maximum(np.abs(t - new), np.abs(t - old))
            line.append((t, carried))
            for value, e in ((new, np.abs(new - old) + rounding), (t, moved + carried)):
                better = np.isfinite(value) & (e < error)
                best, error = np.where(better, value, best), np.where(better, e, error)
        above = line
    return best, error


def _lengths(x: Array, v: Array) -> tuple[float, float]:
    """The longest and the shortest t over which f may vary: those of x along v, and 1."""
    on, most = (v != 0) & (x != 0), float(np.max(np.abs(v), initial=0)) or 1.0
    wide = float(np.max(np.abs(x[on]), initial=1)) / most
    return wide, float(np.min(np.abs(x[on] / v[on]), initial=1 / most))


def _steps(s: _Sampler, v: Array, step: Any) -> list[Any]:
    """The given step, or one or two of our own, the larger first.

    sin varies over a length of 1 however large x is, log over |x| however small it is. A step small
    against both (100 r < |x| < 1/(100 r)) is taken relative to max(1, |x|); else both are tried.
    """
    if step is not None:
        h = s.real(step)
        if np.ndim(h) or not np.isfinite(h) or h == 0:
            raise ValueError(f"step must be one finite number, not zero in {h.dtype}; got {step!r}")
        return [h]
    wide, narrow = _lengths(s.x, v)
    scales = [wide, narrow] if wide * 100 * s.eps ** (1 / 3) > narrow else [wide]
    scales = [narrow] if s.method == "complex" else scales  # nothing cancels: the less the better
    r, least = METHODS[s.method][1](s.eps), float(np.finfo(s.real).tiny)
    # a power of two: x + h then loses little, and division by h nothing
    return [s.real(max(2.0 ** round(math.log2(r * scale)), least)) for scale in scales]


@QUIET
def _settle(s: _Sampler, tried: Sequence[tuple[Array, Array, Any]]) -> tuple[Any, Any, Any]:
    """Of a large and a small step: the least error if they agree, else the least relative error.

    Too large a step (for 1/x near 0) shows by an error over a tenth of d, too small a one (for
    cos(x) - 1 near 0) by f hardly moving. If neither or both show, their difference is the error.
    """
    (d, e, h), (d2, e2, h2) = tried[0], tried[-1]
    e, e2 = np.where(np.isfinite(d + e), e, math.inf), np.where(np.isnan(e2), math.inf, e2)
    gap = np.abs(d - d2)
    better = np.where(gap <= e + e2, e2 < e, e2 * np.abs(d) < e * np.abs(d2))
    take = np.isfinite(d2) & (better | ~np.isfinite(d))
    doubt = (gap > e + e2) & ((e < 0.1 * np.abs(d)) == (e2 < np.abs(d2)))
    value, error = s.need_finite(np.where(take, d2, d)), np.where(take, e2, e)
    error = np.where(doubt, np.fmax(error, gap), error)
    return value[()], error[()], np.where(take, h2, h)[()]


@QUIET
def _along(s: _Sampler, v: Array, step: Any) -> tuple[Any, Any, Any]:
    return _settle(s, [(*METHODS[s.method][0](s, v, h), h) for h in _steps(s, v, step)])


def _partial(s: _Sampler, v: Array, step: Any) -> tuple[Any, Any, Any]:
    """By one entry of x; by a complex entry z = x + iy, from those along 1 and along i."""
    dx, ex, h = _along(s, v, step)
    if s.x.dtype.kind != "c":
        return dx, ex, h
    dy, ey, _ = _along(s, 1j * v, step)
    if s.y.dtype.kind != "c":
        return dx + 1j * dy, np.hypot(ex, ey), h
    gap = np.abs(dx + 1j * dy)  # zero for a holomorphic f: Cauchy-Riemann
    if np.any(gap > 100 * (ex + ey) + math.sqrt(s.eps) * (np.abs(dx) + np.abs(dy))):
        raise ValueError(
            f"numeric.{s.caller} needs f real or holomorphic; got {dx} along 1 but {dy} along i,"
            " not i times that; use numeric.directional, or take f's real and imaginary parts"
        )
    return (dx - 1j * dy) / 2, (ex + ey + gap) / 2, h


def _columns(s: _Sampler, step: Any) -> Estimate:
    shape = s.y.shape + s.x.shape
    columns = [_partial(s, s.unit(j), step) for j in range(s.x.size)] or [(np.zeros(shape),) * 3]
    d, e, h = (np.stack(c, axis=-1).reshape(shape)[()] for c in zip(*columns, strict=True))
    return Estimate(d, e, h, s.evaluations)
