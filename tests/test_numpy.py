"""NumPy's functions on Tensors: every line of the tables is plain NumPy code, run four ways.

NumPy on arrays is the reference for values, shapes and dtypes; finite differences for derivatives.
"""

from __future__ import annotations

import re
from types import CodeType
from typing import Any

import numpy as np
import pytest

import backsolve as bs

rng = np.random.default_rng(7)
X = rng.normal(size=(3, 4))
DATA: dict[str, Any] = {
    "x": X,
    "w": rng.normal(size=(3, 4)),
    "p": rng.uniform(0.5, 2.0, size=(3, 4)),
    "a": rng.normal(size=(2, 3, 4)),
    "m": rng.normal(size=(3, 3)),
    "n": rng.normal(size=(4, 5)),
    "k": rng.normal(size=(2, 4, 3)),
    "v": rng.normal(size=4),
    "u": rng.uniform(0.5, 2.0, size=4),
    "t": rng.normal(size=3),
    "q": rng.normal(size=(1, 4)),
    "s": np.float64(0.7),
    "e": np.zeros((0, 3)),
    "z": rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)),
}
CONSTANTS: dict[str, Any] = {
    "i": np.array([[2, 0], [1, 2]]),
    "b": X > 0,
    "rows": np.array([0, 2, 2]),
    "order": np.argsort(X, axis=1),
}
TABLES = {
    "reductions": """
        np.sum(x)
        np.sum(x, axis=0)
        np.sum(x, -1)
        np.sum(a, axis=(0, -1))
        np.sum(a, axis=(0, 2), keepdims=True)
        np.sum(x, axis=())
        np.sum(x, dtype=np.float32)
        np.sum(x, where=b)
        np.sum(x, 0, where=b, initial=2.0)
        np.sum(s)
        np.sum(s, keepdims=True)
        np.sum(e)
        np.sum(e, axis=0)
        np.sum(z, axis=1)
        x.sum()
        x.sum(1)
        x.sum(axis=0, keepdims=True)
        np.nansum(x, axis=0)
        np.nanmean(np.where(b, x, np.nan))
        np.nanmax(x, axis=0)
        np.prod(x)
        np.prod(x, axis=1)
        np.prod(a, axis=(0, 2), keepdims=True)
        np.prod(x, axis=0, initial=3.0)
        np.prod(x, axis=0, where=b)
        np.prod(e, axis=0)
        np.prod(s)
        x.prod(axis=-1)
        np.max(x)
        np.max(x, axis=0)
        np.max(a, axis=(1, 2))
        np.max(x, axis=1, keepdims=True)
        np.max(x, axis=1, initial=0.3)
        np.max(x, axis=1, initial=-9.0, where=b)
        np.max(s)
        np.amax(x, 1)
        x.max()
        x.max(axis=-1)
        np.min(x)
        np.min(x, axis=0, keepdims=True)
        np.min(x, axis=0, initial=9.0, where=b)
        np.amin(x, 1)
        x.min(axis=0)
        np.mean(x)
        np.mean(x, axis=0)
        np.mean(a, axis=(0, 1), keepdims=True)
        np.mean(x, where=b)
        np.mean(x, axis=1, dtype=np.float32)
        x.mean(axis=-1)
        np.var(x)
        np.var(x, axis=0)
        np.var(x, axis=1, ddof=1)
        np.var(x, axis=1, correction=1, keepdims=True)
        np.var(z, axis=0)
        x.var(axis=0, ddof=1)
        np.std(x)
        np.std(x, axis=0, keepdims=True)
        np.std(a, axis=(0, 2), ddof=1)
        np.std(z, axis=0)
        x.std(axis=1)
        np.ptp(x)
        np.ptp(x, axis=0)
        np.ptp(x, axis=0, keepdims=True)
        np.any(x > 0)
        np.any(x > 0, axis=0)
        np.all(x > -1, axis=1, keepdims=True)
        np.all(x > 0, where=b)
        (x > 0).any()
        (x > 0).all(axis=0)
        np.argmax(x)
        np.argmax(x, axis=0)
        np.argmax(x, axis=-1, keepdims=True)
        x.argmax()
        np.argmin(x, axis=1)
        np.argmin(x, keepdims=True)
        x.argmin(axis=0)
        np.count_nonzero(x > 0)
        np.count_nonzero(x > 0, axis=1)
        np.cumsum(x)
        np.cumsum(x, axis=0)
        np.cumsum(x, axis=-1)
        np.cumsum(s)
        np.cumsum(e, axis=0)
        np.cumsum(x, axis=0, dtype=np.float32)
        x.cumsum(axis=1)
        np.cumprod(x)
        np.cumprod(x, axis=1)
        np.cumprod(z, axis=0)
        x.cumprod(axis=0)
        np.cumulative_sum(v)
        np.cumulative_sum(x, axis=1, include_initial=True)
        np.cumulative_prod(v)
        np.cumulative_prod(x, axis=0, include_initial=True)
        np.linalg.norm(v)
        np.linalg.norm(x)
        np.linalg.norm(x, axis=0)
        np.linalg.norm(x, axis=(0, 1))
        np.linalg.norm(x, 'fro')
        np.linalg.norm(x, 'fro', axis=(0, 1), keepdims=True)
        np.linalg.norm(v, 1)
        np.linalg.norm(v, 2)
        np.linalg.norm(v, 3)
        np.linalg.norm(v, 0.5)
        np.linalg.norm(v, np.inf)
        np.linalg.norm(v, -np.inf)
        np.linalg.norm(v, 0)
        np.linalg.norm(x, 1, axis=1)
        np.linalg.norm(x, ord=2, axis=1, keepdims=True)
        np.linalg.norm(x, 1)
        np.linalg.norm(x, -1)
        np.linalg.norm(x, np.inf)
        np.linalg.norm(x, -np.inf)
        np.linalg.norm(z)
        np.linalg.norm(z, axis=1)
        np.linalg.norm(a)
        np.linalg.vector_norm(a, axis=(0, 1))
        np.linalg.vector_norm(x, ord=1)
        np.average(x)
        np.average(x, axis=0)
        np.average(x, axis=1, weights=u)
        np.average(x, weights=p)
        np.average(x, axis=1, weights=u, keepdims=True)
        np.median(t)
        np.median(x)
        np.median(x, axis=0)
        np.median(x, axis=1, keepdims=True)
        np.add.reduce(x)
        np.add.reduce(x, axis=1, keepdims=True)
        np.add.reduce(x, axis=None)
        np.multiply.reduce(x, axis=0)
        np.maximum.reduce(x)
        np.minimum.reduce(x, 1)
        np.logaddexp.reduce(x, axis=1)
        np.add.accumulate(x, axis=1)
        np.multiply.accumulate(x)
        np.add.outer(v, t)
        np.multiply.outer(x, t)
        np.subtract.outer(t, v)
    """,
    "shapes": """
        np.reshape(x, (4, 3))
        np.reshape(x, -1)
        np.reshape(x, (2, -1, 3))
        np.reshape(x, (4, 3), order='F')
        np.reshape(a, (4, -1), order='F')
        np.reshape(x, shape=(6, 2))
        np.reshape(e, (3, 0, 2))
        np.reshape(s, (1, 1))
        np.reshape(x[:1, :1], ())
        x.reshape(12)
        x.reshape(2, 6)
        x.reshape((2, -1))
        x.reshape(-1, order='F')
        np.ravel(x)
        np.ravel(x, order='F')
        np.ravel(s)
        np.ravel(e)
        x.ravel()
        x.flatten()
        x.flatten('F')
        np.transpose(a)
        np.transpose(a, (1, 0, 2))
        np.transpose(a, (-1, 0, 1))
        np.transpose(v)
        a.transpose()
        a.transpose(1, 0, 2)
        a.transpose((1, 0, 2))
        a.T
        a.mT
        np.permute_dims(a, (2, 0, 1))
        np.swapaxes(a, 0, -1)
        a.swapaxes(0, 1)
        np.matrix_transpose(a)
        np.moveaxis(a, 0, -1)
        np.moveaxis(a, (0, 1), (-1, 0))
        np.moveaxis(a, [0, 2], [1, 0])
        np.rollaxis(a, 2)
        np.rollaxis(a, 1, 3)
        np.expand_dims(x, 0)
        np.expand_dims(x, -1)
        np.expand_dims(x, (0, 2))
        np.expand_dims(x, (-1, 0))
        np.squeeze(q)
        np.squeeze(q, 0)
        np.squeeze(q[..., None], axis=(0, -1))
        np.squeeze(s)
        q.squeeze()
        q.squeeze(axis=0)
        np.broadcast_to(v, (3, 4))
        np.broadcast_to(s, 3)
        np.broadcast_to(q, (2, 3, 4))
        np.broadcast_arrays(v, x)
        np.broadcast_arrays(s, t)
        np.atleast_1d(s)
        np.atleast_1d(v)
        np.atleast_2d(s)
        np.atleast_2d(v)
        np.atleast_2d(a)
        np.atleast_3d(s)
        np.atleast_3d(v)
        np.atleast_3d(x)
        np.atleast_2d(v, s)
        np.flip(x)
        np.flip(x, 0)
        np.flip(a, (0, -1))
        np.flip(s)
        np.fliplr(x)
        np.flipud(x)
        np.rot90(x)
        np.rot90(x, 2)
        np.rot90(x, -1)
        np.rot90(a, 1, (1, 2))
        np.roll(x, 1)
        np.roll(x, -2, axis=1)
        np.roll(x, 5, axis=0)
        np.roll(x, (1, 2), axis=(0, 1))
        np.roll(x, 1, axis=(0, 1))
        np.roll(x, (1, 2), axis=1)
        np.roll(e, 1, axis=0)
        np.roll(s, 1)
        np.concatenate([x, w])
        np.concatenate([x, q])
        np.concatenate((x, w), axis=1)
        np.concatenate((x, w), axis=-1)
        np.concatenate([x, v[:, None]], axis=None)
        np.concatenate([x, w], dtype=np.float32)
        np.concatenate([e, m])
        np.concatenate([x, np.ones((1, 4), np.int64)])
        np.concat([v, u])
        np.stack([v, u])
        np.stack([v, u], axis=-1)
        np.stack((x, w), 1)
        np.stack([s, s * 2])
        np.stack([v, np.ones(4)])
        np.stack([v, u], dtype=np.float32)
        np.vstack([v, x])
        np.vstack([v, u])
        np.hstack([v, t])
        np.hstack([x, w])
        np.hstack([s, v])
        np.dstack([x, w])
        np.dstack([v, u])
        np.column_stack([v, u])
        np.column_stack([x, t])
        np.block([[x, w], [w, x]])
        np.block([v, t])
        np.append(x, w)
        np.append(x, w, axis=0)
        np.append(v, 3.0)
        np.insert(v, 1, s)
        np.insert(x, 1, v, axis=0)
        np.delete(v, 1)
        np.delete(x, [0, 2], axis=1)
        np.delete(x, slice(0, 2), axis=0)
        np.resize(v, (2, 3))
        np.split(x, 2, axis=1)
        np.split(x, [1, 2], axis=0)
        np.split(v, 2)
        np.split(x, 3, -2)
        np.array_split(v, 3)
        np.array_split(x, [1, 3], axis=1)
        np.array_split(v, [2, 6])
        np.vsplit(x, 3)
        np.hsplit(x, 2)
        np.hsplit(v, [1])
        np.dsplit(a, 2)
        np.unstack(x)
        np.unstack(x, axis=1)
        np.unstack(x, axis=-1)
        np.tile(v, 2)
        np.tile(v, (2, 1))
        np.tile(x, (2, 3))
        np.tile(a, 2)
        np.tile(s, 3)
        np.tile(v, 0)
        np.repeat(v, 2)
        np.repeat(x, 2)
        np.repeat(x, 2, axis=0)
        np.repeat(x, [1, 0, 2], axis=0)
        np.repeat(s, 2)
        x.repeat(2, axis=1)
        np.pad(v, 1)
        np.pad(x, ((1, 0), (0, 2)))
        np.pad(x, (1, 2))
        np.pad(x, 1, constant_values=2.0)
        np.pad(x, ((1, 1), (0, 2)), constant_values=((1, 2), (3, 4)))
        np.pad(x, 1, mode='edge')
        np.pad(x, ((1, 2), (3, 0)), 'reflect')
        np.pad(v, 2, mode='reflect', reflect_type='odd')
        np.pad(x, 2, mode='symmetric')
        np.pad(x, 2, mode='wrap')
        np.pad(v, 6, mode='wrap')
        np.pad(v, 2, mode='linear_ramp')
        np.pad(x, 1, mode='linear_ramp', end_values=1.5)
        np.pad(x, 1, mode='mean')
        np.pad(x, 2, mode='mean', stat_length=2)
        np.pad(x, 1, mode='maximum')
        np.pad(x, 1, mode='minimum')
        np.pad(v, 2, mode='median')
        np.pad(v, 2, mode='empty')[2:-2]
        np.pad(e, 1)
        np.tril(m)
        np.tril(x, 1)
        np.triu(a, -1)
        np.triu(m, k=1)
        np.triu(v)
        np.diff(v)
        np.diff(x, axis=0)
        np.diff(x, n=2)
        np.diff(x, n=0)
        np.diff(x, prepend=0.0)
        np.diff(v, append=s)
        np.ediff1d(x)
        np.gradient(v)
        np.gradient(x)
        np.gradient(x, 0.5, axis=1)
        np.trapezoid(v)
        np.trapezoid(x, dx=0.5, axis=0)
        np.trapezoid(v, u)
        np.meshgrid(v, t)
        np.meshgrid(v, t, indexing='ij')
        np.meshgrid(v, t, sparse=True)
        np.linspace(s, 2.0, 5)
        np.linspace(v, u, 3)
        np.linspace(0.0, s, 4, endpoint=False)
        np.linspace(t, 1.0, 3, axis=-1)
        np.copy(x)
        x.copy()
        np.full_like(x, s)
        np.zeros_like(x) + x
        np.ones_like(x, dtype=np.float32) * x
        np.vander(v)
        np.vander(v, 3, increasing=True)
        np.real(z)
        np.imag(z)
        np.real(x)
        np.imag(x)
        z.real
        z.imag
        np.angle(z)
        z.conj()
        np.abs(z)
        x.astype(np.float32)
        x.astype(complex)
        x.astype(int)
        np.astype(x, np.float32)
    """,
    "selection": """
        np.where(x > 0, x, w)
        np.where(b, x, 0)
        np.where(b, 1.5, x)
        np.where(v > 0, x, s)
        np.where(x > 0)
        np.clip(x, -0.5, 0.5)
        np.clip(x, None, 0.5)
        np.clip(x, -0.5, None)
        np.clip(x, w, p)
        np.clip(x, min=0.1)
        np.clip(x, min=-0.4, max=0.3)
        x.clip(-0.5, 0.5)
        x.clip(max=0.2)
        np.take(v, [0, 2, 2])
        np.take(x, i)
        np.take(x, i, axis=0)
        np.take(x, 1, axis=1)
        np.take(x, [-1, 0], axis=-1)
        np.take(v, [5, -7], mode='wrap')
        np.take(v, [5, -7], mode='clip')
        x.take([1, 2], axis=1)
        np.take_along_axis(x, order, axis=1)
        np.take_along_axis(x, order[:, :1], axis=-1)
        np.take_along_axis(x, order[:1], axis=1)
        np.take_along_axis(x, np.array([3, 0]), axis=None)
        np.compress([True, False, True], x, axis=0)
        np.extract(b, x)
        np.select([x > 0.5, x > 0], [x, w], 0.0)
        np.select([b], [x], s)
        np.diag(v)
        np.diag(v, 1)
        np.diag(v, -2)
        np.diag(m)
        np.diag(x, 1)
        np.diag(x, -1)
        np.diag(x, 7)
        np.diagflat(m)
        np.diagflat(v, 1)
        np.diagonal(x)
        np.diagonal(a, 1, 1, 2)
        np.diagonal(a, axis1=0, axis2=-1)
        np.diagonal(x, 9)
        x.diagonal(1)
        np.trace(m)
        np.trace(a)
        np.trace(a, 1, 1, 2)
        np.trace(m, dtype=np.float32)
        m.trace()
        np.sort(x)
        np.sort(x, axis=0)
        np.sort(x, axis=None)
        np.argsort(x)
        np.argsort(x, axis=0)
        np.partition(v, 2)[2]
        np.nonzero(x > 0)
        np.argwhere(x > 0)
        np.flatnonzero(x > 0)
        np.searchsorted(np.sort(v), u)
        np.isclose(x, w)
        np.allclose(x, w)
        np.array_equal(x, x)
        np.shape(x)
        np.ndim(x)
        np.size(x)
        np.size(x, 1)
        np.iscomplexobj(z)
        np.isrealobj(x)
        np.interp(v, np.array([-2.0, 0.0, 3.0]), t)
        np.convolve(v, t)
        np.convolve(v, t, 'same')
        np.convolve(t, v, 'valid')
        np.correlate(v, t, 'full')
        np.polyval(t, v)
        np.cov(x)
        np.corrcoef(x)
        np.heaviside(x, w)
    """,
    "products": """
        x @ v
        v @ x.T
        v @ u
        x @ n
        a @ n
        a @ k
        n.T @ a.mT
        k @ x
        v @ k
        a @ v
        a[:, None] @ k
        a[:1] @ k
        e @ m
        e.T @ e
        z @ v
        np.matmul(x, n)
        np.matmul(a, k)
        np.matvec(x, v)
        np.matvec(a, v)
        np.vecmat(t, x)
        np.vecdot(x, w)
        np.vecdot(x, v)
        np.vecdot(x, w, axis=0)
        np.vecdot(z, x)
        np.linalg.vecdot(x, w, axis=0)
        np.dot(v, u)
        np.dot(x, v)
        np.dot(x, n)
        np.dot(a, v)
        np.dot(a, k)
        np.dot(v, k)
        np.dot(v, n)
        np.dot(s, x)
        np.dot(x, 2.0)
        x.dot(n)
        np.vdot(v, u)
        np.vdot(x, w)
        np.vdot(z, x)
        np.inner(v, u)
        np.inner(x, w)
        np.inner(a, x)
        np.inner(s, x)
        np.outer(v, t)
        np.outer(x, s)
        np.linalg.outer(v, t)
        np.tensordot(x, w)
        np.tensordot(x, n, 1)
        np.tensordot(v, t, 0)
        np.tensordot(a, k, axes=([1, 2], [2, 1]))
        np.tensordot(a, x, axes=((1, -1), (0, 1)))
        np.tensordot(a, t, axes=(1, 0))
        np.kron(m, x)
        np.kron(v, x)
        np.kron(s, v)
        np.cross(t, t[::-1] ** 2)
        np.cross(m, t)
        np.cross(m, m.T, axis=0)
        np.linalg.cross(m, t)
        np.linalg.matrix_power(m, 3)
        np.linalg.multi_dot([x, n, n.T])
        np.linalg.trace(a)
        np.linalg.diagonal(a)
        np.linalg.matmul(x, n)
        np.linalg.tensordot(x, w)
        np.einsum('ij,jk', x, n)
        np.einsum('ij,jk->ik', x, n)
        np.einsum('ij,kj->', x, w)
        np.einsum('ij->ji', x)
        np.einsum('ba', x)
        np.einsum('ij->', x)
        np.einsum('ij->j', x)
        np.einsum('ii', m)
        np.einsum('ii->i', m)
        np.einsum('ij,ij->i', x, w)
        np.einsum('i,i', v, u)
        np.einsum('i,j->ij', v, t)
        np.einsum('...ij,...jk->...ik', a, k)
        np.einsum('...ij,jk', a, n)
        np.einsum('i...->...', x)
        np.einsum('...i,...i', a, x)
        np.einsum('ij,ij->ij', x, q)
        np.einsum('ij,jk,kl->il', m, x, n)
        np.einsum('hij,hjk->hik', a, k, optimize=True)
        np.einsum('i,i,i->i', v, u, v)
        np.einsum(x, [0, 1], n, [1, 2], [0, 2])
        np.einsum(x, [0, 1], n, [1, 2])
        np.einsum(a, [Ellipsis, 0], v, [0], [Ellipsis])
        np.einsum(',i->i', s, v)
        np.einsum('iij->j', m[:, :, None] * v)
        np.einsum('ij->', e)
        np.einsum('ij,jk->ik', z, n)
    """,
    "mixed": """
        2 * x + w / p - 1
        1 - x
        2 / p
        x ** 2
        p ** w
        2.0 ** x
        p ** -0.5
        -x
        +x
        abs(x)
        x // 0.3
        x % 0.7
        1.0 % p
        divmod(x, 0.5)
        divmod(5.0, p)
        np.divmod(x, 0.5)
        np.modf(x)
        np.frexp(x)
        np.ldexp(x, 3)
        np.round(x)
        np.round(x, 1)
        np.around(x, 2)
        x.round(1)
        np.sinc(x)
        np.sinc(s)
        np.nan_to_num(x)
        np.nan_to_num(x / np.array([1.0, np.nan, 2.0, 1.0]), nan=3.0)
        np.float_power(p, w)
        np.add(x, w)
        np.add(x, w, dtype=np.float32)
        np.power(p, 3)
        np.logaddexp(x, w)
        np.logaddexp2(x, w)
        np.hypot(x, w)
        np.arctan2(x, w)
        np.maximum(x, w)
        np.fmin(x, 0.0)
        np.copysign(x, w)
        np.multiply(x, [1, 2, 3, 4])
        x > w
        (x > 0) & (w > 0)
        ~(x > 0)
        x == w
        np.logical_not(x)
        np.isnan(x)
        np.conjugate(z) * z
        np.exp(z)
        np.sqrt(z)
        z ** 2
        1 / z
        np.square(x)
    """,
}
LINES = [
    pytest.param(line.strip(), id=line.strip())
    for table in TABLES.values()
    for line in table.strip().splitlines()
]
NOT_STAGED = re.compile(  # the length of the answer depends on values
    r"np\.where\(x > 0\)|extract|nonzero|argwhere|unique|np\.(frexp|allclose|array_equal|isclose)"
)


def compiled(line: str) -> tuple[CodeType, dict[str, Any]]:
    code = compile(line, line, "eval")
    names = set(code.co_names)
    for constant in code.co_consts:
        names |= set(getattr(constant, "co_names", ()))
    return code, {name: value for name, value in DATA.items() if name in names}


def run(code: CodeType, namespace: Any, **values: Any) -> Any:
    return eval(code, {"np": namespace, **CONSTANTS, **values})


def leaves(result: Any) -> list[Any]:
    return bs.tree.flatten(result)[0]


def smooth(result: Any) -> list[Any]:
    """The floating-point results: what has a derivative."""
    return [y for y in leaves(result) if hasattr(y, "dtype") and y.dtype.kind in "fc"]


def plain(y: Any) -> Any:
    return y.value if isinstance(y, bs.Tensor) else y


def assert_same(got: Any, expected: Any, **tolerance: Any) -> None:
    """Equal form, kind of number, shape, dtype and values."""
    assert type(got) is type(expected) or isinstance(got, bs.Tensor)
    mine, theirs = leaves(got), leaves(expected)
    assert len(mine) == len(theirs)
    for y, r in zip(mine, theirs, strict=True):
        assert np.shape(plain(y)) == np.shape(r)
        assert np.asarray(plain(y)).dtype == np.asarray(r).dtype
        np.testing.assert_allclose(plain(y), r, **{"rtol": 1e-12, "atol": 1e-14, **tolerance})


def is_single(line: str) -> bool:
    return "float32" in line


@pytest.mark.parametrize("line", LINES)
def test_value(line: str) -> None:
    code, values = compiled(line)
    expected = run(code, np, **values)
    tensors = {name: bs.tensor(v, requires_grad=True) for name, v in values.items()}
    got = run(code, np, **tensors)
    assert_same(got, expected)
    assert all(isinstance(y, bs.Tensor) for y in smooth(got))
    assert_same(run(code, bs.numpy, **values), expected)
    assert not any(isinstance(y, bs.Tensor) for y in leaves(run(code, bs.numpy, **values)))


@pytest.mark.parametrize("line", LINES)
def test_dtype_in_single_precision(line: str) -> None:
    code, values = compiled(line)
    single = {
        name: v.astype(np.complex64 if v.dtype.kind == "c" else np.float32)
        for name, v in values.items()
    }
    expected = run(code, np, **single)
    got = run(code, np, **{name: bs.tensor(v) for name, v in single.items()})
    assert_same(got, expected, rtol=2e-5, atol=2e-6)


def derivative_cases() -> list[Any]:
    found = []
    for case in LINES:
        code, values = compiled(case.values[0])
        if smooth(run(code, np, **values)):
            found.append(case)
    return found


SMOOTH = derivative_cases()


def as_function(code: CodeType, names: list[str]) -> Any:
    return lambda *args: smooth(run(code, np, **dict(zip(names, args, strict=True))))


@pytest.mark.parametrize("line", SMOOTH)
def test_derivative(line: str) -> None:
    """jvp against central differences, vjp against jvp, and second derivatives likewise."""
    code, values = compiled(line)
    f = as_function(code, list(values))
    primals = list(values.values())
    draw = np.random.default_rng(3)
    directions = [draw.normal(size=np.shape(v)).astype(v.dtype)[()] for v in primals]
    h, rtol = (1e-2, 1e-2) if is_single(line) else (1e-6, 1e-6)
    _, images = bs.jvp(f, primals, directions)
    ahead = f(*[v + h * d for v, d in zip(primals, directions, strict=True)])
    behind = f(*[v - h * d for v, d in zip(primals, directions, strict=True)])
    for t, y, z in zip(images, ahead, behind, strict=True):
        assert t.dtype == y.dtype
        np.testing.assert_allclose(t, (y - z) / (2 * h), rtol=rtol, atol=rtol)
    seeds = [draw.normal(size=np.shape(t)).astype(t.dtype)[()] for t in images]
    pulled = bs.vjp(f, *primals)[1](seeds)
    left = sum(np.vdot(s, t).real for s, t in zip(seeds, images, strict=True))
    right = sum(np.vdot(g, d).real for g, d in zip(pulled, directions, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-5 if is_single(line) else 1e-10, atol=1e-10)


@pytest.mark.parametrize("line", [c for c in SMOOTH if not is_single(c.values[0])])
def test_second_derivative(line: str) -> None:
    code, values = compiled(line)
    f = as_function(code, list(values))
    primals = list(values.values())
    draw = np.random.default_rng(5)
    directions = [draw.normal(size=np.shape(v)).astype(v.dtype)[()] for v in primals]
    every = tuple(range(len(primals)))

    def energy(*args: Any) -> Any:
        return sum((abs(y) ** 2 if y.dtype.kind == "c" else y * y).sum() for y in f(*args))

    gradient = bs.grad(energy, every)
    _, curved = bs.jvp(gradient, primals, directions)
    h = 1e-6
    ahead = gradient(*[v + h * d for v, d in zip(primals, directions, strict=True)])
    behind = gradient(*[v - h * d for v, d in zip(primals, directions, strict=True)])
    for t, y, z in zip(curved, ahead, behind, strict=True):
        np.testing.assert_allclose(t, (y - z) / (2 * h), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("line", [c for c in SMOOTH if not NOT_STAGED.search(c.values[0])])
def test_batched(line: str) -> None:
    """vmap of the line is the line on every example; so is the gradient, nested either way."""
    code, values = compiled(line)
    f = as_function(code, list(values))
    draw = np.random.default_rng(9)
    batch = [np.stack([v, v + 1e-3 * draw.normal(size=v.shape)]) for v in values.values()]
    examples = [[x[k] for x in batch] for k in range(2)]
    tight = {"rtol": 1e-4, "atol": 1e-6} if is_single(line) else {"rtol": 1e-10, "atol": 1e-12}
    for got, *expected in zip(bs.vmap(f)(*batch), *[f(*e) for e in examples], strict=True):
        np.testing.assert_allclose(got, np.stack(expected), **tight)
        assert got.dtype == expected[0].dtype

    def energy(*args: Any) -> Any:
        return sum((abs(y) ** 2 if y.dtype.kind == "c" else y * y).sum() for y in f(*args))

    gradient = bs.grad(energy, tuple(range(len(batch))))
    one_by_one = [np.stack(g) for g in zip(*[gradient(*e) for e in examples], strict=True)]
    inside = bs.vmap(gradient)(*batch)
    outside = bs.grad(lambda *args: bs.vmap(energy)(*args).sum(), tuple(range(len(batch))))(*batch)
    for expected, g, h in zip(one_by_one, inside, outside, strict=True):
        np.testing.assert_allclose(g, expected, **tight)
        np.testing.assert_allclose(h, expected, **tight)
