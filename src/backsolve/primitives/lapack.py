"""LAPACK on single matrices, by SciPy: without the ceremony of numpy.linalg, which is for stacks.

`factored` eliminates Aᵀ, which is how LAPACK, counting columns first, sees an array of ours.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # NumPy's names of dtypes: those of BLAS
BLOCK = 64  # columns that a routine works on at a time


class Factors(NamedTuple):
    """Aᵀ = P L U."""

    lu: Any
    pivots: Any
    is_singular: bool


def is_single(*arrays: Any) -> bool:
    """Whether these are single matrices, of one dtype that LAPACK has, and not empty."""
    first = arrays[0].dtype
    return (
        first.char in LETTERS
        and first.isnative
        and all([a.ndim == 2 and a.size and a.dtype == first for a in arrays])
    )


@cache
def routine(name: str, char: str) -> Any:
    from scipy.linalg import lapack

    return getattr(lapack, LETTERS[char] + name)


def factored(a: Any) -> Factors:
    lu, pivots, zero = routine("getrf", a.dtype.char)(a.T)
    return Factors(lu, pivots, zero > 0)


def solved(factors: Factors, b: Any) -> Any:
    """A⁻¹ b"""
    _refuse_singular(factors)
    return routine("getrs", factors.lu.dtype.char)(factors.lu, factors.pivots, b, trans=1)[0]


def adjoint_solved(factors: Factors, b: Any) -> Any:
    """A⁻ᴴ b"""
    getrs = routine("getrs", factors.lu.dtype.char)
    if b.dtype.kind != "c":
        return getrs(factors.lu, factors.pivots, b)[0]
    return np.conjugate(getrs(factors.lu, factors.pivots, np.conjugate(b))[0])


def inverse(factors: Factors, overwrite: bool = False) -> Any:
    """A⁻¹, a quarter cheaper than by solving with the identity."""
    _refuse_singular(factors)
    getri = routine("getri", factors.lu.dtype.char)
    work = BLOCK * len(factors.pivots)
    return getri(factors.lu, factors.pivots, lwork=work, overwrite_lu=overwrite)[0].T


def _refuse_singular(factors: Factors) -> None:
    if factors.is_singular:
        raise np.linalg.LinAlgError("Singular matrix")


_determinants = threading.local()


@contextmanager
def one_determinant() -> Iterator[None]:
    """Inside, the sign and the logarithm of a determinant are computed together, once."""
    _determinants.known = {}
    try:
        yield
    finally:
        del _determinants.known


def determinant(a: Any, keep: bool = False) -> tuple[Any, Any, Factors | None]:
    """Its sign, the logarithm of its size, and to `keep` the factors of a single matrix."""
    known = getattr(_determinants, "known", None)
    if known is not None and id(a) in known:
        return known[id(a)]
    if keep and is_single(a):
        factors = factored(a)
        found: tuple[Any, Any, Factors | None] = (*_sign_and_log(factors), factors)
    else:
        found = (*np.linalg.slogdet(a), None)
    if known is not None:
        known[id(a)] = found
    return found


def _sign_and_log(factors: Factors) -> tuple[Any, Any]:
    """0 and −∞ of a singular matrix."""
    d = factors.lu.diagonal()
    size = np.abs(d)
    if factors.is_singular:
        return d.dtype.type(0), size.dtype.type(-np.inf)
    sign = np.multiply.reduce(d / size)
    swaps = np.count_nonzero(factors.pivots - np.arange(len(d)))
    return (-sign if swaps % 2 else sign), np.add.reduce(np.log(size))


@cache
def _trsm(char: str) -> Any:
    from scipy.linalg import blas

    return getattr(blas, LETTERS[char] + "trsm")


def divide_from_left(T: Any, x: Any, lower: bool, unit: bool = False, adjoint: bool = False) -> Any:
    """x ← T⁻¹ x (or T⁻ᴴ x) for a triangle T; `x` is overwritten if it lies in rows."""
    # BLAS sees xᵀ, and solves xᵀ Tᵀ = bᵀ; of T it sees Tᵀ, unless that lies in columns.
    if adjoint and T.dtype.kind == "c":
        T = np.conjugate(T)
    lies_in_columns = T.flags.f_contiguous
    seen, below = (T, lower) if lies_in_columns else (T.T, not lower)
    turned = lies_in_columns != adjoint
    return _trsm(x.dtype.char)(1.0, seen, x.T, 1, below, turned, unit, overwrite_b=1).T


def divide_from_right(T: Any, x: Any, lower: bool, adjoint: bool = False) -> Any:
    """x ← x T⁻¹ (or x T⁻ᴴ); `x` is overwritten if it lies in rows."""
    if adjoint and T.dtype.kind == "c":
        T = np.conjugate(T)
    lies_in_columns = T.flags.f_contiguous
    seen, below = (T, lower) if lies_in_columns else (T.T, not lower)
    turned = lies_in_columns != adjoint  # Tᵀ xᵀ = bᵀ
    return _trsm(x.dtype.char)(1.0, seen, x.T, 0, below, turned, 0, overwrite_b=1).T
