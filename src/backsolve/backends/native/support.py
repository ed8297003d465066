"""What the native backend can do, told without building anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Equation, type_of

# primitive -> the way entries are combined
REDUCTIONS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
DTYPES = frozenset(np.dtype(t) for t in ("f4", "f8", "i4", "i8", "?"))


def is_native_elementwise(e: Equation) -> bool:
    from .elementwise import FUNCTIONS, supports

    types = [type_of(a) for a in (*e.inputs, *e.outputs)]
    if any(t.dtype not in DTYPES for t in types):
        return False
    name = e.primitive.name
    dtype = compute_dtype(e)
    if name in FUNCTIONS and dtype.kind == "f":
        return True
    return supports(name, dtype)


def compute_dtype(e: Equation) -> np.dtype[Any]:
    """The dtype in which an element-wise equation is computed: its own, or its inputs' for a test."""
    out = e.outputs[0].dtype
    if out != np.bool_ or e.primitive.name.startswith("logical"):
        return out
    parts: list[Any] = [a if type_of(a).weak else type_of(a).dtype for a in e.inputs]
    return np.result_type(*parts)


def fits(a: Any, e: Equation) -> bool:
    """Whether a Python number among the inputs can be written in the dtypes of the equation.

    Where it cannot, NumPy raises or compares exactly: the NumPy backend will.
    """
    if type(a) not in (int, float):
        return True
    dtypes = [type_of(x).dtype for x in (*e.inputs, *e.outputs) if not type_of(x).weak]
    integers = [t for t in dtypes if t.kind in "iu"]
    if type(a) is float:
        return bool(np.isfinite(a)) or not integers
    if abs(a) > 2**53:
        return False
    return all(np.iinfo(t).min <= a <= np.iinfo(t).max for t in integers)
