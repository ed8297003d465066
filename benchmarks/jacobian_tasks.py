"""The public tasks of Jacobian accumulation, written down from their mathematics.

Each takes the functions it needs (NumPy's, JAX's) and then its variables. The published counts have one
vertex for each operation as it is written, so repeated parts of a formula are evaluated again where it repeats
them, and where the published formula departs from the textbook (a sign in the arm's second coordinate, the
third wave speed of the flux in one dimension), so does this one: else the counts could not be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GAMMA = 1.4


@dataclass(frozen=True)
class Task:
    title: str
    f: Callable[..., tuple[Any, ...]]
    at: tuple[Any, ...]
    published: tuple[int, int, int, int]  # forward, reverse, Markowitz, the best of AlphaGrad
    goal: int


# ---- gas dynamics: Roe's approximate Riemann solver (1981)


def roe_flux_1d(m: Any, rl: Any, ml: Any, el: Any, rr: Any, mr: Any, er: Any) -> tuple[Any, ...]:
    """Density, momentum and energy left and right of an edge ↦ their flux through it."""

    def pressure(r: Any, q: Any, e: Any) -> Any:
        return (GAMMA - 1) * (e - 0.5 * q**2 / r)

    jump = rr - rl
    r = m.sqrt(rl * rr)
    weight = m.sqrt(rl) + m.sqrt(rr)
    vl, pl = ml / rl, pressure(rl, ml, el)
    hl = (el + pl) / rl
    vr, pr = mr / rr, pressure(rr, mr, er)
    hr = (er + pr) / rr
    dp, dv = pr - pl, vr - vl

    # Roe's averages of velocity and enthalpy; the speed of sound
    u = (m.sqrt(rl) * vl + m.sqrt(rr) * vr) / weight
    h = (m.sqrt(rl) * hl + m.sqrt(rr) * hr) / weight
    q = u**2
    a2 = (GAMMA - 1) * (h - 0.5 * q)
    a = m.sqrt(a2)
    right, middle, left = m.abs(u + a), m.abs(u), m.abs(u)

    # strengths of the three waves
    ra = a * r
    s0 = (jump - dp / a2) * middle
    s1 = (dv + dp / ra) * right
    s2 = (dv - dp / ra) * left

    def flux(r: Any, q: Any, e: Any, p: Any) -> tuple[Any, Any, Any]:
        v = q / r
        return q, p + q * v, v * (p + e)

    both = [x + y for x, y in zip(flux(rl, ml, el, pl), flux(rr, mr, er, pr), strict=True)]
    c = 0.5 * r / a
    waves = (
        s0 + c * s1 - c * s2,
        s0 * u + c * s1 * (u + a) - c * s2 * (u - a),
        s0 * 0.5 * q + c * s1 * (h + u * a) - c * s2 * (h - u * a),
    )
    return tuple([0.5 * (f - w) for f, w in zip(both, waves, strict=True)])


# ---- kinematics: an arm of six joints


def robot_arm(m: Any, t1: Any, t2: Any, t3: Any, t4: Any, t5: Any, t6: Any) -> tuple[Any, ...]:
    """Angles of six joints ↦ where the hand is, and its three angles in space (lengths in mm)."""
    cos, sin = m.cos, m.sin
    c1, c2, c4, c5, c6 = cos(t1), cos(t2), cos(t4), cos(t5), cos(t6)
    c23 = cos(t2) * cos(t3) - sin(t2) * sin(t3)
    s1, s2, s4, s5, s6 = sin(t1), sin(t2), sin(t4), sin(t5), sin(t6)
    s23 = cos(t2) * sin(t3) + sin(t2) * cos(t3)

    # the hand's direction, and the third coordinates of the two axes across it
    ax = s5 * (c1 * c23 * c4 + s1 * s4) + c1 * s23 * c5
    ay = s5 * (s1 * c23 * c4 - c1 * s4) + s1 * s23 * c5
    az = s23 * c4 * s5 - c23 * c5
    nz = c6 * (c23 * s5 + s23 * c4 * c5) - s23 * s4 * s6
    oz = -s6 * (c23 * s5 + s23 * c4 * c5) - s23 * s4 * c6
    angles = m.arctan2(ay, ax), m.arctan2(m.sqrt(1.0 - az**2), az), m.arctan2(oz, -nz)

    x = 185.0 * (s5 * (c1 * c23 * c4 + s1 * s4) + c1 * s23 * c5)
    x = x + c1 * (175.0 + 890.0 * c2 + 50.0 * c23 + 1035.0 * s23)
    y = 185.0 * (s5 * (s1 * c23 * c4 + c1 * s4) + s1 * s23 * c5)
    y = y + s1 * (175.0 + 890.0 * c2 + 50.0 * c23 + 1035.0 * s23)
    z = 890.0 * s2 + 575.0 + 50.0 * s23 - 1035.0 * c23 + 185.0 * (s23 * c4 * s5 - c23 * c5)
    return x, y, z, *angles


# ---- systems of equations of the MINPACK-2 collection


def heart_dipole(m: Any, *x: Any) -> tuple[Any, ...]:
    """Eight equations of a dipole in the heart, from potentials on the body's surface."""
    a, b, c, d, t, u, v, w = x
    tv, uw = t**2 - v**2, u**2 - w**2
    f5 = a * tv - 2 * c * t * v + b * uw - 2 * d * u * w - 1.0
    f6 = c * tv - 2 * a * t * v + d * uw - 2 * b * u * w - 1.0
    ttv, vvt = t * (t**2 - 3 * v**2), v * (v**2 - 3 * t**2)
    uuw, wwu = u * (u**2 - 3 * w**2), w * (w**2 - 3 * u**2)
    return (
        a + b - 1.0,
        c + d - 1.0,
        t * a + u * b - v * c - w * d - 1.0,
        v * a + w * b + t * c + u * d - 1.0,
        f5,
        f6,
        a * ttv + c * vvt + b * uuw + d * wwu - 1.0,
        c * ttv - a * vvt + d * uuw - b * wwu - 1.0,
    )


def propane(m: Any, *x: Any) -> tuple[Any, ...]:
    """Chemical equilibrium of burning propane, in its full formulation."""
    p, ratio = 40.0, 10.0
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11 = x
    s = m.sqrt(p / x11)
    return (
        x1 + x4 - 3.0,
        2 * x1 + x2 + x4 + x7 + x8 + x9 + 2 * x10 - ratio,
        2 * x2 + 2 * x5 + x6 + x7 - 8.0,
        2 * x3 + x9 - 4 * ratio,
        x2 * x4 - x1 * x5,
        m.sqrt(x2 * x4) - m.sqrt(x1) * s * x6,
        m.sqrt(x1 * x2) - m.sqrt(x4) * x7 * s,
        x1 - x4 * x8 * p / x11,
        x1 * m.sqrt(x3) - x4 * x9 * s,
        x1**2 - x4**2 * x10 * p / x11,
        x11 - x1 - x2 - x3 - x4 - x5 - x6 - x7 - x8 - x9 - x10,
    )


# ---- finance: the greeks of second order


class Node:
    """A number that remembers what it was computed from and by which partial derivatives."""

    def __init__(self, value: Any, *reads: tuple[Any, Any]):
        self.value = value
        self.reads = [(x, d) for x, d in reads if isinstance(x, Node)]


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Node) else x


def _times(a: Any, b: Any) -> Node:
    x, y = _value(a), _value(b)
    return Node(x * y, (a, y), (b, x))


def _over(a: Node, b: Any) -> Node:
    x, y = a.value, _value(b)
    return Node(x / y, (a, 1.0 / y), (b, -x / y**2 if isinstance(b, Node) else None))


def _plus(a: Any, b: Node, sign: float = 1.0) -> Node:
    x = _value(a)
    return Node(x + b.value if sign > 0 else x - b.value, (a, 1.0), (b, sign))


def black_scholes_gradient(m: Any, *variables: Any) -> tuple[Any, ...]:
    """∂/∂(spot, strike, rate, volatility, time) of the price of a call, by reverse accumulation.

    Each operation leaves its partial derivatives, and then products are taken edge by edge, signs and ones
    included, as a program that differentiates does. Its Jacobian are the greeks of second order.
    """
    tape: list[Node] = []

    def note(node: Node) -> Node:
        tape.append(node)
        return node

    def exp(a: Node) -> Node:
        y = m.exp(a.value)
        return note(Node(y, (a, y)))

    def root(a: Node) -> Node:
        y = m.sqrt(a.value)
        return note(Node(y, (a, 0.5 / y)))

    def normal(z: Node) -> Node:
        """Φ(z) = (1 + erf(z/√2))/2"""
        x = note(_over(z, 2.0**0.5))
        slope = 2.0 * m.exp(-(x.value**2)) / 3.141592653589793**0.5
        bell = note(Node(m.erf(x.value), (x, slope)))
        return note(_over(note(_plus(1.0, bell)), 2.0))

    spot, strike, rate, sigma, time = inputs = [Node(x) for x in variables]
    growth = exp(note(_times(rate, time)))
    forward = note(_times(growth, spot))
    ratio = note(_over(forward, strike))
    log = note(Node(m.log(ratio.value), (ratio, 1.0 / ratio.value)))
    square = note(Node(sigma.value**2, (sigma, 2 * sigma.value**1)))
    drift = note(_times(note(_over(square, 2.0)), time))
    above = note(_plus(log, drift))
    d1 = note(_over(above, note(_times(sigma, root(time)))))
    d2 = note(_plus(d1, note(_times(sigma, root(time))), -1.0))
    opposite = note(Node(-rate.value, (rate, -1.0)))
    discount = exp(note(_times(opposite, time)))
    gain = note(_times(forward, normal(d1)))
    paid = note(_times(strike, normal(d2)))
    price = _times(discount, note(_plus(gain, paid, -1.0)))

    adjoint: dict[Node, Any] = dict(price.reads)
    for node in reversed(tape):
        for read, slope in node.reads:
            g = adjoint[node] * slope
            adjoint[read] = adjoint[read] + g if read in adjoint else g
    return tuple([adjoint[x] for x in inputs])


# ---- gas dynamics in three dimensions, on vectors


def roe_flux_3d(m: Any, rl: Any, ml: Any, el: Any, rr: Any, mr: Any, er: Any) -> tuple[Any, ...]:
    """As `roe_flux_1d`, with three components of momentum; densities and energies of shape (1,)."""

    def pressure(r: Any, q: Any, e: Any) -> Any:
        return (GAMMA - 1) * (e - 0.5 * m.sum(q**2) / r)

    dr, dm = rr - rl, mr - ml
    d1, d2, d3 = dm[0:1], dm[1:2], dm[2:]
    de = er - el
    vl, vr = ml / rl, mr / rr
    weight = m.sqrt(rl) + m.sqrt(rr)
    mean = (m.sqrt(rl) * vl + m.sqrt(rr) * vr) / weight
    u, v, w = mean[0:1], mean[1:2], mean[2:]
    pl = pressure(rl, ml, el)
    hl = (el + pl) / rl
    pr = pressure(rr, mr, er)
    hr = (er + pr) / rr
    h = (m.sqrt(rl) * hl + m.sqrt(rr) * hr) / weight
    q = m.sum(mean**2)
    a2 = (GAMMA - 1) * (h - 0.5 * q)
    a = m.sqrt(a2)
    right, left = u + a, u - a

    s3 = ((GAMMA - 1) / a2 * ((h - q) * dr + m.dot(mean, dm) - de)) * u
    s2 = (d3 / w - d1) * u
    s1 = (d2 / v - dr) * u
    k1, k2 = dr - s3, (d1 - u * dr) / a
    s0, s4 = 0.5 * (k1 - k2) * left, 0.5 * (k1 + k2) * right

    def flux(q: Any, v: Any, e: Any, p: Any) -> tuple[Any, Any, Any]:
        return q[0:1], m.concatenate([p, m.zeros(2)]) + q * v, v[0:1] * (p + e)

    both = [x + y for x, y in zip(flux(ml, vl, el, pl), flux(mr, vr, er, pr), strict=True)]
    w0 = s0 + s3 + s4 * right
    w1 = s0 * left + s3 * u + s4 * right
    w2 = s0 * v + s1 * v + s3 * v + s4 * v
    w3 = s0 * w + s2 * w + s3 * w + s4 * w
    w4 = s0 * (h - u * a) + s1 * v**2 + s2 * w**2 + s3 * 0.5 * q + s4 * (h + u * a)
    waves = w0, m.concatenate([w1, w2, w3]), w4
    return tuple([0.5 * (f - w) for f, w in zip(both, waves, strict=True)])


ROE_1D = Task(
    "Roe flux 1-d", roe_flux_1d, (1.0, 0.3, 2.5, 0.8, 0.2, 2.0), (620, 364, 407, 320), 295
)
ARM = Task(
    "robot arm, 6 joints", robot_arm, (0.1, 0.5, 0.3, 0.7, 0.4, 0.2), (397, 301, 288, 231), 221
)
HEART = Task(
    "heart dipole",
    heart_dipole,
    (0.3, 0.7, 0.4, 0.6, 1.1, 0.9, 0.8, 1.2),
    (240, 172, 194, 148),
    148,
)
PROPANE = Task(
    "propane",
    propane,
    (2.0, 0.5, 18.0, 0.9, 0.4, 0.3, 0.2, 0.1, 3.0, 0.7, 25.0),
    (151, 90, 111, 88),
    88,
)
GREEKS = Task(
    "Black–Scholes Jacobian",
    black_scholes_gradient,
    (1.0, 1.1, 0.05, 0.3, 0.7),
    (545, 572, 350, 308),
    308,
)
ROE_3D = Task(
    "Roe flux 3-d",
    roe_flux_3d,
    ([1.0], [0.3, 0.2, 0.1], [2.5], [0.8], [0.2, 0.3, 0.1], [2.0]),
    (1556, 979, 938, 784),
    784,
)
TASKS = [ROE_1D, ARM, HEART, PROPANE, GREEKS, ROE_3D]
