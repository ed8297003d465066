"""softmax and its logarithm, along axes.

y = eˣ / Σ eˣ:  dy = y (dx − Σ y dx).    z = log y:  dz = dx − Σ e^z dx.

Both do not change when all of x moves by one number, so the largest entry may be taken off, and no
derivative goes through it: finite entries beside ∞ have the share 0 then, ∞ itself NaN. Compiled code
knows the users' spellings of them (rewrite/stable.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..operators import Broadcast, Diagonal, Identity, OperatorSum, Product, Scale, SumAxes
from ..primitive import primitive
from .batching import over_axes


def _shifted(a: Any, axis: tuple[int, ...]) -> Any:
    a = np.asarray(a)
    if a.dtype.kind in "biu":
        a = a.astype(_rule(Type(a.shape, a.dtype), axis=axis).dtype)
    top = np.maximum.reduce(a, axis=axis, keepdims=True, initial=-np.inf)
    return a - np.minimum(top, np.finfo(a.dtype).max)


def _run_softmax(a: Any, *, axis: tuple[int, ...]) -> Any:
    e = np.exp(_shifted(a, axis))
    return e / np.add.reduce(e, axis=axis, keepdims=True)


def _run_log_softmax(a: Any, *, axis: tuple[int, ...]) -> Any:
    z = _shifted(a, axis)
    with np.errstate(divide="ignore"):  # of an empty axis
        return z - np.log(np.add.reduce(np.exp(z), axis=axis, keepdims=True))


def _less_mean(y: Any, weights: Any, axis: tuple[int, ...]) -> Any:
    """t ↦ t − Σ weights t."""
    total = SumAxes(y, axis, True)
    mean = [Broadcast(total.out_type, y.shape), total, Diagonal(weights)]
    return OperatorSum([Identity(Type(y.shape, y.dtype)), Product([Scale(-1.0), *mean])])


def _rule(a: Type, *, axis: tuple[int, ...]) -> Type:
    return Type(a.shape, np.exp(np.ones(1, a.dtype)).dtype)


softmax = primitive(
    "softmax",
    _run_softmax,
    blocks=(lambda y, *, axis: Product([Diagonal(y), _less_mean(y, y, axis)]),),
    type=_rule,
    batch=over_axes,
    code="special.softmax({0}, axis={axis})",
)
log_softmax = primitive(
    "log_softmax",
    _run_log_softmax,
    blocks=(lambda y, *, axis: _less_mean(y, np.exp(y), axis),),
    type=_rule,
    batch=over_axes,
    code="special.log_softmax({0}, axis={axis})",
)
