"""Matrix: x ↦ A x for vectors, or column by column for matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from .base import Cost, Operator, show


class Matrix(Operator):
    """x ↦ A x for vectors, or column by column for matrices.

    >>> import numpy as np
    >>> Matrix(np.array([[1.0, 2.0]])).T.apply(np.array([3.0]))
    array([3., 6.])
    """

    __slots__ = ("A",)

    def __init__(self, A: Any):
        self.A = A

    def apply(self, t: Any) -> Any:
        return np.matmul(self.A, t)

    @property
    def T(self) -> Operator:
        return Matrix(np.conjugate(np.transpose(self.A)))

    @property
    def in_type(self) -> Type:
        return Type((self.A.shape[1],), np.result_type(0.0, self.A.dtype))

    @property
    def out_type(self) -> Type:
        return Type((self.A.shape[0],), np.result_type(0.0, self.A.dtype))

    def __call__(self, t: Any) -> Any:
        return self.apply(t)

    @property
    def cost(self) -> Cost:
        m, n = self.A.shape
        return Cost(m * n, m * max(n - 1, 0), self.A.nbytes)

    def dense(self) -> Any:
        return np.asarray(self.A, self.in_type.dtype)

    def __repr__(self) -> str:
        return f"Matrix({show(self.A)})"
