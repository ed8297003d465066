"""Factorisations and solves of stacks of matrices. What is singular fails the run, as it does elsewhere."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....primitives.adjugate import TOO_MANY_ZEROS
from ....primitives.eigen import CLOSED_GAP
from .base import as_output, row

_SINGULAR = np.linalg.LinAlgError, "Singular matrix"


def _adjoint(a: Any) -> Any:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _diagonal(a: Any) -> Any:
    return jnp.diagonal(a, axis1=-2, axis2=-1)


def _factored(m: Any, e: Any, a: Any) -> tuple[Any, Any]:
    """L and U in one, and where the rows come from; a pivot of 0 fails."""
    factors, _, order = lax.linalg.lu(a)
    m.fail_if(jnp.any(_diagonal(factors) == 0), *_SINGULAR, e.where)
    return factors, order


def _solved(m: Any, e: Any, a: Any, b: Any) -> Any:
    if not b.size:
        return b
    return _substituted(*_factored(m, e, a), b)


def _substituted(factors: Any, order: Any, b: Any) -> Any:
    b = jnp.take_along_axis(b, order[..., None], axis=-2)
    b = lax.linalg.triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(factors, b, left_side=True, lower=False)


@row("solve")
def solve(m: Any, e: Any, inputs: Any) -> Any:
    return _solved(m, e, *as_output(m, e, inputs))


@row("inv")
def inv(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    return _inverse(*_factored(m, e, a)) if a.size else a


def _inverse(factors: Any, order: Any) -> Any:
    one = jnp.eye(factors.shape[-1], dtype=factors.dtype)
    return _substituted(factors, order, jnp.broadcast_to(one, factors.shape))


@row("triangular_solve")
def triangular_solve(m: Any, e: Any, inputs: Any) -> Any:
    a, b = as_output(m, e, inputs)
    lower, unit = e.params["lower"], e.params["unit"]
    if not unit:
        said = "singular matrix: a zero on the diagonal of a triangular one"
        m.fail_if(jnp.any(_diagonal(a) == 0), np.linalg.LinAlgError, said, e.where)
    if not b.size:
        return b
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=lower, unit_diagonal=unit)


@row("cholesky")
def cholesky(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    if not a.size:
        return a
    low = jnp.tril(a)
    diagonal = jnp.eye(a.shape[-1], dtype=bool)
    whole = jnp.where(diagonal, jnp.real(low).astype(a.dtype), low + _adjoint(jnp.tril(a, -1)))
    L = lax.linalg.cholesky(whole, symmetrize_input=False)
    failed = jnp.any(jnp.isnan(L)) & ~jnp.any(jnp.isnan(low))
    m.fail_if(failed, np.linalg.LinAlgError, "Matrix is not positive definite", e.where)
    return L


@row("lu")
def lu(m: Any, e: Any, inputs: Any) -> Any:
    """Without exchanges of rows: column by column."""
    (a,) = as_output(m, e, inputs)
    n = a.shape[-1]
    if not a.size:
        return a
    numbers = jnp.arange(n)

    def eliminate(j: Any, state: Any) -> Any:
        y, zero = state
        line = lax.dynamic_index_in_dim(y, j, -2, keepdims=False)
        column = lax.dynamic_index_in_dim(y, j, -1, keepdims=False)
        pivot = lax.dynamic_index_in_dim(line, j, -1)
        below, behind = numbers > j, numbers > j
        factors = jnp.where(below, column / pivot, 0)
        y = y - factors[..., :, None] * jnp.where(behind, line, 0)[..., None, :]
        at = below[:, None] & (numbers == j)
        return jnp.where(at, factors[..., :, None], y), zero | jnp.any(pivot == 0)

    y, zero = lax.fori_loop(0, n - 1, eliminate, (a, jnp.asarray(False)))
    m.fail_if(zero, np.linalg.LinAlgError, "`lu` met a pivot of 0: the matrix is singular", e.where)
    return y


@row("pivots")
def pivots(m: Any, e: Any, inputs: Any) -> Any:
    a = jnp.asarray(inputs[0])
    if not a.size:
        return jnp.broadcast_to(jnp.arange(a.shape[-2]), a.shape[:-1])
    return lax.linalg.lu(a)[2]


@row("lu_diagonal")
def lu_diagonal(m: Any, e: Any, inputs: Any) -> Any:
    """The pivots, each with the sign of its exchange of rows."""
    (a,) = as_output(m, e, inputs)
    if not a.size:
        return jnp.zeros(e.outputs[0].shape, a.dtype)
    factors, exchanges, _ = lax.linalg.lu(a)
    stayed = exchanges == jnp.arange(a.shape[-1], dtype=exchanges.dtype)
    return jnp.where(stayed, 1, -1).astype(a.dtype) * _diagonal(factors)


@row("inv_of_pivots")
def inv_of_pivots(m: Any, e: Any, inputs: Any) -> Any:
    """A⁻¹ with tiny numbers in the place of pivots of 0."""
    a, tiny = as_output(m, e, inputs)
    factors, _, order = lax.linalg.lu(a)
    diagonal = jnp.eye(a.shape[-1], dtype=bool)
    is_zero = diagonal & (factors == 0)
    y = _inverse(jnp.where(is_zero, tiny, factors), order)
    failed = jnp.any(is_zero) & ~jnp.all(jnp.isfinite(y))
    m.fail_if(failed, np.linalg.LinAlgError, TOO_MANY_ZEROS, e.where)
    return y


@row("repeated_square")
def repeated_square(m: Any, e: Any, inputs: Any) -> Any:
    a, times = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])

    def step(state: Any) -> Any:
        k, y = state
        squared = jnp.matmul(y, y, precision=m.precision)
        return k + 1, jnp.where((k < times)[..., None, None], squared, y)

    return _repeated(step, times, (a,))[0]


@row("repeated_square_along")
def repeated_square_along(m: Any, e: Any, inputs: Any) -> Any:
    a, along, times = (jnp.asarray(x) for x in inputs)

    def step(state: Any) -> Any:
        k, x, t = state
        more = (k < times)[..., None, None]
        both = jnp.matmul(x, t, precision=m.precision) + jnp.matmul(t, x, precision=m.precision)
        squared = jnp.matmul(x, x, precision=m.precision)
        return k + 1, jnp.where(more, squared, x), jnp.where(more, both, t)

    return _repeated(step, times, (a, along))[1]


def _repeated(step: Any, times: Any, values: tuple[Any, ...]) -> Any:
    """As often as the one matrix needs that needs most."""
    most = jnp.max(times, initial=0)
    start = (jnp.zeros((), times.dtype), *values)
    return lax.while_loop(lambda state: state[0] < most, step, start)[1:]


@row("qr")
def qr(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    if not a.size:
        return jnp.zeros(e.outputs[0].shape, a.dtype)
    return jnp.concatenate(jnp.linalg.qr(a), axis=-2)


@row("svd")
def svd(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    if not a.size:
        return jnp.zeros(e.outputs[0].shape, a.dtype)
    U, s, Vh = jnp.linalg.svd(a, full_matrices=False)
    return jnp.concatenate([U, s[..., None, :].astype(U.dtype), _adjoint(Vh)], axis=-2)


@row("svdvals")
def svdvals(m: Any, e: Any, inputs: Any) -> Any:
    a = jnp.asarray(inputs[0])
    if not a.size:
        return jnp.zeros(e.outputs[0].shape)
    return jnp.linalg.svd(a, full_matrices=False, compute_uv=False)


@row("eigh")
def eigh(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    if not a.size:
        return jnp.zeros(e.outputs[0].shape, a.dtype)
    w, V = jnp.linalg.eigh(a, "L" if e.params["lower"] else "U", symmetrize_input=False)
    return jnp.concatenate([w[..., None, :].astype(V.dtype), V], axis=-2)


@row("eigvalsh")
def eigvalsh(m: Any, e: Any, inputs: Any) -> Any:
    a = jnp.asarray(inputs[0])
    if not a.size:
        return jnp.zeros(e.outputs[0].shape)
    return jnp.linalg.eigh(a, "L" if e.params["lower"] else "U", symmetrize_input=False)[0]


@row("over_gaps")
def over_gaps(m: Any, e: Any, inputs: Any) -> Any:
    t, gaps = as_output(m, e, inputs)
    closed = gaps == 0
    m.fail_if(jnp.any(closed & (t != 0)), *CLOSED_GAP, e.where)
    return jnp.where(closed, 0, t / jnp.where(closed, 1, gaps))
