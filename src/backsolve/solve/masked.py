"""Differentials that are zero by structure in places, and how blocks act on them.

A `where` whose other branch was taken, or an entry that was never read, passes on a structural zero.
It must stay zero even through Diagonal(∞), where 0 · ∞ would be NaN. So a solve carries such
differentials as Masked pairs; everything else stays a plain array.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..ir import Var, without_repeats
from ..operators import Erase, EraseAt, Operator, OperatorSum, Product, ScatterAdd, Unslice
from ..operators.base import whole
from ..operators.slice import key_of
from ..row import Row
from ..trace import is_in_region


class Masked:
    __slots__ = ("mask", "value")

    def __init__(self, value: Any, mask: Any):
        self.value = value
        self.mask = mask  # True where the differential may be non-zero


# Arrays that are read and written entry by entry: given to a region, or made by writing into one.
_MEMORY = frozenset(["leaf", "alias", "scatter_set", "slice_update", "component"])
_TURNED = ("permute", "reshape")


def is_kept_entry_by_entry(op: Operator, row: Row) -> bool:
    """Whether to keep no track of which entries of an adjoint are structurally zero.

    In a loop that reads and writes single entries a mask would cost as much as the whole array each round.
    Such an adjoint is a number 0 where nothing was read.
    """
    return (
        op.__class__ in (Unslice, ScatterAdd, Erase, EraseAt) and _is_memory(row) and is_in_region()
    )


def _is_memory(row: Row) -> bool:
    while row.primitive.name in _TURNED and row.parents[0].__class__ is Row:
        row = row.parents[0]
    return row.primitive.name in _MEMORY


def apply(op: Operator, t: Any, ahead: bool = False) -> Any:
    """op applied to a differential, keeping track of structural zeros.

    Back, what is zero in all entries will be skipped; ahead nothing is.
    """
    is_masked = t.__class__ is Masked
    image = op.apply(plain(t))
    is_skipped = op.moves_entries and not ahead
    if not (is_masked or op.masks) or (not is_skipped and _is_checked(image)):
        return image
    support = op.support(t.mask if is_masked else None)
    if support is None:
        return image
    if not (op.moves_entries or _is_finite(image)):  # 0 · ∞ is zero by structure
        image = np.where(support, image, 0)
    return Masked(image, whole(support, image.shape))


def _is_finite(image: Any) -> bool:
    """Whether it is known that nothing in it is infinite or NaN, so that every zero stayed one."""
    return type(image) is np.ndarray and bool(np.isfinite(np.add.reduce(image, axis=None)))


def _is_checked(image: Any) -> bool:
    """Whether who records it will look for NaN, and solve once more if there are."""
    var = getattr(image, "_v", None)
    return type(var) is Var and var.recorder.is_checked


def pull(op: Operator, t: Any) -> Any:
    """The adjoint applied, factor by factor; None if that is zero by structure.

    Terms that take parts of t are skipped where these are zero: who differentiates singular values alone
    does not pay for the vectors.
    """
    if op.__class__ is Product:
        for a in op.factors:
            t = pull(a, t)
            if t is None:
                return None
        return t
    if op.__class__ is OperatorSum:
        images = [g for a in op.terms if (g := pull(a, t)) is not None]
        return reduce(plus, images) if images else None
    if t.__class__ is not Masked:
        return apply(op.T, t) if op.adjoint_masks else op.pull(t)
    if op.__class__ is Unslice and type(t.mask) is np.ndarray:
        part = t.mask[key_of(op.spec)]
        if not part.any():
            return None
        if part.all():
            return op.pull(t.value)
    return apply(op.T, t)


def plus(a: Any, b: Any) -> Any:
    if a.__class__ is Masked and b.__class__ is Masked:
        mask = _either(a.mask, b.mask)
        if type(mask) is np.ndarray and without_repeats(mask).all():  # parts that cover the whole
            return a.value + b.value
        return Masked(a.value + b.value, mask)
    return plain(a) + plain(b)


def _either(a: Any, b: Any) -> Any:
    """Where one of two masks holds: an array of its own, but where both repeat entries."""
    if all(type(x) is np.ndarray and 0 in x.strides for x in (a, b)):
        return np.broadcast_to(np.logical_or(*map(without_repeats, (a, b))), a.shape)
    return np.logical_or(a, b)


def plain(t: Any) -> Any:
    return t.value if t.__class__ is Masked else t
