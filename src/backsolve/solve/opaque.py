"""Joint rows (checkpointed, compiled and hand-written calls, loops) as blocks between single arrays.

A joint row has one operator between tuples. What stands between one of its inputs and one of its outputs is a
map that can be applied; where it is small, its matrix is found from the images of a basis. Where places of
entries alone matter, they are those of the Program inside, or all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..ir import Program, Type
from ..joint import component_of, inside_of, operator_of
from ..operators import Custom, Operator
from ..operators.entries import Entries, Pair
from ..operators.entries.terms import Listed, Steps, Term
from ..primitive import row_values
from ..row import Row
from .fit import fit_ahead, fit_back
from .patterns import program_patterns

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


def pattern_edges(row: Row) -> list[tuple[Row, Operator]]:
    """What an output of a joint row reads, by maps of which the places of entries alone mean something."""
    base = row.parents[0]
    sources = [p for p in base.parents if p.__class__ is Row]
    if any(n < 0 for r in (row, *sources) for n in r.shape):
        raise UnsupportedError("a tape that grows has no entries")
    return [
        (p, _with_places(p, row, part))
        for p, part in zip(sources, _parts_inside(base, component_of(row), sources), strict=True)
    ]


def _parts_inside(base: Row, k: int, sources: list[Row]) -> list[Listed | None]:
    """Of each source: the places of the call's Program; None, if it is not known."""
    found = inside_of(base)
    if found is None:
        return [None] * len(sources)
    program, values = found
    both = list(zip(program.inputs, values, strict=True))
    moving = tuple(v for v, x in both if x is None)
    known = tuple((v, x) for v, x in both if x is not None)
    opened = Program(moving, (*program.constants, *known), program.equations, (program.outputs[k],))
    try:
        (places,) = program_patterns(opened, [True] * len(moving))
    except UnsupportedError:
        return [None] * len(sources)
    none = np.zeros(0, np.intp)
    rows, cols = (none, none) if places is None else (x.astype(np.intp) for x in places.nonzero())
    parts: list[Listed | None] = []
    start = 0
    for p in sources:
        mine = (cols >= start) & (cols < start + p.size)
        parts.append(Listed(rows[mine], cols[mine] - start, 1.0))
        start += p.size
    return parts


def _with_places(source: Row, row: Row, part: Listed | None) -> Operator:
    """Each entry may depend on each where nothing is known; over complex numbers on its conjugate, too."""
    types = Type(source.shape, source.dtype), Type(row.shape, row.dtype)
    full = Term((row.size, source.size), Steps(0, (1, 0)), Steps(0, (0, 1)), 1.0)
    e = Entries(*types, [full if part is None else part])
    if not any(t.dtype.kind == "c" for t in types):
        return e
    return Pair(e, e if types[0].dtype.kind == "c" else None)
