"""LayerNormalization, InstanceNormalization and BatchNormalization, with the scale and the shift behind.

In single precision alone: the operators have their eps, and layer norm its mean, in no other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .....ir import Equation, Var, type_of
from ..sizes import Size
from .base import Walk, both_ways, is_like, made_by, per_channel, recogniser
from .means import averaged

_SINGLE = np.dtype(np.float32)


class _Norm(NamedTuple):
    """x less its mean over its deviation; by the figures of its last axes, or by such as are given."""

    x: Var
    eps: float
    first: int  # of the axes over which figures are taken
    mean: str | None = None
    variance: str | None = None
    scale: Any = None
    shift: Any = None

    @property
    def has_channels(self) -> bool:
        """Whether scale and shift are one number for each channel of (N, C, …)."""
        t = self.x.type
        known = t.ndim > 1 and not isinstance(t.shape[1], Size)
        return self.mean is not None or (self.first == 2 and t.ndim > 3 and known)

    def written(self, walk: Walk) -> str | None:
        g, shape = walk.g, self.x.type.shape
        x = walk.value(self.x)
        if not self.has_channels or self._is_by_entry(self.scale) or self._is_by_entry(self.shift):
            return self._layer(walk)
        plain = g.constant(np.ones(shape[1], _SINGLE)), g.constant(np.zeros(shape[1], _SINGLE))
        given = []
        for a, other in zip((self.scale, self.shift), plain, strict=True):
            vector = other if a is None else per_channel(walk, a, shape, _SINGLE)
            if vector is None:
                return None
            given.append(vector)
        if self.mean is None:
            return str(g.InstanceNormalization(x, *given, epsilon=self.eps))
        return str(g.BatchNormalization(x, *given, self.mean, self.variance, epsilon=self.eps))

    def _is_by_entry(self, a: Any) -> bool:
        return self.mean is None and a is not None and self._fits(a)

    def _fits(self, a: Any) -> bool:
        return is_like(a, _SINGLE) and tuple(a.type.shape) == tuple(self.x.type.shape[self.first :])

    def _layer(self, walk: Walk) -> str | None:
        g, shape = walk.g, self.x.type.shape[self.first :]
        if any(a is not None and not self._fits(a) for a in (self.scale, self.shift)):
            return None
        ones = lambda: g.constant(np.ones([int(n) for n in shape], _SINGLE))
        scale = ones() if self.scale is None else walk.value(self.scale)
        more = [] if self.shift is None else [walk.value(self.shift)]
        given = [walk.value(self.x), scale, *more]
        return str(g.LayerNormalization(*given, axis=self.first, epsilon=self.eps))


@recogniser("divide", "multiply", "add")
def normalised(walk: Walk, e: Equation) -> str | None:
    found = _found(walk, e)
    return None if found is None else found.written(walk)


def _found(walk: Walk, e: Equation) -> _Norm | None:
    out, name = e.outputs[0].type, e.primitive.name
    if out.dtype != _SINGLE or out.size == 0:
        return None
    if name == "divide":
        return _by_figures(walk, e) or _by_given(walk, e)
    if name not in ("multiply", "add"):
        return None
    wanted = {"multiply": ("divide",), "add": ("divide", "multiply")}[name]
    for y, a in both_ways(e):
        source = made_by(walk, y, *wanted)
        if source is None or walk.reads(y) != 1 or type_of(y) != out:
            continue
        found = _found(walk, source)
        if found is not None and type(a) is Var:
            return found._replace(scale=a) if name == "multiply" else found._replace(shift=a)
    return None


def _by_figures(walk: Walk, e: Equation) -> _Norm | None:
    """By the mean and the variance of the last axes of x itself."""
    centred, deviation = e.inputs
    source, found = made_by(walk, centred, "subtract"), _deviation(walk, deviation)
    if source is None or found is None or walk.reads(centred) != 2 or walk.reads(found[0]) != 1:
        return None
    x, mean = source.inputs
    of_x, of_squares = _mean_of(walk, mean), _mean_of(walk, found[0])
    if of_x is None or of_squares is None or of_x[0] is not x or of_x[1] != of_squares[1]:
        return None
    square = made_by(walk, of_squares[0], "square")
    if square is None or square.inputs[0] is not centred or walk.reads(mean) != 1:
        return None
    return _Norm(x, found[1], of_x[1]) if is_like(x, _SINGLE) else None


def _mean_of(walk: Walk, a: Any) -> tuple[Any, int] | None:
    """An array, and the first of its last axes, over which this is its mean."""
    source = walk.maker(a)
    total = None if source is None else averaged(walk, source)
    if total is None or not total.params["keepdims"]:
        return None
    (x,), axes = total.inputs, tuple(total.params["axis"])
    ndim = type_of(x).ndim
    return (x, axes[0]) if axes and axes == tuple(range(axes[0], ndim)) else None


def _by_given(walk: Walk, e: Equation) -> _Norm | None:
    """By figures of each channel that are known."""
    centred, deviation = e.inputs
    source, found = made_by(walk, centred, "subtract"), _deviation(walk, deviation)
    if source is None or found is None or walk.reads(centred) != 1:
        return None
    (x, mean), shape = source.inputs, e.outputs[0].type.shape
    if not is_like(x, _SINGLE) or type_of(x) != e.outputs[0].type or len(shape) < 2:
        return None
    if isinstance(shape[1], Size):
        return None
    figures = [per_channel(walk, a, shape, _SINGLE) for a in (mean, found[0])]
    return None if None in figures else _Norm(x, found[1], 2, *figures)


def _deviation(walk: Walk, a: Any) -> tuple[Any, float] | None:
    """v and eps, of √(v + eps)."""
    root = made_by(walk, a, "sqrt")
    inner = None if root is None else made_by(walk, root.inputs[0], "add")
    if root is None or inner is None or walk.reads(a) != 1 or walk.reads(root.inputs[0]) != 1:
        return None
    for v, eps in both_ways(inner):
        number = walk.number(eps)
        if number is not None and type(v) is Var and np.ndim(number) == 0 and number > 0:
            return v, float(number)
    return None
