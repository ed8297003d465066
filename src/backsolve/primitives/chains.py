"""Linear recurrences in log depth, and the row for those whose factors are matrices.

    s_0 = t_0,    s_j = t_j + A_j s_{j−1}

Two neighbours make one step, (A', t') after (A, t) = (A' A, A' t + t'): half as many steps, whose results are
every second s; the others follow from them. So T steps are 2 log₂ T operations on arrays instead of T of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import Type
from ..operators import BlockRecurrence, Contraction, Product
from ..primitive import Primitive, primitive
from .batching import spread

SHORT = 16  # steps that are taken one after the other in the end

Combine = Callable[[Any, Any], Any]


def by_halves(a: Any, t: Any, times: Combine, onto: Combine) -> Any:
    """All s along the first axis; `times(a', a)` multiplies factors, `onto(a, t)` applies them."""
    n = len(t)
    if n <= SHORT:
        s = np.array(t)
        for j in range(1, n):
            s[j] += onto(a[j : j + 1], s[j - 1 : j])[0]
        return s
    even, odd = slice(0, n - n % 2, 2), slice(1, None, 2)
    later = a[odd]
    half = by_halves(times(later, a[even]), onto(later, t[even]) + t[odd], times, onto)
    s = np.empty_like(t)
    s[0] = t[0]
    s[odd] = half
    s[2::2] = onto(a[2::2], half[: (n - 1) // 2]) + t[2::2]
    return s


def in_log_depth(a: Any, t: Any, times: Combine, onto: Combine) -> Any:
    """The same where it is as good as in order, to rounding; else None.

    Products of factors overflow, or vanish, before what they are applied to does. An overflow shows in the
    result. A product loses at most the ε-th part of the smallest normal number: e of such parts in two
    neighbours of size g become 2 g e + 1 in their product, and reach the states through at most the product of
    all g above 1. So nothing is lost where

        levels · e · Π max(g, 1) · largest state ≤ 1 / ε ;

    else it is looked whether any product has vanished at all.
    """
    size, lost, most, reach = largest(a), 0.0, 1.0, 1.0

    def noted(b: Any, a: Any) -> Any:
        nonlocal size, lost, most, reach
        found = times(b, a)
        lost = 2 * size * lost + 1
        size = largest(found)
        most, reach = max(most, lost), reach * max(size, 1.0)
        return found

    with np.errstate(all="ignore"):
        s = by_halves(a, t, noted, onto)
        if not np.isfinite(s).all():
            return None
        bound = len(t).bit_length() * most * reach * max(largest(s), largest(t))
        if not bound <= 1 / np.finfo(s.dtype).eps and _vanishes(a, times):
            return None
    return s


def largest(a: Any) -> float:
    """|a|, at most a few times too large; NaN if there is one."""
    if a.dtype.kind == "c":
        return 2 * max(largest(a.real), largest(a.imag))
    size = float(np.maximum(a.max(), -a.min())) if a.size else 0.0
    return size * a.shape[-1] if a.ndim > 2 else size  # of matrices the norm counts


def _vanishes(a: Any, times: Combine) -> bool:
    """Whether a product of neighbours, or of such products, falls below the normal numbers."""
    tiny = np.finfo(a.dtype).tiny
    while len(a) > SHORT:
        even, odd = a[0 : len(a) - len(a) % 2 : 2], a[1::2]
        smallest = [np.abs(x).min(where=x != 0, initial=1.0) for x in (even, odd)]
        if smallest[0] * smallest[1] < tiny:
            return True
        a = times(odd, even)
    return False


def in_order(a: Any, t: Any, onto: Combine) -> Any:
    """The same one step after the other, as the recurrence says it."""
    s = np.array(t)
    for j in range(1, len(s)):
        s[j] += onto(a[j], s[j - 1])
    return s


def times_matrices(b: Any, a: Any) -> Any:
    if a.shape[-1] > 2:
        return b @ a
    # A call of BLAS for each matrix of so few entries takes longer than this.
    total = b[..., :, 0, None] * a[..., 0, None, :]
    for k in range(1, a.shape[-1]):
        total += b[..., :, k, None] * a[..., k, None, :]
    return total


def onto_vectors(a: Any, t: Any) -> Any:
    return np.einsum("...ij,...j->...i", a, t)


# A step of a loop in Python takes about 2 µs, a product of two matrices n³ / 2 ns and some 100 ns around it.
MOST_BLOCK = 16
FEWEST_STEPS = 64
MOST_ENTRIES = 128  # side by side, from where the loop over steps is as fast


def pays_for_blocks(steps: int, n: int) -> bool:
    return steps >= FEWEST_STEPS and n <= MOST_BLOCK


def pays_for_entries(steps: int, width: int) -> bool:
    return steps >= (FEWEST_STEPS if width > 1 else 4 * FEWEST_STEPS) and width <= MOST_ENTRIES


def _run(a: Any, t: Any, *, reverse: bool) -> Any:
    dtype = np.result_type(a, t)
    shape = (*np.broadcast_shapes(a.shape[:-2], t.shape[:-1]), t.shape[-1])
    a = np.moveaxis(np.broadcast_to(a, (*shape, t.shape[-1])), -3, 0).astype(dtype, copy=False)
    t = np.moveaxis(np.broadcast_to(t, shape), -2, 0).astype(dtype, copy=False)
    if reverse:
        a, t = a[::-1], t[::-1]
    s = None
    if dtype.kind in "fc" and pays_for_blocks(len(t), t.shape[-1]):
        s = in_log_depth(a, t, times_matrices, onto_vectors)
    if s is None:
        s = in_order(a, t, onto_vectors)
    return np.ascontiguousarray(np.moveaxis(s[::-1] if reverse else s, 0, -2))


def _type(a: Type, t: Type, *, reverse: bool) -> Type:
    if len(a.shape) != len(t.shape) + 1 or a.shape != (*t.shape, t.shape[-1]):
        raise ValueError(
            f"block_recurrence needs matrices (…, steps, n, n) and vectors (…, steps, n); "
            f"got {a.shape} and {t.shape}"
        )
    return Type(t.shape, np.result_type(a.dtype, t.dtype))


def _batched(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    return prim(
        *[x if b else spread(x, size) for x, b in zip(args, batched, strict=True)], **params
    )


def _before(y: Any, reverse: bool) -> Any:
    """s_{j−1} at place j (s_{j+1} when reversed), 0 where nothing stands before."""
    if y.shape[-2] == 0:
        return y
    edge = np.zeros((*y.shape[:-2], 1, y.shape[-1]), y.dtype)
    if reverse:
        return np.concatenate([y[..., 1:, :], edge], axis=-2)
    return np.concatenate([edge, y[..., :-1, :]], axis=-2)


def _to_factors(y: Any, a: Any, reverse: bool) -> Product:
    letters = "abcdefgh"[: y.ndim - 2]
    onto = Contraction(
        f"{letters}tij,{letters}tj->{letters}ti",
        0,
        (None, _before(y, reverse)),
        Type(a.shape, a.dtype),
    )
    return Product([BlockRecurrence(a, reverse), onto])


# ds_j = dt_j + A_j ds_{j−1} + dA_j s_{j−1}
block_recurrence = primitive(
    "block_recurrence",
    _run,
    blocks=(
        lambda y, a, *, reverse: _to_factors(y, a, reverse),
        lambda a, *, reverse: BlockRecurrence(a, reverse),
    ),
    type=_type,
    batch=_batched,
)
