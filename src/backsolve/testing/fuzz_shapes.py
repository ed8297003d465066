"""Random steps that look at shapes: views, broadcasts, joins, indexing, products. See fuzz_steps.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor
from .fuzz_steps import Made, Pool, distinct, fits


def put(a: Any, key: Any, v: Any) -> Any:
    """A copy of `a` with `v` written into it at `key`."""
    a = Tensor(a) if isinstance(v, Tensor) and not isinstance(a, Tensor) else a.copy()
    a[key] = v
    return a


def view(pool: Pool) -> Made:
    k = pool.array()
    if k is None:
        return None
    v = pool.values[k]
    kind = pool.below(6)
    if kind <= 1:
        return f"{{0}}[{_basic_key(pool, v.shape)}]", (k,)
    if kind == 2:
        return f"np.transpose({{0}}, {tuple(int(a) for a in pool.rng.permutation(v.ndim))})", (k,)
    if kind == 3:
        shapes = [(-1,), (1, *v.shape), (*v.shape, 1), v.shape[::-1]] if v.size else [v.shape[::-1]]
        if v.size % 2 == 0 and v.size:
            shapes += [(2, v.size // 2), (v.size // 2, 2)]
        return f"np.reshape({{0}}, {pool.pick(shapes)})", (k,)
    if kind == 4:
        return f"np.flip({{0}}, {pool.axis(k)})", (k,)
    return f"np.squeeze({{0}})[{'None, ' if pool.chance(0.5) else ''}...]", (k,)


def _basic_key(pool: Pool, shape: tuple[int, ...]) -> str:
    words = []
    for n in shape:
        kind = pool.below(6)
        if kind == 0 and n:
            words.append(str(pool.below(n) - (n if pool.chance(0.3) else 0)))
        elif kind == 1:
            words.append("::-1")
        elif kind == 2:
            words.append(f"{pool.below(n + 1)}:")
        elif kind == 3:
            words.append("::2")
        else:
            words.append(":")
    if pool.chance(0.3):
        words.insert(pool.below(len(words) + 1), "None")
    return ", ".join(words)


def spreading(pool: Pool) -> Made:
    k = pool.array(least=0)
    m = pool.array(least=0)
    if k is None or m is None:
        return None
    v, w = pool.values[k], pool.values[m]
    if pool.chance(0.4):
        return f"np.broadcast_to({{0}}, {(pool.below(4), *v.shape)})", (k,)
    if pool.chance(0.5) and v.ndim == 1 and w.ndim in (1, 2):
        return "{0}[:, None] * {1}" if w.ndim == 1 else "{0}[:, None, None] + {1}", (k, m)
    return f"np.expand_dims({{0}}, {pool.below(v.ndim + 1)})", (k,)


def joining(pool: Pool) -> Made:
    k = pool.array()
    if k is None:
        return None
    v, axis = pool.values[k], pool.axis(k)

    def joins(w: Any) -> bool:
        rest = lambda s: (*s[:axis], *s[axis + 1 :])
        return w.ndim == v.ndim and rest(w.shape) == rest(v.shape)

    m = pool.value(joins)
    assert m is not None
    kind = pool.below(5)
    if kind <= 1:
        return f"np.concatenate([{{0}}, {{1}}, {{0}}][:{2 + pool.below(2)}], axis={axis})", (k, m)
    if kind == 2:
        same = pool.value(lambda w: w.shape == v.shape)
        assert same is not None
        return f"np.stack([{{0}}, {{1}}], axis={axis})", (k, same)
    if kind == 3:
        return f"np.roll({{0}}, {1 + pool.below(3)}, axis={axis})", (k,)
    widths = [(pool.below(2), pool.below(3)) for _ in v.shape]
    return f"np.pad({{0}}, {widths})", (k,)


def indexing(pool: Pool) -> Made:
    k = pool.array()
    if k is None or not pool.values[k].shape[0]:
        return None
    v, n = pool.values[k], pool.values[k].shape[0]
    index = f"np.array({[pool.below(n) - (n if pool.chance(0.2) else 0) for _ in range(3)]})"
    kind = pool.below(6)
    if kind == 0:
        return f"{{0}}[{index}]", (k,)
    if kind == 1:
        m = pool.array("i", 0)
        return None if m is None else (f"{{0}}[{{1}} % {n}]", (k, m))
    if kind == 2:
        axis = pool.axis(k)
        if not distinct(v, axis):
            return None
        words = f"np.argsort({{0}}, axis={axis}, stable=True), axis={axis}"
        return f"np.take_along_axis({{0}}, {words})", (k,)
    if kind == 3:
        chosen = sorted({pool.below(n) for _ in range(3)})
        key, shape = f"np.array({chosen})", (len(chosen), *v.shape[1:])
    else:
        words = _basic_key(pool, v.shape).replace("None, ", "").replace(", None", "")
        if "None" in words:
            return None
        key, shape = f"np.s_[{words}]", np.zeros(v.shape)[eval(f"np.s_[{words}]")].shape
    m = pool.value(
        lambda w: (
            fits(shape, w.shape)
            and np.broadcast_shapes(shape, w.shape) == shape
            and np.can_cast(w.dtype, v.dtype, "same_kind")
        )
    )
    return None if m is None else (f"put({{0}}, {key}, {{1}})", (k, m))


# ---- products


def product(pool: Pool) -> Made:
    k = pool.array("fic")
    if k is None:
        return None
    v = pool.values[k]
    labels = "ijkl"[: v.ndim]
    lengths = dict(zip(labels, v.shape, strict=True))
    m = pool.array("fic")
    assert m is not None
    others, free = "", "mnopq"
    for n in pool.values[m].shape:  # share a label where the length allows it
        same = [c for c in labels if lengths[c] == n and c not in others]
        if same and pool.chance(0.7):
            others += pool.pick(same)
        else:
            others, free = others + free[0], free[1:]
    every = list(dict.fromkeys(labels + others))
    kept = [c for c in every if pool.chance(0.3 if c in labels and c in others else 0.6)]
    output = "".join(pool.pick([kept, kept[::-1]]))
    return f"np.einsum('{labels},{others}->{output}', {{0}}, {{1}}) * 0.25", (k, m)


def matrix_product(pool: Pool) -> Made:
    k = pool.array("fc")
    if k is None:
        return None
    v = pool.values[k]
    m = pool.value(
        lambda w: w.dtype.kind in "fc" and 1 <= w.ndim <= 2 and w.shape[0] == v.shape[-1]
    )
    if m is not None:
        return "{0} @ {1} * 0.5", (k, m)
    return ("{0} @ np.swapaxes({0}, -1, -2) * 0.5", (k,)) if v.ndim > 1 else None


MAKERS: dict[Callable[[Pool], Made], float] = {
    view: 2.5,
    spreading: 1.2,
    joining: 1.2,
    indexing: 1.5,
    product: 1,
    matrix_product: 1,
}
NAMES = {"put": put}
