"""Incomplete elliptic integrals of the angle φ and the parameter m, and the amplitude that inverts the first.

Their derivatives stay in one family, with Δ² = 1 − m sin²θ:

    J_pq(φ, m) = ∫₀^φ sin^2p θ Δ^−q dθ       ∂J_pq/∂φ = sin^2p φ Δ^−q,   ∂J_pq/∂m = (q/2) J_{p+1, q+2}

of which F is J_01 and E is J_0,−1. am(u, m) = φ with F(φ, m) = u.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operators import Diagonal
from .elementwise import elementwise
from .expansions import _in_ellipk
from .special import PARTS, binary, kept, load, unary

# θ = φ/2 (1 + tanh(π/2 sinh τ)): double exponential, so that a Δ near 0 at the end does no harm.
_T = np.arange(-3.4, 3.4, 1 / 32)
PLACE = 1 / (1 + np.exp(np.pi * np.sinh(_T)))  # 1 − θ/φ, exact near the end
WEIGHT = 0.5 * np.pi * np.cosh(_T) / 32 * 2 * PLACE * (1 - PLACE)


def _run_moment(a: Any, b: Any, *, p: int, q: int) -> Any:
    phi, m = np.asarray(a, float), np.asarray(b, float)
    turns = np.rint(phi / np.pi)

    def quadrature(end: Any) -> Any:
        end, mm = np.broadcast_arrays(end, m)
        theta = end[..., None] * (1 - PLACE)
        # Δ² = 1 − m + m cos²θ, the cosine of a θ near π/2 from its distance to it
        rest = (0.5 * np.pi - np.abs(end))[..., None] + np.abs(end)[..., None] * PLACE
        square = (1 - mm)[..., None] + mm[..., None] * np.sin(rest) ** 2
        values = np.sin(theta) ** (2 * p) * square ** (-0.5 * q) * WEIGHT
        return end * np.sum(values, axis=-1)

    y = quadrature(phi - np.pi * turns)
    if np.any(turns):
        whole = quadrature(np.full(np.shape(phi), 0.5 * np.pi))  # infinite where m = 1
        y = y + np.where(turns == 0, 0.0, 2 * turns * whole)
    return kept(y, a, b)


moment: Any = elementwise(
    "elliptic_moment",
    _run_moment,
    (
        lambda a, b, *, p, q: Diagonal(np.sin(a) ** (2 * p) * _delta(a, b) ** -q),
        lambda a, b, *, p, q: Diagonal(0.5 * q * moment(a, b, p=p + 1, q=q + 2)),
    ),
)


def _delta(phi: Any, m: Any) -> Any:
    return np.sqrt(1 - m * np.square(np.sin(phi)))


ellipkinc = binary(
    "ellipkinc",
    lambda a, b: Diagonal(1 / _delta(a, b)),
    lambda a, b: Diagonal(0.5 * moment(a, b, p=1, q=3)),
)
ellipeinc = binary(
    "ellipeinc",
    lambda a, b: Diagonal(_delta(a, b)),
    lambda a, b: Diagonal(-0.5 * moment(a, b, p=1, q=1)),
)


def _run_amplitude(a: Any, b: Any) -> Any:
    return load().ellipj(a, b)[3]


PARTS["jacobi_amplitude"] = "ellipj"
amplitude = elementwise(
    "jacobi_amplitude",
    _run_amplitude,
    (
        lambda y, b: Diagonal(_delta(y, b)),
        lambda y, b: Diagonal(-0.5 * _delta(y, b) * moment(y, b, p=1, q=3)),
    ),
)


def _in_ellipkm1(y: Any, p: Any) -> Any:
    """−K'(1 − p); near p = 0 by the distance itself."""
    near = np.less(p, 0.5)
    small = np.where(near, p, 0.25)
    value = np.where(near, y, 0.0)
    plain = (load().ellipe(1 - small) - small * value) / (2 * (1 - small) * small)
    return -np.where(near, plain, _in_ellipk(1 - np.where(near, 0.75, p)))


ellipkm1 = unary("ellipkm1", lambda y, a: Diagonal(_in_ellipkm1(y, a)))
