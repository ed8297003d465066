"""Elimination: the Jacobian by removing the rows of `(I − L) dx = D dp` one after the other, in any order.

Row v out of the system: every row i that reads v, and every row k that v reads, meet directly,

    L[i, k] += L[i, v] L[v, k]        and row and column v are gone.

When none is left, what stands between outputs and parameters is the Jacobian. From the first row to the
last this is forward mode, from the last to the first reverse mode; orders in between may cost far less
(orders.py). Operators keep their structure while they are multiplied: diagonals stay diagonals, all else
becomes `Entries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from ..errors import NotScalarError, UnsupportedError
from ..ir import Type
from ..operators import Cast, Diagonal, Identity, Operator, Reshape, Scale, Zero
from ..operators.entries import (
    Entries,
    entries_of,
    is_complex,
    number,
    pair_of,
    places_of,
    without_complex_parts,
)
from ..operators.entries.outline import Outline
from ..operators.entries.terms import is_known, spread
from ..operators.sum import OperatorSum
from ..primitive import P
from ..row import Row
from ..system import System
from .many import NOT_HOLOMORPHIC, beside, check_linear
from .opaque import component_edges, is_joint, is_small, pattern_edges
from .placing import placed
from .reach import without_unreached
from .skeleton import Edge, Skeleton

# A row of the system or, for an output, its number: outputs are copies that stay when their rows go.
Vertex = Row | int
Times = Callable[[Operator, Operator], Operator]
SIMPLE = (Identity, Scale, Diagonal, Zero, Cast)
_OTHERWISE = 'use method="forward" or "reverse"'


class Graph:
    """What is left of a system: `reads[i][j]` and `read_by[j][i]` are the operator ∂i/∂j."""

    def __init__(self, system: System, aim: str = "prices"):
        """Of what it is made depends on the aim:

        "prices"     real rows with blocks
        "entries"    complex maps as well, as pairs
        "matrix"     and small calls that have no blocks, as matrices
        "pattern"    calls by the places of their entries alone, whose numbers mean nothing then
        """
        self.parameters = list(system.parameters)
        self.rows = list(system.rows)
        self.reads: dict[Vertex, dict[Vertex, Operator]] = {}
        self.read_by: dict[Vertex, dict[Vertex, Operator]] = {}
        if why := why_not(system, aim):
            raise UnsupportedError(f"{why}: {_OTHERWISE}")
        blocks = {row: _edges(system, row, aim) for row in system.rows}
        # Whether an infinity can be seen on one way and masked on another: then it is NaN in the result.
        kept, self.is_mixed = blocks, False
        if aim != "pattern":
            kept, self.is_mixed = without_unreached(self.rows, system.outputs, blocks)
        for row, edges in kept.items():
            for parent, block in edges:
                self.link(row, parent, without_complex_parts(block))
        copies: dict[Row, int] = {}
        for k, output in enumerate(system.outputs):
            if output is not None and output not in copies:
                copies[output] = k
                self.link(k, output, Identity(Type(output.shape, output.dtype)))
        self.outputs = [None if y is None else copies[y] for y in system.outputs]

    def link(self, i: Vertex, j: Vertex, block: Operator) -> None:
        old = self.reads.setdefault(i, {}).get(j)
        block = block if old is None else added(old, block)
        self.reads[i][j] = block
        self.read_by.setdefault(j, {})[i] = block

    def eliminate(self, v: Vertex, times: Times | None = None) -> None:
        times = times or multiplied
        readers, read = self.read_by.pop(v, {}), self.reads.pop(v, {})
        for i in readers:
            del self.reads[i][v]
        for k in read:
            del self.read_by[k][v]
        for i, after in readers.items():
            for k, before in read.items():
                self.link(i, k, times(after, before))

    def copy(self) -> Graph:
        made: Graph = object.__new__(Graph)
        made.parameters, made.rows, made.outputs = self.parameters, self.rows, self.outputs
        made.is_mixed = self.is_mixed
        made.reads = {i: dict(read) for i, read in self.reads.items()}
        made.read_by = {j: dict(readers) for j, readers in self.read_by.items()}
        return made

    @property
    def vertices(self) -> list[Vertex]:
        """By the numbers that they have in the skeleton."""
        copies = [i for i, read in self.reads.items() for _ in read if isinstance(i, int)]
        return [*self.rows, *self.parameters, *copies]

    def skeleton(self, free: Callable[[Operator], bool] | None = None) -> Skeleton:
        """Who reads whom, without the operators; products with those that are `free` cost nothing."""
        free = free or multiplies_nothing
        number: dict[Vertex, int] = {v: k for k, v in enumerate([*self.rows, *self.parameters])}
        sizes = [v.size for v in (*self.rows, *self.parameters)]
        edges, copies = [], {}
        for i, read in self.reads.items():
            for j, block in read.items():
                if isinstance(i, int):
                    copies[number[j]] = len(sizes)
                    sizes.append(sizes[number[j]])
                else:
                    diagonal = "diagonal" in block.structure
                    edges.append(Edge(number[i], number[j], free(block), diagonal))
        # An output that is a parameter has no row to go.
        copies = {row: k for row, k in copies.items() if row < len(self.rows)}
        return Skeleton.of(len(self.rows), sizes, copies, edges)


def why_not(system: System, aim: str = "prices") -> str:
    """Why its rows cannot be eliminated; empty, if they can."""
    if aim == "pattern":
        return ""
    for row in (*system.rows, *system.parameters):
        if is_joint(row):
            call = "a checkpointed, compiled or hand-written call has no blocks to eliminate"
            if aim != "matrix":
                return call
            if row.primitive.is_component and not is_small(row):
                return f"{call}, and its matrix is too large to be found column by column"
        elif row.dtype.kind == "c" and aim == "prices":
            return f"prices are of real systems, and `{row.primitive.name}` is complex here"
    return ""


def _edges(system: System, row: Row, aim: str) -> list[tuple[Row, Operator]]:
    if row.primitive.is_joint:
        return []
    if not row.primitive.is_component:
        return system.edges(row)
    found: dict[Row, Operator] = {}
    edges = pattern_edges(row) if aim == "pattern" else component_edges(row, system.record)
    for p, block in edges:
        if p in system:
            found[p] = found[p] + block if p in found else block
    return list(found.items())


def eliminate(graph: Graph, order: Any = "markowitz") -> list[list[Operator | None]]:
    """[output][parameter] -> the operator between them; None where none depends on the other."""
    from .orders import planned

    with np.errstate(all="ignore"):
        eliminate_all(graph, planned(graph, order))
    return [
        [graph.reads.get(k, {}).get(p) if k is not None else None for p in graph.parameters]
        for k in graph.outputs
    ]


def jacobian_entries(
    system: System, order: Any = "forward", graph: Graph | None = None, surely: bool = False
) -> list[list[Entries]]:
    """[output][parameter] -> its Jacobian by entries.

    `surely`: an error if only numbers, which are not at hand, tell that a complex one exists.
    """
    graph = graph or Graph(system, "entries")
    return _lines(system, eliminate(graph, order), partial(_final, surely=surely))


def pattern_entries(system: System, graph: Graph | None = None) -> list[list[Entries]]:
    """The same where places alone matter: any row may be complex, any call without blocks."""
    graph = graph or Graph(system, "pattern")
    return _lines(system, eliminate(graph, "forward"), places_of)


def _lines(
    system: System, blocks: list[list[Operator | None]], final: Callable[[Operator], Entries]
) -> list[list[Entries]]:
    return [
        [
            Entries(Type(p.shape, p.dtype), Type(y.shape, p.dtype), [])
            if block is None
            else final(block)
            for block, p in zip(line, system.parameters, strict=True)
        ]
        for line, y in zip(blocks, system.out_types, strict=True)
    ]


def _final(block: Operator, surely: bool = False) -> Entries:
    """Between real arrays as it is; a complex Jacobian exists only where t̄ does not matter."""
    if not is_complex(block):
        return entries_of(block)
    pair = pair_of(block)
    if pair.q is not None and pair.q.terms:
        if surely and not all(is_known(t.values) for e in (pair.p, pair.q) for t in e.terms):
            raise NotScalarError(NOT_HOLOMORPHIC)
        rows, cols, (p, q) = _side_by_side(pair.p, pair.q)
        dtypes = (block.in_type.dtype, block.out_type.dtype)
        check_linear(p, q, *dtypes, scale=beside(np.abs(p), rows, cols))
    return pair.p


def _side_by_side(*entries: Entries) -> tuple[Any, Any, list[Any]]:
    """All places that any of them has, and the numbers of each there."""
    terms = [t for e in entries for t in e.terms]
    found = placed(terms, entries[0].out_type.size, entries[0].in_type.size)
    at = iter(found.at)
    totals = []
    for e in entries:
        total: Any = np.zeros(found.indices.size, e.out_type.dtype)
        for t in e.terms:
            values = spread(t.flat, (t.size,))
            total = total + P.scatter_add(values, next(at), shape=total.shape)
        totals.append(total)
    rows = np.repeat(np.arange(entries[0].out_type.size), np.diff(found.indptr))
    return rows, found.indices, totals


def eliminate_all(graph: Graph, order: Iterable[int], times: Times | None = None) -> None:
    for k in order:
        graph.eliminate(graph.rows[k], times)


def multiplies_nothing(block: Operator) -> bool:
    """Whether its entries are ±1, as a sum's and a slice's: its products are free."""
    return block.cost.multiplications == 0 and not isinstance(block, OperatorSum)


def multiplied(a: Operator, b: Operator) -> Operator:
    if isinstance(a, Identity):
        return b
    if isinstance(b, Identity):
        return a
    if isinstance(a, Outline) and isinstance(b, Outline):
        return a.times(b)
    if is_complex(a) or is_complex(b):
        return pair_of(a).times(pair_of(b))
    if isinstance(a, SIMPLE) and isinstance(b, SIMPLE):
        product: Any = a @ b
        if isinstance(product, SIMPLE):
            return product
    if isinstance(a, Scale | Reshape):  # entries stay where they are
        moved = entries_of(b).between(b.in_type, a.out_type)
        return moved.scaled(number(a.factor)) if isinstance(a, Scale) else moved
    if isinstance(b, Scale | Reshape):
        moved = entries_of(a).between(b.in_type, a.out_type)
        return moved.scaled(number(b.factor)) if isinstance(b, Scale) else moved
    return entries_of(a).times(entries_of(b))


def added(a: Operator, b: Operator) -> Operator:
    if isinstance(a, Outline) and isinstance(b, Outline):
        return a.plus(b)
    if is_complex(a):
        return pair_of(a).plus(pair_of(b))
    if isinstance(a, SIMPLE) and isinstance(b, SIMPLE):
        total = a + b
        if isinstance(total, SIMPLE):
            return total
    return entries_of(a).plus(entries_of(b))
