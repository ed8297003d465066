"""Several arrays as one flat, real vector, and back: what a linear solve works on."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..ir import Type
from ..tensor import Staged, Tensor


class Packing:
    """Arrays of these types, one after the other; of a complex one the real parts, then the imaginary ones.

    So a map that is linear over the reals alone (it takes a conjugate, say) is solved like any other, and the
    inner product of two vectors is that of operators, Re Σ ū v.
    """

    def __init__(self, types: Sequence[Type], what: str):
        for t in types:
            if t.dtype.kind not in "fc":
                raise NotDifferentiableError(
                    f"{what} must be floating-point numbers, got {t.dtype}: write 0.0 for 0"
                )
        self.types = list(types)
        self.dtype = np.result_type(np.float32, *[np.empty(0, t.dtype).real.dtype for t in types])

    @property
    def size(self) -> int:
        return sum(t.size * (2 if t.dtype.kind == "c" else 1) for t in self.types)

    @property
    def type(self) -> Type:
        """Of the vector."""
        return Type((self.size,), self.dtype)

    @property
    def eps(self) -> float:
        """The coarsest of all: what is left of a finer equation may be the rounding of another's unknowns."""
        kinds = {self.dtype, *[np.empty(0, t.dtype).real.dtype for t in self.types]}
        return max(float(np.finfo(kind).eps) for kind in kinds)

    def pack(self, leaves: Sequence[Any]) -> Any:
        """None stands for zeros."""
        pieces: list[Any] = []
        for x, t in zip(leaves, self.types, strict=True):
            if x is None:
                x = np.zeros(t.shape, t.dtype)
            flat = np.reshape(x, -1)
            if t.dtype.kind == "c":
                pieces += [np.real(flat), np.imag(flat)]
            else:
                pieces.append(flat)
        whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return whole if whole.dtype == self.dtype else whole.astype(self.dtype)

    def unpack(self, vector: Any) -> list[Any]:
        leaves, start = [], 0
        for t in self.types:
            n = prod(t.shape)
            part = vector[start : start + n]
            start += n
            if t.dtype.kind == "c":
                part = part + 1j * vector[start : start + n]
                start += n
            part = np.reshape(part, t.shape)
            leaves.append(part if part.dtype == t.dtype else part.astype(t.dtype))
        return leaves


def plain(x: Any) -> Any:
    """A value without the rows that it came by: an array, or, while a Program is staged, a constant of it."""
    if isinstance(x, Tensor):
        x = x.detach()
        x = x if isinstance(x, Staged) else x._v
    return x if hasattr(x, "dtype") else np.asarray(x)[()]
