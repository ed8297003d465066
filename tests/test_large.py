"""Eager mode: a compiled loop takes over after a while, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.primitive import hooks
from backsolve.primitives import large as module


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_compiled_loop_agrees(dtype, monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", module.LARGE)
    monkeypatch.setattr(module, "compiled_is_faster", lambda: True)
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
    monkeypatch.setattr(module, "compiled_is_faster", lambda: False)
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
