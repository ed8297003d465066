"""SciPy's equations between matrices, and matrices made of vectors and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import FUNCTIONS, P
from ..primitives.equations import NoRealRootError
from ._register import array, dtype_of, named, ndim_of, shape_of
from .elementwise import astype
from .indexing import getitem
from .systems import cholesky, floating


@named("linalg.sqrtm")
def sqrtm(A: Any) -> Any:
    """The principal square root of matrices; complex, if there is no real one (in compiled code an error)."""
    a = floating(A)
    try:
        return P.sqrtm(a)
    except NoRealRootError:
        return P.sqrtm(astype(a, np.result_type(dtype_of(a), np.complex64)))


@named("linalg.solve_sylvester")
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """X with A X + X B = Q."""
    a, b, q = floating(a), floating(b), floating(q)
    stack = np.broadcast_shapes(*[shape_of(x)[:-2] for x in (a, b, q)])
    return P.sylvester(*[_stacked(x, stack, 2) for x in (a, b, q)])


@named("linalg.solve_continuous_lyapunov")
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """X with A X + X Aᴴ = Q."""
    return solve_sylvester(a, _adjoint(floating(a)), q)


@named("linalg.solve_banded")
def solve_banded(
    l_and_u: tuple[int, int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """x with A x = b, A given by its diagonals: ab[u + i − j, j] = A[i, j]; b a vector or a matrix.

    Corners of ab that lie outside of A are not read. The last three arguments are SciPy's, and do nothing here.
    """
    lower, upper = (int(n) for n in l_and_u)
    ab, b = floating(ab), floating(b)
    if ndim_of(ab) < 2 or ndim_of(b) < 1:
        raise ShapeError(
            f"`solve_banded` needs diagonals as rows and a right-hand side, got {shape_of(ab)}, {shape_of(b)}"
        )
    column = ndim_of(b) == 1
    b = getitem(b, (Ellipsis, None)) if column else b
    stack = np.broadcast_shapes(shape_of(ab)[:-2], shape_of(b)[:-2])
    bands, sides = _stacked(ab, stack, 2), _stacked(b, stack, 2)
    x = P.banded_solve(bands, sides, lower=lower, upper=upper)
    return getitem(x, (Ellipsis, 0)) if column else x


@named("linalg.cho_factor")
def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """The factor for `cho_solve`, from one triangle of A; unlike SciPy's, its other triangle is 0."""
    return cholesky(a, upper=not lower), bool(lower)


@named("linalg.block_diag")
def block_diag(*arrs: Any) -> Any:
    """Matrices along the diagonal; a vector counts as one row."""
    parts = [FUNCTIONS["atleast_2d"](array(a)) for a in arrs] or [np.zeros((1, 0))]
    width = sum(shape_of(p)[-1] for p in parts)
    rows, before = [], 0
    for p in parts:
        after = width - before - shape_of(p)[-1]
        rows.append(FUNCTIONS["pad"](p, [(0, 0)] * (ndim_of(p) - 1) + [(before, after)]))
        before += shape_of(p)[-1]
    return FUNCTIONS["concatenate"](rows, -2)


@named("linalg.toeplitz")
def toeplitz(c: Any, r: Any = None) -> Any:
    """Constant along diagonals: the first column is c, the first row r (its first entry is not read), or c̄."""
    c = array(c)
    r = P.conjugate(c) if r is None else array(r)
    if ndim_of(c) != 1 or ndim_of(r) != 1:
        raise ShapeError(
            f"`toeplitz` needs vectors, got shapes {shape_of(c)} and {shape_of(r)}; batches by vmap"
        )
    m, n = shape_of(c)[0], shape_of(r)[0]
    line = FUNCTIONS["concatenate"]([FUNCTIONS["flip"](c), getitem(r, slice(1, None))])
    return getitem(line, np.arange(m - 1, -1, -1)[:, None] + np.arange(n))


def _adjoint(a: Any) -> Any:
    turned = FUNCTIONS["matrix_transpose"](a)
    return P.conjugate(turned) if dtype_of(a).kind == "c" else turned


def _stacked(x: Any, stack: tuple[int, ...], rank: int) -> Any:
    full = (*stack, *shape_of(x)[ndim_of(x) - rank :])
    return x if shape_of(x) == full else FUNCTIONS["broadcast_to"](x, full)
