"""Walks the table of docs/operators.md: every operator of the slides is there, runs, and has its gradient."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import backsolve as bs
from backsolve.nn import functional
from backsolve.testing import check_grads

TABLE = Path(__file__).parents[2] / "docs" / "operators.md"
_TEXT = TABLE.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\w+) \| `(.+)` \|$", _TEXT, re.MULTILINE)[1:]  # behind the head
rng = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "a": rng.normal(size=(4, 6)),
    "b": rng.normal(size=(4, 6)),
    "share": rng.uniform(0.1, 0.9, (4, 6)),
    "columns": rng.normal(size=(2, 12, 12)),
    "image": rng.uniform(0.2, 2.0, (2, 3, 6, 6)),
    "line": rng.normal(size=(2, 3, 7)),
    "volume": rng.normal(size=(1, 2, 4, 4, 4)),
    "kernel": rng.normal(size=(4, 3, 2, 2)),
    "kernel_T": rng.normal(size=(3, 2, 2, 2)),
    "kernel3": rng.normal(size=(3, 2, 2, 2, 2)),
    "kernel3_T": rng.normal(size=(2, 3, 2, 2, 2)),
    "rows": rng.normal(size=(3, 2)),
    "weight": rng.normal(size=(3, 8)),
    "table": rng.normal(size=(8, 3)),
    "numbers": rng.normal(size=5),
}
FIXED: dict[str, Any] = {
    "truth": rng.integers(0, 2, (4, 6)).astype(float),
    "labels": rng.integers(0, 6, 4),
    "several": np.array([[0, 3, -1, 1, 2, 4]] * 4),
    "classes": rng.integers(0, 3, (2, 6, 6)),
    "sign": rng.choice([-1.0, 1.0], (4, 6)),
    "random2": rng.random((2, 3, 2)),
    "random3": rng.random((1, 2, 3)),
    "keys": np.array([0, 3, 7, 1, 2]),
    "sizes": np.array([2, 3]),
    "sparse": sparse.random_array((4, 8), density=0.4, rng=rng).tocsr(),
}


def test_every_operator_is_in_the_table() -> None:
    assert len(ROWS) == 55
    assert len({name for name, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("name", "call"), ROWS, ids=[name for name, _ in ROWS])
def test_an_operator(name: str, call: str) -> None:
    varying = [n for n in ARRAYS if re.search(rf"\b{n}\b(?!=)", call)]
    assert varying, call

    def function(*arrays: Any) -> Any:
        known = {**vars(functional), **FIXED, **dict(zip(varying, arrays, strict=True))}
        return eval(call, known)

    arrays = [ARRAYS[n] for n in varying]
    check_grads(function, arrays)
    np.testing.assert_allclose(bs.jit(function)(*arrays), function(*arrays), rtol=1e-11)
