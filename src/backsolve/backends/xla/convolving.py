"""Convolutions of labelled arrays by `lax.conv_general_dilated`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import jax.numpy as jnp
from jax import lax

from ...ir import Shape, Var
from ...operators.windows import Cut
from .rows.base import is_half

_Three = tuple[str, str, str]


@dataclass(frozen=True)
class Form:
    """The labels of x, w and y, those of their axes in space, and the others by what they do."""

    labels: _Three
    space: _Three
    groups: str  # in all three
    summed: str  # in x and w
    batch: str  # in x and y
    features: str  # in w and y

    @staticmethod
    def of(labels: _Three, space: _Three) -> Form | None:
        """None if this is no convolution."""
        if any(len(set(mine)) < len(mine) for mine in labels):
            return None
        if not all(set(s) <= set(mine) for s, mine in zip(space, labels, strict=True)):
            return None
        x, w, y = ([c for c in a if c not in s] for a, s in zip(labels, space, strict=True))
        groups = [c for c in x if c in w and c in y]
        summed = [c for c in x if c in w and c not in y]
        batch = [c for c in x if c in y and c not in w]
        features = [c for c in w if c in y and c not in x]
        complete = (
            {*groups, *summed, *batch} == set(x)
            and {*groups, *summed, *features} == set(w)
            and {*groups, *batch, *features} == set(y)
        )
        if not complete:
            return None
        return Form(labels, space, *map("".join, (groups, summed, batch, features)))

    def run(self, m: Any, x: Any, w: Any, space: Shape, **how: Any) -> Any:
        """y, with lengths `space` along its axes in space."""
        sizes = dict(zip(self.labels[0], x.shape, strict=True))
        sizes |= dict(zip(self.labels[1], w.shape, strict=True))
        length = lambda names: prod(sizes[c] for c in names)
        x = _laid_out(x, self.labels[0], self.batch, self.groups + self.summed, self.space[0])
        w = _laid_out(w, self.labels[1], self.groups + self.features, self.summed, self.space[1])
        precision = lax.Precision.DEFAULT if is_half(x) else m.precision
        y = lax.conv_general_dilated(
            x, w, feature_group_count=length(self.groups), precision=precision, **how
        )
        names = self.batch + self.groups + self.features
        y = jnp.reshape(y, (*[sizes[c] for c in names], *space))
        names += self.space[2]
        return jnp.transpose(y, [names.index(c) for c in self.labels[2]])


def _laid_out(a: Any, labels: str, first: str, second: str, space: str) -> Any:
    """Axes `first` as one, `second` as one, then those in space."""
    a = jnp.transpose(a, [labels.index(c) for c in (*first, *second, *space)])
    rank = len(first)
    lead = prod(a.shape[:rank]), prod(a.shape[rank : rank + len(second)])
    return jnp.reshape(a, (*lead, *a.shape[rank + len(second) :]))


def _lengths(labels: str, shape: Shape, space: str) -> Shape:
    return tuple(shape[labels.index(c)] for c in space)


def convolve(
    form: Form,
    shape: Shape,
    before: Shape,
    step: Shape,
    apart: Shape,
    out: Var,
    m: Any,
    x: Any,
    w: Any,
) -> Any:
    """y[s] = Σ_k x[step·s + apart·k − before] w[k]; x is looked at in a shape."""
    x, w = jnp.reshape(x, shape).astype(m.dtype(out)), w.astype(m.dtype(out))
    lengths, sizes, counts = map(_lengths, form.labels, (x.shape, w.shape, out.shape), form.space)
    padding = []
    for low, count, s, size, d, n in zip(before, counts, step, sizes, apart, lengths, strict=True):
        high = (count - 1) * s + (size - 1) * d + 1 - n - low
        # As much on both sides, where this makes no window more: else cuDNN gets a copy with the zeros.
        padding.append((low, low if high < low < high + s else high))
    how = {"window_strides": step, "padding": padding, "rhs_dilation": apart}
    return form.run(m, x, w, counts, **how)


def spread(form: Form, cut: Cut, at: Shape, size: Shape, out: Var, m: Any, t: Any, w: Any) -> Any:
    """y[step·s + dilation·k − at] += t[s] w[k], `size` entries of it."""
    t, w = t.astype(m.dtype(out)), w.astype(m.dtype(out))
    w = jnp.flip(w, [form.labels[1].index(c) for c in form.space[1]])
    padding = []
    counts = _lengths(form.labels[0], t.shape, form.space[0])
    for n, count, start, inside, s, d in zip(
        size, counts, at, cut.size, cut.step, cut.dilation, strict=True
    ):
        reach = (inside - 1) * d
        padding.append((reach - start, n + start - (count - 1) * s - 1))
    how = {"padding": padding, "lhs_dilation": cut.step, "rhs_dilation": cut.dilation}
    y = form.run(m, t, w, size, window_strides=(1,) * len(size), **how)
    return jnp.reshape(y, out.shape)
