"""scipy.signal on Tensors: convolutions here, recursive filters in filters.py.

The rest is SciPy's, for plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from string import ascii_lowercase
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...nests import loops
from ...numpy._register import array, dtype_of, ndim_of, one_axis, shape_of
from .filters import filtfilt as filtfilt
from .filters import lfilter as lfilter
from .filters import lfilter_zi as lfilter_zi
from .filters import sosfilt as sosfilt
from .filters import sosfilt_zi as sosfilt_zi
from .filters import sosfiltfilt as sosfiltfilt
from .plain import for_tensors as _for_tensors
from .plain import has_tensor as _has_tensor
from .plain import module as _module

Axes = tuple[Sequence[int], Sequence[int]]
# Windows of so many entries are added up one by one; larger ones go by Fourier transforms.
_MOST_DIRECT = 256


def convolve(
    in1: Any,
    in2: Any,
    mode: str = "full",
    method: str = "auto",
    *,
    axes: Axes | None = None,
    dot_axes: Axes = ((), ()),
) -> Any:
    """Σ_k in1[n − k] in2[k], over all axes of two arrays of the same rank.

    With `axes`, two lists of as many axes, only those are convolved, and over the pairs in `dot_axes` products
    are summed. The result has the other axes of in1, those of in2, and then the convolved ones.

    >>> import numpy as np, backsolve as bs
    >>> signals, filters = np.ones((2, 5)), np.ones((3, 2))
    >>> bs.scipy.signal.convolve(signals, filters, "valid", axes=([1], [1])).shape
    (2, 3, 4)
    """
    if axes is None and not any(dot_axes) and not _has_tensor(in1, in2):
        return _module("signal").convolve(in1, in2, mode, method)
    a, b = array(in1), array(in2)
    if axes is None:
        if ndim_of(a) != ndim_of(b):
            raise ShapeError(
                f"`convolve` needs equal ranks, got shapes {shape_of(a)}, {shape_of(b)}"
            )
        axes = (range(ndim_of(a)), range(ndim_of(b)))
    plan = _Plan(shape_of(a), shape_of(b), axes, dot_axes, mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"`convolve` knows the methods 'auto', 'direct' and 'fft', got {method!r}")
    exact = any(dtype_of(x).kind not in "fc" for x in (a, b))
    return plan.direct(a, b) if exact or not plan.by_fourier(method) else plan.fourier(a, b)


class _Plan:
    """A convolution by letters: one for every axis, those convolved or summed being the same in both."""

    def __init__(self, s: Any, t: Any, axes: Axes, dots: Axes, mode: str):
        self.axes = tuple(
            [one_axis(k, len(u)) for k in ks] for ks, u in zip(axes, (s, t), strict=True)
        )
        summed = tuple(
            [one_axis(k, len(u)) for k in ks] for ks, u in zip(dots, (s, t), strict=True)
        )
        for pair, name in ((self.axes, "axes"), (summed, "dot_axes")):
            if len(pair[0]) != len(pair[1]):
                raise ShapeError(f"`convolve` needs as many {name} of in1 as of in2, got {pair}")
        for k, j in zip(*summed, strict=True):
            if s[k] != t[j]:
                raise ShapeError(f"`convolve` sums over axes of {s[k]} and of {t[j]} entries")
        letters = iter(ascii_lowercase)
        names = [[next(letters) for _ in u] for u in (s, t)]
        for pair in (self.axes, summed):
            for k, j in zip(*pair, strict=True):
                names[1][j] = names[0][k]
        self.names = names
        self.convolved = [names[0][k] for k in self.axes[0]]
        rest = [
            [c for k, c in enumerate(n) if k not in x and k not in y]
            for n, x, y in zip(names, self.axes, summed, strict=True)
        ]
        self.result = [*rest[0], *rest[1], *self.convolved]
        self.lengths = [(s[k], t[j]) for k, j in zip(*self.axes, strict=True)]
        if any(not n or not m for n, m in self.lengths):
            raise ShapeError(f"`convolve` needs entries on both sides, got shapes {s} and {t}")
        self.cuts = _cuts(mode, self.lengths)

    def by_fourier(self, method: str) -> bool:
        small = min(prod(n for n, _ in self.lengths), prod(m for _, m in self.lengths))
        return bool(self.lengths) and (
            method == "fft" or (method == "auto" and small > _MOST_DIRECT)
        )

    def direct(self, a: Any, b: Any) -> Any:
        """Σ_k A[n + k] B[k], the second turned round and the first padded to what the result sees of it."""
        lengths, (mine, others) = self.lengths, self.names
        axes = self.axes
        if prod(m for _, m in lengths) > prod(n for n, _ in lengths):
            a, b, mine, others, axes = b, a, others, mine, (axes[1], axes[0])
            lengths = [(m, n) for n, m in lengths]
        pads = [(0, 0)] * ndim_of(a)
        window = [slice(None)] * ndim_of(a)
        for k, (n, m), (start, length) in zip(axes[0], lengths, self.cuts, strict=True):
            low, high = start - (m - 1), start + length
            window[k] = slice(max(low, 0), min(high, n))
            pads[k] = (max(-low, 0), max(high - n, 0))
        if ndim_of(a):
            a = np.pad(a[tuple(window)], pads)
        b = np.flip(b, tuple(axes[1])) if axes[1] else b
        inner = dict(zip(self.convolved, ascii_lowercase[::-1], strict=False))
        first = [f"{c}+{inner[c]}" if k in axes[0] else c for k, c in enumerate(mine)]
        second = [inner[c] if k in axes[1] else c for k, c in enumerate(others)]
        sizes = {c: length for c, (_, length) in zip(self.convolved, self.cuts, strict=True)}
        text = f"Y{_at(self.result)} += A{_at(first)} * B{_at(second)}"
        return loops(text, sizes=sizes, A=a, B=b)

    def fourier(self, a: Any, b: Any) -> Any:
        real = dtype_of(a).kind != "c" and dtype_of(b).kind != "c"
        sizes = [_smooth(n + m - 1) for n, m in self.lengths]
        there, back = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
        A, B = (there(x, sizes, k) for x, k in zip((a, b), self.axes, strict=True))
        first, second = ("".join(names) for names in self.names)
        product = np.einsum(f"{first},{second}->{''.join(self.result)}", A, B)
        last = range(len(self.result) - len(sizes), len(self.result))
        y: Any = back(product, sizes, list(last))
        return y[(Ellipsis, *[slice(start, start + length) for start, length in self.cuts])]


def _at(letters: Sequence[str]) -> str:
    return f"[{','.join(letters)}]" if letters else ""


def _smooth(n: int) -> int:
    """A length of at least n that Fourier transforms like."""
    return int(_module("fft").next_fast_len(n, True))


def _cuts(mode: str, lengths: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of the full result is asked for, along every axis: where it starts, and how long it is."""
    if mode == "full":
        return [(0, n + m - 1) for n, m in lengths]
    if mode == "same":
        return [((m - 1) // 2, n) for n, m in lengths]
    if mode != "valid":
        raise ValueError(f"`convolve` knows the modes 'full', 'same' and 'valid', got {mode!r}")
    if any(n > m for n, m in lengths) and any(n < m for n, m in lengths):
        raise ValueError("mode 'valid' needs one array that is at least as long along every axis")
    return [(min(n, m) - 1, abs(n - m) + 1) for n, m in lengths]


def _turned(x: Any) -> Any:
    x = np.flip(array(x))
    return np.conjugate(x) if dtype_of(x).kind == "c" else x


@_for_tensors("signal")
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Σ_k in1[n + k] in2[k]̄, over all axes of two arrays of the same rank."""
    return convolve(in1, _turned(in2), mode, method)


@_for_tensors("signal")
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """`convolve` by Fourier transforms, over all axes or those given; the others broadcast."""
    a, b = array(in1), array(in2)
    rank = ndim_of(a)
    if rank != ndim_of(b):
        raise ShapeError(
            f"`fftconvolve` needs equal ranks, got shapes {shape_of(a)}, {shape_of(b)}"
        )
    given = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
    chosen = [one_axis(k, rank) for k in given]
    lengths = [(shape_of(a)[k], shape_of(b)[k]) for k in chosen]
    real = dtype_of(a).kind != "c" and dtype_of(b).kind != "c"
    sizes = [_smooth(n + m - 1) for n, m in lengths]
    there, back = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
    y = back(there(a, sizes, chosen) * there(b, sizes, chosen), sizes, chosen)
    window = [slice(None)] * rank
    for k, (start, length) in zip(chosen, _cuts(mode, lengths), strict=True):
        window[k] = slice(start, start + length)
    return y[tuple(window)]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_module("signal"), name)


def __dir__() -> list[str]:
    return sorted(dir(_module("signal")))
