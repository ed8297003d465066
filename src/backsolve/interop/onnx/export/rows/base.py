"""The table of rows, and what they share: `ROWS[name](graph, equation, inputs)` names the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....dtypes import joined_dtype
from .....ir import Equation, Type, type_of
from .....tables import Table
from ..graph import Graph

Row = Callable[[Graph, Equation, list[str]], Any]
ROWS: Table[Row] = Table()
row = ROWS.row
# What has no operator of its own, written in NumPy: it is recorded and exported in its place.
FORMULAS: dict[str, Callable[..., Any]] = {}


def formula(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(f: Callable[..., Any]) -> Callable[..., Any]:
        FORMULAS.update(dict.fromkeys(names, f))
        return f

    return enter


def types_of(e: Equation) -> list[Type]:
    return [type_of(a) for a in e.inputs]


def out_of(e: Equation) -> Type:
    return e.outputs[0].type


def as_dtype(g: Graph, e: Equation, inputs: Sequence[str], dtype: Any) -> list[str]:
    return [g.cast(a, t.dtype, dtype) for a, t in zip(inputs, types_of(e), strict=True)]


def as_output(g: Graph, e: Equation, inputs: Sequence[str]) -> list[str]:
    """The inputs in the dtype of the output."""
    return as_dtype(g, e, inputs, out_of(e).dtype)


def common_dtype(e: Equation) -> np.dtype[Any]:
    """The dtype in which NumPy would compare or join the inputs."""
    return joined_dtype(types_of(e))
