"""Reductions, softmax and its like, running sums, orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir import Equation
from ..graph import Graph
from .base import ROWS, as_output, out_of, row, types_of


def _over(name: str, op: str) -> None:
    """Over several axes at once; booleans and small integers as int32, which reductions have."""

    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        (a,) = as_output(g, e, inputs)
        axes, dtype = e.params["axis"], out_of(e).dtype
        if not axes:
            return a
        small = dtype.kind in "biu" and dtype.itemsize < 4
        wide = np.dtype(np.int32) if small else dtype
        y = g.node(op, [g.cast(a, dtype, wide), g.sizes(axes)], keepdims=int(e.params["keepdims"]))
        return g.cast(y, wide, dtype)


_over("sum", "ReduceSum")
_over("prod", "ReduceProd")
_over("max", "ReduceMax")
_over("first_max", "ReduceMax")
_over("min", "ReduceMin")
_over("norm", "ReduceL2")
_over("logsumexp", "ReduceLogSumExp")


def _truth(name: str, op: str) -> None:
    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        t = types_of(e)[0]
        a = g.cast(g.cast(inputs[0], t.dtype, bool), bool, np.int32)
        axes = e.params["axis"]
        if not axes:
            return g.cast(inputs[0], t.dtype, bool)
        y = g.node(op, [a, g.sizes(axes)], keepdims=int(e.params["keepdims"]))
        return g.Greater(y, g.number(0, np.int32))  # the least number, where there is no entry


_truth("any", "ReduceMax")
_truth("all", "ReduceMin")


def _extreme(name: str, op: str) -> None:
    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        t, (a,) = types_of(e)[0], inputs
        a = g.cast(a, t.dtype, np.int32) if t.dtype == bool else a
        return g.node(op, [a], axis=int(e.params["axis"]), keepdims=0)


_extreme("argmax", "ArgMax")
_extreme("argmin", "ArgMin")


def _shares(name: str, op: str) -> None:
    """One node along one axis; several axes are first made one, the last."""

    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        (a,) = as_output(g, e, inputs)
        axes, shape = [k % out_of(e).ndim for k in e.params["axis"]], out_of(e).shape
        if len(axes) == 1:
            return g.node(op, [a], axis=axes[0])
        order = [k for k in range(len(shape)) if k not in axes] + axes
        rest = len(shape) - len(axes)
        joined = g.reshape(g.transpose(a, order), [*[shape[k] for k in order[:rest]], -1])
        y = g.reshape(g.node(op, [joined], axis=rest), [shape[k] for k in order])
        return g.transpose(y, np.argsort(order).tolist())


_shares("softmax", "Softmax")
_shares("log_softmax", "LogSoftmax")


@row("cumsum")
def cumsum(g: Graph, e: Equation, inputs: list[str]) -> str:
    (a,) = as_output(g, e, inputs)
    return g.CumSum(a, g.number(e.params["axis"], np.int64))


# ---- orders


def _ordered(g: Graph, e: Equation, inputs: list[str]) -> str:
    t, axis = types_of(e)[0], e.params["axis"]
    a = inputs[0] if t.dtype.kind in "fi" else g.cast(inputs[0], t.dtype, np.int64)
    return g.node("TopK", [a, g.sizes([t.shape[axis]])], outputs=2, axis=axis, largest=0, sorted=1)[
        1
    ]


ROWS["argsort"] = _ordered


@row("ranked")
def ranked(g: Graph, e: Equation, inputs: list[str]) -> str:
    ranks: Any = np.asarray(e.params["ranks"], np.int64)
    return g.Gather(_ordered(g, e, inputs), g.constant(ranks), axis=e.params["axis"])
