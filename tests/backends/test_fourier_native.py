"""Fourier transforms in compiled code: every way through the passes, against NumPy and exact sums."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.fourier.roots import factors, near_root, roots, smooth
from backsolve.primitive import P
from backsolve.testing import check_grads

RNG = np.random.default_rng(5)
# Single radices, products of all of them, large primes, those times others; all below the length of a matrix.
LENGTHS = [*range(1, 18), 22, 26, 35, 60, 64, 97, 101, 121, 202, 243, 256, 323, 1000, 1001]
LONG = [
    1 << 14,
    20000,
    3**9,
    32771,
    2 * 3 * 5 * 7 * 11 * 13,
]  # a matrix, also of odd lengths, and a prime


def numbers(shape, dtype):
    dtype = np.dtype(dtype)
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype.kind == "c" else x).astype(dtype)


def agrees(f, *args):
    """Compiled as by NumPy, to some digits of the precision; natively."""
    compiled = bs.jit(f)
    results = compiled(*args), f(*args)
    (made,) = compiled.stats()["specialisations"]
    assert made["native"]
    assert made["elsewhere"] == 0
    pairs = zip(*results, strict=True) if isinstance(results[0], tuple) else [results]
    for got, expected in pairs:
        assert got.dtype == expected.dtype
        scale = np.sqrt(np.mean(np.abs(expected) ** 2)) if expected.size else 1.0
        digits = np.finfo(got.dtype).eps * 32 * scale
        np.testing.assert_allclose(got, expected, rtol=0, atol=digits)


def all_agree(n, size, before=(), after=()):
    """All transforms of n numbers along an axis between others."""
    axis, half = len(before), n // 2 + 1

    def f(z, x, h):
        both = [t(a, axis=axis) for t in (np.fft.fft, np.fft.ifft) for a in (z, x)]
        return (*both, np.fft.rfft(x, axis=axis), np.fft.irfft(h, n, axis=axis))

    shapes = [(*before, k, *after) for k in (n, n, half)]
    dtypes = [f"c{2 * size}", f"f{size}", f"c{2 * size}"]
    agrees(f, *map(numbers, shapes, dtypes))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("size", [4, 8])
def test_lines(n, size):
    all_agree(n, size, before=(3,))


@pytest.mark.parametrize("n", LENGTHS)
def test_columns(n):
    """Also of a width below that of a vector, and such that do not fill their last one."""
    all_agree(n, (4, 8)[n // 2 % 2], before=(2,), after=((2, 3, 5, 8, 9)[n % 5],))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 10, 24, 31])
@pytest.mark.parametrize("size", [4, 8])
def test_short_lines_are_done_some_at_a_time(n, size):
    all_agree(n, size, before=(37,))


@pytest.mark.parametrize("n", LONG)
@pytest.mark.parametrize("size", [4, 8])
def test_long_lines(n, size):
    all_agree(n, size)


def test_many_columns_are_done_some_at_a_time():
    agrees(lambda a: np.fft.fft(a, axis=0), numbers((30, 1001), "c16"))
    agrees(lambda a: np.fft.rfft(a, axis=0), numbers((1000, 37), "f4"))
    agrees(lambda a: np.fft.fftn(a), numbers((12, 50, 7), "c8"))
    agrees(lambda a: np.fft.irfftn(a, (6, 9), (0, 1)), numbers((6, 5), "c16"))


@pytest.mark.parametrize("workers", [1, 3])
def test_threads_change_nothing(workers):
    before = bs.get_threads()
    long, batch = numbers(1 << 17, "c16"), numbers((600, 512), "f8")
    expected = [bs.jit(f)(a) for f, a in ((np.fft.ifft, long), (np.fft.rfft, batch))]
    try:
        bs.set_threads(workers)
        got = [bs.jit(lambda a: np.fft.ifft(a))(long), bs.jit(lambda a: np.fft.rfft(a))(batch)]
    finally:
        bs.set_threads(before)
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0, 3), (2, 0)])
def test_empty_batches(shape):
    f = lambda a: np.fft.rfft(a, axis=0 if shape[0] else 1)
    assert bs.jit(f)(np.zeros(shape)).shape == f(np.zeros(shape)).shape


def test_no_numbers_are_refused_as_by_numpy():
    with pytest.raises(ValueError, match="data points"):
        bs.jit(lambda a: P.fft(a, axes=(1,), inverse=False))(np.zeros((2, 0)))


@pytest.mark.parametrize("n", [8, 15, 97, 20000])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_line_that_is_not_finite_leaves_others_alone(n, bad):
    a = numbers((4, n), "c16")
    a[2, n // 3] = bad
    for f in (lambda a: np.fft.fft(a), lambda a: np.fft.irfft(a, 2 * n - 1)):
        with np.errstate(invalid="ignore"):
            expected = f(a)
        got = bs.jit(f)(a)
        np.testing.assert_array_equal(np.isfinite(got).all(axis=1), [True, True, False, True])
        finite = np.isfinite(expected).all(axis=1)
        np.testing.assert_allclose(got[finite], expected[finite], atol=1e-10)
    got = bs.jit(lambda a: np.fft.fft(a, axis=0))(a)
    assert not np.isfinite(got[:, n // 3]).any()
    assert np.isfinite(np.delete(got, n // 3, axis=1)).all()


def test_imaginary_parts_that_real_results_cannot_have_are_dropped():
    for n in (8, 9):
        a = numbers(n // 2 + 1, "c16")
        a[0] += 1j * np.nan
        if n % 2 == 0:
            a[-1] += 1j * np.inf
        agrees(lambda a, n=n: np.fft.irfft(a, n), a)


@pytest.mark.parametrize("n", [10, 15, 17, 1 << 20, 1 << 19 | 1])
def test_as_exact_as_can_be(n):
    """A few entries as sums in extended precision, of numbers whose transforms are of one size."""
    a = numbers(n, "c16")
    got = bs.jit(lambda a: np.fft.fft(a))(a)
    scale, j = np.sqrt(n), np.arange(n)
    for k in {1, n // 3}:
        w = roots(j * k % n, n)
        exact = [
            float(np.sum(p * a.real.astype(np.longdouble), dtype=np.longdouble)
                  - np.sum(q * a.imag.astype(np.longdouble), dtype=np.longdouble))
            for p, q in ((w[:, 0], w[:, 1]), (w[:, 1], -w[:, 0]))
        ]  # fmt: skip
        assert abs(got[k] - complex(*exact)) < 4e-16 * scale * np.log2(n)


def test_roots_are_right_to_the_last_digit():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workprec(120):
        for n in (1, 2, 3, 5, 8, 12, 97, 1 << 20, 1000003):
            k = np.unique(np.concatenate([np.arange(min(n, 9)), RNG.integers(0, n, 50)]))
            for power, (c, s) in zip(k.tolist(), roots(k, n), strict=True):
                z = mpmath.expjpi(-2 * mpmath.mpf(power) / n)
                assert abs(z - mpmath.mpc(c, s)) < 1.5e-16


def test_lengths():
    for n in range(1, 2000):
        found = factors(n)
        assert found is None or np.prod(found, dtype=int) == n
        assert n <= smooth(n) <= max(8, 2 * n)
        assert factors(smooth(n)) is not None
    first, second = near_root((8, 8, 4, 5, 5, 3))
    assert np.prod(first) * np.prod(second) == 19200
    assert 1 / 2 < np.prod(first) / np.prod(second) < 2


@pytest.mark.parametrize("n", [6, 7, 34])
def test_derivatives(n):
    def f(x):
        y = np.fft.rfft(np.sin(x))
        return np.fft.irfft(y * np.abs(y), n) + np.real(np.fft.ifft(np.fft.fft(x * x)))

    check_grads(bs.jit(f), (numbers(n, "f8"),), order=2)


def test_in_a_batch_and_in_a_loop():
    def f(x):
        for _ in range(3):
            x = np.fft.irfft(np.fft.rfft(x) * 0.5j, 12) + x
        return x

    xs = numbers((5, 12), "f8")
    expected = np.stack([f(x) for x in xs])
    np.testing.assert_allclose(bs.jit(bs.vmap(f))(xs), expected, atol=1e-14)
    np.testing.assert_allclose(bs.vmap(bs.jit(f))(xs), expected, atol=1e-14)
    g = lambda x: np.sum(f(x) ** 3)
    np.testing.assert_allclose(bs.jit(bs.grad(g))(xs[0]), bs.grad(g)(xs[0]), atol=1e-12)


def test_in_a_loop_of_unknown_length():
    def f(x, n):
        for k in range(n):
            x = np.fft.irfft(np.fft.rfft(x) * 0.9, 8) + np.sin(k)
        return x

    x = numbers(8, "f8")
    compiled = bs.jit(f)
    np.testing.assert_allclose(compiled(x, 5), f(x, 5), atol=1e-13)
    assert compiled.stats()["specialisations"][0]["elsewhere"] == 0
    loss = lambda f: lambda x, n: np.sum(f(x, n) ** 2)
    expected = bs.grad(loss(f))(x, 5)
    np.testing.assert_allclose(bs.jit(bs.grad(loss(f)))(x, 5), expected, atol=1e-12)
    np.testing.assert_allclose(bs.grad(loss(compiled))(x, 5), expected, atol=1e-12)


def test_donated_arguments_are_taken():
    f = lambda a: np.fft.fft(a, axis=0)
    a = numbers((6, 11), "c16")
    expected, given = f(a), a.copy()
    got = bs.jit(f, donate=(0,))(given)
    np.testing.assert_allclose(got, expected, atol=1e-13)


def test_a_spectrum_that_is_too_long_is_cut_and_one_too_short_filled_up():
    for rows in (2, 9):
        agrees(lambda a: np.fft.irfft(a, 9, axis=0), numbers((rows, 3), "c16"))
        got = bs.jit(lambda a: P.irfft(a, n=9, axis=0))(a := numbers((rows, 3), "c16"))
        np.testing.assert_allclose(got, np.fft.irfft(a, 9, axis=0) * 9, atol=1e-13)


def test_strided_arguments():
    a = numbers((9, 30), "c16")
    agrees(lambda a: np.fft.fft(a.T[::2], axis=0), a)
    agrees(lambda a: np.fft.fft(a[:, 3:20], n=10), a)
    agrees(lambda a: np.fft.irfft(a[:, ::-1], n=64, norm="ortho"), a)
