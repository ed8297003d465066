"""Sums of single precision over many entries, as near to the truth as NumPy's, which adds in pairs.

A total of millions grows, what is added to it does not, and so loses its digits: 40 million times 0.1 was
0.3 % off. A long loop therefore adds up blocks of entries in single precision, in vector registers, and the
blocks in double precision. Sums along another axis than the last are added row by row, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from .elementwise import combine, start_of
from .numbers.registers import Register, convert

BLOCK = 8192  # entries summed up in single precision: some hundreds in each part of a register
ROWS = 64  # rows from which on their totals are added up in double precision
WIDE: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype("f4"): np.dtype("f8"),
    np.dtype("c8"): np.dtype("c16"),
}
NARROW = {wide: narrow for narrow, wide in WIDE.items()}


def wide_dtype(how: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What many numbers of this dtype are combined in."""
    return WIDE.get(dtype, dtype) if how == "add" else dtype


def entry_dtype(how: str, entry: np.dtype[Any] | None, total: np.dtype[Any]) -> np.dtype[Any]:
    """What a few entries are combined in, where their total may be a wide one."""
    is_wider = how == "add" and entry is not None and NARROW.get(total) == entry
    return entry if is_wider and entry is not None else total


class Totals:
    """Running totals of blocks: those of a block, in `inside`, go into those of all, in `dtypes`."""

    def __init__(self, hows: Sequence[str], inside: Sequence[np.dtype[Any]]):
        self.hows, self.inside = hows, inside
        self.dtypes = [wide_dtype(how, t) for how, t in zip(hows, inside, strict=True)]

    @property
    def are_wider(self) -> bool:
        return self.dtypes != list(self.inside)

    def starts(self) -> list[Register]:
        return [start_of(how, t) for how, t in zip(self.hows, self.dtypes, strict=True)]

    def before(self, state: Sequence[Register]) -> list[Register]:
        """What a block starts from."""
        kinds = zip(self.hows, self.inside, self.dtypes, state, strict=True)
        return [now if t == wide else start_of(how, t) for how, t, wide, now in kinds]

    def after(
        self, b: ir.IRBuilder, state: Sequence[Register], block: Sequence[Register]
    ) -> list[Register]:
        kinds = zip(self.hows, self.inside, self.dtypes, state, block, strict=True)
        return [
            new if t == wide else combine(b, how, now, convert(b, new, t, wide), wide)
            for how, t, wide, now, new in kinds
        ]
