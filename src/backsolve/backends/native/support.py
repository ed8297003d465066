"""What the native backend can do, told without building anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Equation, type_of
from .numbers.registers import DTYPES

# primitive -> the way entries are combined
REDUCTIONS = {
    **{"sum": "add", "prod": "mul", "max": "max", "min": "min", "first_max": "max"},
    **{"any": "or", "all": "and"},
}


class Unsupported(Exception):  # noqa: N818 - a signal: this Program runs on the NumPy backend
    """An equation that has no native form."""


def is_native_elementwise(e: Equation) -> bool:
    from .elementwise import supports

    types = [type_of(a) for a in (*e.inputs, *e.outputs)]
    return all(t.dtype in DTYPES for t in types) and supports(e)


# What is computed in the dtype of the inputs although the result has another.
_OF_INPUTS = {"absolute", "real", "imag", "angle", "bitwise_count"}


def compute_dtype(e: Equation) -> np.dtype[Any]:
    """The dtype in which an element-wise equation is computed: its own, or its inputs' for a test."""
    out, name = e.outputs[0].dtype, e.primitive.name
    if (out != np.bool_ and name not in _OF_INPUTS) or name.startswith("logical"):
        return out
    types = [type_of(a) for a in e.inputs]
    joint = np.result_type(*[t.dtype.type(0).item() if t.weak else t.dtype for t in types])
    return joint if joint.kind == "c" or name != "angle" else out


def fits(a: Any, e: Equation) -> bool:
    """Whether a Python number among the inputs can be written in the dtypes of the equation.

    Where it cannot, NumPy raises or compares exactly: the NumPy backend will. One that is only known
    when the program runs is an int32 (compiled.py takes no others).
    """
    t = type_of(a)
    if not t.weak or t.dtype.kind not in "if":
        return True
    dtypes = [type_of(x).dtype for x in (*e.inputs, *e.outputs) if not type_of(x).weak]
    integers = [t for t in dtypes if t.kind in "iu"]
    if t.dtype.kind == "f":
        return not isinstance(a, float) or bool(np.isfinite(a)) or not integers
    if isinstance(a, int):
        low = high = a
    else:
        low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    if max(-low, high) > 2**53:
        return False
    return all(np.iinfo(t).min <= low and high <= np.iinfo(t).max for t in integers)
