"""Arrays with one entry in each line, zeros elsewhere: the gradient of `x[arange(n), labels]`, and its mask.

Their sum along a line is that entry, so nothing of the size of the array needs to be added up. Equations are
translated all the same, and with them the checks of their indices: what nobody reads, XLA leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...ir import Equation, Var
from ...operators.gather import line_axis


@dataclass(frozen=True)
class _Line:
    entries: Any  # one for each line
    places: tuple[Any, ...]  # the indices, as the Program has them
    axis: int  # along which a line runs


class Lines:
    """What is known about the variables of a program while it is translated."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self._lines: dict[Var, _Line] = {}

    def follow(self, e: Equation, inputs: Sequence[Any], values: dict[Var, Any]) -> None:
        """Note what an equation made of lines, and put what it adds up along them in its value's place."""
        name, out = e.primitive.name, e.outputs[0]
        if name == "scatter_add":
            self._enter(e, inputs)
            return
        first = self._lines.get(e.inputs[0]) if e.inputs and type(e.inputs[0]) is Var else None
        if first is None:
            return
        if name in ("sum", "any") and e.params["axis"] == (first.axis,):
            total = first.entries.astype(self._machine.dtype(out))
            if out.dtype.kind in "fc":
                zero = jnp.zeros((), total.dtype)
                total = jnp.where(total == zero, zero, total)  # a sum begins with +0: it is no −0
            values[out] = total.reshape(out.shape)
        entries = self._along(e, first, inputs)
        if entries is not None:
            entries = entries.astype(self._machine.dtype(out))
            self._lines[out] = _Line(entries, first.places, first.axis)

    def _enter(self, e: Equation, inputs: Sequence[Any]) -> None:
        shape, (t, *indices) = e.params["shape"], inputs
        known = [self._machine.number(a) for a in e.inputs[1:]]
        axis = line_axis(known, [np.shape(i) for i in indices], shape)
        if axis is not None:
            lines = shape[:axis] + shape[axis + 1 :]
            entries = jnp.broadcast_to(jnp.asarray(t), lines)
            self._lines[e.outputs[0]] = _Line(entries, tuple(e.inputs[1:]), axis)

    def _along(self, e: Equation, first: _Line, inputs: Sequence[Any]) -> Any:
        """The entries of what an equation makes, if zeros stay zeros; else None."""
        name = e.primitive.name
        if name in ("negative", "cast", "detach"):
            return -first.entries if name == "negative" else first.entries
        if name == "multiply" and type(e.inputs[1]) is not Var and np.isfinite(e.inputs[1]):
            return first.entries * e.inputs[1]
        if name == "where" and type(e.inputs[2]) is not Var and e.inputs[2] == 0:
            chosen = self._lines.get(e.inputs[1]) if type(e.inputs[1]) is Var else None
            if chosen is not None and _are_same(chosen, first):
                return jnp.where(first.entries, chosen.entries, jnp.zeros((), chosen.entries.dtype))
        return None


def _are_same(a: _Line, b: _Line) -> bool:
    if a.axis != b.axis or len(a.places) != len(b.places):
        return False
    both = zip(a.places, b.places, strict=True)
    return all(x is y or (type(x) is not Var and x == y) for x, y in both)
