"""numpy.linalg's factorisations, systems and determinants, and SciPy's triangular systems."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..errors import MatrixError
from ..primitive import FUNCTIONS, P
from ..primitives.lapack import one_determinant
from ._register import array, dtype_of, named, ndim_of, one_axis, shape_of
from .elementwise import astype

_Slogdet: Any = type(np.linalg.slogdet(np.eye(1)))


def floating(a: Any) -> Any:
    """As NumPy's: integers and booleans count as double precision."""
    a = array(a)
    return a if dtype_of(a).kind in "fc" and hasattr(a, "dtype") else astype(a, float)


def _adjoint(a: Any) -> Any:
    turned = FUNCTIONS["matrix_transpose"](a)
    return P.conjugate(turned) if dtype_of(a).kind == "c" else turned


@named("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """L with A = L Lᴴ, from the lower triangle of A; or the upper factor, from the upper triangle.

    The other triangle is not read, and its derivative is zero.
    """
    a = floating(a)
    return _adjoint(P.cholesky(_adjoint(a))) if upper else P.cholesky(a)


@named("linalg.inv")
def inv(a: Any) -> Any:
    return P.inv(floating(a))


@named("linalg.det")
def det(a: Any) -> Any:
    return P.det(floating(a))


@named("linalg.slogdet")
def slogdet(a: Any) -> Any:
    a = floating(a)
    with one_determinant():
        log = P.log_abs_det(a)  # first, for it may keep the factors
        return _Slogdet(P.det_sign(a), log)


@named("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """x with A x = b; as in NumPy, b is one vector if its rank is 1, else a stack of matrices."""
    return _solved(P.solve, floating(a), floating(b))


@named("linalg.solve_triangular")
def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
) -> Any:
    """SciPy's: x with A x = b (trans 0 or "N"), Aᵀ x = b (1, "T") or Aᴴ x = b (2, "C"), A triangular.

    One triangle of A is read. The last two arguments are SciPy's, and do nothing here.
    """
    a, b = floating(a), floating(b)
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"`solve_triangular` needs trans 0, 1, 2 or 'N', 'T', 'C', got {trans!r}")
    if trans in (1, "T"):
        a = FUNCTIONS["matrix_transpose"](a)
    elif trans in (2, "C"):
        a = _adjoint(a)
    lower = bool(lower) == (trans in (0, "N"))
    return _solved(
        lambda A, B: P.triangular_solve(A, B, lower=lower, unit=bool(unit_diagonal)), a, b
    )


@named("linalg.cho_solve")
def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = False
) -> Any:
    """SciPy's: x with A x = b, given (L, True) with A = L Lᴴ, or (U, False) with A = Uᴴ U."""
    c, lower = c_and_lower
    first, second = (0, 2) if lower else (2, 0)
    y = solve_triangular(c, b, first, lower)
    return solve_triangular(c, y, second, lower)


@named("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Any:
    a = floating(a)
    rows, columns = shape_of(a)[:ind], shape_of(a)[ind:]
    if ind <= 0 or prod(rows) != prod(columns):
        raise MatrixError(f"`tensorinv` needs a square map, got {columns} → {rows} (ind={ind})")
    matrix = P.reshape(a, shape=(prod(rows), prod(columns)))
    return P.reshape(P.inv(matrix), shape=(*columns, *rows))


@named("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b; `axes` of a are moved to its end first."""
    a, b = floating(a), floating(b)
    if axes is not None:
        n = ndim_of(a)
        last = [one_axis(k, n) for k in axes]
        a = FUNCTIONS["transpose"](a, [k for k in range(n) if k not in last] + last)
    columns = shape_of(a)[ndim_of(b) :]
    if prod(columns) ** 2 != prod(shape_of(a)) or prod(columns) != prod(shape_of(b)):
        raise MatrixError(f"`tensorsolve` got {shape_of(a)} for b of shape {shape_of(b)}")
    matrix = P.reshape(a, shape=(prod(columns), prod(columns)))
    x = P.solve(matrix, P.reshape(b, shape=(prod(columns), 1)))
    return P.reshape(x, shape=columns)


def _solved(run: Any, a: Any, b: Any) -> Any:
    """`run` on matrices with the same leading axes."""
    if ndim_of(b) == 0 or ndim_of(a) < 2:
        raise MatrixError(
            f"a linear system needs matrices and a vector or matrices, got {shape_of(a)} and {shape_of(b)}"
        )
    vector = ndim_of(b) == 1
    if vector:
        b = P.reshape(b, shape=(*shape_of(b), 1))
    if shape_of(a)[:-2] == shape_of(b)[:-2]:
        x = run(a, b)
        return P.reshape(x, shape=shape_of(x)[:-1]) if vector else x
    try:
        lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    except ValueError:
        raise MatrixError(
            f"the stacks of a linear system do not fit: {shape_of(a)} and {shape_of(b)}"
        ) from None
    x = run(_spread(a, lead), _spread(b, lead))
    return P.reshape(x, shape=shape_of(x)[:-1]) if vector else x


def _spread(a: Any, lead: tuple[int, ...]) -> Any:
    shape = (*lead, *shape_of(a)[-2:])
    return a if shape == shape_of(a) else P.broadcast_to(a, shape=shape)
