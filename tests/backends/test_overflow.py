"""Compiled code overflows where NumPy does, and nowhere else: sums and products keep their order."""

import numpy as np
import pytest

import backsolve as bs


def layer_norm(x):
    c = x - np.mean(x, axis=1, keepdims=True)
    return c / np.sqrt(np.mean(c * c, axis=1, keepdims=True))


@pytest.mark.parametrize(("x_scale", "g_scale"), [(1e17, 1e25), (1e-15, 1e-20), (1.0, 1.0)])
def test_layer_norm_of_large_numbers(x_scale, g_scale):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(2, 64)) * x_scale).astype(np.float32)
    g = (rng.normal(size=(2, 64)) * g_scale).astype(np.float32)
    gradient = bs.grad(lambda x, g: np.sum(layer_norm(x) * g))
    expected = gradient(x, g)
    assert np.all(np.isfinite(expected))
    size = np.abs(expected).max()
    np.testing.assert_allclose(bs.jit(gradient)(x, g) / size, expected / size, atol=1e-4)


def test_a_term_added_twice_is_not_doubled_first():
    f = lambda a, v: (a + v) + v
    a, v = np.full(9, -3e38, np.float32), np.full(9, 2e38, np.float32)
    np.testing.assert_array_equal(bs.jit(f)(a, v), f(a, v))
