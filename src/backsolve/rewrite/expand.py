"""Composite primitives in terms of simple ones, for a backend that has only those.

Each expansion is plain NumPy code on the primitive's inputs, recorded in the place of the primitive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import Equation, Program, type_of
from ..operators.broadcast import reduced_shape
from ..primitives.integrals import faddeeva_derivative
from ..primitives.special import FORMULAS
from ..trace import standing_for
from .expand_linear import LINEAR, needs_splitting
from .expand_order import PLACES, is_place
from .half import in_singles, is_computed_in_halves
from .reuse import finite_top, repeated_exponentials, share_of_total
from .splice import Splice


def expand(program: Program, in_halves: frozenset[str] = frozenset()) -> Program:
    """`in_halves` names rows that the backend itself computes with float16."""
    if not any(_is_expanded(e, in_halves) for e in program.equations):
        return program
    repeated = repeated_exponentials(program)
    work = Splice(program)
    for e in program.equations:
        total = repeated.get(e.outputs[0]) if e.outputs else None
        if total is None and not _is_expanded(e, in_halves) and work.keeps(e):
            continue
        with standing_for(e.where):
            if e.primitive.holds_regions:
                made = e.primitive(*map(work.value, e.inputs), **e.params)
            elif total is not None:
                (x,) = in_singles(total, [work.value(total.inputs[0])])
                made = [_as(e.outputs[0].dtype, share_of_total(x, total.params["axis"]))]
            else:
                made = [_expanded(e, list(map(work.value, e.inputs)), in_halves)]
        work.define(e.outputs, made)
    return work.program()


def _expanded(e: Equation, inputs: list[Any], in_halves: frozenset[str]) -> Any:
    out = e.outputs[0].dtype
    call: Callable[..., Any] = e.primitive
    if e.primitive.name not in in_halves:
        inputs = in_singles(e, inputs)
    if _is_composite(e):
        call = EXPANSIONS[e.primitive.name]
        if out.kind == "f":  # NumPy computes with integers as with floats
            wide = max(out, np.dtype(np.float32), key=lambda t: t.itemsize)
            inputs = [_float(wide, a) for a in inputs]
    return _as(out, call(*inputs, **e.params))


def _is_expanded(e: Equation, in_halves: frozenset[str]) -> bool:
    return _is_composite(e) or (e.primitive.name not in in_halves and is_computed_in_halves(e))


def _is_composite(e: Equation) -> bool:
    """The expansions are formulas on real numbers, but for some."""
    if e.primitive.name == "contract":
        return needs_splitting(e)
    if e.primitive.name in PLACES:
        return is_place(e)
    if e.primitive.name == "wofz":
        return bool(e.params["n"])
    kinds = {type_of(a).dtype.kind for a in (*e.inputs, *e.outputs)}
    return e.primitive.name in EXPANSIONS and ("c" not in kinds or e.primitive.name in ANY_KIND)


def _as(dtype: np.dtype[Any], y: Any) -> Any:
    return y if y.dtype == dtype else y.astype(dtype)


def _float(dtype: np.dtype[Any], a: Any) -> Any:
    is_other = hasattr(a, "astype") and (a.dtype.kind in "biu" or a.dtype == np.float16)
    return a.astype(dtype) if is_other else a


def _dropped(y: Any, a: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return y if keepdims else np.reshape(y, reduced_shape(a.shape, axis, False))


def _logsumexp(a: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    if not a.size:
        return np.full(reduced_shape(a.shape, axis, keepdims), -np.inf, a.dtype)
    top = finite_top(np.real(a), axis)
    y = np.log(np.sum(np.exp(a - top), axis=axis, keepdims=True)) + top
    return _dropped(y, a, axis, keepdims)


def _softmax(a: Any, *, axis: tuple[int, ...]) -> Any:
    """With the exponentials of log_softmax, whose derivative it is."""
    if not a.size:
        return a
    e = np.exp(a - _top(a, axis))
    return e / np.sum(e, axis=axis, keepdims=True)


def _log_softmax(a: Any, *, axis: tuple[int, ...]) -> Any:
    if not a.size:
        return a
    z = a - _top(a, axis)
    return z - np.log(np.sum(np.exp(z), axis=axis, keepdims=True))


def _top(a: Any, axis: tuple[int, ...]) -> Any:
    """The largest entry, but below ∞. One limit, not two: XLA keeps all of it in one kernel then."""
    return np.minimum(np.max(a, axis=axis, keepdims=True), float(np.finfo(a.dtype).max))


def _norm(a: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    if not a.size:
        return np.zeros(reduced_shape(a.shape, axis, keepdims), a.dtype)
    size = np.abs(a)
    top = np.max(size, axis=axis, keepdims=True)
    top = np.where(np.logical_and(top > 0, np.isfinite(top)), top, 1)
    y = top * np.sqrt(np.sum(np.square(size / top), axis=axis, keepdims=True))
    return _dropped(y, a, axis, keepdims)


def _hypot(a: Any, b: Any) -> Any:
    a, b = np.abs(a), np.abs(b)
    high, low = np.maximum(a, b), np.minimum(a, b)
    ratio = np.where(high > 0, low / np.where(high > 0, high, 1), 0)
    y = high * np.sqrt(1 + ratio * ratio)
    return np.where(np.logical_or(np.isinf(a), np.isinf(b)), np.inf, y)


def _vanishes(a: Any, b: Any) -> Any:
    return np.logical_and(np.equal(a, 0), np.logical_not(np.isnan(b)))


def _xlogy(a: Any, b: Any) -> Any:
    return np.where(_vanishes(a, b), 0.0, a * np.log(b))


def _xlog1py(a: Any, b: Any) -> Any:
    return np.where(_vanishes(a, b), 0.0, a * np.log1p(b))


def _fmax(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.maximum(a, b)))


def _fmin(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.minimum(a, b)))


def _logaddexp2(a: Any, b: Any) -> Any:
    high, low = np.maximum(a, b), np.minimum(a, b)
    gap = np.where(np.equal(high, low), 0.0, low - high)  # also where both are the same infinity
    return high + np.log1p(np.exp2(gap)) * _BITS


_BITS = 1 / math.log(2)


def _double(a: Any) -> Any:
    if not hasattr(a, "astype"):
        return a if isinstance(a, complex) else float(a)
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def _in_doubles(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **params: Any) -> Any:
        arrays = [a if hasattr(a, "astype") else np.asarray(a) for a in args]
        return f(*map(_double, arrays), **params)

    return run


def _heaviside(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), a, np.where(np.less(a, 0), 0.0, np.where(np.equal(a, 0), b, 1.0)))


def _wofz(a: Any, *, n: int) -> Any:
    from ..primitive import P

    return faddeeva_derivative(a.astype(np.complex128), n, lambda z: P.wofz(z, n=0))


EXPANSIONS: dict[str, Callable[..., Any]] = {
    **LINEAR,
    **PLACES,
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "norm": _norm,
    "hypot": _hypot,
    "xlogy": _xlogy,
    "xlog1py": _xlog1py,
    "fmax": _fmax,
    "fmin": _fmin,
    "heaviside": _heaviside,
    "deg2rad": lambda a: a * float(np.pi / 180),
    "rad2deg": lambda a: a * float(180 / np.pi),
    "float_power": lambda a, b: np.power(_double(a), _double(b)),
    "logaddexp2": _logaddexp2,
    "real": lambda a: a,
    "detach": lambda a: a,
    "conjugate": lambda a: a,
    "logit": lambda a: np.log(a / (1 - a)),
    "ndtr": lambda a: 0.5 * _erfc(a * float(-np.sqrt(0.5))),
    "wofz": _wofz,
    **{name: _in_doubles(f) for name, f in FORMULAS.items()},
}


ANY_KIND = {"detach", "fmax", "fmin", "float_power", "logsumexp", "norm", "xlogy", "xlog1py"}
ANY_KIND |= {"adjugate", "convolve", "det", "det_sign", "log_abs_det", "pinv", "expm", "expm_along"}


def _erfc(x: Any) -> Any:
    from ..primitive import P

    return P.erfc(x)
