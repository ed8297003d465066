"""Greedy colours of the vertices of a graph, one after the other, each the first that it may have.

The colours that a vertex may not have are the bits of one integer, so that a vertex costs as many operations as
it has neighbours. Each loop is written once: of few neighbours it runs on lists, where integers have as many
bits as are needed, of many on arrays of words, compiled. The colours are the same; where a word has too few
bits for them, lists serve again. Arrays are made longer, to one of few lengths: compiled code is of one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..hooks import hooks
from ..operators.entries.terms import Index

MANY = 200_000  # neighbours, from which on a loop is worth compiling (or finding on disk)


@dataclass(frozen=True, eq=False)
class Near:
    """The neighbours of vertex v: `ends[starts[v] : starts[v + 1]]`."""

    starts: Index
    ends: Index

    @classmethod
    def of(cls, rows: Index, cols: Index, height: int) -> Near:
        """For each row its columns; places are sorted by rows."""
        counts = np.bincount(rows, minlength=height)
        return cls(np.concatenate([[0], np.cumsum(counts)]), cols)

    @property
    def counts(self) -> Index:
        return np.diff(self.starts)


def turned_order(rows: Index, cols: Index, shape: tuple[int, int]) -> Index:
    """The order by columns of places that are sorted by rows: in as many steps as there are."""
    from scipy.sparse import csr_array

    starts = Near.of(rows, cols, shape[0]).starts
    numbers = csr_array((np.arange(cols.size), cols, starts), shape=shape)
    return numbers.tocsc().data


def first_free(readers: Near, height: int, order: Index | None = None) -> Index:
    """Colours of columns, so that no row has two of one; in this order, or their own."""
    width = readers.counts.size
    order = np.arange(width) if order is None else order
    return _colours(_first_free, readers, [order], [height, width])


def star(near: Near) -> Index:
    """No two neighbours, and no path of four vertices, in two colours."""
    return _colours(_star, near, [], [near.counts.size] * 4)


def acyclic(near: Near) -> Index:
    """No two neighbours in one colour, no cycle in two."""
    n, count = near.counts.size, near.ends.size
    rows = np.repeat(np.arange(n), near.counts)
    edges = np.minimum(np.arange(count), turned_order(rows, near.ends, (n, n)))
    return _colours(_acyclic, near, [edges, edges.copy()], [count, count, n, n, n])


# ---- loops, on lists and on arrays alike


def _first_free(count: int, starts: Any, ends: Any, order: Any, taken: Any, bits: Any) -> Any:
    for k in range(count):
        j = order[k]
        used = 0
        for e in range(starts[j], starts[j + 1]):
            used = used | taken[ends[e]]
        bit = ~used & (used + 1)
        for e in range(starts[j], starts[j + 1]):
            taken[ends[e]] = taken[ends[e]] | bit
        bits[j] = bit
    return bits


def _star(count: int, starts: Any, ends: Any, around: Any, twice: Any, hubs: Any, bits: Any) -> Any:
    """For each vertex w, in bits: `around[w]`, the colours of its neighbours; `twice[w]`, those that two have;
    `hubs[w]`, those of neighbours that have another neighbour in the colour of w. A path v w x y in two
    colours, when v is coloured last: v is its end (then `hubs[w]`), or inside (then two neighbours of v
    have one colour, and v may have no colour around them). Around a w without colour any two colours differ.
    """
    for v in range(count):
        used = around[v]
        mine = twice[v]
        for e in range(starts[v], starts[v + 1]):
            w = ends[e]
            is_inside = bits[w] == 0 or bits[w] & mine != 0
            used = used | (around[w] if is_inside else hubs[w])
        bit = ~used & (used + 1)
        bits[v] = bit
        for e in range(starts[v], starts[v + 1]):
            w = ends[e]
            b = bits[w]
            if b & mine != 0:  # v joins neighbours of one colour
                hubs[w] = hubs[w] | bit
            if around[w] & bit != 0:
                if b != 0:  # w joins v and others
                    hubs[v] = hubs[v] | b
                    if twice[w] & bit == 0:
                        for d in range(starts[w], starts[w + 1]):
                            if bits[ends[d]] == bit:
                                hubs[ends[d]] = hubs[ends[d]] | b
                twice[w] = twice[w] | bit
            around[w] = around[w] | bit
    return bits


def _acyclic(
    count: int,
    starts: Any,
    ends: Any,
    edges: Any,
    above: Any,
    stamps: Any,
    by: Any,
    around: Any,
    twice: Any,
    bits: Any,
) -> Any:
    """Edges between two colours are trees, each known by an edge of it: `above[e]` leads there from edge e. A
    vertex v may not have the colour c if two of its neighbours, of one colour, have edges of one tree to c.
    `stamps` and `by` say of a tree which v met it last (from 1 on), and from which of its neighbours.
    """
    for v in range(count):
        used = around[v]
        mine = twice[v]
        for e in range(starts[v], starts[v + 1]):
            w = ends[e]
            if bits[w] & mine != 0:
                before = used
                for d in range(starts[w], starts[w + 1]):
                    c = bits[ends[d]]
                    if c != 0 and c & before == 0:
                        t = edges[d]
                        while above[t] != t:
                            above[t] = above[above[t]]
                            t = above[t]
                        if stamps[t] != v + 1:
                            stamps[t] = v + 1
                            by[t] = w
                        elif by[t] != w:
                            used = used | c
        bit = ~used & (used + 1)
        bits[v] = bit
        for e in range(starts[v], starts[v + 1]):
            w = ends[e]
            b = bits[w]
            if b != 0:
                s = edges[e]
                while above[s] != s:
                    above[s] = above[above[s]]
                    s = above[s]
                if (
                    around[w] & bit != 0
                ):  # other edges of w to the colour of v are of one tree with this
                    for d in range(starts[w], starts[w + 1]):
                        if bits[ends[d]] == bit and ends[d] != v:
                            t = edges[d]
                            while above[t] != t:
                                above[t] = above[above[t]]
                                t = above[t]
                            above[t] = s
                if b & mine != 0:  # and those of v to the colour of w
                    for d in range(starts[v], e):
                        if bits[ends[d]] == b:
                            t = edges[d]
                            while above[t] != t:
                                above[t] = above[above[t]]
                                t = above[t]
                            above[t] = s
            twice[w] = twice[w] | (around[w] & bit)
            around[w] = around[w] | bit
    return bits


# ---- running them


def _colours(
    loop: Callable[..., Any], near: Near, given: Sequence[Index], sizes: Sequence[int]
) -> Index:
    """What a loop gives, as numbers; its last arguments are zeros."""
    known = [near.starts, near.ends, *given]
    count = near.counts.size
    if hooks.compiled is not None and near.ends.size >= MANY:
        longest = max([*sizes, *[x.size for x in known]])
        length = 4 ** ((longest - 1).bit_length() // 2 + 1)
        arrays = [np.zeros(length, np.int64) for _ in (*known, *sizes)]
        for array, x in zip(arrays, known, strict=False):
            array[: x.size] = x
        bits = _compiled(loop)(count, *arrays)[:count]
        if bits.min(initial=1) > 0:  # the sign is no colour
            return np.frexp(bits)[1].astype(np.intp) - 1
    found = loop(count, *[x.tolist() for x in known], *[[0] * n for n in sizes])
    return np.array([b.bit_length() - 1 for b in found], np.intp)


@functools.cache
def _compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    assert hooks.compiled is not None
    return hooks.compiled(loop)
