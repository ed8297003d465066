"""Element-wise functions of arrays: NumPy's loop, or our own where that is the faster one.

A compiled loop (backends/native/mathematics) is within 2 ulp, and about twice as fast as NumPy's where
NumPy calls the C library, but it must be compiled first. So a function that has met a million entries
changes over, once and for all, on processors where that pays: the same program gives the same bits again.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..hooks import hooks

FEW = 64  # entries below which the call itself is all there is to save
LARGE = 1 << 15  # entries from which on the GIL is released
ENOUGH = 1 << 20  # entries seen before compiling pays
CALL = 50  # entries that take as long as a call of NumPy

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

_lock = threading.Lock()


def large(ufunc: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    """`ufunc` (NumPy's or SciPy's), with a second choice for arrays once many entries were seen."""
    seen: dict[Any, int] = {}
    chosen: dict[Any, Callable[[Any], Any]] = {}

    def call(a: Any) -> Any:
        if a.__class__ is np.ndarray and a.size >= FEW:
            found = chosen.get(a.dtype)
            return found(a) if found is not None else consider(a)
        return ufunc(a)

    def consider(a: Any) -> Any:
        if a.dtype.char not in "fd" or hooks.kernel is None:
            return ufunc(a)
        with _lock:
            seen[a.dtype] = seen.get(a.dtype, 0) + a.size + CALL
            if seen[a.dtype] >= ENOUGH and a.dtype not in chosen:
                kernel = hooks.kernel(name, a.dtype) if compiled_is_faster(name, a.dtype) else None
                chosen[a.dtype] = ufunc if kernel is None else _with(kernel, ufunc)
        return ufunc(a)

    call.__name__ = name
    return call


def _with(kernel: Any, ufunc: Any) -> Callable[[Any], Any]:
    quick = kernel.quick or (lambda a: NotImplemented)

    def call(a: Any) -> Any:
        if a.size < LARGE:
            y = quick(a)
            if y is not NotImplemented:
                return y
        return kernel(a) if a.ndim else ufunc(a)  # strided arrays as well: layout changes no bits

    return call


class Where:
    """np.where; large arrays of one dtype and shape go by a compiled loop once many entries were seen.

    That moves the same bits, in a fifth of the time: NumPy takes one entry at a time, everywhere.
    """

    def __init__(self) -> None:
        self.__qualname__ = "where"  # as a function has one: compiled code is kept under names
        self.seen: dict[Any, int] = {}
        self.chosen: dict[Any, Callable[..., Any] | None] = {}

    def __call__(self, mask: Any, a: Any, b: Any) -> Any:
        if mask.__class__ is np.ndarray and mask.size >= LARGE and _is_plain(mask, np.bool_):
            dtype = getattr(a if getattr(a, "ndim", 0) else b, "dtype", None)
            if dtype is not None and dtype in _FLOATS:
                first, second = _readable(a, mask, dtype), _readable(b, mask, dtype)
                if first is not None and second is not None:
                    loop = self.chosen.get(dtype) or self._consider(dtype, mask.size)
                    if loop is not None:
                        return loop(mask, first, second)
        return np.where(mask, a, b)

    def _consider(self, dtype: Any, size: int) -> Any:
        with _lock:
            seen = self.seen[dtype] = self.seen.get(dtype, 0) + size
            if seen >= ENOUGH and hooks.kernel is not None and dtype not in self.chosen:
                self.chosen[dtype] = hooks.kernel("where", dtype)
        return self.chosen.get(dtype)


def _is_plain(a: Any, dtype: Any) -> bool:
    return a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned


def _readable(x: Any, mask: Any, dtype: Any) -> Any:
    """x as an array of the mask's shape, or one number of rank 0; None if it is neither as it stands."""
    if x.__class__ is np.ndarray:
        if x.dtype != dtype:
            return None
        if x.shape == mask.shape and not any(x.strides):
            x = x[(0,) * x.ndim]  # one number, broadcast
            return np.asarray(x)
        return x if not x.ndim or (x.shape == mask.shape and _is_plain(x, dtype)) else None
    if x.__class__ is dtype.type:
        return np.asarray(x)
    if x.__class__ in (int, float) and -1e30 < x < 1e30:  # what any of the dtypes holds
        return np.asarray(x, dtype)
    return None


where = Where()


# What NumPy computes in vectors of 512 bits, as fast as our loops or faster: always, and in single precision.
_VECTORISED = frozenset(
    {"exp", "exp2", "log", "log2", "log10", "log1p", "sinh", "cosh", "tan", "cbrt"}
    | {"arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"}
)
_VECTORISED_SINGLE = frozenset({"expm1", "tanh"})


def compiled_is_faster(name: str, dtype: np.dtype[Any]) -> bool:
    """Everywhere, but for what NumPy has written for AVX-512."""
    if name in _VECTORISED or (name in _VECTORISED_SINGLE and dtype == np.float32):
        return not _numpy_has_wide_vectors()
    return True


@cache
def _numpy_has_wide_vectors() -> bool:
    try:
        numpy_core = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:
        return True
    return bool(numpy_core.__cpu_features__.get("AVX512_SKX", False))
