"""Eager mode: a compiled loop takes over after a while, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.hooks import hooks
from backsolve.primitives import large as module


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_compiled_loop_agrees(dtype, monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", module.LARGE)
    monkeypatch.setattr(module, "compiled_is_faster", lambda name, dtype: True)
    calls = []
    kernel = hooks.kernel
    monkeypatch.setattr(hooks, "kernel", lambda *key: calls.append(key) or kernel(*key))
    f = module.large(np.sin, "sin")
    x = np.linspace(-50, 50, module.LARGE + 3).astype(dtype)
    np.testing.assert_array_equal(f(x), np.sin(x))  # decides, and still answers by NumPy
    eps = np.finfo(dtype).eps
    for part in (x, x[:10], x[:12].reshape(2, 1, 6), x[:1], x[:0], x[:0].reshape(3, 0)):
        np.testing.assert_allclose(f(part), np.sin(part), rtol=4 * eps, atol=eps)
        assert f(part).dtype == dtype
    for strided in (x[::2], x[:10][::-1], x[:12].reshape(3, 4).T, np.broadcast_to(x[:5], (3, 5))):
        np.testing.assert_array_equal(f(strided), f(strided.copy(order="C")))
    number = x[:1].reshape(())
    np.testing.assert_array_equal(f(number), np.sin(number))
    assert calls == [("sin", np.dtype(dtype))]


def test_numpy_stays_where_it_is_faster(monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", module.LARGE)
    monkeypatch.setattr(module, "compiled_is_faster", lambda name, dtype: False)
    f = module.large(np.sin, "sin")
    x = np.linspace(0, 1, module.LARGE)
    f(x)
    np.testing.assert_array_equal(f(x), np.sin(x))


def test_gradients_of_large_arrays():
    x = np.linspace(-3, 3, 1 << 20)
    for _ in range(6):
        g = bs.grad(lambda x: np.sum(np.sin(x) * np.exp(-x * x)))(x)
    expected = np.cos(x) * np.exp(-x * x) - 2 * x * np.sin(x) * np.exp(-x * x)
    np.testing.assert_allclose(g, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_moves_the_bits_that_numpy_moves(dtype, monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", 1)
    calls = []
    kernel = hooks.kernel
    monkeypatch.setattr(hooks, "kernel", lambda *key: calls.append(key) or kernel(*key))
    where = module.Where()
    n = module.LARGE + 5
    x = np.linspace(-1, 1, n).astype(dtype)
    x[::7], x[::11], x[::13] = np.nan, np.inf, -0.0
    mask = np.arange(n) % 3 == 0
    one = np.broadcast_to(dtype(1), n)
    loops = [(x, x[::-1].copy()), (0, x), (x, -2.5), (dtype(3), x), (x, one), (one, 0), (one, one)]
    for a, b in loops:
        found, expected = where(mask, a, b), np.where(mask, a, b)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
    square = mask[: n - 5].reshape(-1, 64)
    np.testing.assert_array_equal(
        where(square, x[: n - 5].reshape(-1, 64), 0),
        np.where(square, x[: n - 5].reshape(-1, 64), 0),
    )
    assert calls == [("where", np.dtype(dtype))]
    # by NumPy: other dtypes and layouts, numbers that do not fit, few entries
    wide, other = np.float64(1.5), x.astype(np.float64 if dtype is np.float32 else np.float32)
    swapped = x.astype(x.dtype.newbyteorder())
    by_numpy = [
        (wide, x),
        (x, other),
        (x, True),
        (np.arange(n), x),
        (swapped, x),
        (1, 2),
        (x[:1], x),
    ]
    for a, b in [*by_numpy, (1e300, x), (10**20, x), (x[::-1], x)]:
        with np.errstate(over="ignore"):
            found, expected = where(mask, a, b), np.where(mask, a, b)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(where(mask[:9], x[:9], 0), np.where(mask[:9], x[:9], 0))
    np.testing.assert_array_equal(where(mask[:, None], x[:2], 0), np.where(mask[:, None], x[:2], 0))


def test_gradients_through_large_masks():
    x = np.linspace(-3, 3, 1 << 20)
    for _ in range(4):
        g = bs.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0)))(np.maximum(x, 0))
    expected = np.where(x > 0, 0.5 / np.sqrt(np.where(x > 0, x, 1)), 0)
    np.testing.assert_allclose(g, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 2, 4095, 4096, 10001])
def test_compiled_running_sums_have_the_bits_of_numpys(dtype, n):
    x = np.random.default_rng(n).normal(size=n).astype(dtype)
    x[:1] = -0.0
    for part in (x, x[::2], x[::-1], np.broadcast_to(x[:1], n if n else 0)):
        ahead, back = (hooks.kernel(name, np.dtype(dtype)) for name in ("cumsum", "cumsum_reverse"))
        expected = np.add.accumulate(part), np.add.accumulate(part[::-1])[::-1]
        for got, right in zip((ahead(part), back(part)), expected, strict=True):
            assert got.tobytes() == right.tobytes()
            assert got.flags.c_contiguous
            assert not np.shares_memory(got, part)


def test_gradients_of_running_sums_and_squares_of_large_arrays():
    x, w = np.linspace(-1, 1, 1 << 20), np.linspace(1, 2, 1 << 20)
    for _ in range(3):
        g = bs.grad(lambda x, w: np.sum(np.cumsum(x * x) * w))(x, w)
    np.testing.assert_allclose(g, 2 * x * np.cumsum(w[::-1])[::-1], rtol=1e-12)
    h = bs.grad(lambda x, w: np.sum(np.square(x) * w) + np.sum(x**2))(x, w)
    np.testing.assert_allclose(h, 2 * x * w + 2 * x, rtol=1e-14)


@pytest.mark.parametrize("kind", ["distinct", "two equal", "many equal", "signed zeros", "NaN"])
def test_sorting_many_entries_is_stable(kind):
    x = np.random.default_rng(0).permutation(np.linspace(-3, 3, 20001))
    if kind == "two equal":
        x[[17, 9001]] = 1.5
    elif kind == "many equal":
        x = np.round(x)
    elif kind == "signed zeros":
        x[[17, 9001]] = 0.0, -0.0
    elif kind == "NaN":
        x[[17, 9001]] = np.nan
    order = np.argsort(bs.tensor(x)).value
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    w = np.linspace(1, 2, x.size)
    g = bs.grad(lambda x: np.sum(np.sort(x) * w))(x)
    np.testing.assert_array_equal(g[order], w)


@pytest.mark.parametrize(
    ("f", "derivative"),
    [
        (lambda x: x**3, lambda x: 3 * x**2),
        (lambda x: x**-1.5, lambda x: -1.5 * x**-2.5),
        (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
        (lambda x: 2.0 / x, lambda x: -2 / x**2),
        (lambda x: x / x[::-1], lambda x: 1 / x[::-1] - x[::-1] / x**2),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_formulas_of_many_entries(f, derivative, dtype):
    x = np.linspace(0.5, 2, 5001).astype(dtype)
    g = bs.grad(lambda x: f(x).sum())(x)
    assert g.dtype == dtype
    eps = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(g, derivative(x), rtol=eps, atol=eps)
    np.testing.assert_array_equal(x, np.linspace(0.5, 2, 5001).astype(dtype))
