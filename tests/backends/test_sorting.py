"""argsort, sort, searchsorted, argmax and argmin in compiled code: NaN, ties, signs of zero."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.sorting import FEW
from backsolve.testing.backends import check_compiled

DTYPES = [np.float64, np.float32, np.int64, np.int32, np.bool_, np.complex64, np.complex128]
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


@pytest.mark.parametrize("n", [1, 2, FEW - 1, FEW, FEW + 1, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_way_to_sort(n, dtype):
    numbers = np.random.default_rng(n).normal(size=n) * 2.0**28
    for x in (numbers, np.sort(numbers), np.sort(numbers)[::-1].copy(), numbers * 0):
        assert check_compiled(argsort, [x.astype(dtype)])


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_the_whole_range_of_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, limits.max, limits.min, -1, 1, limits.min + 1, limits.max - 1] * 9, dtype)
    assert check_compiled(argsort, [x])


@pytest.mark.parametrize("copies", [1, 9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_special_numbers(dtype, copies):
    with np.errstate(over="ignore"):
        x = np.tile(SPECIAL, copies).astype(dtype)
    assert check_compiled(argsort, [x])
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


def test_one_function_sorts_all():
    f = bs.jit(lambda x, y: (np.sort(x), np.sort(y), argsort(y)))
    text = f.lower(np.ones(50), np.ones(60, np.float32)).stages["llvm"]
    lines = [line for line in text.splitlines() if "@sort(" in line]
    assert sum(line.startswith("define") for line in lines) == 1
    assert len(lines) > 1
