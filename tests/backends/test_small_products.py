"""Stacks of small products, which are done without BLAS."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import blas

RNG = np.random.default_rng(0)
SIZES = [(2, 2, 2), (3, 3, 3), (5, 7, 2), (2, 16, 9), (16, 3, 16), (8, 8, 8), (2, 1, 3)]


@pytest.fixture(autouse=True)
def without_blas(monkeypatch):
    def refuse(*args):
        raise AssertionError("BLAS was called")

    monkeypatch.setattr(blas, "_gemm", refuse)
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", "")


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients(sizes, dtype):
    m, k, n = sizes
    a = RNG.normal(size=(2000, m, k)).astype(dtype)
    b = RNG.normal(size=(2000, k, n)).astype(dtype)
    tolerance = {"rtol": 1e-11, "atol": 1e-12} if dtype == "f8" else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(bs.jit(np.matmul)(a, b), a @ b, **tolerance)
    f = lambda a, b: np.sum(np.sin(a @ b))
    for got, right in zip(bs.jit(bs.grad(f, (0, 1)))(a, b), bs.grad(f, (0, 1))(a, b), strict=True):
        np.testing.assert_allclose(got, right, **tolerance)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: a @ np.swapaxes(a, 1, 2),
        lambda a: np.swapaxes(a, 1, 2) @ a,
        lambda a: a[::2] @ a[1::2],
        lambda a: a[::-1] @ a,
        lambda a: a[:, ::-1] @ a[:, :, ::-1],
        lambda a: a @ np.broadcast_to(a[3], a.shape),
        lambda a: np.einsum("tij,tkj->tki", a, a),
        lambda a: np.einsum("tij,tjk->ikt", a, a),
        lambda a: (a @ a) @ (a @ a),
        lambda a: a.reshape(20, 50, 4, 4) @ a.reshape(20, 50, 4, 4),
        lambda a: a.reshape(20, 50, 4, 4) @ a[:50],
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_layouts(f, threads):
    a = RNG.normal(size=(1000, 4, 4))
    before = bs.get_threads()
    try:
        bs.set_threads(threads)
        np.testing.assert_allclose(bs.jit(f)(a), f(a), rtol=1e-11, atol=1e-12)
    finally:
        bs.set_threads(before)


def test_infinities_and_nan():
    a, b = np.zeros((50, 3, 3)), np.ones((50, 3, 3))
    b[7, 1, 2], b[8, 0, 0], a[9, 1, 1] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(bs.jit(np.matmul)(a, b), a @ b)
