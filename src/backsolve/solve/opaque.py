"""Joint rows (checkpointed, compiled and hand-written calls, loops) as blocks between single arrays.

A joint row has one operator between tuples. What stands between one of its inputs and one of its outputs is a
map that can be applied; where it is small, its matrix is found from the images of a basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..joint import component_of, operator_of
from ..operators import Custom, Operator
from ..primitive import row_values
from ..row import Row
from .fit import fit_ahead, fit_back

_SMALL = 1 << 18  # entries of a matrix that is found column by column


def is_joint(row: Row) -> bool:
    return row.primitive.is_joint or row.primitive.is_component


def is_small(row: Row) -> bool:
    """Whether the matrices of an output of a joint row may be written out."""
    sources = [p for p in row.parents[0].parents if p.__class__ is Row]
    return all(row.size * p.size <= _SMALL for p in sources)


def component_edges(row: Row, record: bool) -> list[tuple[Row, Operator]]:
    """What an output of a joint row reads: the row's inputs, each by a map of its own."""
    base, k = row.parents[0], component_of(row)
    operator = operator_of(base, row_values(base) if record else base.saved, record)
    name = base.params["name"]
    return [
        (p, _between(operator, base, j, row, k, name))
        for j, p in enumerate(base.parents)
        if p.__class__ is Row
    ]


def _between(operator: Operator, base: Row, j: int, row: Row, k: int, name: str) -> Operator:
    source = base.parents[j]

    def alone(t: Any, at: int, count: int) -> tuple[Any, ...]:
        return tuple([t if i == at else None for i in range(count)])

    def apply(t: Any) -> Any:
        image = operator.apply(alone(t, j, len(base.parents)))[k]
        return np.zeros(row.shape, row.dtype) if image is None else fit_ahead(image, row)

    def adjoint(g: Any) -> Any:
        assert base.params is not None
        image = operator.T.apply(alone(g, k, base.params["outputs"]))[j]
        return np.zeros(source.shape, source.dtype) if image is None else fit_back(image, source)

    types = Type(source.shape, source.dtype), Type(row.shape, row.dtype)
    return Custom(apply, adjoint, *types, name=name)
