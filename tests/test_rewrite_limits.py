"""Where a rewriting would change the result, it is not made."""

import numpy as np
import pytest

import backsolve as bs

X = np.array([0.3, -1.2, 0.7])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (np.exp(x) / np.sum(np.exp(bs.stop_gradient(x))))[0],
        lambda x: (np.exp(bs.stop_gradient(x)) / np.sum(np.exp(x)))[0],
        lambda x: np.exp(x[0]) / (1 + np.exp(bs.stop_gradient(x)[0])),
    ],
)
def test_a_softmax_of_which_a_part_is_constant(f):
    """One value, two derivatives: it is no softmax."""
    np.testing.assert_allclose(bs.jit(bs.grad(f))(X), bs.grad(f)(X), rtol=1e-14)
    assert not np.allclose(bs.grad(f)(X), bs.grad(lambda x: (np.exp(x) / np.sum(np.exp(x)))[0])(X))


@pytest.mark.parametrize("factor", [-2.0, 0.0, np.inf, np.nan])
def test_logarithms_of_multiples_that_have_none(factor):
    f = lambda x: np.log(factor * np.sum(np.exp(x)))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(bs.jit(f)(X), f(X))


def test_integers_wrap_before_their_logarithm_is_taken():
    f = lambda n: np.log(1 + n)
    n = np.array([127, 3], np.int8)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(bs.jit(f)(n), f(n), rtol=1e-3)  # of half precision
    assert np.isnan(bs.jit(f)(n)[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_negation_in_a_narrower_dtype_wraps(dtype):
    x, y = np.array([-128, 1]).astype(dtype), np.array([2, 3], np.int32)
    for f in (
        lambda x, y: (-x) * y,
        lambda x, y: y * (-x),
        lambda x, y: y + (-x),
        lambda x, y: y - (-x),
        lambda x, y: (-x) * (-y),
    ):
        np.testing.assert_array_equal(bs.jit(f)(x, y), f(x, y))


def test_of_no_entries_nothing_fails():
    f = lambda a, b: np.broadcast_to(a, (0, 3)) // np.broadcast_to(b, (0, 3))
    assert bs.jit(f)(np.array([1]), np.array([0])).shape == (0, 3)


def test_a_sum_is_masked_if_one_of_its_terms_is_not():
    """The square root has an infinite derivative at 0, where another term goes on."""

    def f(x):
        inside = np.where(x > 0, np.sqrt(x), 0.0)
        return np.sum(np.where(x > 0, inside + x, 0.0) * np.arange(1.0, 4.0) + inside)

    x = np.array([0.0, 4.0, -1.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(bs.jit(f)(x), f(x))
        np.testing.assert_allclose(bs.jit(bs.grad(f))(x), bs.grad(f)(x))
    y = lambda x: np.where(x > 0, np.where(x > 0, 2 * x, 0.0) + x**2, 0.0)
    np.testing.assert_array_equal(bs.jit(y)(x), y(x))
