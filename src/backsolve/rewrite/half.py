"""float16 by float32, as NumPy computes with it: every operation for itself, its result rounded.

Compiled code only moves such numbers and converts them. Sums, products and scans are rounded once, at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Type, type_of
from ..primitive import PRIMITIVES
from ..primitives import OWN

HALF = np.dtype(np.float16)
MOVES = {"alias", "broadcast_to", "cast", "cast_discrete", "concatenate", "detach", "gather"}
MOVES |= {"permute", "reshape", "scatter_set", "slice", "slice_update", "unslice", "where"}
MOVES |= {"argsort", "ranked"}
BITS = {"nextafter", "spacing"}  # next to a float16 lies another one than next to that float32


def is_computed_in_halves(e: Equation) -> bool:
    """Whether a row of ours computes with float16, and gives no wider number."""
    name = e.primitive.name
    if name in MOVES | BITS or name not in OWN or PRIMITIVES[name] is not e.primitive:
        return False
    out = e.outputs[0].dtype
    taken = any(type_of(a).dtype == HALF for a in e.inputs)
    return out == HALF or (taken and out.kind in "biu")


def in_singles(e: Equation, inputs: list[Any]) -> list[Any]:
    """The inputs, but float16 as float32; what joins those, such as a Python number, is rounded first."""
    if not is_computed_in_halves(e):
        return inputs
    types = [type_of(a) for a in e.inputs]
    strong = [t.dtype.type(0).item() if t.weak else t.dtype for t in types]
    rounds = HALF in (e.outputs[0].dtype, np.result_type(*strong))
    joins = [rounds and e.primitive.elementwise] * len(types)  # indices do not
    if e.primitive.name == "ldexp":
        joins[1] = False
    return [_wide(a, t, j) for a, t, j in zip(inputs, types, joins, strict=True)]


def _wide(a: Any, t: Type, joins: bool) -> Any:
    if t.dtype != HALF and not joins:
        return a
    if hasattr(a, "astype"):
        return a.astype(HALF).astype(np.float32)
    with np.errstate(over="ignore"):
        return float(HALF.type(a))
