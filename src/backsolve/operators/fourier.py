"""Fourier, RealFourier and HalfFourier: discrete Fourier transforms without scaling.

    Fourier       t_j ↦ Σ_j t_j e^{∓2πi jk/n}, along some axes; the adjoint has the other sign
    RealFourier   of real t, the entries k ≤ n/2 only, which tell the others
    HalfFourier   back: from those entries, the sum over all, a real array of length n

The adjoint of RealFourier sees each entry once, where HalfFourier counts those with a mirror image twice: it is
HalfFourier `halved`; and the adjoint of HalfFourier is RealFourier with such entries twice, not `halved`.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Between, Cost, Operator


def _steps(t: Type, n: int) -> Cost:
    count = int(2.5 * t.size * log2(n)) if n > 1 else 0
    return Cost(count, count, 2 * t.size * t.dtype.itemsize)


class Fourier(Operator):
    """t ↦ Σ_j t_j e^{−2πi jk/n} along some axes; with `inverse` e^{+2πi jk/n}; no scaling."""

    __slots__ = ("_type", "axes", "inverse")

    def __init__(self, type: Any, axes: tuple[int, ...], inverse: bool = False):
        self._type, self.axes, self.inverse = Type(type.shape, type.dtype), axes, inverse

    def apply(self, t: Any) -> Any:
        return P.fft(t, axes=self.axes, inverse=self.inverse)

    @property
    def T(self) -> Operator:
        return Fourier(self._type, self.axes, not self.inverse)

    @property
    def in_type(self) -> Type:
        return self._type

    out_type = in_type

    @property
    def cost(self) -> Cost:
        return _steps(self._type, prod(self._type.shape[k] for k in self.axes))

    def __repr__(self) -> str:
        return f"Fourier({'+' if self.inverse else '−'}, axes={self.axes})"


def _weights(n: int, axis: int, rank: int, dtype: Any) -> Any:
    """One half for entries with a mirror image, one for those without: 0 and n/2."""
    w = np.full(n // 2 + 1, 0.5, np.empty(0, dtype).real.dtype)
    w[0] = 1
    if n % 2 == 0:
        w[-1] = 1
    return w.reshape([-1 if k == axis else 1 for k in range(rank)])


class _OneAxis(Between):
    """`real` is the type of the real array, of length n along `axis`."""

    __slots__ = ("axis", "halved", "real")

    def __init__(self, real: Any, axis: int, halved: bool):
        self.real, self.axis, self.halved = Type(real.shape, real.dtype), axis, halved

    @property
    def n(self) -> int:
        return self.real.shape[self.axis]

    @property
    def half(self) -> Type:
        shape = list(self.real.shape)
        shape[self.axis] = self.n // 2 + 1
        return Type(tuple(shape), np.result_type(self.real.dtype, np.complex64))

    @property
    def cost(self) -> Cost:
        return _steps(self.real, self.n)

    @property
    def counts(self) -> Any:
        """For how many entries of the whole spectrum each of the half stands."""
        w = _weights(self.n, self.axis, len(self.real.shape), self.real.dtype)
        return np.broadcast_to(1 / w, self.half.shape)

    def _weighted(self, t: Any) -> Any:
        return t * _weights(self.n, self.axis, len(self.real.shape), self.real.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n}, axis={self.axis})"


class RealFourier(_OneAxis):
    """Fourier of a real array along one axis, its first half: what np.fft.rfft gives."""

    __slots__ = ()

    def __init__(self, real: Any, axis: int, halved: bool = True):
        super().__init__(real, axis, halved)
        self._in, self._out = self.real, self.half

    def apply(self, t: Any) -> Any:
        y = P.rfft(t, axis=self.axis)
        return y if self.halved else y / _weights(self.n, self.axis, y.ndim, self.real.dtype)

    @property
    def T(self) -> Operator:
        return HalfFourier(self.real, self.axis, self.halved)


class HalfFourier(_OneAxis):
    """The adjoint of RealFourier: half a spectrum ↦ a real array, without scaling."""

    __slots__ = ()

    def __init__(self, real: Any, axis: int, halved: bool = False):
        super().__init__(real, axis, halved)
        self._in, self._out = self.half, self.real

    def apply(self, t: Any) -> Any:
        return P.irfft(self._weighted(t) if self.halved else t, n=self.n, axis=self.axis)

    @property
    def T(self) -> Operator:
        return RealFourier(self.real, self.axis, self.halved)
