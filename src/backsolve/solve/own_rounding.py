"""What rows of several steps add to the rounding error by themselves, by their formulas: softmax, norms,
running products.

Some elementwise functions of complex numbers are among them: C libraries and NumPy have the plain formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..operators import Recurrence
from ..primitives.chains import pays_for_entries
from ..primitives.scan import shifted
from ..row import Row
from ..system import System
from .absolute import absolute
from .sources import FUNCTION, OwnSources, Source, Values, smallest


def _axis(row: Row) -> tuple[int, ...]:
    axis: tuple[int, ...] = (row.params or {})["axis"]
    return axis


def _shares(a: Any, axis: tuple[int, ...], u: float) -> tuple[Any, Any, Any]:
    """z = a − max a, softmax of it, and the relative error of Σ exp z (with that of each term)."""
    z = a - np.max(a, axis=axis, keepdims=True)
    e = np.exp(z)
    p = e / np.sum(e, axis=axis, keepdims=True)
    terms = u * (np.abs(z) + FUNCTION)
    count = int(np.prod([a.shape[k] for k in axis]))
    return z, terms, np.sum(p * terms, axis=axis, keepdims=True) + u * (count - 1)


def _softmax(system: System, row: Row, values: Values, u: float) -> Any:
    _, terms, total = _shares(values[row.parents[0]], _axis(row), u)
    return np.maximum(values[row], smallest(row)) * (terms + total + u)


def _log_softmax(system: System, row: Row, values: Values, u: float) -> Any:
    z, _, total = _shares(values[row.parents[0]], _axis(row), u)
    y = values[row]
    return u * np.abs(z) + total + FUNCTION * u * np.abs(z - y) + u * np.abs(y)


def _logsumexp(system: System, row: Row, values: Values, u: float) -> Any:
    a, axis = values[row.parents[0]], _axis(row)
    _, _, total = _shares(a, axis, u)
    y = values[row]
    top = np.max(a, axis=axis, keepdims=True)
    size = np.reshape(y, top.shape)
    own = total + FUNCTION * u * np.abs(size - top) + u * np.abs(size)
    return np.reshape(own, np.shape(y))


def _norm(system: System, row: Row, values: Values, u: float) -> Any:
    """Squares do not cancel; 5 roundings more where entries had to be scaled."""
    terms = row.parents[0].size // max(row.size, 1)
    return u * (terms / 2 + 5) * np.maximum(np.abs(values[row]), smallest(row))


def _size(row: Row, values: Values) -> Any:
    return np.maximum(np.abs(values[row]), smallest(row))


def _complex_log1p(system: System, row: Row, values: Values, u: float) -> Any:
    """log(1 + z): the sum is rounded, and the logarithm of what is near 1 shows it."""
    return FUNCTION * u * (_size(row, values) + 1)


def _complex_exp2(system: System, row: Row, values: Values, u: float) -> Any:
    return FUNCTION * u * _size(row, values) * (1 + np.abs(values[row.parents[0]]))


def _complex_power(system: System, row: Row, values: Values, u: float) -> Any:
    """exp(b log a), which makes the error of b log a a relative one; products where b is small and whole."""
    a, b = _read(row, values)
    turns = np.abs(np.log(np.where(a == 0, 1, a)))
    are_products = np.equal(b, np.rint(np.real(b))) & (np.abs(b) < 100)
    return FUNCTION * u * _size(row, values) * (1 + np.abs(b) * np.where(are_products, 1, turns))


def _running_product(system: System, row: Row, values: Values, u: float) -> list[Source]:
    """y_j = a_j y_{j−1}: each product is rounded, and what that changes goes through those after it."""
    a, y, axis = values[row.parents[0]], values[row], (row.params or {})["axis"]
    before = shifted(y, axis, 1.0)
    is_exact = (a == 0) | (before == 0)
    is_exact[(slice(None),) * axis + (slice(0, 1),)] = True
    each = u * (3 if row.dtype.kind == "c" else 1)
    return [Source(np.where(is_exact, 0.0, each * _size(row, values)), Recurrence(a, axis))]


def _recurrence(system: System, row: Row, values: Values, u: float) -> list[Source]:
    """s_j = t_j + a_j s_{j−1}: the same of a product and a sum."""
    a, s, params = _read(row, values)[0], values[row], row.params or {}
    axis, reverse = params["axis"], params["reverse"]
    block = Recurrence(np.broadcast_to(a, row.shape), axis, reverse)
    each = u * (3 if row.dtype.kind == "c" else 1)
    product = np.abs(a * shifted(s, axis, 0.0, reverse))
    n = row.shape[axis]
    if pays_for_entries(n, row.size // max(n, 1)):
        # In log depth: a term is a product of n factors at most, and added 2 log₂ n times.
        t = np.abs(s) + product + smallest(row)
        return [Source((n + 2 * n.bit_length()) * each * absolute(block).apply(t))]
    rounded = np.where(product == 0, 0.0, np.maximum(product, smallest(row)))
    return [Source(each * rounded + u * np.abs(s), block)]


def _read(row: Row, values: Values) -> list[Any]:
    """What a row takes, as far as its blocks keep it."""
    return [
        values[p] if isinstance(p, Row) and p in values else np.asarray(getattr(v, "_v", v))
        for p, v in zip(row.parents, (*row.saved[1:], None), strict=False)
    ]


RUNNING: dict[str, OwnSources] = {"cumprod": _running_product, "recurrence": _recurrence}
COMPLEX: dict[str, Callable[[System, Row, Values, float], Any]] = {
    "log1p": _complex_log1p,
    "exp2": _complex_exp2,
    "power": _complex_power,
    "float_power": _complex_power,
}
OWN: dict[str, Callable[[System, Row, Values, float], Any]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "norm": _norm,
}
