"""Differentials that are zero by structure in places, and how blocks act on them.

A `where` whose other branch was taken, or an entry that was never read, passes on a structural zero.
It must stay zero even through Diagonal(∞), where 0 · ∞ would be NaN. So a solve carries such
differentials as Masked pairs; everything else stays a plain array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operators import Operator
from ..operators.base import whole


class Masked:
    __slots__ = ("mask", "value")

    def __init__(self, value: Any, mask: Any):
        self.value = value
        self.mask = mask  # True where the differential may be non-zero


def apply(op: Operator, t: Any) -> Any:
    """op applied to a differential, keeping track of structural zeros."""
    if t.__class__ is not Masked:
        image = op.apply(t)
        if not op.masks:
            return image
        support = op.support(None)
    else:
        image = op.apply(t.value)
        support = op.support(t.mask)
    if support is None:
        return image
    return Masked(np.where(support, image, 0), whole(support, image.shape))


def plus(a: Any, b: Any) -> Any:
    if a.__class__ is Masked and b.__class__ is Masked:
        return Masked(a.value + b.value, np.logical_or(a.mask, b.mask))
    return plain(a) + plain(b)


def plain(t: Any) -> Any:
    return t.value if t.__class__ is Masked else t
