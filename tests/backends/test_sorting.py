"""argsort, sort, searchsorted, argmax and argmin in compiled code: NaN, ties, signs of zero."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.radix import COUNTED, FEW, MANY
from backsolve.backends.native.selection import LONG
from backsolve.primitive import P
from backsolve.testing.backends import check_compiled

DTYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.uint8, np.uint64]
DTYPES += [np.bool_, np.complex64, np.complex128]
SHAPES = [((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 40, 3), 1), ((1,), 0), ((300,), 0)]
EMPTY = [((0,), 0), ((2, 0), 1), ((0, 3), 1)]
SPECIAL = np.array(
    [1.0, np.nan, -0.0, 0.0, np.inf, -np.inf, -np.nan, 0.0, -0.0, 1.0, -1e300, 5e-324]
)


def array(shape, dtype, seed=0):
    """Few different values: many ties."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-4, 5, size=shape)
    if np.dtype(dtype).kind == "c":
        values = values // 2 + 1j * rng.integers(-2, 3, size=shape)
    return (values > 0) if dtype == np.bool_ else np.asarray(values).astype(dtype)


def argsort(x, axis=-1):
    return np.argsort(x, axis=axis, stable=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_argsort_is_stable(dtype):
    for shape, axis in SHAPES + EMPTY:
        f = lambda x, axis=axis: argsort(x, axis)
        assert check_compiled(f, [array(shape, dtype)], f"{shape} {axis}")


@pytest.mark.parametrize("n", [1, FEW, FEW + 1, 1000, COUNTED, MANY + 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_way_to_sort(n, dtype):
    numbers = np.random.default_rng(n).normal(size=n) * 2.0**28
    both = bs.jit(lambda x, y: (argsort(x), np.sort(y)))
    for x in (numbers, np.sort(numbers), np.sort(numbers)[::-1].copy(), numbers * 0):
        with np.errstate(all="ignore"):
            x = x.astype(dtype)
        order, line = both(x, x)
        np.testing.assert_array_equal(order, argsort(x))
        np.testing.assert_array_equal(line, np.sort(x))


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_the_whole_range_of_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, limits.max, limits.min, -1, 1, limits.min + 1, limits.max - 1] * 9, dtype)
    assert check_compiled(argsort, [x])


@pytest.mark.parametrize("copies", [1, 9, 1 + COUNTED // 12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_special_numbers(dtype, copies):
    with np.errstate(over="ignore", under="ignore"):
        x = np.random.default_rng(1).permutation(np.tile(SPECIAL, copies)).astype(dtype)
    assert check_compiled(argsort, [x])
    got, expected = bs.jit(np.sort)(x), np.take_along_axis(x, argsort(x), 0)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[expected == 0]))
    assert check_compiled(np.sort, [x])
    for f in (np.argmax, np.argmin):
        assert check_compiled(f, [x])
        assert check_compiled(f, [x[~np.isnan(x)]])
    line = np.sort(x)
    for side in ("left", "right"):
        assert check_compiled(lambda a, v, side=side: np.searchsorted(a, v, side), [line, x])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_special_complex_numbers(dtype):
    """All pairs of special parts: NaN in either part comes after all numbers, in NumPy's order."""
    with np.errstate(all="ignore"):
        real, imaginary = (x.astype(np.float32) for x in np.meshgrid(SPECIAL, SPECIAL))
    x = np.empty(real.size, dtype)
    x.real, x.imag = real.ravel(), imaginary.ravel()
    x = np.random.default_rng(0).permutation(x)
    line = np.sort(x)
    for part in (x, x[:20], x[~np.isnan(x)]):
        assert check_compiled(argsort, [part])
        assert check_compiled(np.argmax, [part])
        assert check_compiled(np.argmin, [part])
        for side in ("left", "right"):
            search = lambda a, v, side=side: np.searchsorted(a, v, side)
            assert check_compiled(search, [line, part])
            assert check_compiled(search, [np.sort(SPECIAL), part])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "f",
    [
        np.sort,
        lambda x: np.sort(x, axis=0)[::-1],
        lambda x: np.median(x, axis=1),
        lambda x: np.sort(x[::-2].T * 2, axis=0) * np.arange(1, x.shape[1] + 1)[:, None],
        lambda x: x[argsort(x[:, 0])],
        lambda x: np.take_along_axis(x, np.argmax(x, axis=1)[:, None], 1),
        lambda x: x[np.argmin(x, axis=0)],
        lambda x: np.sort(np.exp(x) + 1, axis=1) + x,
    ],
)
def test_values_and_gradients(f, dtype):
    x = np.random.default_rng(2).normal(size=(6, 5)).astype(dtype)
    assert check_compiled(f, [x])
    assert check_compiled(bs.grad(lambda x: np.sum(np.sin(f(x)))), [x], ulps=1000)


@pytest.mark.parametrize("f", [np.argmax, np.argmin])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arg_reductions(f, dtype):
    for shape, axis in [*SHAPES, ((0, 3), 1)]:
        g = lambda x, axis=axis: f(x, axis=axis)
        assert check_compiled(g, [array(shape, dtype)], f"{shape} {axis}")
    assert check_compiled(f, [array((3, 4), dtype)])
    with pytest.raises(ValueError, match="of no entries"):
        bs.jit(lambda x: f(x, axis=0))(array((0, 3), dtype))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128])
def test_searchsorted(dtype, side):
    f = lambda a, v: np.searchsorted(a, v, side)
    for n in (0, 1, 2, 3, 7, 8, 9, 100):
        line = np.sort(array((n,), dtype, seed=n))
        for v in (array((4, 5), dtype), array((), dtype), array((0,), dtype)):
            assert check_compiled(f, [line, v], f"{n}")
    line = np.arange(10, dtype=dtype)
    assert check_compiled(lambda a, v: np.searchsorted(a[::2], v * 2, side) * v, [line, line])
    assert check_compiled(f, [line, np.linspace(-1, 11, 50)])
    assert check_compiled(lambda v: np.searchsorted(np.arange(3, 9), v + 0, side), [line])


def test_gradient_of_sorted_complex_numbers():
    x = array((5, 7), np.complex128, 1) + np.random.default_rng(3).normal(size=(5, 7))
    weights = np.arange(35.0).reshape(5, 7)

    def total(x):
        return np.sum(np.sort(x).imag * weights) + np.sum(np.sort(x, axis=0).real ** 2)

    assert check_compiled(bs.grad(total), [x])


def test_code_does_not_grow_with_the_array():
    f = bs.jit(lambda x: (np.sort(x, axis=0), np.argmax(x, axis=1)))
    small, large = (len(f.lower(np.ones((n, n))).stages["llvm"]) for n in (400, 1600))
    assert large < 1.5 * small


def test_functions_are_shared():
    f = bs.jit(lambda x, y: (np.sort(x), np.sort(y), argsort(-x), argsort(-y)))
    text = f.lower(np.ones(50), np.ones(60)).stages["llvm"]
    defined = [line for line in text.splitlines() if line.startswith("define") and "@sort." in line]
    assert len(defined) == 2


def test_only_reading_in_order_is_sorting():
    x = array((6, 7), np.float64) + np.arange(7) / 8
    places = np.array([[2], [0], [1], [3], [5], [4]])
    calls = {
        "sort": lambda x: np.sort(x, 1) + np.sort(x, 0),
        "argsort": lambda x: np.take_along_axis(x * 2, np.argsort(x, 1), 1),
        "argsort ": lambda x: x[places, np.argsort(x, 1)],
        "argsort  ": lambda x: (np.sort(x, 1), np.argsort(x, 1)),
    }
    for name, f in calls.items():
        steps = bs.jit(f).lower(x).stages["steps"]
        assert ("argsort" in steps) == name.startswith("argsort")
        assert check_compiled(f, [x])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8])
@pytest.mark.parametrize("n", [7, LONG, 5000, 70000])
def test_selection(n, dtype):
    """Ranks as argsort gives them, also where entries are equal, lie close together or are NaN."""
    rng = np.random.default_rng(n)
    lines = [rng.normal(size=n) * 50, np.zeros(n), np.arange(n)[::-1] % 99, 7 + rng.random(n) / 1e3]
    if np.dtype(dtype).kind == "f":
        lines.append(np.where(rng.random(n) < 0.01, np.nan, rng.normal(size=n)))
    ranks = (0, n // 3, n // 3 + 1, n - 1)
    f = bs.jit(lambda x: P.ranked(x, axis=0, ranks=ranks))
    for x in lines:
        with np.errstate(all="ignore"):
            x = x.astype(dtype)
        expected = argsort(x)[list(ranks)]
        np.testing.assert_array_equal(f(x), expected)
        np.testing.assert_array_equal(P.ranked(x, axis=0, ranks=ranks), expected)


def test_medians_and_quantiles_select():
    x = np.random.default_rng(0).normal(size=(3, LONG + 1))
    calls = [
        lambda x: np.median(x, axis=1),
        lambda x: np.quantile(x, [0.1, 0.5], axis=1),
        lambda x: np.percentile(x, 30, axis=1, method="nearest"),
        lambda x: np.median(x, axis=0) * np.median(x),
    ]
    for f in calls:
        steps = bs.jit(f).lower(x).stages["steps"]
        assert "select" in steps
        assert "argsort" not in steps
        np.testing.assert_allclose(f(bs.tensor(x)).value, f(x), rtol=1e-14)
        assert check_compiled(f, [x])
        assert check_compiled(bs.grad(lambda x, f=f: np.sum(f(x) ** 2)), [x])
    traced = lambda x, q: np.quantile(x, q)
    assert check_compiled(traced, [x, np.array([0.2, 0.9])])
    assert check_compiled(lambda x: np.quantile(x, np.linspace(0, 1, 40)), [x])
    assert np.isnan(bs.jit(np.median)(np.where(x > 2, np.nan, x)))


def test_ranks_must_be_there():
    with pytest.raises(ValueError, match="no ranks"):
        bs.jit(lambda x: P.ranked(x, axis=0, ranks=(3,)))(np.ones(3))
