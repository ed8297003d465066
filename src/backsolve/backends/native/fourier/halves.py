"""Between the transform of n real numbers and that of n/2 complex ones, z_j = x_{2j} + i x_{2j+1}.

With h = n/2, w = e^{-2πi/n}, s = z_k + conj z_{h−k} and d = z_k − conj z_{h−k} of the transformed z

    2 y_k = s − i w^k d,    2 y_{h−k} = conj(s + i w^k d)

for k = 1 … h/2, and y_0 and y_h are the sum and difference of the parts of z_0. The way back, which is not
halved, has s = y_k + conj y_{h−k}, d = conj(w^k) (y_k − conj y_{h−k}), z_k = s + i d, z_{h−k} = conj(s − i d).

An odd n takes a complex transform of n numbers; on the way back of y_0, 2 conj y_1, …, and the real part of it
is the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from ..library import shared
from ..numbers.registers import Complex, register_type
from ..repeat import loop_between
from .butterflies import add, add_turned, multiply, scale, subtract, subtract_turned
from .lines import INT, Access, in_vectors, moved
from .roots import roots

PART, JOIN, DOUBLE = "part", "join", "double"


@dataclass(frozen=True)
class Fold:
    """A function of the library: what follows a transform (PART), or precedes it (JOIN; for odd n DOUBLE)."""

    what: str
    dtype: np.dtype[Any]
    source: str
    target: str
    lanes: int
    is_line: bool  # one number a row
    is_full: bool = False  # PART writes all n numbers, not those up to n/2 alone
    is_inverse: bool = False  # and conjugates them

    def function(self, module: ir.Module) -> ir.Function:
        """f(x: its parts, y: its parts, table, h, width, steps of x and y from row to row)."""
        real = register_type(self.dtype)
        kind = ir.FunctionType(ir.VoidType(), [real.as_pointer()] * 5 + [INT] * 4)
        ways = [name for name in ("line", "full", "inverse") if getattr(self, f"is_{name}")]
        words = [self.what, self.dtype.name, self.source, self.target, self.lanes, *ways]
        return shared(module, f"fourier_{'_'.join(map(str, words))}", kind, partial(_emit, self))


def fold_table(n: int, is_line: bool, dtype: np.dtype[Any]) -> Any:
    """w^k, from k = 1 on."""
    found = roots(np.arange(1, n // 4 + 1), n)
    return (found.T if is_line else found).ravel().astype(dtype)


def _emit(which: Fold, function: ir.Function) -> None:
    for argument in function.args[:5]:
        argument.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    *_, h, width, _, _ = function.args
    count = h if which.what == DOUBLE else b.lshr(h, INT(1))
    rows = lambda lanes, q: _Rows(which, function, lanes, q)
    if which.is_line:
        rows(1, INT(0)).first(b)
        in_vectors(b, count, which.lanes, rows(which.lanes, INT(0)).other)
    else:
        columns = partial(in_vectors, b, width, which.lanes)
        columns(lambda b, q: rows(which.lanes, q).first(b))
        loop_between(
            b, INT(0), count, lambda b, i: columns(lambda b, q: rows(which.lanes, q).other(b, i))
        )
    b.ret_void()


class _Rows:
    """What is done at column q; in a line, to a vector of rows."""

    def __init__(self, which: Fold, function: ir.Function, lanes: int, q: ir.Value):
        self.which, self.q = which, q
        self.access = Access(register_type(which.dtype), lanes)
        x_re, x_im, y_re, y_im, self.table, self.h, _, *self.steps = function.args
        self.starts = [x_re, x_im], [y_re, y_im]

    def first(self, b: ir.IRBuilder) -> None:
        z, zero = self._load(b, INT(0)), self.access.zero
        if self.which.what == DOUBLE:
            self._store(b, Complex(z.re, zero), INT(0))
        elif self.which.what == PART:
            self._store(b, Complex(b.fadd(z.re, z.im), zero), INT(0))
            self._store(b, Complex(b.fsub(z.re, z.im), zero), self.h)
        else:
            last = self._load(b, self.h)
            self._store(b, Complex(b.fadd(z.re, last.re), b.fsub(z.re, last.re)), INT(0))

    def other(self, b: ir.IRBuilder, i: ir.Value) -> None:
        """Row i + 1, and in a line those behind it."""
        k = b.add(i, INT(1))
        mirror = b.sub(self.h, k)
        x = self._load(b, k)
        if self.which.what == DOUBLE:
            self._store(b, scale(b, _conjugate(b, x), 2.0), k)
            return
        w, y = self._factor(b, i), _conjugate(b, self._load(b, mirror, down=True))
        s, d = add(b, x, y), subtract(b, x, y)
        if self.which.what == JOIN:
            d = multiply(b, d, _conjugate(b, w))
            self._store(b, add_turned(b, s, d), k)
            self._store(b, _conjugate(b, subtract_turned(b, s, d)), mirror, down=True)
            return
        s, d = scale(b, s, 0.5), scale(b, multiply(b, d, w), 0.5)
        low, high = subtract_turned(b, s, d), add_turned(b, s, d)
        if self.which.is_inverse:
            low, high = _conjugate(b, low), _conjugate(b, high)
        self._store(b, low, k)
        self._store(b, _conjugate(b, high), mirror, down=True)
        if self.which.is_full:
            self._store(b, high, b.add(self.h, k))
            self._store(b, _conjugate(b, low), b.add(self.h, mirror), down=True)

    def _factor(self, b: ir.IRBuilder, i: ir.Value) -> Complex:
        if self.which.is_line:
            places = [i, b.add(b.lshr(self.h, INT(1)), i)]
            return Complex(*(self.access.plain(b, b.gep(self.table, [at])) for at in places))
        places = [b.add(b.mul(i, INT(2)), INT(part)) for part in (0, 1)]
        return Complex(*(self.access.spread(b, b.load(b.gep(self.table, [at]))) for at in places))

    def _load(self, b: ir.IRBuilder, row: ir.Value, down: bool = False) -> Complex:
        found = self.access.load(b, self.which.source, *self._place(b, row, down, 0))
        return self.access.backwards(b, found) if down and self.which.is_line else found

    def _store(self, b: ir.IRBuilder, v: Complex, row: ir.Value, down: bool = False) -> None:
        if down and self.which.is_line:
            v = self.access.backwards(b, v)
        self.access.store(b, v, self.which.target, *self._place(b, row, down, 1))

    def _place(self, b: ir.IRBuilder, row: ir.Value, down: bool, of: int) -> tuple[Any, ir.Value]:
        """Vectors of rows that go `down` from this one begin further below."""
        if down and self.which.is_line:
            row = b.sub(row, INT(self.access.lanes - 1))
        kind = (self.which.source, self.which.target)[of]
        return moved(b, kind, self.starts[of], b.mul(row, self.steps[of])), self.q


def _conjugate(b: ir.IRBuilder, x: Complex) -> Complex:
    return Complex(x.re, b.fneg(x.im))
