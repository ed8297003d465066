"""Product: A @ B @ …, and the rules by which neighbours simplify each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir import Type
from .base import Cost, Operator, facts_of_product
from .block import Block
from .broadcast import Broadcast, SumTo
from .cast import Conjugate
from .contraction import Contraction, fuse
from .diagonal import Diagonal
from .identity import Identity
from .inverse import Inverse
from .mask import Mask
from .matrix import Matrix
from .reshape import Reshape, Transpose
from .scale import Scale
from .sum import OperatorSum
from .zero import Zero


class Product(Operator):
    """Applied from right to left. Made by `@`, which simplifies first."""

    __slots__ = ("factors",)

    def __init__(self, factors: Sequence[Operator]):
        self.factors = tuple(factors)

    def apply(self, t: Any) -> Any:
        for a in reversed(self.factors):
            t = a.apply(t)
        return t

    def support(self, mask: Any) -> Any:
        for a in reversed(self.factors):
            mask = a.support(mask) if mask is not None or a.masks else None
        return mask

    @property
    def masks(self) -> bool:  # type: ignore[override]  # elsewhere the class knows
        return any(a.masks for a in self.factors)

    @property
    def adjoint_masks(self) -> bool:  # type: ignore[override]  # likewise
        return any(a.adjoint_masks for a in self.factors)

    def pull(self, t: Any) -> Any:
        for a in self.factors:
            t = a.pull(t)
        return t

    @property
    def T(self) -> Operator:
        return Product([a.T for a in reversed(self.factors)])

    @property
    def in_type(self) -> Any:
        return self.factors[-1].in_type

    @property
    def out_type(self) -> Any:
        return self.factors[0].out_type

    @property
    def structure(self) -> frozenset[str]:
        return facts_of_product([a.structure for a in self.factors])

    @property
    def cost(self) -> Cost:
        return sum((a.cost for a in self.factors), Cost())

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        """Types run from the right: each factor's output is the next one's input."""
        typed: list[Operator] = []
        for k, a in reversed(list(enumerate(self.factors))):
            typed.append(a.typed(in_type, None if k else out_type))
            in_type = typed[-1].out_type
        return product(typed[::-1])

    def __repr__(self) -> str:
        return " @ ".join(f"({a})" if isinstance(a, OperatorSum) else repr(a) for a in self.factors)


def product(factors: Sequence[Operator]) -> Operator:
    """A @ B @ …: flatten, check, and simplify neighbours until nothing changes."""
    flat: list[Operator] = []
    for a in factors:
        flat.extend(a.factors if isinstance(a, Product) else [a])
    for a, b in pairwise(flat):
        _check(a, b)
    k = 0
    while k < len(flat) - 1:
        joined = _simplify(flat[k], flat[k + 1])
        if joined is None:
            k += 1
        else:
            flat[k : k + 2] = [joined]
            k = max(k - 1, 0)
    return flat[0] if len(flat) == 1 else Product(flat)


def _check(a: Operator, b: Operator) -> None:
    x, y = a.in_type, b.out_type
    if (
        isinstance(x, Type)
        and isinstance(y, Type)
        and x.shape != y.shape
        and not isinstance(a, Matrix)
    ):
        raise ShapeError(
            f"cannot compose {a!r}, which takes {x.shape}, with {b!r}, which gives {y.shape}"
        )


def _same(a: Operator, b: Operator) -> Any:
    return a.in_type or b.in_type


# (kind of A, kind of B) -> A @ B in simpler form, or None
_Rule = Callable[[Any, Any], Operator | None]
_RULES: list[tuple[type, type, _Rule]] = [
    (Identity, Operator, lambda a, b: b),
    (Operator, Identity, lambda a, b: a),
    (Zero, Operator, lambda a, b: Zero(b.in_type, a.out_type or b.out_type)),
    (Operator, Zero, lambda a, b: Zero(b.in_type or a.in_type, a.out_type)),
    (Scale, Scale, lambda a, b: Scale(a.factor * b.factor, _same(a, b))),
    (Scale, Diagonal, lambda a, b: Diagonal(a.factor * b.d, b._type)),
    (Diagonal, Scale, lambda a, b: Diagonal(a.d * b.factor, a._type)),
    (Diagonal, Diagonal, lambda a, b: Diagonal(a.d * b.d, a._type or b._type)),
    (Mask, Mask, lambda a, b: Mask(np.logical_and(a.mask, b.mask), a._type)),
    (Conjugate, Conjugate, lambda a, b: Identity(a.in_type)),
    (Reshape, Reshape, lambda a, b: Reshape(b._in, a.target)),
    (Transpose, Transpose, lambda a, b: Transpose(b._in, tuple(b.axes[k] for k in a.axes))),
    (Broadcast, Broadcast, lambda a, b: Broadcast(b._in, a.target)),
    (SumTo, SumTo, lambda a, b: SumTo(b._in, a.target)),
    (Contraction, Contraction, fuse),
    (Matrix, Matrix, lambda a, b: Matrix(a.A @ b.A)),
    (Matrix, Scale, lambda a, b: Matrix(a.A * b.factor)),
    (Scale, Matrix, lambda a, b: Matrix(a.factor * b.A)),
    (Inverse, Operator, lambda a, b: Identity(b.in_type) if a.A is b else None),
    (Operator, Inverse, lambda a, b: Identity(b.in_type) if b.A is a else None),
    (Block, Block, lambda a, b: a.times(b)),
    (Scale, Block, lambda a, b: b.scaled(a.factor)),
]


def _simplify(a: Operator, b: Operator) -> Operator | None:
    for kind_a, kind_b, rule in _RULES:
        if isinstance(a, kind_a) and isinstance(b, kind_b):
            joined = rule(a, b)
            if joined is not None:
                return _tidy(joined)
    return None


def _tidy(a: Operator) -> Operator:
    """Maps that turn out to be the identity are written so."""
    if isinstance(a, Reshape | Broadcast | SumTo) and a.in_type.shape == a.target:
        return Identity(a.in_type)
    if isinstance(a, Transpose) and a.axes == tuple(range(len(a.axes))):
        return Identity(a.in_type)
    if isinstance(a, Scale) and a.is_exactly(1):
        return Identity(a.in_type)
    return a
