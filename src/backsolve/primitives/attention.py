"""attention: y = softmax(scale · q kᵀ) v, for stacks of matrices (…, n, d), (…, m, d), (…, m, e).

With `causal`, row i looks at the keys 0 … i. Both rows here go through q some lines at a time: no n × m
array is ever held, and what no line of a tile looks at is not computed.

    W = softmax(S),  S = scale · q kᵀ:        dy = dW v + W dv,  dW = W (dS − Σ W dS)

`attention_adjoint` is the gradient of ⟨u, y⟩ with respect to the input number `which`:

    S̄ = W (u vᵀ − Σ W u vᵀ):                  q̄ = scale · S̄ k,  k̄ = scale · S̄ᵀ q,  v̄ = Wᵀ u

It is a row of its own because it has tiles of its own. Its blocks are second derivatives of ⟨u, y⟩, which
are symmetric: the adjoint of block (i, j) is block (j, i). They and forward mode are written in whole
matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import DTypeError, ShapeError
from ..ir import Type
from ..operators import Custom, Zero
from ..primitive import P, Primitive, primitive
from ..row import Row
from .batching import spread

TILE = 64  # lines of q at a time
Q, K, V, U = range(4)


def _turned(a: Any) -> Any:
    return np.swapaxes(a, -1, -2)


# ---- in tiles


def _tiles(q: Any, k: Any, causal: bool) -> Iterator[tuple[slice, int, Any]]:
    """The lines of a tile, how many keys they look at, and which of those each does not look at."""
    n, m = q.shape[-2], k.shape[-2]
    for low in range(0, n, TILE):
        high = min(low + TILE, n)
        if not causal:
            yield slice(low, high), m, None
            continue
        keys = min(high, m)
        yield slice(low, high), keys, ~np.tri(high - low, keys, low, bool)


def _weights(q: Any, k: Any, hidden: Any, scale: float) -> Any:
    s = q @ _turned(k)
    s *= scale
    if hidden is not None:
        s[..., hidden] = -np.inf
    s -= np.maximum.reduce(s, axis=-1, keepdims=True, initial=-np.inf)
    np.exp(s, out=s)
    s /= np.add.reduce(s, axis=-1, keepdims=True)
    return s


def _run(q: Any, k: Any, v: Any, *, scale: float, causal: bool) -> Any:
    out = _type(*map(_type_of, (q, k, v)), scale=scale, causal=causal)
    q, k, v = (a.astype(out.dtype, copy=False) for a in (q, k, v))
    y = np.empty(out.shape, out.dtype)
    for lines, keys, hidden in _tiles(q, k, causal):
        W = _weights(q[..., lines, :], k[..., :keys, :], hidden, scale)
        np.matmul(W, v[..., :keys, :], out=y[..., lines, :])
    return y


def _adjoints(
    q: Any, k: Any, v: Any, u: Any, *, which: tuple[int, ...], scale: float, causal: bool
) -> dict[int, Any]:
    """The adjoints of the inputs at `which`."""
    dtype = np.result_type(q, k, v, u)
    q, k, v, u = (a.astype(dtype, copy=False) for a in (q, k, v, u))
    out = {i: np.zeros((q, k, v)[i].shape, dtype) for i in which}
    for lines, keys, hidden in _tiles(q, k, causal):
        near = k[..., :keys, :]
        W = _weights(q[..., lines, :], near, hidden, scale)
        t = u[..., lines, :]
        if V in which:
            out[V][..., :keys, :] += _turned(W) @ t
        if Q not in which and K not in which:
            continue
        S = t @ _turned(v[..., :keys, :])
        S *= W
        W *= np.add.reduce(S, axis=-1, keepdims=True)
        S -= W
        S *= scale
        if Q in which:
            np.matmul(S, near, out=out[Q][..., lines, :])
        if K in which:
            out[K][..., :keys, :] += _turned(S) @ q[..., lines, :]
    return out


def _run_adjoint(q: Any, k: Any, v: Any, u: Any, *, which: int, scale: float, causal: bool) -> Any:
    return _adjoints(q, k, v, u, which=(which,), scale=scale, causal=causal)[which]


# ---- in whole matrices: first and second derivatives


class _Whole:
    """The matrices at one place, in plain NumPy: on Tensors all of it is recorded."""

    def __init__(self, q: Any, k: Any, v: Any, scale: float, causal: bool):
        self.q, self.k, self.v, self.scale, self.causal = q, k, v, scale, causal
        s = scale * (q @ _turned(k))
        if causal:
            s = np.where(np.tri(s.shape[-2], s.shape[-1], dtype=bool), s, -np.inf)
        self.W = P.softmax(s, axis=(len(s.shape) - 1,))

    def less_mean(self, t: Any) -> Any:
        return t - np.sum(self.W * t, axis=-1, keepdims=True)

    def d_scores(self, j: int, t: Any) -> Any:
        """dS, as q or k moves by t."""
        return self.scale * (t @ _turned(self.k) if j == Q else self.q @ _turned(t))

    def first(self, j: int, t: Any) -> Any:
        """dy, as q or k moves by t."""
        return (self.W * self.less_mean(self.d_scores(j, t))) @ self.v

    def second(self, i: int, j: int, u: Any, t: Any) -> Any:
        """How the adjoint of input i changes as input j moves by t."""
        if j == V:
            d_adjoint = self.W * self.less_mean(u @ _turned(t))
        else:
            dW = self.W * self.less_mean(self.d_scores(j, t))
            if i == V:
                return _turned(dW) @ u
            D = u @ _turned(self.v)
            d_mean = np.sum(dW * D, axis=-1, keepdims=True)
            d_adjoint = dW * self.less_mean(D) - self.W * d_mean
        y = d_adjoint @ self.k if i == Q else _turned(d_adjoint) @ self.q
        if j not in (i, V):
            adjoint = self.W * self.less_mean(u @ _turned(self.v))
            y = y + (adjoint @ t if i == Q else _turned(adjoint) @ t)
        return self.scale * y


# ---- blocks


def _types(row: Row, i: int) -> tuple[Type, Type]:
    parent = row.parents[i]
    return Type(parent.shape, parent.dtype), Type(row.shape, row.dtype)


def _moved(i: int, q: Any, k: Any, v: Any, params: dict[str, Any], t: Any) -> Any:
    """dy, as input i moves by t."""
    if i == V:
        return attention(q, k, t, **params)
    return _Whole(q, k, v, **params).first(i, t)


def _block(i: int, s: Any, row: Row) -> Any:
    q, k, v = s[1:]
    params: dict[str, Any] = row.params or {}

    def pull(u: Any) -> Any:
        if all(type(a) is np.ndarray for a in (q, k, v, u)):
            return _shared_adjoint(i, (q, k, v), u, row)
        return attention_adjoint(q, k, v, u, which=i, **params)

    return Custom(partial(_moved, i, q, k, v, params), pull, *_types(row, i), "attention")


# One pass over the tiles gives all adjoints of a row; they wait here until their blocks are applied.
_waiting: WeakKeyDictionary[Row, tuple[Any, dict[int, Any]]] = WeakKeyDictionary()


def _shared_adjoint(i: int, inputs: Any, u: Any, row: Row) -> Any:
    seed, parts = _waiting.pop(row, (None, {}))
    if seed is not u or i not in parts:
        wanted = tuple(j for j in (Q, K, V) if row.parents[j].__class__ is Row)
        q, k, v = inputs
        parts = _adjoints(q, k, v, u, which=wanted, **(row.params or {}))
    found = parts.pop(i)
    if parts:
        _waiting[row] = (u, parts)
    return found


def _adjoint_block(j: int, s: Any, row: Row) -> Any:
    q, k, v, u = s[1:]
    params = dict(row.params or {})
    i = params.pop("which")
    if j == U:  # it is linear in u
        push = lambda t: attention_adjoint(q, k, v, t, which=i, **params)
        return Custom(push, partial(_moved, i, q, k, v, params), *_types(row, j), "attention")
    if i == j == V:
        return Zero(*_types(row, j))

    def second(i: int, j: int, t: Any) -> Any:
        return _Whole(q, k, v, **params).second(i, j, u, t)

    return Custom(partial(second, i, j), partial(second, j, i), *_types(row, j), "attention")


# ---- the rows


def _type_of(a: Any) -> Type:
    return Type(a.shape, a.dtype)


def _type(q: Type, k: Type, v: Type, *, scale: float, causal: bool) -> Type:
    dtype = np.result_type(q.dtype, k.dtype, v.dtype)
    if dtype.kind != "f":
        raise DTypeError(f"`attention` needs real floating-point arrays, got {dtype}")
    shapes = [tuple(a.shape) for a in (q, k, v)]
    fit = all(len(s) >= 2 for s in shapes) and (
        len({s[:-2] for s in shapes}) == 1
        and shapes[0][-1] == shapes[1][-1]
        and shapes[1][-2] == shapes[2][-2]
    )
    if not fit:
        raise ShapeError(
            "`attention` needs queries (…, n, d), keys (…, m, d) and values (…, m, e), got "
            f"{', '.join(map(str, shapes))}"
        )
    return Type((*q.shape[:-1], v.shape[-1]), dtype)


def _adjoint_type(q: Type, k: Type, v: Type, u: Type, *, which: int, **params: Any) -> Type:
    y = _type(q, k, v, **params)
    if tuple(u.shape) != tuple(y.shape):
        raise ShapeError(f"the adjoint of `attention` needs shape {y.shape}, got {u.shape}")
    return Type((q, k, v)[which].shape, np.result_type(y.dtype, u.dtype))


def _batch(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    full = [a if b else spread(a, size) for a, b in zip(args, batched, strict=True)]
    return prim(*full, **params)


attention = primitive(
    "attention",
    _run,
    blocks=_block,
    wants=lambda i, n: (1, 2, 3),
    type=_type,
    batch=_batch,
)
attention_adjoint = primitive(
    "attention_adjoint",
    _run_adjoint,
    blocks=_adjoint_block,
    wants=lambda i, n: (1, 2, 3, 4),
    type=_adjoint_type,
    batch=_batch,
)
