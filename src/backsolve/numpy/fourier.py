"""numpy.fft of Tensors: lengths, scaling, and the real transforms, around the rows of primitives/fourier.py."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from ..hooks import hooks
from ..primitive import FUNCTIONS, P, wrap
from ..tensor import Tensor
from ._register import OWN, array, dtype_of, ndim_of, one_axis, shape_of
from .elementwise import astype
from .indexing import getitem
from .making import made, on_cpu
from .shapes import roll

_NORMS = ("backward", "ortho", "forward")


def _factor(name: str, norm: Any, n: int, inverse: bool) -> float:
    """What the sum over n entries is multiplied with."""
    if norm is None and n > 0:
        return 1.0 / n if inverse else 1.0
    norm = "backward" if norm is None else norm
    if norm not in _NORMS:
        raise ValueError(f"`{name}` takes norm 'backward', 'ortho' or 'forward', got {norm!r}")
    if n < 1:
        raise ValueError(f"`{name}` needs at least one entry along each axis, got {n}")
    if norm == "ortho":
        return n**-0.5
    return 1.0 / n if (norm == "backward") == inverse else 1.0


def _scaled(y: Any, factor: float) -> Any:
    return y if factor == 1.0 else y * factor


def _fit(a: Any, axis: int, n: int) -> Any:
    """The first n entries along an axis, zeros behind if there are fewer."""
    if n < 1:
        raise ValueError(f"a Fourier transform needs at least one entry along an axis, got n={n}")
    have = shape_of(a)[axis]
    if have > n:
        return getitem(a, (*[slice(None)] * axis, slice(0, n)))
    if have < n:
        spec = tuple((0, s, 1) for s in shape_of(a))
        return P.unslice(a, spec=spec, shape=(*shape_of(a)[:axis], n, *shape_of(a)[axis + 1 :]))
    return a


def _axes(name: str, a: Any, s: Any, axes: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """The axes that are transformed, and the lengths asked for."""
    rank = ndim_of(a)
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    found = tuple(one_axis(k, rank) for k in axes)
    if s is not None and len(s) != len(found):
        raise ValueError(f"`{name}` got {len(s)} lengths for {len(found)} axes")
    wanted = [None] * len(found) if s is None else list(s)
    return found, [None if n is None or n == -1 else operator.index(n) for n in wanted]


def _inexact(a: Any) -> Any:
    if a.__class__ is Tensor and a.dtype.kind in "fc":
        return a
    a = array(a)
    if not hasattr(a, "shape"):
        a = np.asarray(a)
    return a if dtype_of(a).kind in "fc" else astype(a, float)


def _complex(a: Any) -> np.dtype[Any]:
    return np.result_type(dtype_of(a), np.complex64)


def _transformed(name: str, a: Any, s: Any, axes: Any, norm: Any, inverse: bool) -> Any:
    a = _inexact(a)
    found, lengths = _axes(name, a, s, axes)
    for k, n in zip(found, lengths, strict=True):
        a = a if n is None else _fit(a, k, n)
    factor = _factor(name, norm, prod(shape_of(a)[k] for k in found), inverse)
    for k in dict.fromkeys(k for k in found if found.count(k) > 1):  # an axis may come twice
        found = tuple(j for j in found if j != k) + (k,) * found.count(k)
    once = tuple(dict.fromkeys(found))
    y = P.fft(a, axes=once, inverse=inverse) if once else astype(a, _complex(a))
    for k in found[len(once) :]:
        y = P.fft(y, axes=(k,), inverse=inverse)
    return _scaled(y, factor)


def _fft(name: str, a: Any, n: Any, axis: int, norm: Any, inverse: bool) -> Any:
    a = _inexact(a)
    axis = one_axis(axis, ndim_of(a))
    a = a if n is None else _fit(a, axis, operator.index(n))
    factor = _factor(name, norm, shape_of(a)[axis], inverse)
    return _scaled(P.fft(a, axes=(axis,), inverse=inverse), factor)


def _real_of(name: str, a: Any) -> Any:
    a = _inexact(a)
    if dtype_of(a).kind == "c":
        raise TypeError(f"`{name}` takes real arrays, got {dtype_of(a)}")
    return a


def _rfft(name: str, a: Any, n: Any, axis: int, norm: Any) -> Any:
    a = _real_of(name, a)
    axis = one_axis(axis, ndim_of(a))
    a = a if n is None else _fit(a, axis, operator.index(n))
    return _scaled(P.rfft(a, axis=axis), _factor(name, norm, shape_of(a)[axis], False))


def _irfft(name: str, a: Any, n: Any, axis: int, norm: Any, inverse: bool = True) -> Any:
    a = _inexact(a)
    axis = one_axis(axis, ndim_of(a))
    n = 2 * (shape_of(a)[axis] - 1) if n is None else operator.index(n)
    factor = _factor(name, norm, n, inverse)
    return _scaled(P.irfft(_fit(a, axis, n // 2 + 1), n=n, axis=axis), factor)


def _of_constant(name: str, a: Any, *args: Any) -> Any:
    """NumPy's own function where nothing varies, nothing may be computed anew and nobody looks; else None."""
    if a.__class__ is not Tensor or a.row is not None or hooks.has_leaves or hooks.observe:
        return None
    try:
        return wrap(getattr(np.fft, name)(a._v, *args), None)  # numpy.fft comes when it is used
    except (TypeError, ValueError):  # the other way says what is wrong
        return None


def _define(name: str, f: Any) -> None:
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"`numpy.fft.{name}`."
    FUNCTIONS[f"fft.{name}"] = f


def _one(name: str, run: Any) -> None:
    def call(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        y = _of_constant(name, a, n, axis, norm)
        return run(name, a, n, axis, norm) if y is None else y

    _define(name, call)


def _many(name: str, inverse: bool, usual: Any) -> None:
    def call(a: Any, s: Any = None, axes: Any = usual, norm: Any = None, out: Any = None) -> Any:
        y = _of_constant(name, a, None, axes, norm) if s is None else None
        return _transformed(name, a, s, axes, norm, inverse) if y is None else y

    _define(name, call)


_one("fft", lambda name, a, n, axis, norm: _fft(name, a, n, axis, norm, False))
_one("ifft", lambda name, a, n, axis, norm: _fft(name, a, n, axis, norm, True))
_many("fft2", False, (-2, -1))
_many("ifft2", True, (-2, -1))
_many("fftn", False, None)
_many("ifftn", True, None)


def _swapped(norm: Any) -> Any:
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


_one("rfft", _rfft)
_one("irfft", _irfft)
_one(
    "hfft",
    lambda name, a, n, axis, norm: _irfft(name, P.conjugate(_inexact(a)), n, axis, _swapped(norm)),
)
_one("ihfft", lambda name, a, n, axis, norm: P.conjugate(_rfft(name, a, n, axis, _swapped(norm))))


def _real_many(name: str, usual: Any) -> None:
    """The real transform along the last axis, complex ones along the others."""

    def call(a: Any, s: Any = None, axes: Any = usual, norm: Any = None, out: Any = None) -> Any:
        known = _of_constant(name, a, None, axes, norm) if s is None else None
        if known is not None:
            return known
        a = _real_of(name, a)
        found, lengths = _axes(name, a, s, axes)
        y = _rfft(name, a, lengths[-1], found[-1], norm)
        return _transformed(name, y, lengths[:-1], found[:-1], norm, False) if found[:-1] else y

    def back(a: Any, s: Any = None, axes: Any = usual, norm: Any = None, out: Any = None) -> Any:
        known = _of_constant(f"i{name}", a, None, axes, norm) if s is None else None
        if known is not None:
            return known
        a = _inexact(a)
        found, lengths = _axes(f"i{name}", a, s, axes)
        if found[:-1]:
            a = _transformed(f"i{name}", a, lengths[:-1], found[:-1], norm, True)
        return _irfft(f"i{name}", a, lengths[-1], found[-1], norm)

    _define(name, call)
    _define(f"i{name}", back)


_real_many("rfft2", (-2, -1))
_real_many("rfftn", None)


def _shift(name: str, sign: int) -> None:
    def call(x: Any, axes: Any = None) -> Any:
        known = _of_constant(name, x, axes)
        if known is not None:
            return known
        x = array(x)
        rank = ndim_of(x)
        wanted = range(rank) if axes is None else np.atleast_1d(axes).tolist()
        found = [one_axis(k, rank) for k in wanted]
        halves = [shape_of(x)[k] // 2 for k in found]
        return roll(x, [sign * h for h in halves], found)

    _define(name, call)


_shift("fftshift", 1)
_shift("ifftshift", -1)


def _frequencies(name: str) -> None:
    def call(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
        on_cpu(device)
        return made(getattr(np.fft, name)(n, d).astype(float if dtype is None else dtype))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`numpy.fft.{name}`, as a Tensor."
    OWN[f"fft.{name}"] = call


_frequencies("fftfreq")
_frequencies("rfftfreq")
