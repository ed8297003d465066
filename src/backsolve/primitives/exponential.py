"""The exponential of a matrix and its derivative in products and solves: for compiled code, and for gradients.

    exp A = r(A / 2ˢ)^(2ˢ),   r(x) = p(x) / p(−x),   the Padé approximant of degree 13 (7 in single precision)

s as A. Al-Mohy and N. Higham, A new scaling and squaring algorithm for the matrix exponential, 2009: by the
norms of powers of A, than which A's own may be much larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..primitive import Primitive
from .linalg import batch_one


@dataclass(frozen=True)
class _Pade:
    coefficients: tuple[float, ...]
    radius: float  # of norms for which the approximant is as good as the precision
    reciprocal: float  # of the error's first coefficient
    rounding: float


# θ and 1 / |c| are those of the article (and of SciPy); θ of degree 7 is that of single precision.
_SINGLE = _Pade(
    (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    3.925724783138660,
    4487938430976000.0,
    2.0**-24,
)
_DOUBLE = _Pade(
    (
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ),
    4.25,
    113250775606021113483283660800000000.0,
    2.0**-53,
)


def expm(a: Any) -> Any:
    if not a.size:
        return a
    is_upper = _is_upper(a)
    y = _Exponential(_turned_where(is_upper, a))
    return _turned_where(is_upper, repeated_square(y.root, y.times))


def frechet(a: Any, e: Any) -> Any:
    """Its derivative in the direction E, step by step: three times its work, where the exponential of
    [A E; 0 A] is eight times (A. Al-Mohy and N. Higham, Computing the Fréchet derivative of the matrix
    exponential, 2009)."""
    if not a.size:
        return e
    is_upper = _is_upper(a)
    y = _Exponential(_turned_where(is_upper, a))
    along = y.derivative(_turned_where(is_upper, e))
    return _turned_where(is_upper, repeated_square_along(y.root, along, y.times))


def _is_upper(a: Any) -> Any:
    """Elimination, which exchanges columns in compiled code (lapack.py), keeps zeros above the diagonal. So of
    triangular matrices (or block by block, as in derivatives) the lower ones are eliminated."""
    below = np.tri(a.shape[-1], k=-1, dtype=bool)
    weights = [np.sum(np.where(side, np.abs(a), 0), axis=(-2, -1)) for side in (below.T, below)]
    return (weights[0] > weights[1])[..., None, None]


def _turned_where(condition: Any, a: Any) -> Any:
    return np.where(condition, np.swapaxes(a, -1, -2), a)


class _Exponential:
    """r(A / 2ˢ), and its derivative: U is odd, V even, r = (V − U)⁻¹ (V + U)."""

    def __init__(self, a: Any):
        pade = _SINGLE if np.finfo(a.dtype).bits == 32 else _DOUBLE
        a2 = np.matmul(a, a)
        a4 = np.matmul(a2, a2)
        a6 = np.matmul(a4, a2)
        least = np.maximum(_norm(a4) ** (1 / 4), _norm(a6) ** (1 / 6))
        s = _halvings(least / pade.radius)
        self.s = s = s + _more_halvings(_scaled(a, s, 1), pade)
        self.powers = [_scaled(x, s, k) for k, x in ((1, a), (2, a2), (4, a4), (6, a6))]
        self.b = pade.coefficients
        a, _, _, a6 = self.powers
        self.odd, self.even = self.low(1, self.powers, True), self.low(0, self.powers, True)
        if self.is_long:
            self.odd_part, self.even_part = self.high(9, self.powers), self.high(8, self.powers)
            self.odd = self.odd + np.matmul(a6, self.odd_part)
            self.even = self.even + np.matmul(a6, self.even_part)
        U = np.matmul(a, self.odd)
        self.below = self.even - U
        self.root = np.linalg.solve(self.below, self.even + U)

    @property
    def times(self) -> Any:
        return self.s.astype(np.int64)

    @property
    def is_long(self) -> bool:
        return len(self.b) > 8

    def low(self, k: int, powers: Any, with_one: bool) -> Any:
        """The terms up to the sixth power, every other one, divided by A if they are odd."""
        a, a2, a4, a6 = powers
        y = self.b[k + 6] * a6 + self.b[k + 4] * a4 + self.b[k + 2] * a2
        return y + self.b[k] * np.eye(a.shape[-1], dtype=a.dtype) if with_one else y

    def high(self, k: int, powers: Any) -> Any:
        """Those beyond, divided by the sixth power."""
        _, a2, a4, a6 = powers
        return self.b[k + 4] * a6 + self.b[k + 2] * a4 + self.b[k] * a2

    def derivative(self, e: Any) -> Any:
        a, a2, a4, a6 = self.powers
        e = _scaled(e, self.s, 1)
        e2 = np.matmul(a, e) + np.matmul(e, a)
        e4 = np.matmul(a2, e2) + np.matmul(e2, a2)
        e6 = np.matmul(a4, e2) + np.matmul(e4, a2)
        powers = (e, e2, e4, e6)
        odd, even = self.low(1, powers, False), self.low(0, powers, False)
        if self.is_long:
            odd = odd + np.matmul(a6, self.high(9, powers)) + np.matmul(e6, self.odd_part)
            even = even + np.matmul(a6, self.high(8, powers)) + np.matmul(e6, self.even_part)
        U = np.matmul(a, odd) + np.matmul(e, self.odd)
        above = U + even + np.matmul(U - even, self.root)
        return np.linalg.solve(self.below, above)


def _norm(a: Any) -> Any:
    """The largest sum of a column's sizes."""
    return np.max(np.sum(np.abs(a), axis=-2), axis=-1)


def _halvings(ratio: Any) -> Any:
    """How often to halve until it is at most 1; never where it is not finite."""
    known = np.logical_and(ratio > 1, np.isfinite(ratio))
    return np.ceil(np.log2(np.where(known, ratio, 1)))


def _scaled(a: Any, s: Any, power: int) -> Any:
    one = np.ones(s.shape, s.dtype)
    return a * np.ldexp(one, -power * s.astype(np.int64))[..., None, None]


def _more_halvings(a: Any, pade: _Pade) -> Any:
    """For the sake of matrices whose powers are small though |A|'s are not: their rounding errors are not."""
    degree = len(pade.coefficients) - 1
    sizes = np.abs(a)
    sums = np.ones((*a.shape[:-2], 1, a.shape[-1]), sizes.dtype)
    for _ in range(2 * degree + 1):
        sums = np.matmul(sums, sizes)
    top, norm = np.max(sums[..., 0, :], axis=-1), _norm(a)
    ratio = top / np.where(norm > 0, norm, 1) / (pade.reciprocal * pade.rounding)
    return np.ceil(_halvings(ratio) / (2 * degree))


# ---- how it ends. Not in the table: nobody differentiates these.


def _run_repeated_square(a: Any, times: Any) -> Any:
    y = np.array(a)
    for place in np.ndindex(y.shape[:-2]):
        y[place] = np.linalg.matrix_power(y[place], 2 ** int(times[place]))
    return y


# A^(2^times)
repeated_square = Primitive(
    "repeated_square", _run_repeated_square, type=lambda a, times: a, batch=batch_one
)


def _run_repeated_square_along(a: Any, e: Any, times: Any) -> Any:
    y = np.array(e)
    for place in np.ndindex(y.shape[:-2]):
        x, t = a[place], y[place]
        for _ in range(int(times[place])):
            t = x @ t + t @ x
            x = x @ x
        y[place] = t
    return y


# Its derivative in the direction E
repeated_square_along = Primitive(
    "repeated_square_along",
    _run_repeated_square_along,
    type=lambda a, e, times: e,
    batch=batch_one,
)
# The derivative of exp, which compiled code recognises (rewrite/frechet.py).
expm_along = Primitive("expm_along", frechet, type=lambda a, e: e, batch=batch_one)
