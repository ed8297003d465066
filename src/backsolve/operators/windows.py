"""Windows and Fold: every window of an array, and windows added back where they were taken.

    Windows:  y[…, i…, …, k…] = t[…, step·i + dilation·k, …]
    Fold:     y[…, step·i + dilation·k, …] += t[…, i…, …, k…]

The axes that are cut stay in place and count the windows; the axes inside a window stand last. Convolution
is a contraction over them, pooling a reduction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..ir import Shape, Type
from ..primitive import P
from .base import Cost, From, Into, Operator, whole
from .structure import facts


class Cut(NamedTuple):
    """Which windows: along `axes`, of `size` entries, `step` apart, each entry `dilation` from the next."""

    axes: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]
    dilation: tuple[int, ...]

    def shape(self, shape: Shape) -> Shape:
        """The shape of the windows of an array of this shape."""
        counts = list(shape)
        for axis, size, step, dilation in zip(*self, strict=True):
            counts[axis] = max(0, (shape[axis] - dilation * (size - 1) - 1) // step + 1)
        return (*counts, *self.size)

    def view(self, a: np.ndarray[Any, Any], writeable: bool = False) -> np.ndarray[Any, Any]:
        """The windows of an array, as another look at its memory."""
        strides = list(a.strides)
        for axis, step in zip(self.axes, self.step, strict=True):
            strides[axis] *= step
        inside = [a.strides[k] * d for k, d in zip(self.axes, self.dilation, strict=True)]
        return np.lib.stride_tricks.as_strided(
            a, self.shape(a.shape), [*strides, *inside], writeable=writeable
        )

    def moved(self, by: int) -> Cut:
        """The same behind `by` more axes."""
        return self._replace(axes=tuple(k + by for k in self.axes))

    def add(self, y: Any, t: Any) -> Any:
        """y with windows added where they belong."""
        for k in np.ndindex(self.size) if np.size(t) else ():
            y[self.places(k, y.shape)] += t[(..., *k)]
        return y

    def covered(self, shape: Shape) -> Any:
        """Which entries of an array of this shape stand in a window."""
        found = np.ones((1,) * len(shape), bool)
        counts = self.shape(shape)
        for axis, size, step, dilation in zip(*self, strict=True):
            line = np.zeros(shape[axis], bool)
            starts = step * np.arange(counts[axis])[:, None]
            line[starts + dilation * np.arange(size)] = True
            found = found & np.expand_dims(line, [k for k in range(len(shape)) if k != axis])
        found.flags.writeable = False  # whoever keeps it needs no copy
        return np.broadcast_to(found, shape)

    def places(self, k: tuple[int, ...], shape: Shape) -> tuple[slice, ...]:
        """Where the entries number k of all windows stand in an array of this shape."""
        counts = self.shape(shape)
        key = [slice(None)] * len(shape)
        for axis, at, step, dilation in zip(self.axes, k, self.step, self.dilation, strict=True):
            first = at * dilation
            key[axis] = slice(first, first + (counts[axis] - 1) * step + 1, step)
        return tuple(key)


class Windows(From):
    """t ↦ its windows along some axes, each moved by a step from the one before."""

    __slots__ = ("cut",)
    facts = facts("selection")
    adjoint_masks = True

    def __init__(self, in_type: Any, cut: Cut):
        self._in = in_type
        self.cut = cut

    def apply(self, t: Any) -> Any:
        return P.windows(t, cut=self.cut)

    def support(self, mask: Any) -> Any:
        return None if mask is None else P.windows(whole(mask, self._in.shape), cut=self.cut)

    @property
    def T(self) -> Operator:
        return Fold(self._in, self.cut)

    @property
    def out_type(self) -> Type:
        return Type(self.cut.shape(self._in.shape), self._in.dtype)

    @property
    def cost(self) -> Cost:
        return Cost(bytes=self.out_type.size * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Windows({self._in.shape} → {self.out_type.shape})"


class Fold(Into):
    """Adjoint of Windows; where windows overlap, entries add up."""

    __slots__ = ("cut",)
    facts = facts("sparse")
    masks = True

    def __init__(self, out_type: Any, cut: Cut):
        self._out = out_type
        self.cut = cut

    def apply(self, t: Any) -> Any:
        return P.fold(t, cut=self.cut, shape=self._out.shape)

    def apply_add(self, y: Any, t: Any) -> Any:
        return self.cut.add(y, t)

    def support(self, mask: Any) -> Any:
        if mask is None:
            return self.cut.covered(self._out.shape)
        return P.fold(mask, cut=self.cut, shape=self._out.shape)

    @property
    def T(self) -> Operator:
        return Windows(self._out, self.cut)

    @property
    def in_type(self) -> Type:
        return Type(self.cut.shape(self._out.shape), self._out.dtype)

    @property
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(additions=n, bytes=2 * n * self._out.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Fold({self.in_type.shape} → {self._out.shape})"
