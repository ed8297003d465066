"""OperatorSum: A + B + …, with like terms joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..ir import Type
from .base import Cost, Operator, facts_of_sum
from .block import Block
from .diagonal import Diagonal
from .identity import Identity
from .matrix import Matrix
from .scale import Scale
from .zero import Zero


class OperatorSum(Operator):
    """t ↦ A t + B t + …"""

    __slots__ = ("terms",)

    def __init__(self, terms: Sequence[Operator]):
        self.terms = tuple(terms)

    def apply(self, t: Any) -> Any:
        out = self.terms[0].apply(t)
        for a in self.terms[1:]:
            image = a.apply(t)
            if isinstance(out, tuple):
                out = tuple(x + y for x, y in zip(out, image, strict=True))
            else:
                out = out + image
        return out

    @property
    def T(self) -> Operator:
        return OperatorSum([a.T for a in self.terms])

    @property
    def in_type(self) -> Any:
        return next((a.in_type for a in self.terms if a.in_type is not None), None)

    @property
    def out_type(self) -> Any:
        return next((a.out_type for a in self.terms if a.out_type is not None), None)

    @property
    def structure(self) -> frozenset[str]:
        return facts_of_sum([a.structure for a in self.terms])

    @property
    def cost(self) -> Cost:
        out = self.out_type
        size = out.size if isinstance(out, Type) else 1
        return sum((a.cost for a in self.terms), Cost(additions=(len(self.terms) - 1) * size))

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return OperatorSum([a.typed(in_type, out_type) for a in self.terms])

    def __repr__(self) -> str:
        return " + ".join(repr(a) for a in self.terms)


def total(terms: Sequence[Operator]) -> Operator:
    """A + B + …: flatten, check, join like terms."""
    flat: list[Operator] = []
    for a in terms:
        flat.extend(a.terms if isinstance(a, OperatorSum) else [a])
    shapes = {a.out_type.shape for a in flat if isinstance(a.out_type, Type)}
    if len(shapes) > 1:
        raise ShapeError(f"cannot add operators that give shapes {sorted(shapes)}: {flat}")
    joined: list[Operator] = []
    for b in flat:
        if isinstance(b, Zero):
            continue
        for k, a in enumerate(joined):
            both = _join(a, b)
            if both is not None:
                joined[k] = both
                break
        else:
            joined.append(b)
    if not joined:
        return flat[0]
    return joined[0] if len(joined) == 1 else OperatorSum(joined)


def _join(a: Operator, b: Operator) -> Operator | None:
    """One operator for the sum of two of a kind."""
    if isinstance(a, Block):
        return a.plus(b)
    if isinstance(b, Block):
        return b.plus(a)
    type_ = a.in_type or b.in_type
    x, y = _as_diagonal(a), _as_diagonal(b)
    if x is not None and y is not None:
        if isinstance(a, Diagonal) or isinstance(b, Diagonal):
            return Diagonal(x + y, type_)
        joined = Scale(x + y, type_)
        return Zero(type_, type_) if joined.is_exactly(0) else joined
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        return Matrix(a.A + b.A)
    return None


def _as_diagonal(a: Operator) -> Any:
    if isinstance(a, Identity):
        return 1.0
    if isinstance(a, Scale):
        return a.factor
    return a.d if isinstance(a, Diagonal) else None
