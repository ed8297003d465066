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


@pytest.mark.parametrize(
    "f",
    [
        np.mean,
        np.median,
        np.average,
        lambda x: np.mean(x, axis=1),
        lambda x: np.mean(x, axis=0, keepdims=True, where=x > 0),
    ],
)
def test_means_of_float16_do_not_go_through_its_sums(f):
    x = np.full((4, 33), 6e4, np.float16)
    expected = f(x)
    assert expected.dtype == np.float16
    assert np.all(expected == np.float16(6e4))
    np.testing.assert_array_equal(f(bs.tensor(x)), expected, strict=True)
    np.testing.assert_array_equal(bs.jit(f)(x), expected, strict=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: np.mean(x @ w),
        lambda x, w: np.sum(x @ w, axis=0) / 9,
        lambda x, w: np.einsum("ij,k->ik", x, w[:, 0]),
    ],
)
def test_float16_is_multiplied_before_it_is_summed(f):
    x, w = np.full((40, 33), 3e3, np.float16), np.full((33, 5), 1e-3, np.float16)
    gradient = bs.grad(lambda x, w, s: np.sum(f(x, w) * s), argnums=(0, 1))
    small = np.full(np.shape(f(x, w)), 1e-3, np.float16)
    assert np.all(np.isfinite(f(x, w)))
    np.testing.assert_allclose(bs.jit(f)(x, w), f(x, w), rtol=1e-2)
    for a, b in zip(bs.jit(gradient)(x, w, small), gradient(x, w, small), strict=True):
        assert np.all(np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=2e-2)


def test_beside_infinity_a_share_is_zero():
    f = lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True)
    x = np.array([[1.0, np.inf, 2.0], [0.0, -np.inf, 0.0], [np.nan, 1.0, 2.0]])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(bs.jit(f)(x), f(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sqrt(x * x - y * y),
        lambda x, y: np.sqrt(np.sum(x * x - y * y)),
        lambda x, y: 1 / (1 + 1 / (x * x - y * y)),
    ],
)
def test_a_root_is_taken_of_sums_that_are_rounded_as_in_numpy(f, dtype):
    """Fused, x² − y² is the rounding error of a square, and half of its roots are NaN."""
    x = np.random.default_rng(0).normal(size=100).astype(dtype)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(bs.jit(f)(x, x.copy()), f(x, x))


def test_a_root_in_a_loop_is_taken_of_sums_that_are_rounded_as_in_numpy():
    def f(x, y):
        total, i = x[0] * 0, 0
        while i < len(x):
            total, i = total + np.sqrt(x[i] * x[i] - y[i] * y[i]), i + 1
        return total

    x = np.random.default_rng(0).normal(size=100)
    assert bs.jit(f)(x, x.copy()) == f(x, x) == 0


def product_of_pairs(v):
    p = np.float32(1)
    for i in range(len(v)):
        p = p * v[i] * (1 / v[i])
    return p


def product_from_the_last(v):
    p = v[-1]
    for i in range(len(v) - 1):
        p = p * v[i]
    return p


@pytest.mark.parametrize(
    ("f", "v"),
    [
        (np.prod, [1e20, 1e-20] * 40),
        (lambda v: np.prod(np.stack([v, v]), axis=1), [1e20, 1e-20] * 40),
        (product_of_pairs, [1e20] * 9),
        (product_from_the_last, [1e20, 1e20, *[1.0] * 50, 1e-30]),
    ],
)
def test_products_are_taken_in_order(f, v):
    v = np.array(v, np.float32)
    assert np.all(np.isfinite(f(v)))
    np.testing.assert_allclose(bs.jit(f)(v), f(v), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_derivative_of_logsumexp_beside_infinity(dtype):
    x = np.array([[1e4, np.inf, -1e4], [-np.inf, -np.inf, -np.inf], [-np.inf, 0, 0]], dtype)
    gradient = bs.grad(lambda x: np.sum(bs.numpy.logsumexp(x, axis=1)))
    with np.errstate(invalid="ignore", over="ignore"):
        expected = gradient(x)
    np.testing.assert_allclose(bs.jit(gradient)(x), expected, rtol=1e-3)
    assert expected[0, 0] == expected[0, 2] == 0
