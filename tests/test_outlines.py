"""Outlines: counts that bound the entries of blocks, and what eliminating rows multiplies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.operators.entries.limit import Limits, within
from backsolve.operators.entries.outline import Outline
from backsolve.solve.eliminate import Graph
from backsolve.solve.orders import ORDERS
from backsolve.solve.outlined import outlined
from backsolve.solve.tariff import CHEAP, elimination_bounds, elimination_prices

F = nn.functional
RNG = np.random.default_rng(0)
W = RNG.normal(size=(6, 6))
AT = np.array([3, 0, 0, 5, 3])
IMAGES = RNG.normal(size=(2, 2, 5, 5))


def net(x: Any) -> Any:
    for _ in range(2):
        x = x + np.tanh(W @ x)
    return np.sum(np.log(np.cosh(x)))


def normed(w: Any) -> Any:
    y = F.conv2d(IMAGES, w, padding=1, stride=2)
    y = F.relu((y - y.mean((0, 2, 3), keepdims=True)) / y.std((0, 2, 3), keepdims=True))
    return F.max_pool2d(F.pad(y, (1, 0, 1, 0)), 2)


def written(x: Any) -> Any:
    y, z = np.zeros(8) + x.sum(), np.zeros(8) + x[1]
    y[AT] = np.sin(x[:5])
    z[1:3] = x[2:4] * x[0]
    return np.exp(y) * z


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "net": (net, RNG.normal(size=6)),
    "normed": (normed, RNG.normal(size=(3, 2, 3, 3))),
    "written": (written, RNG.normal(size=6)),
    "gathered": (lambda x: np.sin(x)[AT] * np.sort(x)[1:], RNG.normal(size=6)),
    "summed": (lambda x: np.cumsum(np.cos(x), 0)[::2] * x.mean(), RNG.normal(size=(4, 3))),
    "convolved": (lambda x: np.convolve(np.exp(x), x[:3], "same"), RNG.normal(size=7)),
    "solved": (lambda x: np.linalg.solve(W + np.diag(x), np.sin(x)).T, RNG.normal(size=6)),
    "softmax": (lambda x: F.softmax(x, -1) @ W.reshape(2, 18)[:, :3].T, RNG.normal(size=(2, 3))),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q).sum(0), RNG.normal(size=(1, 3, 4))),
}  # fmt: skip


def graph_of(name: str) -> Graph:
    f, x = CASES[name]
    return Graph(bs.linearize(f, merge=False)(x))


def check_bounds(a: Outline, pattern: Any) -> None:
    assert a.nnz >= pattern.sum()
    assert a.in_row >= pattern.sum(1).max(initial=0)
    assert a.in_column >= pattern.sum(0).max(initial=0)


@pytest.mark.parametrize("name", CASES)
def test_the_counts_of_a_block_bound_its_entries(name: str) -> None:
    graph = graph_of(name)
    outlines = outlined(graph)
    for i, read in graph.reads.items():
        for j, block in read.items():
            dense, found = block.dense(), outlines.reads[i][j]
            assert isinstance(found, Outline)
            check_bounds(found, dense != 0)
            check_bounds(found.T, dense.T != 0)
            if found.is_sign:
                assert np.isin(dense, (-1, 0, 1)).all()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", CHEAP)
def test_eliminating_multiplies_no_more_than_the_bound(name: str, order: str) -> None:
    """Beside dense matrices, of which the pairs of entries that meet are counted."""
    graph = graph_of(name)
    outlines = outlined(graph)
    plan = ORDERS[order](outlines)
    dense = {(i, j): b.dense() for i, read in graph.reads.items() for j, b in read.items()}
    pairs = 0
    for k in plan:
        v = graph.rows[k]
        readers, read = [i for i, j in dense if j == v], [j for i, j in dense if i == v]
        for i in readers:
            for j in read:
                a, b = dense[i, v], dense[v, j]
                if not any(np.isin(m, (-1, 0, 1)).all() for m in (a, b)):
                    pairs += ((a != 0).sum(0) * (b != 0).sum(1)).sum()
                dense[i, j] = dense.get((i, j), 0) + a @ b
        dense = {key: m for key, m in dense.items() if v not in key}
        outlines.eliminate(v)
    for (i, j), matrix in dense.items():
        left = outlines.reads[i][j]
        assert isinstance(left, Outline)
        check_bounds(left, abs(matrix) > 1e-12)
    (bound,) = elimination_bounds(graph, [order])
    assert bound.is_bound
    assert bound.multiplications is not None
    assert bound.multiplications >= pairs


def test_bounds_of_a_network_are_what_it_takes() -> None:
    def layers(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(W @ x)
        return np.sum(np.exp(x))

    graph = Graph(bs.linearize(layers, merge=False)(np.ones(6)))
    exact = {p.order: p.multiplications for p in elimination_prices(graph, ["forward", "reverse"])}
    bounds = elimination_bounds(graph, ["forward", "reverse"])
    assert {p.order: p.multiplications for p in bounds} == exact


def test_no_entry_is_listed_for_a_bound() -> None:
    with within(Limits(entries=0, products=0)):
        for name in CASES:
            assert elimination_bounds(graph_of(name))
