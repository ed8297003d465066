"""What the lines of numpy_lines/ cannot say: compiled code, results whose length depends on values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp

rng = np.random.default_rng(11)
X = rng.normal(size=(3, 4))
V = rng.normal(size=5)
U = rng.uniform(0.5, 2.0, size=5)

COMPILED: list[Any] = [
    lambda x: np.quantile(x, [0.2, 0.7], axis=1),
    lambda x: np.quantile(x, 0.3, method="inverted_cdf", weights=np.abs(x)),
    lambda x: np.nanquantile(np.where(x > -0.5, x, np.nan), 0.4, axis=0),
    lambda x: np.nanmedian(np.where(x > -0.5, x, np.nan)),
    lambda x: np.nanstd(np.where(x > -0.5, x, np.nan), axis=1),
    lambda x: np.nancumprod(np.where(x > -0.5, x, np.nan), axis=1),
    lambda x: np.bincount([0, 3, 1, 1], weights=x[0]),
    lambda x: np.histogram(x, 4, weights=x**2)[0],
    lambda x: np.histogram(x, 4, density=True)[0],
    lambda x: np.histogram2d(x[0], x[1], 2, density=True)[0],
    lambda x: np.choose([[0], [1], [0]], [x, x**2]),
    lambda x: np.piecewise(x, [x < 0, x > 0.5], [np.exp, np.sin, 2.0]),
    lambda x: np.apply_along_axis(np.cumsum, 0, x),
    lambda x: np.polyfit(x[0], x[1], 2),
    lambda x: np.polymul(x[0], x[1]),
    lambda x: np.polydiv(x[0], x[1][:2]),
    lambda x: np.poly(x[0]),
    lambda x: np.poly(x[:, :3]),
    lambda x: np.polyint(x[0], 2, k=x[1]),
    lambda x: np.logspace(x[0], 1.0, 3),
    lambda x: np.geomspace(np.exp(x[0]), 20.0, 4),
    lambda x: np.unwrap(4 * x),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)),
    lambda x: np.interp(x, [0.0, 0.7, 1.1], x[:, 0], period=2.0),
    lambda x: np.take_along_axis(x, np.lexsort((x, x.round(0)), axis=1), 1),
    lambda x: bnp.top_k(x, 2, axis=0)[0],
    lambda x: bnp.top_k(x, 3, mode="smallest")[0],
    lambda x: np.where(np.isin(np.digitize(x, [-0.5, 0.0, 0.5]), [1, 3]), x, x**2),
    lambda x: np.where(np.digitize(x, x[0][::-1].cumsum() ** 2) > 1, x, 2 * x),
    lambda x: x.ravel()[np.ravel_multi_index((np.argmax(x, 1), np.argmin(x, 1)), (4, 4)) % 12],
    lambda x: x[np.unravel_index(np.argsort(x.ravel())[:3], x.shape)],
]


def total(f: Any) -> Any:
    return lambda x: sum((y * y).sum() for y in bs.tree.flatten(f(x))[0])


@pytest.mark.parametrize("f", COMPILED)
def test_compiled_as_eager(f: Any) -> None:
    """Values and derivatives of two orders inside of jit are those of eager mode."""
    np.testing.assert_allclose(bs.jit(total(f))(X), total(f)(X), rtol=1e-9)
    gradient = bs.grad(total(f))
    np.testing.assert_allclose(bs.jit(gradient)(X), gradient(X), rtol=1e-7, atol=1e-9)
    bend = bs.grad(lambda x: (gradient(x) * np.cos(x)).sum())
    np.testing.assert_allclose(bs.jit(bend)(X), bend(X), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("unique", np.unique),
        ("unique", np.unique_counts),
        ("setdiff1d", lambda x: np.setdiff1d(x, V)),
        ("intersect1d", lambda x: np.intersect1d(x, V)),
        ("setxor1d", lambda x: np.setxor1d(x, V)),
        ("trim_zeros", np.trim_zeros),
        ("bincount", lambda x: np.bincount(x.astype(int))),
        ("histogram", lambda x: np.histogram(x, "auto")),
        ("real_if_close", lambda x: np.real_if_close(x * 1j)),
    ],
)
def test_lengths_that_depend_on_values_are_not_staged(name: str, f: Any) -> None:
    with pytest.raises(bs.errors.TracedValueError, match=f"`{name}` cannot be staged"):
        bs.jit(f)(np.abs(V))


def test_entries_of_a_set_keep_their_derivative() -> None:
    x = np.array([3.0, 1.0, 3.0, 2.0])
    np.testing.assert_allclose(
        bs.grad(lambda x: (np.unique(x) * [1.0, 10.0, 100.0]).sum())(x), [100, 1, 0, 10]
    )
    np.testing.assert_allclose(bs.grad(lambda x: np.setdiff1d(x, [1.0]).sum())(x), [1, 0, 0, 1])


def test_a_set_cannot_be_replayed() -> None:
    x = bs.tensor([3.0, 1.0, 2.0], requires_grad=True)
    y = (np.unique(x) * np.arange(3.0)).sum()
    x.value = [1.0, 2.0, 3.0]
    with pytest.raises(bs.errors.FreedGraphError, match="cannot be replayed"):
        y.forward()


def test_weights_of_counts() -> None:
    g = bs.grad(lambda w: (np.bincount([1, 0, 1, 4], weights=w) ** 2).sum())(np.arange(4.0))
    np.testing.assert_allclose(g, [4, 2, 4, 6])


def test_quantiles_vary_with_their_level() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert bs.grad(lambda q: np.quantile(x, q))(0.5) == pytest.approx(6.0)
    assert bs.grad(lambda q: np.percentile(x, q))(90.0) == pytest.approx(0.12)
    assert np.quantile(bs.tensor(np.float32(x)), 0.3).dtype == np.float32
    assert np.quantile(bs.tensor(np.float32(x)), [0.3]).dtype == np.float64


def test_quantiles_of_nan_and_of_nothing() -> None:
    x = np.array([[1.0, np.nan, 3.0], [np.nan] * 3, [4.0, 5.0, 9.0]])
    t = bs.tensor(x)
    np.testing.assert_array_equal(np.quantile(t, 0.5, axis=1).value, [np.nan, np.nan, 5])
    np.testing.assert_array_equal(np.nanquantile(t, 0.5, axis=1).value, [2, np.nan, 5])
    np.testing.assert_array_equal(np.nanvar(t, axis=1).value[[0, 1]], [1, np.nan])
    with pytest.raises(ValueError, match="nothing but NaN"):
        np.nanargmax(t, axis=1)
    with pytest.raises(IndexError):
        np.quantile(bs.tensor(np.zeros(0)), 0.5)
    with pytest.raises(ValueError, match="from 0 to 1"):
        np.quantile(t, 1.5)
    with pytest.raises(ValueError, match="methods"):
        np.quantile(t, 0.5, method="best")


@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
def test_histograms_count_as_numpy_does(dtype: Any) -> None:
    """Entries on edges included."""
    x = np.arange(24).reshape(4, 6) % 7
    x = x.astype(dtype) if dtype is not bool else x
    for bins in (3, 7, [0, 2, 4, 7], [0.5, 1.0]):
        got, expected = np.histogram(bs.tensor(x), bins), np.histogram(x, bins)
        for y, r in zip(got, expected, strict=True):
            np.testing.assert_array_equal(y.value, r)
            assert y.dtype == r.dtype


def test_largest_entries_of_equal_ones_are_the_first() -> None:
    x = bs.tensor(np.array([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, -1.0]]))
    values, places = bnp.top_k(x, 2)
    np.testing.assert_array_equal(values.value, [[3, 3], [0, 0]])
    np.testing.assert_array_equal(places.value, [[1, 2], [0, 1]])
    with pytest.raises(ValueError, match="k from 0 to 4"):
        bnp.top_k(x, 5)


def test_memory_functions_keep_tensors() -> None:
    x = bs.tensor(V, requires_grad=True)
    for f in (bnp.ascontiguousarray, bnp.asfortranarray, bnp.require, bnp.asarray_chkfinite):
        assert f(x) is x
        assert type(f(V)) is np.ndarray
    g = bs.grad(lambda x: (np.ascontiguousarray(x) ** 2).sum())(V)
    np.testing.assert_allclose(g, 2 * V)
    with pytest.raises(ValueError, match="infs or NaNs"):
        bnp.asarray_chkfinite(bs.tensor([np.nan]))


def test_a_path_is_found_by_shapes() -> None:
    path = np.einsum_path("ij,jk,kl->il", bs.tensor(X), bs.tensor(X.T), X)
    assert path == np.einsum_path("ij,jk,kl->il", X, X.T, X)


def test_a_poor_fit_is_told() -> None:
    with pytest.warns(np.exceptions.RankWarning):
        np.polyfit(bs.tensor(V[:2]), U[:2], 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_staged_exponents_are_numpys(dtype):
    """At powers of two, at both ends of the range, below it, and where there is none."""
    info = np.finfo(dtype)
    ends = [
        info.max,
        info.tiny,
        info.smallest_subnormal,
        info.tiny / 3,
        0.0,
        np.inf,
        -np.inf,
        np.nan,
    ]
    powers = np.ldexp(1.0, np.arange(info.minexp - 5, info.maxexp)).astype(dtype)
    x = np.concatenate(
        [np.array(ends, dtype), powers, -powers, np.nextafter(powers, powers.dtype.type(0))]
    )
    for run in (bs.jit(np.frexp), bs.vmap(np.frexp)):
        for got, expected in zip(run(x), np.frexp(x), strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)
    assert bs.grad(lambda x: bs.jit(np.frexp)(x)[0])(3.7) == 0.25


def test_variances_with_nothing_to_go_by():
    x = np.arange(6.0).reshape(2, 3)
    none = np.array([[True, True, False], [False, False, False]])
    with pytest.raises(ValueError, match="not both"):
        np.var(bs.tensor(x), ddof=1, correction=1)
    got = bs.jit(lambda x: np.var(x, axis=1, where=none))(x)
    np.testing.assert_array_equal(got, [0.25, np.nan])
    gradient = bs.grad(lambda x: np.std(x, axis=1, where=none)[0])(x)
    np.testing.assert_allclose(gradient, [[-0.5, 0.5, 0], [0, 0, 0]])


def test_weights_of_covariances_are_checked():
    x = bs.tensor(np.ones((2, 3)))
    with pytest.raises(ValueError, match="aweights"):
        np.cov(x, aweights=np.ones(2))
    with pytest.raises(TypeError, match="whole numbers"):
        np.cov(x, fweights=np.ones(3))


def test_running_extrema_stay_at_nan_and_read_where_the_last_of_equal_ones_stands():
    x = np.array([1.0, 3.0, 3.0, 2.0, np.nan, 9.0])
    for f in (np.maximum.accumulate, np.minimum.accumulate):
        np.testing.assert_array_equal(bs.jit(f)(x), f(x))
    for run in (bs.jacobian, lambda f: bs.jit(bs.jacobian(f))):
        places = np.argmax(run(np.maximum.accumulate)(x[:4]), axis=1)
        np.testing.assert_array_equal(places, [0, 1, 2, 2])


def test_running_sums_of_probabilities_may_start_with_none():
    x = np.array([-np.inf, -np.inf, 0.3, -np.inf, 0.1])
    value, slope = bs.jit(bs.value_and_grad(lambda x: np.logaddexp.accumulate(x)[-1]))(x)
    np.testing.assert_allclose(value, np.logaddexp(0.3, 0.1))
    np.testing.assert_allclose(slope, np.exp(x - value))
