"""What is known of an operator's matrix, as a small set of facts, and how facts combine.

    identity      the matrix is I
    zero          all entries are zero
    diagonal      square, zero off the diagonal
    permutation   one 1 in every row and column
    orthogonal    AᵀA = I and square
    selection     every row has at most one entry, a 1
    symmetric     equal to its adjoint
    sparse        the number of non-zeros grows like the larger side, not like the product

A Block adds `lower` and `upper`, of the pattern of its entries.
"""

from __future__ import annotations

from collections.abc import Sequence

Facts = frozenset[str]

# A fact implies others.
_IMPLIES = {
    "identity": {"diagonal", "permutation", "symmetric"},
    "permutation": {"orthogonal", "selection", "sparse"},
    "diagonal": {"sparse"},
    "selection": {"sparse"},
    "zero": {"sparse"},
}
# Holds for a product (a sum) if it holds for every factor (term).
_KEPT_BY_PRODUCT = {"identity", "diagonal", "permutation", "orthogonal", "selection"}
_KEPT_BY_SUM = {"zero", "diagonal", "symmetric", "sparse"}
_KEPT_BY_TRANSPOSE = {
    "identity",
    "zero",
    "permutation",
    "orthogonal",
    "sparse",
    "diagonal",
    "symmetric",
}


def facts(*names: str) -> Facts:
    """The named facts and all they imply.

    >>> sorted(facts("permutation"))
    ['orthogonal', 'permutation', 'selection', 'sparse']
    """
    closed = set(names)
    pending = list(names)
    while pending:
        for more in _IMPLIES.get(pending.pop(), ()):
            if more not in closed:
                closed.add(more)
                pending.append(more)
    return frozenset(closed)


def facts_of_product(factors: Sequence[Facts]) -> Facts:
    if any("zero" in f for f in factors):
        return facts("zero")
    return facts(*(frozenset.intersection(*factors) & _KEPT_BY_PRODUCT))


def facts_of_sum(terms: Sequence[Facts]) -> Facts:
    return facts(*(frozenset.intersection(*terms) & _KEPT_BY_SUM))


def facts_of_transpose(f: Facts) -> Facts:
    return facts(*(f & _KEPT_BY_TRANSPOSE))
