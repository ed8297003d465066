"""Discrete Fourier transforms, by NumPy; without scaling, which numpy/fourier.py puts in front."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..operators import Cast, Fourier, HalfFourier, Product, RealFourier
from ..primitive import primitive
from .batching import over_axes


def _complex(dtype: Any) -> Any:
    return np.result_type(dtype, np.complex64)


def _of_complex(a: Any, make: Any) -> Any:
    """The operator that `make` gives for the complex type of `a`; a real `a` is made complex before."""
    t = Type(a.shape, a.dtype)
    wide = Type(t.shape, _complex(t.dtype))
    return make(wide) if t == wide else Product([make(wide), Cast(t, wide.dtype)])


def _run_fft(a: Any, *, axes: tuple[int, ...], inverse: bool) -> Any:
    for k in reversed(axes):  # as NumPy's fftn does, which takes as long again to find that out
        a = np.fft.ifft(a, axis=k, norm="forward") if inverse else np.fft.fft(a, axis=k)
    return a


def _batch_axes(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    return prim(*args, axes=tuple(k + 1 for k in params["axes"]), inverse=params["inverse"])


fft = primitive(
    "fft",
    _run_fft,
    blocks=(lambda A, *, axes, inverse: _of_complex(A, lambda wide: Fourier(wide, axes, inverse)),),
    type=lambda a, *, axes, inverse: Type(a.shape, _complex(a.dtype)),
    batch=_batch_axes,
)


def _resized(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


rfft = primitive(
    "rfft",
    lambda a, *, axis: np.fft.rfft(a, axis=axis),
    blocks=(lambda A, *, axis: RealFourier(A, axis),),
    type=lambda a, *, axis: Type(
        _resized(a.shape, axis, a.shape[axis] // 2 + 1), _complex(a.dtype)
    ),
    batch=over_axes,
)


def _real(a: Any, n: int, axis: int) -> Type:
    return Type(_resized(a.shape, axis, n), np.empty(0, a.dtype).real.dtype)


irfft = primitive(
    "irfft",
    lambda a, *, n, axis: np.fft.irfft(a, n, axis=axis, norm="forward"),
    blocks=(lambda A, *, n, axis: _of_complex(A, lambda _: HalfFourier(_real(A, n, axis), axis)),),
    type=lambda a, *, n, axis: _real(a, n, axis),
    batch=over_axes,
)
