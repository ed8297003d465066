"""Equations between matrices: Sylvester's, the square root, and systems given by their bands.

sylvester      A X + X B = Q      A dX + dX B = dQ − dA X − X dB
sqrtm          Y Y = A            Y dY + dY Y = dA
banded_solve   A x = b            A dx = db − dA x,  of A the diagonals: bands[u + i − j, j] = A[i, j]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir import Type, type_of
from ..operators import BandedSolve, Contraction, Gather, Operator, Product, Sylvester, Transpose
from ..primitive import Primitive, primitive
from .batching import spread
from .linalg import STACK, batch_one, of_square, square
from .matrix_maps import left, right

NOT_FINITE = (
    "Array must not contain infs or NaNs"  # as NumPy says of matrices that have eigenvalues
)


def _check_finite(*arrays: Any) -> None:
    if not all(np.all(np.isfinite(a)) for a in arrays):
        raise np.linalg.LinAlgError(NOT_FINITE)


# ---- A X + X B = Q

NO_SINGLE_SOLUTION = (
    "A X + X B = Q has no single solution: an eigenvalue of A is minus one of B, or close to it"
)


def _check_sylvester(a: Any, b: Any, q: Any) -> None:
    square("solve_sylvester", a)
    square("solve_sylvester", b)
    stacks = {tuple(x.shape[:-2]) for x in (a, b, q)}
    if len(stacks) > 1 or tuple(q.shape[-2:]) != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"`solve_sylvester` needs A (…, m, m), B (…, n, n) and Q (…, m, n), got shapes "
            f"{tuple(a.shape)}, {tuple(b.shape)} and {tuple(q.shape)}"
        )


def _run_sylvester(a: Any, b: Any, c: Any) -> Any:
    from scipy import linalg

    schur: Any = linalg.schur
    _check_sylvester(a, b, c)
    _check_finite(a, b)
    dtype = np.result_type(a, b, c)
    wide = np.result_type(dtype, np.float32)  # LAPACK knows no float16
    output = "complex" if wide.kind == "c" else "real"
    trsyl = getattr(linalg.lapack, f"{ {'f': 's', 'd': 'd', 'F': 'c', 'D': 'z'}[wide.char] }trsyl")
    x = np.zeros(c.shape, dtype)
    for place in np.ndindex(c.shape[:-2] if c.size else (0,)):
        # By Schur forms A = U R Uᴴ and Bᴴ = V S Vᴴ the equation is triangular: R Y + Y Sᴴ = Uᴴ Q V.
        R, U = schur(a[place].astype(wide), output=output)
        S, V = schur(b[place].conj().T.astype(wide), output=output)
        Y, scale, info = trsyl(R, S, U.conj().T @ c[place] @ V, tranb="C")
        if info:
            raise np.linalg.LinAlgError(NO_SINGLE_SOLUTION)
        x[place] = U @ (Y / scale) @ V.conj().T
    return x


def _batch_all(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    full = [a if b else spread(a, size) for a, b in zip(args, batched, strict=True)]
    return prim(*full, **params)


def _type_sylvester(a: Type, b: Type, c: Type) -> Type:
    _check_sylvester(a, b, c)
    return Type(c.shape, np.result_type(a.dtype, b.dtype, c.dtype))


sylvester = primitive(
    "sylvester",
    _run_sylvester,
    blocks=(
        lambda y, a, b: Product([Sylvester(a, b, y), right(-y, type_of(a))]),
        lambda y, a, b: Product([Sylvester(a, b, y), left(-y, type_of(b))]),
        lambda y, a, b: Sylvester(a, b, y),
    ),
    type=_type_sylvester,
    batch=_batch_all,
)


# ---- Y Y = A


class NoRealRootError(np.linalg.LinAlgError):
    """Only complex matrices have this one for their square."""

    message = (
        "`sqrtm`: this matrix has no real square root; in compiled code pass it as complex, "
        "a.astype(complex)"
    )


def _run_sqrtm(a: Any) -> Any:
    from scipy.linalg import sqrtm

    square("sqrtm", a)
    y = np.zeros(a.shape, a.dtype)
    _check_finite(a)
    wide = np.result_type(a, np.float32)  # LAPACK knows no float16
    for place in np.ndindex(a.shape[:-2] if a.size else (0,)):
        root = sqrtm(a[place].astype(wide))
        if np.iscomplexobj(root) and a.dtype.kind != "c":
            if np.any(root.imag):
                raise NoRealRootError(NoRealRootError.message)
            root = root.real
        y[place] = root
    return y


sqrtm = primitive(
    "sqrtm",
    _run_sqrtm,
    blocks=(lambda y: Sylvester(y, y, y),),
    type=of_square("sqrtm", lambda s: s),
    batch=batch_one,
)


# ---- A x = b by the diagonals of A


def _check_banded(a: Any, b: Any, lower: int, upper: int) -> None:
    fits = len(a.shape) >= 2 and len(b.shape) == len(a.shape) and a.shape[:-2] == b.shape[:-2]
    if not fits or a.shape[-2] != lower + upper + 1 or a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"`solve_banded` needs {lower} + 1 + {upper} diagonals as rows, (…, {lower + upper + 1}, n), and a "
            f"right-hand side of n rows, got shapes {tuple(a.shape)} and {tuple(b.shape)}"
        )


def _run_banded(a: Any, b: Any, *, lower: int, upper: int) -> Any:
    from scipy.linalg import solve_banded

    _check_banded(a, b, lower, upper)
    x = np.zeros(b.shape, np.result_type(a, b))
    if b.shape[-2] == 1 and x.size and not np.all(a[..., upper, :]):  # SciPy would divide by it
        raise np.linalg.LinAlgError("singular matrix")
    bands, right = (v.astype(np.result_type(v, np.float32)) for v in (a, b))  # no float16 in LAPACK
    for place in np.ndindex(b.shape[:-2] if b.size else (0,)):
        x[place] = solve_banded((lower, upper), bands[place], right[place], check_finite=False)
    return x


def _type_banded(a: Type, b: Type, *, lower: int, upper: int) -> Type:
    _check_banded(a, b, lower, upper)
    return Type(b.shape, np.result_type(a.dtype, b.dtype))


def _by_bands(y: Any, a: Any, lower: int, upper: int) -> Operator:
    """dA ↦ −dA y: row i of it is Σ_d bands[d, j] y[j] with j = i − d + u."""
    t = type_of(a)
    rank, n = len(t.shape), t.shape[-1]
    d, i = np.ogrid[: lower + upper + 1, :n]
    j = i - d + upper
    inside, place = (j >= 0) & (j < n), np.clip(j, 0, max(n - 1, 0))
    factors = np.where(inside[..., None], -y[..., place, :], 0)
    first = Transpose(t, (rank - 2, rank - 1, *range(rank - 2)))
    skewed = Gather(first.out_type, (np.broadcast_to(d, j.shape), place))
    lead = STACK[: rank - 2]
    subscripts = f"XY{lead},{lead}XYZ->{lead}YZ"
    return Product([Contraction(subscripts, 0, (None, factors), skewed.out_type), skewed, first])


banded_solve = primitive(
    "banded_solve",
    _run_banded,
    blocks=(
        lambda y, a, *, lower, upper: Product(
            [BandedSolve(a, lower, upper, y), _by_bands(y, a, lower, upper)]
        ),
        lambda y, a, *, lower, upper: BandedSolve(a, lower, upper, y),
    ),
    type=_type_banded,
    batch=_batch_all,
)
