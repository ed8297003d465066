"""Rows that take a number of rounds which only the run knows, or one for each step: Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .....ir import Equation, Type
from ..graph import Graph, value_info
from .base import as_output, out_of, row, types_of
from .shape import FAR

_NUMBER, _TRUTH = Type((), np.dtype(np.int64)), Type((), np.dtype(bool))


def _inner(
    g: Graph, given: Sequence[tuple[str, Type]], write: Callable[[], Any]
) -> onnx.GraphProto:
    """A graph of its own, of what is written meanwhile: names and types of results."""
    with g.scope() as nodes:
        made = [(g.Identity(y), t) for y, t in write()]
    inputs, outputs = ([value_info(name, t) for name, t in ends] for ends in (given, made))
    return helper.make_graph(nodes, "rounds", inputs, outputs)


def _repeated(
    g: Graph,
    values: Sequence[str],
    types: Sequence[Type],
    step: Callable[..., list[str]],
    most: str = "",
    goes_on: Callable[..., str] | None = None,
) -> list[str]:
    """Values after rounds of `step(round, *values)`: `most` of them, or as long as `goes_on(*values)`."""
    done, going = g.name("round"), g.name("going")
    inside = [g.name("carried") for _ in values]

    def write() -> list[tuple[str, Type]]:
        made = step(done, *inside)
        more = going if goes_on is None else goes_on(*made)
        return [(more, _TRUTH), *zip(made, types, strict=True)]

    given = [(done, _NUMBER), (going, _TRUTH), *zip(inside, types, strict=True)]
    start = g.number(True, bool) if goes_on is None else goes_on(*values)
    body = _inner(g, given, write)
    found = g.node("Loop", [most, start, *values], outputs=len(values), body=body)
    return [found] if len(values) == 1 else found


# ---- integers


@row("gcd", "lcm")
def gcd(g: Graph, e: Equation, inputs: list[str]) -> str:
    """Euclid's algorithm, until all are done."""
    out = out_of(e)
    zero, one = g.number(0, out.dtype), g.number(1, out.dtype)
    a, b = (g.expand(g.Abs(x), out.shape) for x in as_output(g, e, inputs))

    def step(done: str, a: str, b: str) -> list[str]:
        over = g.Equal(b, zero)
        rest = g.Mod(a, g.Where(over, one, b))
        return [g.Where(over, a, b), g.Where(over, zero, rest)]

    def goes_on(a: str, b: str) -> str:
        return str(g.Greater(g.ReduceMax(b, keepdims=0), zero))

    common, _ = _repeated(g, [a, b], [out, out], step, goes_on=goes_on)
    if e.primitive.name == "gcd":
        return common
    return str(g.Mul(g.Div(a, g.Max(common, one)), b))


# ---- powers of matrices


@row("repeated_square", "repeated_square_along")
def repeated_square(g: Graph, e: Equation, inputs: list[str]) -> str:
    """A squared again and again, each matrix as often as it is said; and what that does to a direction."""
    times_type, dtype = types_of(e)[-1], out_of(e).dtype
    *values, times = inputs
    types = [Type(t.shape, dtype) for t in types_of(e)[:-1]]
    values = [g.cast(x, t.dtype, dtype) for x, t in zip(values, types_of(e), strict=False)]
    times = g.cast(times, times_type.dtype, np.int64)
    most = g.ReduceMax(times, keepdims=0)
    each = g.unsqueeze(times, [times_type.ndim, times_type.ndim + 1])

    def step(done: str, a: str, *along: str) -> list[str]:
        goes_on = g.Less(done, each)
        made = [g.MatMul(a, a), *[g.Add(g.MatMul(a, t), g.MatMul(t, a)) for t in along]]
        return [g.Where(goes_on, new, old) for new, old in zip(made, (a, *along), strict=True)]

    return _repeated(g, values, types, step, most)[-1]


# ---- recurrences of vectors


@row("block_recurrence")
def block_recurrence(g: Graph, e: Equation, inputs: list[str]) -> str:
    """s_j = t_j + A_j s_{j−1}, in this order, steps first."""
    out, (a, t) = out_of(e), as_output(g, e, inputs)
    lead, steps, n = out.shape[:-2], out.shape[-2], out.shape[-1]
    if steps == 1:
        return t
    at = len(lead)
    turned = lambda x: g.slice(x, [-1], [-FAR], [0], [-1]) if e.params["reverse"] else x
    a = turned(g.transpose(a, [at, *range(at), at + 1, at + 2]))
    t = turned(g.transpose(t, [at, *range(at), at + 1]))
    first = g.slice(t, [0], [1], [0], [1])
    a, rest = (g.slice(x, [1], [steps], [0], [1]) for x in (a, t))
    state, factor, term = g.name("state"), g.name("factor"), g.name("term")
    vector = Type((*lead, n), out.dtype)

    def write() -> list[tuple[str, Type]]:
        moved = g.squeeze(g.MatMul(factor, g.unsqueeze(state, [at + 1])), [at + 1])
        s = g.Add(term, moved)
        return [(s, vector), (s, vector)]

    given = [(state, vector), (factor, Type((*lead, n, n), out.dtype)), (term, vector)]
    body = _inner(g, given, write)
    start = g.squeeze(first, [0])
    _, found = g.node("Scan", [start, a, rest], outputs=2, body=body, num_scan_inputs=2)
    y = turned(g.Concat(first, found, axis=0))
    return g.transpose(y, [*range(1, at + 1), 0, at + 1])
