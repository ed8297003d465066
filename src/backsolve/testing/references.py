"""What rows are compared with where NumPy and SciPy have no function of their name and form."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..operators.windows import Cut
from .references_special import SPECIAL, measured

Shape = tuple[int, ...]


def key_of(spec: Any) -> Any:
    return tuple(slice(*e) if isinstance(e, tuple) else e for e in spec)


def _loops(*operands: Any, subscripts: str, sizes: Any) -> Any:
    """The loop nest, literally."""
    left, output = subscripts.split("->")
    inputs = left.split(",")
    length = dict(sizes)
    for labels, a in zip(inputs, operands, strict=True):
        length.update(zip(labels, np.shape(a), strict=True))
    out = np.zeros([length[c] for c in output], np.result_type(*operands))
    for place in itertools.product(*[range(n) for n in length.values()]):
        at = dict(zip(length, place, strict=True))
        term = [
            np.asarray(a)[tuple(at[c] for c in x)] for a, x in zip(operands, inputs, strict=True)
        ]
        out[tuple(at[c] for c in output)] += np.prod(np.stack(term))
    return out


def _put(a: Any, v: Any, *indices: Any) -> Any:
    out = np.array(a)
    common = np.broadcast_shapes(*[np.shape(i) for i in indices])
    for place in np.ndindex(common):
        out[tuple(np.broadcast_to(i, common)[place] for i in indices)] = np.asarray(v)[place]
    return out


def _add(t: Any, *indices: Any, shape: Shape) -> Any:
    out = np.zeros(shape, t.dtype)
    common = np.broadcast_shapes(*[np.shape(i) for i in indices])
    for place in np.ndindex(common):
        out[tuple(np.broadcast_to(i, common)[place] for i in indices)] += t[place]
    return out


def _unslice(t: Any, spec: Any, shape: Shape) -> Any:
    out = np.zeros(shape, np.asarray(t).dtype)
    out[key_of(spec)] = t
    return out


def _windows(a: Any, cut: Cut) -> Any:
    out = np.zeros(cut.shape(a.shape), a.dtype)
    for place in np.ndindex(out.shape):
        out[place] = a[_entry(place, a.ndim, cut)]
    return out


def _fold(t: Any, cut: Cut, shape: Shape) -> Any:
    out = np.zeros(shape, t.dtype)
    for place in np.ndindex(t.shape):
        out[_entry(place, len(shape), cut)] += t[place]
    return out


def _entry(place: Shape, rank: int, cut: Cut) -> Shape:
    """Where an entry of the windows stands in the array."""
    at = list(place[:rank])
    for axis, k, step, dilation in zip(cut.axes, place[rank:], cut.step, cut.dilation, strict=True):
        at[axis] = at[axis] * step + k * dilation
    return tuple(at)


def _convolve(a: Any, v: Any, mode: str) -> Any:
    out = np.zeros(len(a) + len(v) - 1, np.result_type(a, v))
    for i, j in np.ndindex(len(a), len(v)):
        out[i + j] += a[i] * v[j]
    return out if mode == "full" else out[len(v) - 1 : len(a)]


def _update(a: Any, v: Any, spec: Any) -> Any:
    out = np.array(a)
    out[key_of(spec)] = v
    return out


def _recurrence(a: Any, t: Any, axis: int, reverse: bool) -> Any:
    out = np.moveaxis(np.array(t, np.result_type(a, t)), axis, 0)
    a = np.moveaxis(a, axis, 0)
    n = len(out)
    for j in range(n - 2, -1, -1) if reverse else range(1, n):
        out[j] = out[j] + a[j] * out[j + 1 if reverse else j - 1]
    return np.moveaxis(out, 0, axis)


def _block_recurrence(a: Any, t: Any, reverse: bool) -> Any:
    out = np.moveaxis(np.array(t, np.result_type(a, t)), -2, 0)
    a = np.moveaxis(a, -3, 0)
    n = len(out)
    for j in range(n - 2, -1, -1) if reverse else range(1, n):
        out[j] = out[j] + (a[j] @ out[j + 1 if reverse else j - 1][..., None])[..., 0]
    return np.moveaxis(out, 0, -2)


def _logsumexp(a: Any, axis: Any, keepdims: bool) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(a), axis=axis, keepdims=keepdims))


def _triangular_solve(a: Any, b: Any, lower: bool, unit: bool) -> Any:
    T = np.tril(a) if lower else np.triu(a)
    if unit:
        T = T - T * np.eye(T.shape[-1], dtype=T.dtype) + np.eye(T.shape[-1], dtype=T.dtype)
    return np.linalg.solve(T, b)


def _determinant(a: Any) -> Any:
    """By the first row (Laplace)."""
    a = np.asarray(a)
    if a.shape[-1] == 0:
        return np.ones(a.shape[:-2], a.dtype)
    y = np.zeros(a.shape[:-2], a.dtype)
    for k in range(a.shape[-1]):
        minor = np.delete(a[..., 1:, :], k, axis=-1)
        y = y + a.dtype.type((-1) ** k) * a[..., 0, k] * _determinant(minor)
    return y


def _adjugate(a: Any) -> Any:
    """Minor by minor."""
    a = np.asarray(a)
    y = np.empty_like(a)
    for i, j in np.ndindex(a.shape[-2:]):
        minor = np.delete(np.delete(a, j, axis=-2), i, axis=-1)
        y[..., i, j] = (-1) ** (i + j) * _determinant(minor)
    return y


def _sign(a: Any) -> Any:
    y = _determinant(a)
    return y / np.abs(y)


def _attention(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    """Key by key, each row for itself."""
    y = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    for *place, i in np.ndindex(q.shape[:-1]):
        keys, values = k[tuple(place)], v[tuple(place)]
        seen = min(i + 1, len(keys)) if causal else len(keys)
        e = [np.exp(scale * np.sum(q[(*place, i)] * keys[j])) for j in range(seen)]
        for j in range(seen):
            y[(*place, i)] += e[j] / sum(e) * values[j]
    return y


def _attention_adjoint(q: Any, k: Any, v: Any, u: Any, which: int, **params: Any) -> Any:
    """By a step along the imaginary axis, which loses no digits."""
    inputs = [np.asarray(a, complex) for a in (q, k, v)]
    out = np.zeros(inputs[which].shape, q.dtype)
    for place in np.ndindex(out.shape):
        moved = [np.array(a) for a in inputs]
        moved[which][place] += 1e-30j
        out[place] = np.sum(u * _attention(moved[0], moved[1], moved[2], **params).imag) / 1e-30
    return out


def _fourier(a: Any, axes: tuple[int, ...], inverse: bool) -> Any:
    """By the sum that it is."""
    y = a.astype(np.result_type(a, np.complex64))
    for k in axes:
        n = a.shape[k]
        turns = np.outer(np.arange(n), np.arange(n)) / n * (1 if inverse else -1)
        y = np.moveaxis(np.moveaxis(y, k, -1) @ np.exp(2j * np.pi * turns), -1, k)
    return y.astype(np.result_type(a, np.complex64))


def _real_sum(a: Any, n: int, axis: int) -> Any:
    y = np.zeros((*a.shape[:axis], n, *a.shape[axis + 1 :]), np.empty(0, a.dtype).real.dtype)
    places = np.arange(n).reshape([-1 if k == axis else 1 for k in range(a.ndim)])
    for k in range(n // 2 + 1):
        term = np.real(a.take([k], axis) * np.exp(2j * np.pi * places * k / n))
        y += (term if k in (0, n / 2) else 2 * term).astype(y.dtype)
    return y


def _quotient(t: Any, gaps: Any) -> Any:
    measured(gaps, "fc")
    return np.divide(t, gaps)


def _below(*parts: Any) -> Any:
    """Parts of a decomposition below each other, vectors as rows."""
    matrices = [p if p.ndim == parts[-1].ndim else p[..., None, :] for p in parts]
    return np.concatenate(matrices, axis=-2)


def _symmetric(a: Any, lower: bool) -> Any:
    """The Hermitian matrix whose triangle is given."""
    below = np.tril(a, -1) if lower else np.conjugate(np.swapaxes(np.triu(a, 1), -1, -2))
    diagonal = np.real(np.diagonal(a, axis1=-2, axis2=-1))[..., None] * np.eye(a.shape[-1])
    return (below + diagonal + np.conjugate(np.swapaxes(below, -1, -2))).astype(a.dtype)


def _eig(a: Any) -> Any:
    return _below(*np.linalg.eig(a)).astype(np.result_type(a, np.complex64))


def _svd(a: Any) -> Any:
    U, s, Vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([U, s[..., None, :], np.swapaxes(Vh, -1, -2)], axis=-2)


def _series(a: Any) -> Any:
    """exp A, term by term, of A / 2⁸."""
    n = a.shape[-1]
    small, y = a.astype(np.result_type(a, np.float64)) / 256, np.eye(n) + 0 * a
    term = y
    for k in range(1, 15):
        term = term @ small / k
        y = y + term
    for _ in range(8):
        y = y @ y
    return y.astype(a.dtype)


def _lu(a: Any) -> Any:
    """Entry by entry (Doolittle)."""
    y = np.array(a)
    for i, j in np.ndindex(a.shape[-2:]):
        k = min(i, j)
        y[..., i, j] -= np.sum(y[..., i, :k] * y[..., :k, j], axis=-1)
        if i > j:
            y[..., i, j] /= y[..., j, j]
    return y


def _least_squares(a: Any, rcond: float) -> Any:
    """By the normal equations of the shorter side."""
    turned = np.conjugate(np.swapaxes(a, -1, -2))
    if a.shape[-2] >= a.shape[-1]:
        return np.linalg.inv(turned @ a) @ turned
    return turned @ np.linalg.inv(a @ turned)


def _pivots(a: Any) -> Any:
    order = np.zeros(a.shape[:-1], np.int64)
    for place in np.ndindex(a.shape[:-2]):
        y, order[place] = np.array(a[place]), np.arange(a.shape[-2])
        for k in range(min(y.shape)):
            p = k + int(np.argmax(np.abs(y[k:, k].real) + np.abs(y[k:, k].imag)))
            y[[k, p]], order[place][[k, p]] = y[[p, k]], order[place][[p, k]]
            y[k + 1 :, k:] -= np.outer(y[k + 1 :, k] / y[k, k], y[k, k:])
    return order


def _banded(a: Any, b: Any, lower: int, upper: int) -> Any:
    """By the whole matrix."""
    n = a.shape[-1]
    A = np.zeros((*a.shape[:-2], n, n), a.dtype)
    for i, j in np.ndindex(n, n):
        if -upper <= i - j <= lower:
            A[..., i, j] = a[..., upper + i - j, j]
    return np.linalg.solve(A, b)


def _sylvester(a: Any, b: Any, c: Any) -> Any:
    """As one system for the rows of X, (A ⊗ I + I ⊗ Bᵀ) vec X = vec Q."""
    m, n = c.shape[-2:]
    large = np.einsum("...ij,kl->...ikjl", a, np.eye(n)) + np.einsum(
        "ij,...lk->...ikjl", np.eye(m), b
    )
    large = large.reshape(*c.shape[:-2], m * n, m * n)
    dtype = np.result_type(a, b, c)
    return np.linalg.solve(large, c.reshape(*c.shape[:-2], m * n, 1)).reshape(c.shape).astype(dtype)


def _square_root(a: Any) -> Any:
    """Newton's iteration, in the product form of Denman and Beavers."""
    y, z = a.astype(np.result_type(a, np.float64)), np.eye(a.shape[-1])
    for _ in range(40):
        y, z = (y + np.linalg.inv(z)) / 2, (z + np.linalg.inv(y)) / 2
    return y.astype(a.dtype)


REFERENCES: dict[str, Callable[..., Any]] = {
    **SPECIAL,
    "attention": _attention,
    "attention_adjoint": _attention_adjoint,
    "alias": lambda a: np.array(a),
    "detach": lambda a: np.array(a),
    "cast": lambda a, dtype: np.array(a, dtype),
    "cast_discrete": lambda a, dtype: np.array(a, dtype),
    "argmax": np.argmax,
    "cholesky": np.linalg.cholesky,
    "adjugate": _adjugate,
    "det": _determinant,
    "det_sign": _sign,
    "fft": _fourier,
    "rfft": lambda a, axis: _fourier(a, (axis,), False).take(range(a.shape[axis] // 2 + 1), axis),
    "irfft": _real_sum,
    "eig": lambda a: _eig(a),
    "eigvals": lambda a: _eig(a)[..., 0, :],
    "eigh": lambda a, lower: _below(*np.linalg.eigh(_symmetric(a, lower))),
    "eigvalsh": lambda a, lower: np.linalg.eigh(_symmetric(a, lower))[0],
    "complement": lambda a: np.linalg.qr(a, mode="complete")[0][..., :, a.shape[-1] :],
    "expm": _series,
    "lu": _lu,
    "over_gaps": _quotient,
    "pinv": _least_squares,
    "pivots": _pivots,
    "qr": lambda a: _below(*np.linalg.qr(a)),
    "svd": _svd,
    "svdvals": lambda a: np.linalg.svd(a)[1],
    "inv": np.linalg.inv,
    "log_abs_det": lambda a: np.log(np.abs(_determinant(a))),
    "banded_solve": _banded,
    "solve": np.linalg.solve,
    "sqrtm": _square_root,
    "sylvester": _sylvester,
    "triangular_solve": _triangular_solve,
    "broadcast_to": np.broadcast_to,
    "concatenate": lambda *parts, axis, starts: np.concatenate(parts, axis),
    "contract": _loops,
    "gather": lambda a, *indices: np.asarray(a)[indices],
    "ranked": lambda a, axis, ranks: np.take(np.argsort(a, axis=axis, stable=True), ranks, axis),
    "log_softmax": lambda a, axis: a - _logsumexp(a, axis, True),
    "logsumexp": _logsumexp,
    "norm": lambda a, axis, keepdims: np.sqrt(np.sum(np.abs(a) ** 2, axis=axis, keepdims=keepdims)),
    "permute": np.transpose,
    "block_recurrence": _block_recurrence,
    "recurrence": _recurrence,
    "reshape": lambda a, shape: np.array(a).reshape(shape),
    "scatter_add": _add,
    "scatter_set": _put,
    "softmax": lambda a, axis: np.exp(a) / np.sum(np.exp(a), axis=axis, keepdims=True),
    "slice": lambda a, spec: np.asarray(a)[key_of(spec)],
    "slice_update": _update,
    "unslice": _unslice,
    "windows": _windows,
    "first_max": np.max,
    "fold": _fold,
    "convolve": _convolve,
}
