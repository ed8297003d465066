"""Pair: a map between complex arrays that is linear over the reals, by entries.

    A t = P t + Q t̄

There is no Q where it is linear over ℂ (holomorphic), and then it costs nothing. Products and sums stay pairs:

    (P, Q) (R, S) = (P R + Q S̄, P S + Q R̄)

Of a real argument t̄ = t: all is P. Of a real result all is real, once the argument is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...hooks import hooks
from ..base import Cost, Operator
from ..cast import Cast, Conjugate, RealPart
from ..contraction import Contraction
from ..convolution import Convolution
from ..diagonal import Diagonal
from ..product import Product
from ..recurrence import Cumsum
from ..scale import Scale
from ..sum import OperatorSum
from .entries import Entries
from .terms import is_known
from .written import entries_of, entries_over_its_field, matrix_entries


class Pair(Operator):
    __slots__ = ("p", "q")

    def __init__(self, p: Entries, q: Entries | None = None):
        self.p, self.q = p, q

    @property
    def in_type(self) -> Any:
        return self.p.in_type

    @property
    def out_type(self) -> Any:
        return self.p.out_type

    @property
    def T(self) -> Operator:
        """⟨u, P t + Q t̄⟩ = ⟨P* u + Qᵀ ū, t⟩ under Re Σ ū v."""
        q = None if self.q is None else _turned(self.q)
        return Pair(_conjugate(_turned(self.p)), q)

    def apply(self, t: Any) -> Any:
        image = self.p.apply(t)
        return image if self.q is None else image + self.q.apply(np.conjugate(t))

    @property
    def cost(self) -> Cost:
        return self.p.cost if self.q is None else self.p.cost + self.q.cost

    def times(self, other: Pair) -> Operator:
        p = self.p.times(other.p)
        q = None if other.q is None else self.p.times(other.q)
        if self.q is not None:
            across = self.q.times(_conjugate(other.p))
            q = across if q is None else q.plus(across)
            if other.q is not None:
                p = p.plus(self.q.times(_conjugate(other.q)))
        return settled(Pair(p, q))

    def plus(self, other: Pair) -> Operator:
        both = [q for q in (self.q, other.q) if q is not None]
        return settled(Pair(self.p.plus(other.p), both[0].plus(*both[1:]) if both else None))

    def __repr__(self) -> str:
        return f"Pair({self.p!r}, {self.q!r})"


def is_complex(a: Operator) -> bool:
    return a.in_type.dtype.kind == "c" or a.out_type.dtype.kind == "c" or isinstance(a, Pair)


def without_complex_parts(a: Operator) -> Operator:
    """A map between real arrays that goes through complex ones, as real entries; others as they are."""
    parts = a.factors if isinstance(a, Product) else a.terms if isinstance(a, OperatorSum) else ()
    return settled(pair_of(a)) if any(map(is_complex, parts)) and not is_complex(a) else a


def settled(a: Pair) -> Operator:
    """As real entries where both ends are real, without Q where the argument is."""
    if a.in_type.dtype.kind == "c":
        return a
    p = a.p if a.q is None else a.p.plus(a.q)
    return Pair(p) if a.out_type.dtype.kind == "c" else p.mapped(np.real)


def pair_of(a: Operator) -> Pair:
    """The same map as a pair."""
    if isinstance(a, Pair):
        return a
    if isinstance(a, Product):
        found: Operator = pair_of(a.factors[-1])
        for factor in a.factors[-2::-1]:
            found = pair_of(factor).times(pair_of(found))
        return pair_of(found)
    if isinstance(a, OperatorSum):
        total: Operator = pair_of(a.terms[0])
        for term in a.terms[1:]:
            total = pair_of(total).plus(pair_of(term))
        return pair_of(total)
    if not is_complex(a):
        return Pair(entries_of(a))
    if isinstance(a, Conjugate):
        e = entries_over_its_field(Scale(1.0, a.in_type))
        return Pair(Entries(a.in_type, a.out_type, []), e)
    if isinstance(a, RealPart | Cast) and a.in_type.dtype.kind != a.out_type.dtype.kind:
        half = a.in_type.dtype.kind == "c"  # the real part is (t + t̄) / 2
        same = entries_over_its_field(Scale(0.5 if half else 1.0, a.in_type))
        same = same.between(a.in_type, a.out_type)
        return Pair(same, same if half else None)
    if isinstance(a, _LINEAR) or a.moves_entries or isinstance(a, Cast):
        return Pair(entries_over_its_field(a))
    return _from_images(a)


def places_of(a: Operator) -> Entries:
    """Entries wherever t or t̄ has one; over complex numbers their values mean nothing."""
    if not is_complex(a):
        return entries_of(a)
    pair = pair_of(a)
    return pair.p if pair.q is None else pair.p.plus(pair.q)


_LINEAR = (Diagonal, Scale, Contraction, Convolution, Cumsum)


def _from_images(a: Operator) -> Pair:
    """By the images of a basis and of i times the basis."""
    n, m = a.in_type.size, a.out_type.size
    ahead = np.reshape(hooks.images_of_basis(a), (n, m))
    if a.in_type.dtype.kind != "c":
        return Pair(matrix_entries(a, ahead))
    across = np.reshape(hooks.images_of_basis(Product([a, Scale(1j, a.in_type)])), (n, m))
    p, q = (ahead - 1j * across) / 2, (ahead + 1j * across) / 2
    is_linear = is_known(q) and np.all(np.abs(q) <= _ROUNDING * np.abs(p))  # each in its own units
    return Pair(matrix_entries(a, p), None if is_linear else matrix_entries(a, q))


_ROUNDING = 1e-12  # of the entry


def _turned(a: Entries) -> Entries:
    return Entries(a.out_type, a.in_type, [t.T for t in a.terms])


def _conjugate(a: Entries) -> Entries:
    return a.mapped(np.conjugate)
