"""The exponential of a matrix in products and one solve, for compiled code.

    exp A = r(A / 2ˢ)^(2ˢ),   r(x) = p(x) / p(−x),   the Padé approximant of degree 13 (7 in single precision)

s as A. Al-Mohy and N. Higham, A new scaling and squaring algorithm for the matrix exponential, 2009: by the
norms of powers of A, than which A's own may be much larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..primitives.factors import repeated_square


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
    # Elimination, which exchanges columns in compiled code (lapack.py), keeps zeros above the diagonal. So of
    # triangular matrices (or block by block, as in derivatives) the lower ones are eliminated.
    below = np.tri(a.shape[-1], k=-1, dtype=bool)
    weights = [np.sum(np.where(side, np.abs(a), 0), axis=(-2, -1)) for side in (below.T, below)]
    is_upper = (weights[0] > weights[1])[..., None, None]
    a = np.where(is_upper, np.swapaxes(a, -1, -2), a)
    pade = _SINGLE if np.finfo(a.dtype).bits == 32 else _DOUBLE
    a2 = np.matmul(a, a)
    a4 = np.matmul(a2, a2)
    a6 = np.matmul(a4, a2)
    least = np.maximum(_norm(a4) ** (1 / 4), _norm(a6) ** (1 / 6))
    s = _halvings(least / pade.radius)
    s = s + _more_halvings(_scaled(a, s, 1), pade)
    a, a2, a4, a6 = (_scaled(x, s, k) for k, x in ((1, a), (2, a2), (4, a4), (6, a6)))
    b = pade.coefficients
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    odd = b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye
    even = b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    if len(b) > 8:
        odd = odd + np.matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
        even = even + np.matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    odd = np.matmul(a, odd)
    root = np.linalg.solve(even - odd, even + odd)
    y = repeated_square(root, s.astype(np.int64))
    return np.where(is_upper, np.swapaxes(y, -1, -2), y)


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
