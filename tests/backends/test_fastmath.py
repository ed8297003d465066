"""fastmath: the same numbers within rounding, by arithmetic that LLVM may reorder."""

from __future__ import annotations

import numpy as np

import backsolve as bs


def f(x, w):
    return np.sum(np.tanh(x * w + x / 3.0) / (1.0 + x * x))


def test_values_and_gradients():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(50, 7)), rng.normal(size=7)
    fast = bs.jit(f, fastmath=True)
    np.testing.assert_allclose(fast(x, w), f(x, w), rtol=1e-12)
    np.testing.assert_allclose(bs.grad(fast)(x, w), bs.grad(f)(x, w), rtol=1e-12)
    decorated = bs.jit(fastmath=True)(bs.grad(f))
    np.testing.assert_allclose(decorated(x, w), bs.grad(f)(x, w), rtol=1e-12)


def test_only_where_it_is_asked_for():
    x = np.ones(100)
    plain = bs.jit(lambda x: x * 2.0 + 1.0).lower(x).stages["llvm"]
    fast = bs.jit(lambda x: x * 2.0 + 1.0, fastmath=True).lower(x).stages["llvm"]
    assert " fast " in fast
    assert " fast " not in plain
    kept = bs.jit(lambda x: (x + 1e16) - 1e16)(np.array([1.0, 3.0]))
    np.testing.assert_array_equal(kept, (np.array([1.0, 3.0]) + 1e16) - 1e16)
