"""Element-wise rows: arithmetic, exponentials, trigonometry, comparisons, bits, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .base import ROWS, as_output, at_once, in_common, of_dtype, plain, row, spread

# ---- one operation of XLA's for floats: most of what networks consist of

_LAX: dict[str, Callable[..., Any]] = {"add": lax.add, "subtract": lax.sub, "multiply": lax.mul}
_LAX |= {"negative": lax.neg, "square": lax.square, "sqrt": lax.sqrt, "exp": lax.exp}
_LAX |= {"log": lax.log, "tanh": lax.tanh, "sin": lax.sin, "cos": lax.cos, "maximum": lax.max}
_LAX |= {"minimum": lax.min, "equal": lax.eq, "not_equal": lax.ne, "less": lax.lt}
_LAX |= {"less_equal": lax.le, "greater": lax.gt, "greater_equal": lax.ge}


def _quick(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    return at_once(_LAX[name], rule) if name in _LAX else rule


# ---- of numbers of the output's dtype

_NAMES = """
    add subtract multiply negative square power sqrt cbrt sign exp exp2 expm1 log log2 log10 log1p logaddexp
    logaddexp2 sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh nextafter
    copysign hypot fmod floor ceil trunc rint maximum minimum fmax fmin conjugate bitwise_and
    bitwise_or bitwise_xor left_shift right_shift invert gcd lcm heaviside deg2rad rad2deg float_power
"""
_OF_OUTPUT: dict[str, Callable[..., Any]] = {name: getattr(jnp, name) for name in _NAMES.split()}
_OF_OUTPUT |= {
    "alias": lambda a: a,
    "detach": lambda a: a,
    "fabs": jnp.abs,
    "sigmoid": lambda a: jax.nn.sigmoid(a),
    "log_sigmoid": lambda a: -jnp.logaddexp(-a, jnp.zeros_like(a)),
    "softplus": lambda a: jnp.logaddexp(a, jnp.zeros_like(a)),
    "exp10": lambda a: jnp.power(jnp.asarray(10, a.dtype), a),
}
for _name, _rule in _OF_OUTPUT.items():
    plain(_name)(_quick(_name, _rule))

# ---- of numbers of a common dtype: the result has another one

_NAMES = """
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan
    isinf isfinite signbit real imag angle isneginf isposinf
"""
_OF_COMMON: dict[str, Callable[..., Any]] = {name: getattr(jnp, name) for name in _NAMES.split()}
_OF_COMMON |= {
    "absolute": jnp.abs,
    "bitwise_count": lambda a: a if a.dtype == bool else lax.population_count(jnp.abs(a)),
}


def _in_common(rule: Callable[..., Any]) -> Any:
    return lambda m, e, inputs: rule(*in_common(m, e, inputs), **e.params)


for _name, _rule in _OF_COMMON.items():
    ROWS[_name] = _in_common(_quick(_name, _rule))


@row("where")
def where(m: Any, e: Any, inputs: Any) -> Any:
    condition, *values = inputs
    shape = e.outputs[0].shape
    chosen = [spread(a, shape) for a in as_output(m, e, values)]
    condition = of_dtype(condition, np.dtype(bool))
    if condition.ndim:  # one truth chooses for all
        condition = spread(condition, shape)
    return lax.select(condition, *chosen)


@row("cast", "cast_discrete")
def cast(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = inputs
    a, dtype = jnp.asarray(a), e.outputs[0].dtype
    if a.dtype.kind == "c" and dtype.kind not in "cb":
        a = jnp.real(a)
    return a.astype(m.dtype(e.outputs[0]))


_DIVMOD = {"floor_divide": (jnp.floor_divide, 0), "remainder": (jnp.remainder, 1)}


@row(*_DIVMOD)
def floor_divide_or_remainder(m: Any, e: Any, inputs: Any) -> Any:
    of_integers, which = _DIVMOD[e.primitive.name]
    a, b = jnp.broadcast_arrays(*as_output(m, e, inputs))
    if a.dtype.kind == "f":
        return _float_divmod(a, b)[which]
    fine = b != 0
    return jnp.where(fine, of_integers(a, jnp.where(fine, b, 1)), 0)


def _float_divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """As CPython's and NumPy's: the remainder is exact and has the sign of b."""
    rest = lax.rem(a, b)
    quotient = (a - rest) / b
    other = (rest != 0) & ((b < 0) != (rest < 0))
    rest = jnp.where(other, rest + b, rest)
    quotient = jnp.where(other, quotient - 1, quotient)
    rest = jnp.where(rest == 0, jnp.copysign(jnp.zeros_like(b), b), rest)
    down = jnp.floor(quotient)
    down = jnp.where(quotient - down > 0.5, down + 1, down)
    down = jnp.where(quotient == 0, jnp.copysign(jnp.zeros_like(a), a / b), down)
    zero = b == 0
    return jnp.where(zero, a / b, down), jnp.where(zero, jnp.full_like(a, np.nan), rest)


_quotient = at_once(lax.div, jnp.true_divide)


@row("divide")
def divide(m: Any, e: Any, inputs: Any) -> Any:
    given = as_output(m, e, inputs)
    if any(
        jnp.asarray(a).dtype == bool for a in inputs
    ):  # else XLA chooses 1 / b or 0, and 0 / 0 is 0
        given = lax.optimization_barrier(given)
    return _quotient(*given)


@row("clip")
def clip(m: Any, e: Any, inputs: Any) -> Any:
    a, low, high = as_output(m, e, inputs)
    return NotImplemented if a.dtype.kind == "c" else jnp.minimum(jnp.maximum(a, low), high)


@row("reciprocal")
def reciprocal(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    if a.dtype.kind in "fc":
        return jnp.reciprocal(a)
    return jnp.where(jnp.abs(a) == 1, a, 0)


@row("ldexp")
def ldexp(m: Any, e: Any, inputs: Any) -> Any:
    a, b = inputs
    return jnp.ldexp(jnp.asarray(a).astype(m.dtype(e.outputs[0])), jnp.asarray(b).astype(jnp.int32))


@row("spacing")
def spacing(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    if a.dtype == jnp.float16:
        return NotImplemented
    up = jnp.nextafter(jnp.abs(a), jnp.full_like(a, np.inf)) - jnp.abs(a)
    return jnp.where(jnp.isfinite(a), jnp.where(jnp.signbit(a), -up, up), jnp.full_like(a, np.nan))
