"""Fourier transforms, windows, mel filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....numpy._register import dtype_of, ndim_of, shape_of
from .table import known, number, operator
from .types import dtype_named


@operator("DFT", since=17)
def dft_by_attribute(
    x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Any:
    return dft(x, length, axis, inverse=inverse, onesided=onesided)


@operator("DFT", since=20)
def dft(
    x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0
) -> Any:
    """The last axis holds real and imaginary parts, or real ones alone."""
    along = -2 if axis is None else int(number(axis, "DFT's axis"))
    along = along % ndim_of(x)
    count = None if length is None else int(number(length, "DFT's length"))
    signal = x[..., 0] + 1j * x[..., 1] if shape_of(x)[-1] == 2 else x[..., 0]
    if inverse and onesided:
        return np.fft.irfft(signal, count, along)[..., None].astype(dtype_of(x))
    y = (np.fft.ifft if inverse else np.fft.fft)(signal, count, along)
    if onesided:
        y = np.take(y, np.arange(shape_of(y)[along] // 2 + 1), along)
    return np.stack([np.real(y), np.imag(y)], -1).astype(dtype_of(x))


@operator("STFT")
def stft(x: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int = 1) -> Any:
    """The transform of each frame of (batch, time, 1 or 2)."""
    hop = int(number(step, "STFT's step"))
    if length is not None:
        size = int(number(length, "STFT's length"))
    else:
        size = shape_of(x)[-2] if window is None else shape_of(window)[0]
    frames = 1 + (shape_of(x)[-2] - size) // hop
    places = np.arange(frames)[:, None] * hop + np.arange(size)
    cut = np.take(x, places, axis=1)  # (batch, frame, size, parts)
    if window is not None:
        cut = cut * np.reshape(window, (-1, 1))
    return dft(cut, None, -2, onesided=onesided)


def _window(name: str, weights: tuple[float, ...]) -> None:
    @operator(name)
    def window(size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Any:
        """Σ_k (−1)ᵏ w_k cos(2π k n / N)."""
        count = int(number(size, f"the size of {name}"))
        angle = 2 * np.pi * np.arange(count) / (count if periodic else count - 1)
        total = sum((-1) ** k * w * np.cos(k * angle) for k, w in enumerate(weights))
        return np.asarray(total).astype(dtype_named(output_datatype))


_window("HannWindow", (0.5, 0.5))
_window("HammingWindow", (25 / 46, 21 / 46))
_window("BlackmanWindow", (0.42, 0.5, 0.08))


@operator("MelWeightMatrix")
def mel_weights(
    bins: Any, length: Any, rate: Any, lower: Any, upper: Any, *, output_datatype: int = 1
) -> Any:
    """Triangles over the bins of a spectrum whose corners are equally far apart in mel."""
    count, size, rate = (int(number(v, "MelWeightMatrix's input")) for v in (bins, length, rate))
    low, high = (2595 * np.log10(1 + known(v, "a frequency") / 700) for v in (lower, upper))
    mels = low + np.arange(count + 2) * (high - low) / (count + 2)
    corners = ((size + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    k = np.arange(size // 2 + 1)[:, None]
    left, centre, right = corners[:-2], corners[1:-1], corners[2:]
    rising = np.where(centre > left, (k - left) / np.maximum(centre - left, 1), k == centre)
    falling = (right - k) / np.maximum(right - centre, 1)
    y = np.where((left <= k) & (k <= centre), rising, 0)
    y = np.where((centre <= k) & (k < right) & (right > centre), falling, y)
    return y.astype(dtype_named(output_datatype))
