"""Special functions of real numbers by formulas, computed in double precision and rounded, as SciPy's are."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np

from ....primitives.distributions import huber_by
from .base import row

_LARGEST = math.log(np.finfo(np.float64).max)


def _formula(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        @row(name)
        def rule(m: Any, e: Any, inputs: Any) -> Any:
            if e.outputs[0].dtype.kind != "f":
                return NotImplemented
            return compute(*[jnp.asarray(a).astype(jnp.float64) for a in inputs])

        return compute

    return enter


# ---- differences that are small


@_formula("exprel")
def exprel(x: Any) -> Any:
    tiny, huge = jnp.abs(x) < 1e-16, x > 717
    y = jnp.expm1(jnp.where(huge, 1, x)) / jnp.where(tiny, 1, x)
    return jnp.where(huge, jnp.inf, jnp.where(tiny, 1, y))


@_formula("cosm1")
def cosm1(x: Any) -> Any:
    return -2 * jnp.square(jnp.sin(x / 2))


# ---- powers between logarithm and line


def _power_over(log: Any, k: Any) -> Any:
    """(exp(k log) − 1) / k, which is log where k is 0."""
    small = jnp.abs(k) < 1e-19
    safe = jnp.where(small, 1, k)
    high = jnp.sign(k) * jnp.exp(k * log - jnp.log(jnp.abs(safe))) - 1 / safe
    y = jnp.where(k * log < _LARGEST, jnp.expm1(k * log) / safe, high)
    return jnp.where(small, log, y)


_formula("boxcox")(lambda x, k: _power_over(jnp.log(x), k))
_formula("boxcox1p")(lambda x, k: _power_over(jnp.log1p(x), k))


@_formula("inv_boxcox")
def inv_boxcox(x: Any, k: Any) -> Any:
    safe = jnp.where(k == 0, 1, k)
    return jnp.where(k == 0, jnp.exp(x), jnp.exp(jnp.log1p(k * x) / safe))


@_formula("inv_boxcox1p")
def inv_boxcox1p(x: Any, k: Any) -> Any:
    safe = jnp.where(k == 0, 1, k)
    y = jnp.where(jnp.abs(k * x) < 1e-154, x, jnp.expm1(jnp.log1p(k * x) / safe))
    return jnp.where(k == 0, jnp.expm1(x), y)


# ---- losses


_formula("huber")(partial(huber_by, jnp))


@_formula("pseudo_huber")
def pseudo_huber(delta: Any, r: Any) -> Any:
    v = r / jnp.where(delta == 0, 1, delta)
    y = delta * r * v / (1 + jnp.hypot(1, v))
    return jnp.where(delta < 0, jnp.inf, jnp.where((delta == 0) | (r == 0), 0, y))


# ---- degrees: sines of at most 45, of which multiples of 90 lose nothing


def _turned(x: Any, quarters: int) -> Any:
    degrees = jnp.fmod(x, 360)
    turns = jnp.rint(degrees / 90)
    angle = (degrees - 90 * turns) * (math.pi / 180)
    which = jnp.mod(turns + quarters, 4)
    y = jnp.where(which % 2 == 0, jnp.sin(angle), jnp.cos(angle))
    return jnp.where(which < 2, y, -y)


_formula("sindg")(lambda x: _turned(x, 0))
_formula("cosdg")(lambda x: _turned(x, 1))

# ---- of JAX's, held against SciPy's for wide ranges


_formula("spence")(special.spence)
_formula("erfcinv")(lambda x: -special.ndtri(0.5 * x) * math.sqrt(0.5))
_formula("exp1")(lambda x: jnp.where(x == jnp.inf, 0, special.exp1(x)))


@_formula("gammasgn")
def gammasgn(x: Any) -> Any:
    down = jnp.floor(x)
    y = jnp.where(jnp.mod(down, 2) == 0, 1.0, -1.0)
    y = jnp.where((down == x) | jnp.isnan(x), jnp.nan, y)
    return jnp.where(x > 0, 1.0, jnp.where(x == 0, jnp.copysign(1.0, x), y))
