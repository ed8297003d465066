"""Transforms of lengths with a large prime factor, as convolutions (Bluestein).

With c_j = e^{-πi j²/n}, jk = (j² + k² − (k−j)²) / 2 gives

    y_k = c_k Σ_j (c_j x_j) conj(c_{k−j})

a convolution, which transforms of any length of at least 2n − 1 make a product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from ..steps import POINTER
from .lines import INT, PLANES, Lines
from .passes import Pass, in_order
from .roots import roots
from .transform import Memory, Transform, call, joined, lanes_for


class Convolution(Transform):
    def __init__(self, n: int, inner: Transform):
        self.n, self.inner, self.width, self.dtype = n, inner, inner.width, inner.dtype
        self.size = inner.n * self.width
        self.room = 4 * self.size + inner.room
        j = np.arange(n)
        chirp = roots(j * j % (2 * n), 2 * n)
        kernel = np.zeros(inner.n, complex)
        kernel[:n] = chirp[:, 0] - 1j * chirp[:, 1]
        kernel[inner.n - n + 1 :] = kernel[n - 1 : 0 : -1]
        product = np.fft.fft(kernel) / inner.n
        factors = [chirp, np.stack([product.real, product.imag], axis=-1)]
        tables = [in_order(f[:, None], self.width == 1).astype(self.dtype) for f in factors]
        self.table, self.starts = joined([inner.table, *tables])

    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        first, second = (at.planes(b, 2 * k * self.size, self.size, self.width) for k in (0, 1))
        _, chirp, product = self.starts
        inside = at.after(b, 4 * self.size, 0)
        self._multiply(b, x, first, at, chirp, self.n)
        clear(b, first, self.n * self.width, self.size, self.dtype)
        self.inner.emit(b, first, second, inside)
        self._multiply(b, second, first, at, product, self.inner.n)
        self.inner.emit(b, first.swapped(), second.swapped(), inside)
        self._multiply(b, second, y, at, chirp, self.n)

    def _multiply(
        self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory, start: int, rows: int
    ) -> None:
        is_line = self.width == 1
        lanes = lanes_for(self.dtype, rows if is_line else self.width)
        made = Pass(1, self.dtype, x.kind, y.kind, lanes, is_line)
        table = b.gep(at.table, [INT(start)])
        call(b, made, x, y, table, rows, 1, self.width, x.stride, y.stride)


def clear(b: ir.IRBuilder, planes: Lines, first: int, end: int, dtype: np.dtype[Any]) -> None:
    """Zeros from number `first` on."""
    assert planes.kind == PLANES
    memset = b.module.declare_intrinsic("llvm.memset", [POINTER, INT])
    for start in (planes.re, planes.im):
        place = b.bitcast(b.gep(start, [INT(first)]), POINTER)
        size = INT((end - first) * dtype.itemsize)
        b.call(memset, [place, ir.IntType(8)(0), size, ir.IntType(1)(0)])
