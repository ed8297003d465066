"""What products of operators would multiply, without a number being multiplied.

The blocks of a graph are replaced by stand-ins: the same structure, but values of which only the types are
known. Products of these are recorded, not run, and the equations tell what they would multiply: a diagonal its
entries, a contraction its loops, ±1 and a number times a number nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Type, Var, type_of
from ..operators import Contraction, Diagonal, Operator, Product, Scale
from ..operators.entries import Entries, Pair, entries_of, is_complex, pair_of
from ..operators.entries.outline import Outline
from ..operators.entries.written import is_regular, matrix_entries
from ..operators.sum import OperatorSum
from ..primitive import wrap
from ..tensor import Tensor
from ..trace import Recorder
from .eliminate import SIMPLE, Graph, Vertex, multiplied
from .work import Work, multiplications, work_of


class Priced:
    """A graph of stand-ins."""

    def __init__(self, graph: Graph):
        self._recorder = Recorder()
        self._products: dict[tuple[int, int], tuple[Operator, int, Any]] = {}
        self.rows = graph.rows
        self.graph = graph.copy()
        self.inside = 0  # products inside of blocks
        self.nests = 0  # contractions and matrices among their factors
        for i, read in graph.reads.items():
            for j, block in read.items():
                self._look_into(block)
                stand_in = self._stand_in(block)
                self.graph.reads[i][j] = self.graph.read_by[j][i] = stand_in

    def price(self, v: Vertex) -> tuple[int, int]:
        """Multiplications that eliminating v takes now, and how many edges there are more then."""
        reads, read_by = self.graph.reads.get(v, {}), self.graph.read_by.get(v, {})
        pairs = [(a, b) for a in read_by.values() for b in reads.values()]
        new = sum(len(reads.keys() - self.graph.reads[i].keys()) for i in read_by)
        return sum(self._product(a, b)[1] for a, b in pairs), new - len(reads) - len(read_by)

    def eliminate(self, v: Vertex) -> int:
        """Take it out; what it cost."""
        price, _ = self.price(v)
        self.graph.eliminate(v, lambda a, b: self._product(a, b)[0])
        return price

    def product(self, a: Operator, b: Operator) -> tuple[Operator, int]:
        """a @ b and its multiplications."""
        return self._product(a, b)[:2]

    def neighbours(self, v: Vertex) -> list[Vertex]:
        return [*self.graph.reads.get(v, ()), *self.graph.read_by.get(v, ())]

    def _product(self, a: Operator, b: Operator) -> tuple[Operator, int, Any]:
        found = self._products.get((id(a), id(b)))
        if found is None:
            equations = self._recorder.equations
            start = len(equations)
            product = multiplied(a, b)
            price = sum(multiplications(e) for e in equations[start:])
            if isinstance(product, Outline):
                price += product.made_by
            # Kept with what it was made of, so that no other operators get their ids.
            found = self._products[id(a), id(b)] = product, price, (a, b)
        return found

    def _stand_in(self, block: Operator) -> Operator:
        if isinstance(block, Outline):
            return block
        if isinstance(block, Scale) and not _is_bare(block.factor):
            return Scale(self._unknown(block.factor), block.in_type)
        if isinstance(block, Diagonal):  # even of a bare number: one that was computed
            return Diagonal(self._unknown(block.d), block.in_type)
        if isinstance(block, SIMPLE):
            return block
        if not is_complex(block):
            return self._unknown_entries(entries_of(on_types(block, Recorder())))
        pair = pair_of(block)
        q = None if pair.q is None else self._unknown_entries(pair.q)
        return Pair(self._unknown_entries(pair.p), q)

    def _look_into(self, block: Operator) -> None:
        """What it takes to write a block by its entries, before it is multiplied by another."""
        parts: Sequence[Operator] = ()
        if isinstance(block, Product):
            parts = block.factors
            self.inside += len(parts) - 1
        elif isinstance(block, OperatorSum):
            parts = block.terms
        elif isinstance(block, Contraction) or not (
            isinstance(block, (*SIMPLE, Entries, Outline)) or is_regular(block)
        ):
            self.nests += 1
        for part in parts:
            self._look_into(part)

    def _unknown_entries(self, a: Entries) -> Entries:
        terms = [
            t
            if _is_bare(t.values) and abs(t.values) == 1
            else replace(t, values=self._unknown(t.values))
            for t in a.terms
        ]
        return Entries(a.in_type, a.out_type, terms)

    def _unknown(self, value: Any) -> Tensor:
        return _unknown(value, self._recorder)

    def work(self) -> Work:
        """Of all that was multiplied and added until now."""
        outlines = [a for a in self.operators if isinstance(a, Outline)]
        written, made = sum(a.nnz for a in outlines), sum(a.made_by for a in outlines)
        whole = Work(handled=written, numbers=written, multiplications=made, inner=made)
        return whole.plus(work_of(self._recorder.equations))

    @property
    def met(self) -> int:
        """Pairs of terms of all operators that were multiplied by their entries."""
        return sum(
            _terms(a) * _terms(b)
            for ab, _, (a, b) in self._products.values()
            if isinstance(ab, Entries)
        )

    @property
    def operators(self) -> list[Operator]:
        """All products that were made."""
        return [product for product, _, _ in self._products.values()]

    def left(self) -> list[Operator]:
        """When all rows are gone: what stands between outputs and parameters."""
        outputs = [k for k in dict.fromkeys(self.graph.outputs) if k is not None]
        return [
            block
            for k in outputs
            for p in self.graph.parameters
            if (block := self.graph.reads.get(k, {}).get(p)) is not None
        ]


def _terms(a: Operator) -> int:
    return len(a.terms) if isinstance(a, Entries) else 1


def on_types(a: Operator, recorder: Recorder) -> Operator:
    """The same map with values of which the types alone are known, so that its entries take no numbers."""
    if isinstance(a, Product):
        return Product([on_types(f, recorder) for f in a.factors])
    if isinstance(a, OperatorSum):
        return OperatorSum([on_types(t, recorder) for t in a.terms])
    if isinstance(a, Diagonal) and np.ndim(a.d):
        return Diagonal(_unknown(a.d, recorder), a.in_type)
    if isinstance(a, Contraction):
        operands = [None if x is None else _unknown(x, recorder) for x in a.operands]
        return Contraction(a.subscripts, a.hole, tuple(operands), a.in_type, a.sizes, a.name)
    types = a.in_type, a.out_type
    if (
        is_regular(a)
        or isinstance(a, Entries)
        or not all(isinstance(t, Type) and t.size for t in types)
    ):
        return a
    n, m = a.in_type.size, a.out_type.size
    return matrix_entries(a, wrap(Var(Type((n, m), a.out_type.dtype), recorder), None))


def _unknown(value: Any, recorder: Recorder) -> Tensor:
    t = type_of(value._v if isinstance(value, Tensor) else value)
    return wrap(Var(t, recorder), None)


def cost(graph: Graph, order: list[int]) -> int:
    """Multiplications of eliminating in this order."""
    priced = Priced(graph)
    return sum(priced.eliminate(graph.rows[k]) for k in order)


def form(a: Operator) -> Hashable:
    """What products of a stand-in depend on: where its entries are, and the types of its values."""
    types = a.in_type, a.out_type
    if isinstance(a, Entries):
        return (*types, *[(t.place, _type(t.values)) for t in a.terms])
    if isinstance(a, Outline):
        return a.key
    if isinstance(a, Scale):
        return Scale, *types, _type(a.factor)
    if isinstance(a, Diagonal):
        return Diagonal, *types, _type(a.d)
    return (type(a), *types) if isinstance(a, SIMPLE) else id(a)


def _type(values: Any) -> Hashable:
    return (
        values if _is_bare(values) else type_of(values._v if isinstance(values, Tensor) else values)
    )


def _is_bare(value: Any) -> bool:
    return type(value) in (int, float)
