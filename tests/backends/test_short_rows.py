"""Rows of a few numbers are written out: the loop over them computes what NumPy computes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import nests
from backsolve.backends.native.compile import scheduled
from backsolve.ir import Type
from backsolve.rewrite import rewrite_for_machines
from backsolve.testing.backends import check_compiled
from backsolve.trace import stage

rng = np.random.default_rng(0)
FLOAT = np.dtype(float)
FUNCTIONS: dict[str, Any] = {
    "products": lambda x, y: x * y + 2,
    "a mask": lambda x, y: np.where(np.arange(x.size).reshape(x.shape) % 3 == 0, x * y, 0.0) - y,
    "sums": lambda x, y: (x * y).sum(-1),
    "sums of all but the last": lambda x, y: (x - y).sum(tuple(range(1, x.ndim - 1))) * 2,
    "sums over points": lambda x, y: (x * y).sum(0),
    "one sum": lambda x, y: (x * y).sum(),
    "the largest": lambda x, y: np.max(x + y, -1),
    "exponentials": lambda x, y: np.exp(x) / np.exp(x).sum(-1, keepdims=True) + y,
    "turned": lambda x, y: np.swapaxes(x, -1, 1 if x.ndim > 2 else 0) * 2.0,
    "backwards": lambda x, y: x[..., ::-1] * y,
    "products of all": lambda x, y: np.prod(x + y, -1),
    "a running sum": lambda x, y: np.cumsum(x * y, -1),
    "entries": lambda x, y: np.take(x, [0, 1, 0], -1) + 1.0,
    "whole numbers": lambda x, y: np.argmax(x * y, -1),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize(
    "inner", [(2,), (3,), (5,), (7,), (2, 2), (3, 3), (5, 2), (7, 2), (2, 3, 2)]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy(name: str, inner: tuple[int, ...], dtype: Any) -> None:
    for points in (1, 15, 16, 131):
        x, y = (rng.integers(-3, 4, size=(points, *inner)).astype(dtype) for _ in range(2))
        assert check_compiled(FUNCTIONS[name], (x, y), ulps=64)


@pytest.mark.parametrize("inner", [(2,), (3,), (2, 2), (5, 2)])
def test_derivatives(inner: tuple[int, ...]) -> None:
    x, y = (rng.normal(size=(40, *inner)) for _ in range(2))
    f = lambda x, y: np.sum(np.tanh(x * y).sum(-1) ** 2)
    assert check_compiled(bs.grad(f, argnums=(0, 1)), (x, y), ulps=512)


def test_shared_among_threads() -> None:
    before = bs.get_threads()
    try:
        bs.set_threads(3)
        x = rng.normal(size=(300_001, 3))
        np.testing.assert_allclose(bs.jit(lambda x: (x * x).sum(1))(x), (x * x).sum(1), rtol=1e-14)
        np.testing.assert_allclose(bs.jit(lambda x: (x * x).sum())(x), (x * x).sum(), rtol=1e-12)
    finally:
        bs.set_threads(before)


@pytest.mark.parametrize(
    ("shape", "loops"),
    [
        ((160, 2), 1),
        ((160, 3), 1),
        ((160, 3, 2), 1),
        ((16, 2), 1),
        ((15, 2), 1),  # two numbers are no loop
        ((15, 3), 2),
        ((160, 4), 2),  # a vector
        ((160, 9), 2),
        ((160, 8, 2), 2),
        ((160, 8, 3), 3),
        ((8, 160, 3), 2),
    ],
)
def test_which_loops_are_written_out(shape: tuple[int, ...], loops: int) -> None:
    lines = [Type((*shape[:k], 1, *shape[k + 1 :]), FLOAT) for k in range(len(shape))]
    staged = stage(lambda *x: [functools.reduce(np.multiply, x)], lines)[0]
    (step,) = scheduled(rewrite_for_machines(staged))[0].steps
    domain, _ = nests.walk(step, step.views())
    assert domain == shape
    assert nests.written_out(step, domain) == loops


def test_long_rounds_are_not_written_out() -> None:
    """Their code would be as long as all else together."""
    for f in (lambda x: np.exp(np.sin(np.tanh(x))), lambda x: functools.reduce(many, range(40), x)):
        staged = stage(lambda x, y, f=f: [f(x * y)], [Type((90, 5), FLOAT), Type((1, 5), FLOAT)])[0]
        (step,) = scheduled(rewrite_for_machines(staged))[0].steps
        assert nests.written_out(step, (90, 5)) == 2


def many(x: Any, k: int) -> Any:
    return x * (k + 2.5) + x
