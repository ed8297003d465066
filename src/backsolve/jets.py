"""`bs.jet`: derivatives of high order along a curve, in Taylor mode (solve/taylor.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

import numpy as np

from . import tree
from .api.curved import points_of
from .errors import DTypeError, ShapeError, StructureError, UnsupportedError
from .kinds import same_kind
from .replay import is_numeric, number, replay
from .results import check_differentiable
from .solve.rows import type_of_value
from .solve.series import Given, Series
from .solve.taylor import Rows
from .tensor import Tensor
from .vary import Varied


def jet(
    f: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]]
) -> tuple[Any, list[Any]]:
    """The value of `f` along curves x(t) and its derivatives by t at 0, up to the order that `series` gives.

    `series[i]` lists x_i'(0), x_i''(0), … of argument i, each of its form; the derivatives of the result come
    in the same way. The work grows like a power of the order, where nested forward mode doubles with each.

    >>> import numpy as np
    >>> jet(np.exp, (0.0,), [[1.0, 0.0, 0.0]])
    (1.0, [1.0, 1.0, 1.0])
    """
    groups = (primals, series, *(series if isinstance(series, tuple | list) else ()))
    if not all(isinstance(xs, tuple | list) for xs in groups):
        raise StructureError(
            "jet takes a tuple of arguments and a list of derivatives for each: jet(f, (x,), [[dx, ddx]])"
        )
    if len(primals) != len(series):
        raise StructureError(
            f"jet needs a series for each of the {len(primals)} arguments, got {len(series)}"
        )
    orders = {len(s) for s in series}
    if len(orders) > 1:
        raise StructureError(f"jet needs series of one length, got {sorted(orders)}")
    order = orders.pop() if orders else 0
    if points_of(primals):
        raise UnsupportedError(
            "jet goes along a curve that its derivatives tell, not along tangents: give the array itself, and "
            "the derivatives of a curve on the manifold, such as those of t ↦ manifold.exp(x, t u)"
        )
    varied = Varied("jet", primals, range(len(primals)))
    curves = _curves(varied, series)
    with np.errstate(all="ignore"):
        types = [type_of_value(c[0]) for c in curves]
        rows = Rows(order)
        values, found, structure = replay(f, varied, curves, types, rows)
        check_differentiable("jet", values)
        rows.settle()
        derivatives = [
            structure.unflatten([_derivative(s, v, k) for s, v in zip(found, values, strict=True)])
            for k in range(1, order + 1)
        ]
    varied.finish()
    return structure.unflatten(values), derivatives


def _curves(varied: Varied, series: Sequence[Sequence[Any]]) -> list[Series]:
    order = len(series[0]) if series else 0
    flat = [_leaves(varied, tuple(s[k] for s in series), k + 1) for k in range(order)]
    curves: list[Series] = []
    numbers = [k for k, static in enumerate(varied.static) if not static]
    for place in numbers:
        x = varied.originals[place]
        coefficients, dtype = [number(x)], type_of_value(number(x)).dtype
        for k in range(order):
            t = flat[k][place]
            if np.shape(t) != np.shape(x):
                raise ShapeError(
                    f"derivative {k + 1} of an argument must have its shape {np.shape(x)}, got {np.shape(t)}"
                )
            t = number(t)
            if t.dtype.kind == "c" and dtype.kind != "c":
                raise DTypeError(
                    f"derivative {k + 1} of an argument must be real where it is real ({dtype}), got complex"
                )
            zero = not isinstance(t, Tensor) and not np.any(t)
            coefficients.append(None if zero else t.astype(dtype) * (1.0 / factorial(k + 1)))
        curves.append(Given([*coefficients, *[None] * 2]))
    return curves


def _leaves(varied: Varied, given: Any, k: int) -> list[Any]:
    leaves, form = tree.flatten_like(given, varied.structure)
    if form != varied.structure:
        raise StructureError(
            f"derivative {k} must have the form of the arguments, got {given!r}"
            + tree.sharing_note(varied.structure, form)
        )
    return leaves


def _derivative(s: Any, value: Any, k: int) -> Any:
    if not is_numeric(value):
        return None  # as of jvp
    t = s[k] if isinstance(s, Series) else None
    return same_kind(None if t is None else t * float(factorial(k)), value)
