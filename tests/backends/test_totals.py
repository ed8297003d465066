"""Sums of single precision over many entries keep their digits, as NumPy's do."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs

N = 1 << 21
SUMS = {
    "all": np.sum,
    "mean": np.mean,
    "rows of a matrix": lambda x: np.sum(x.reshape(4, -1), axis=-1),
    "rows against a vector": lambda x: np.sum(x.reshape(-1, 8) * np.full(8, 0.7, "f4")),
    "two inner axes": lambda x: np.sum(x.reshape(2, -1, 16)[:, :, ::2], axis=(1, 2)),
    "by slices": lambda x: np.sum(np.square(x.reshape(-1, 8) - np.mean(x.reshape(-1, 8), -1)[:, None] + 1)),
    "with sines": lambda x: np.sum(np.sin(x)),
    "beside a maximum": lambda x: np.sum(x) + np.max(x),
    "complex": lambda x: np.sum(x * np.complex64(1 + 2j)),
    "many beside": lambda x: (np.sum(x), np.sum(x * x), np.max(x)),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_many(name: str, threads: int) -> None:
    x = np.full(N + 3, 0.1, "f4")[3:]  # rounding always goes the same way: the worst case
    before = bs.get_threads()
    try:
        bs.set_threads(threads)
        f = bs.jit(SUMS[name])
        found = f(x)
    finally:
        bs.set_threads(before)
    assert f.stats()["specialisations"][0]["native"]
    expected = SUMS[name](x.astype("f8"))
    for one, other in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_the_gradient_of_a_mean_square() -> None:
    x = np.full((N // 8, 8), 0.1, "f4")
    f = lambda s: np.mean(np.square(x * s))
    np.testing.assert_allclose(bs.jit(bs.grad(f))(np.float32(1)), 0.02, rtol=1e-5)


def test_infinite_totals() -> None:
    x = np.full(40_000, 3e38, "f4")
    with np.errstate(over="ignore"):
        assert bs.jit(np.sum)(x) == np.sum(x) == np.inf
    x[7] = np.nan
    assert np.isnan(bs.jit(np.sum)(x))
