"""Rows of a few numbers are written out: the loop over them computes what NumPy computes."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import nests
from backsolve.backends.native.compile import compile_program, scheduled
from backsolve.backends.native.views import Buffer, View
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
    "sines": lambda x, y: np.sin(x) * np.cos(1000.0 * y) + np.tanh(x),
    "sums of sines": lambda x, y: np.sin(x * 1e9).sum(-1) - np.tan(y).max(-1),
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
        x[123_456] = 1e12  # beyond what the narrow form of a sine holds for
        np.testing.assert_allclose(
            bs.jit(lambda x: np.sin(x * [1, 2, 3]))(x), np.sin(x * [1, 2, 3])
        )
    finally:
        bs.set_threads(before)


@pytest.mark.parametrize(
    ("shape", "with_masks", "without"),
    [
        ((160, 2), 1, 1),
        ((160, 3), 1, 1),
        ((160, 3, 2), 1, 1),
        ((16, 2), 1, 1),
        ((15, 2), 1, 1),  # two numbers are no loop
        ((15, 3), 2, 2),
        ((160, 4), 2, 1),  # a vector, or two
        ((160, 9), 2, 1),
        ((63, 9), 2, 2),
        ((160, 13), 2, 2),
        ((160, 8, 2), 2, 2),
        ((160, 8, 3), 3, 3),
        ((8, 160, 3), 2, 2),
    ],
)
def test_which_loops_are_written_out(
    shape: tuple[int, ...], with_masks: int, without: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [Type((*shape[:k], 1, *shape[k + 1 :]), FLOAT) for k in range(len(shape))]
    staged = stage(lambda *x: [functools.reduce(np.multiply, x)], lines)[0]
    (step,) = scheduled(rewrite_for_machines(staged))[0].steps
    domain, _ = nests.walk(step, step.views())
    assert domain == shape
    for nbytes, loops in ((32, with_masks), (16, without)):
        monkeypatch.setattr(nests, "vector_bytes", lambda nbytes=nbytes: nbytes)
        assert nests.written_out(step, domain) == loops


@pytest.mark.parametrize("nbytes", [16, 32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy_with_other_vectors(
    name: str, nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without masks short rows end in single numbers, so that all before them are vectors."""
    monkeypatch.setattr(nests, "vector_bytes", lambda: nbytes)
    for shape in ((131, 9), (131, 13), (3, 15), (20, 9, 11), (131, 4, 3)):
        for dtype in (FLOAT, np.dtype(np.float32)):
            x, y = (rng.integers(-3, 4, size=shape).astype(dtype) for _ in range(2))
            f = FUNCTIONS[name]
            program = stage(lambda x, y, f=f: [f(x, y)], [Type(shape, dtype)] * 2)[0]
            got = compile_program(rewrite_for_machines(program)).call(x, y)
            eps = np.finfo(dtype).eps
            np.testing.assert_allclose(got, f(x, y), rtol=64 * eps, atol=16 * eps)


@pytest.mark.parametrize("f", [np.exp, lambda x: np.sin(np.tanh(x))])
def test_rows_of_odd_length_are_vectors(f: Any) -> None:
    """All but their last number: sines by their narrow form, too."""
    c = np.linspace(0, 1, 13)
    text = str(bs.jit(lambda x: f(x * c)).lower(rng.normal(size=(50, 13))).stages["llvm"])
    assert re.search(r"fmul[a-z ]* <\d+ x double>", text)


def test_how_many_rounds_are_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    views = lambda *dtypes: [View.whole(Buffer("input", 9, np.dtype(t)), (9,)) for t in dtypes]
    for nbytes, rounds, dtypes, left in (
        (16, 9, "d", 1),
        (16, 8, "d", 0),
        (16, 15, "f", 3),
        (16, 15, "fd", 1),
        (16, 3, "f", 0),  # fewer than a vector has
        (16, 17, "d", 0),  # LLVM does it itself
        (32, 9, "d", 0),
    ):
        monkeypatch.setattr(nests, "vector_bytes", lambda nbytes=nbytes: nbytes)
        assert nests.left_over(rounds, views(*dtypes)) == left


def test_long_rounds_are_not_written_out() -> None:
    """Their code would be as long as all else together."""
    for f in (lambda x: np.exp(np.sin(np.tanh(x))), lambda x: functools.reduce(many, range(40), x)):
        staged = stage(lambda x, y, f=f: [f(x * y)], [Type((90, 5), FLOAT), Type((1, 5), FLOAT)])[0]
        (step,) = scheduled(rewrite_for_machines(staged))[0].steps
        assert nests.written_out(step, (90, 5)) == 2


def many(x: Any, k: int) -> Any:
    return x * (k + 2.5) + x
