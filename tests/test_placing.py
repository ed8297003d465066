"""Places of terms in a compressed sparse matrix: as SciPy finds them, by queues and by sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from backsolve.operators.entries.terms import Listed, Part, Steps, Term
from backsolve.solve import placing
from backsolve.solve.placing import placed


def check(terms: list[Part], height: int, width: int) -> None:
    found = placed(terms, height, width)
    parts = [t.listed() for t in terms]
    none = np.zeros(0, np.intp)
    rows = np.concatenate([none, *[p.rows for p in parts]])
    cols = np.concatenate([none, *[p.cols for p in parts]])
    expected = sp.csr_array((np.ones(rows.size), (rows, cols)), shape=(height, width))
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.once == (expected.nnz == rows.size)
    of_places = np.repeat(np.arange(height), np.diff(found.indptr))
    for p, at in zip(parts, found.at, strict=True):
        np.testing.assert_array_equal(of_places[at], p.rows)
        np.testing.assert_array_equal(found.indices[at], p.cols)


def term(draw: Any, height: int, width: int) -> Part:
    """Any nest whose places are inside; some are lists."""
    if draw.integers(4) == 0:
        at = draw.integers(height, size=draw.integers(5))
        rows = np.unique(at) if draw.integers(2) else at
        return Listed(rows, draw.integers(width, size=rows.size), 1.0)
    counts = tuple(int(n) for n in draw.integers(1, 4, size=draw.integers(3)))
    places = []
    for size in (height, width):
        strides = [int(s) for s in draw.integers(-3, 6, size=len(counts))]
        ends = [s * (n - 1) for s, n in zip(strides, counts, strict=True)]
        low, high = sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)
        if high - low >= size:
            return term(draw, height, width)
        places.append(Steps(int(draw.integers(-low, size - high)), tuple(strides)))
    return Term(counts, *places, 1.0)


@pytest.mark.parametrize("seed", range(300))
def test_random_terms(seed: int) -> None:
    draw = np.random.default_rng(seed)
    height, width = (int(n) for n in draw.integers(1, 16, size=2))
    check([term(draw, height, width) for _ in range(draw.integers(5))], height, width)


def test_what_stands_side_by_side_is_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(placing, "numbered", refuse)
    diagonals = [Term((8,), Steps(max(-k, 0), (1,)), Steps(max(k, 0), (1,)), 1.0) for k in (1, 0)]
    below = Listed(np.arange(2, 8), np.arange(6), 1.0)
    check([*diagonals, below], 9, 9)
    blocks = [Term((3, 2), Steps(0, (1, 0)), Steps(k, (2, 1)), 1.0) for k in (6, 0)]
    check(blocks, 4, 12)
    strided = [Term((3, 4), Steps(k, (4, 1)), Steps(k, (8, 2)), 1.0) for k in (0,)]
    check(strided, 13, 24)
    check([], 0, 3)
    check([], 3, 0)


def test_what_crosses_is_sorted() -> None:
    ahead, back = Term((5,), Steps(0, (1,)), Steps(0, (1,)), 1.0), Steps(4, (-1,))
    check([ahead, Term((5,), Steps(0, (1,)), back, 1.0)], 5, 5)
    check([ahead, ahead], 5, 5)
