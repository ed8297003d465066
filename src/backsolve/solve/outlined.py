"""A graph of outlines: what eliminating costs at most, where the entries themselves are too many to follow."""

from __future__ import annotations

from functools import reduce
from math import prod

from ..operators import Operator, Product
from ..operators.convolution import Convolution
from ..operators.entries import Entries, entries_of
from ..operators.entries.outline import Outline, full, outline_of
from ..operators.entries.written import has_form
from ..operators.recurrence import Cumsum
from ..operators.sum import OperatorSum
from ..operators.windows import Fold, Windows
from ..trace import Recorder
from .eliminate import Graph
from .prices import on_types


def outlined(graph: Graph) -> Graph:
    """The same graph, of each block its counts alone."""
    found = graph.copy()
    for i, read in graph.reads.items():
        for j, block in read.items():
            found.reads[i][j] = found.read_by[j][i] = _outline(block)
    return found


def _outline(a: Operator) -> Outline:
    """By what kind of operator it is: no entry is listed, no number computed."""
    if isinstance(a, Outline):
        return a
    if isinstance(a, Product):
        return reduce(Outline.times, [_outline(f) for f in a.factors])
    if isinstance(a, OperatorSum):
        return reduce(Outline.plus, [_outline(t) for t in a.terms])
    if isinstance(a, Entries):
        return outline_of(a)
    source, target, facts = a.in_type, a.out_type, a.structure
    n, m = source.size, target.size
    if isinstance(a, Windows):
        return Outline(source, target, m, 1, prod(a.cut.size), True)
    if isinstance(a, Cumsum):
        length = source.shape[a.axis]
        return Outline(source, target, n * (length + 1) // 2, length, length, True)
    if isinstance(a, Convolution):
        taps = a.other.shape[0]
        return Outline(source, target, taps * min(n, m), taps, taps)
    if isinstance(a, Fold):
        return _outline(a.T).T
    if has_form(a):
        return outline_of(entries_of(on_types(a, Recorder()))).known(facts)
    if "diagonal" in facts:
        return Outline(source, target, n, 1, 1, a.moves_entries, facts)
    if "selection" in facts:
        return Outline(source, target, m, 1, m, True, facts)
    if a.moves_entries and "selection" in a.T.structure:
        return _outline(a.T).T
    return full(source, target)
