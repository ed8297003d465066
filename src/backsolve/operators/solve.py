"""Solve, TriangularSolve, BandedSolve: B ↦ A⁻¹ B for stacks of matrices; the adjoint solves with Aᴴ.

A triangular solve reads one triangle of A (without its diagonal if that counts as ones) and nothing else.
A banded one has the diagonals of A as rows, bands[u + i − j, j] = A[i, j].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, Operator, fitted, promoted, show


def adjoint(a: Any) -> Any:
    """Aᴴ of every matrix of a stack."""
    turned = np.swapaxes(a, -1, -2)
    return np.conjugate(turned) if a.dtype.kind == "c" else turned


class _Solve(Operator):
    """What both have in common. `A` is (…, n, n); the type is that of B, (…, n, k)."""

    __slots__ = ("A", "_type")

    def __init__(self, A: Any, type: Any = None):
        self.A = A
        self._type = type

    @property
    def in_type(self) -> Type:
        t = self._type if self._type is not None else self.A
        return Type(tuple(t.shape), np.dtype(t.dtype))

    out_type = in_type

    def _retyped(self, type: Type) -> _Solve:
        raise NotImplementedError

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return fitted(self._retyped(promoted(in_type, self.A)), in_type, out_type)

    @property
    def cost(self) -> Cost:
        """The substitutions; a factorisation comes on top in Solve."""
        t = self.in_type
        n = t.shape[-2]
        moved = (2 * t.size + self.A.size) * t.dtype.itemsize
        return Cost(t.size * (n + 1) // 2, t.size * max(n - 1, 0) // 2, moved)


class Solve(_Solve):
    """B ↦ A⁻¹ B for a stack of square matrices A."""

    __slots__ = ()

    def apply(self, t: Any) -> Any:
        return P.solve(self.A, t)

    @property
    def T(self) -> Operator:
        return Solve(adjoint(self.A), self.in_type)

    def _retyped(self, type: Type) -> _Solve:
        return Solve(self.A, type)

    @property
    def cost(self) -> Cost:
        once = super().cost
        steps = self.A.size * self.A.shape[-1] // 3
        return Cost(2 * once.multiplications + steps, 2 * once.additions + steps, once.bytes)

    def __repr__(self) -> str:
        return f"Solve({show(self.A)})"


class TriangularSolve(_Solve):
    """B ↦ A⁻¹ B with one triangle of A; with `unit` its diagonal counts as ones."""

    __slots__ = ("lower", "unit")

    def __init__(self, A: Any, lower: bool, unit: bool = False, type: Any = None):
        super().__init__(A, type)
        self.lower = lower
        self.unit = unit

    def apply(self, t: Any) -> Any:
        return P.triangular_solve(self.A, t, lower=self.lower, unit=self.unit)

    @property
    def T(self) -> Operator:
        return TriangularSolve(adjoint(self.A), not self.lower, self.unit, self.in_type)

    def read(self) -> Any:
        """The triangle that is read, with its diagonal."""
        part = np.tril(self.A) if self.lower else np.triu(self.A)
        if not self.unit:
            return part
        one = np.eye(self.A.shape[-1], dtype=self.A.dtype)
        return part * (1 - one) + one

    def _retyped(self, type: Type) -> _Solve:
        return TriangularSolve(self.A, self.lower, self.unit, type)

    def __repr__(self) -> str:
        which = "lower" if self.lower else "upper"
        return f"TriangularSolve({show(self.A)}, {which}{', unit' if self.unit else ''})"


class BandedSolve(_Solve):
    """B ↦ A⁻¹ B with A given by its bands, as scipy.linalg.solve_banded wants them."""

    __slots__ = ("lower", "upper")

    def __init__(self, bands: Any, lower: int, upper: int, type: Any):
        super().__init__(bands, type)
        self.lower, self.upper = lower, upper

    def apply(self, t: Any) -> Any:
        return P.banded_solve(self.A, t, lower=self.lower, upper=self.upper)

    @property
    def T(self) -> Operator:
        turned = adjoint_bands(self.A, self.lower)
        return BandedSolve(turned, self.upper, self.lower, self.in_type)

    def _retyped(self, type: Type) -> _Solve:
        return BandedSolve(self.A, self.lower, self.upper, type)

    @property
    def cost(self) -> Cost:
        t, width = self.in_type, self.lower + self.upper + 1
        work = t.size * width + self.A.size * self.lower
        return Cost(work, work, (2 * t.size + self.A.size) * t.dtype.itemsize)

    def __repr__(self) -> str:
        return f"BandedSolve({show(self.A)}, {self.lower}, {self.upper})"


def adjoint_bands(bands: Any, lower: int) -> Any:
    """The diagonals of Aᴴ: turned[d, j] = conj A[j, j + d − l], from the last row to the first."""
    count, n = bands.shape[-2:]
    d, j = np.ogrid[:count, :n]
    place = j + d - lower
    inside = (place >= 0) & (place < n)
    turned = bands[..., count - 1 - d, np.clip(place, 0, max(n - 1, 0))]
    turned = np.where(inside, turned, np.zeros((), bands.dtype))
    return np.conjugate(turned) if bands.dtype.kind == "c" else turned
