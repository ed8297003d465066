"""Compiled arithmetic at the edges of every dtype: limits, wrap-round, signed zeros, NaN, infinities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import backsolve as bs
from backsolve.primitive import P
from backsolve.testing.samples import EVERY_INTEGER

INTEGERS = [np.dtype(t) for t in EVERY_INTEGER]
UNARY = (
    "absolute sign negative square reciprocal invert bitwise_count signbit floor isfinite real imag"
)
BINARY = (
    "add subtract multiply maximum minimum fmax fmin fmod gcd lcm left_shift right_shift "
    "bitwise_and bitwise_or bitwise_xor equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor"
)
FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-310, 5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan]
)


def edges(dtype):
    if dtype == np.bool_:
        return np.array([False, True])
    limits = np.iinfo(dtype)
    values = {limits.min, limits.min + 1, -3, -1, 0, 1, 2, 7, limits.max - 1, limits.max}
    return np.array([v for v in sorted(values) if limits.min <= v <= limits.max], dtype)


def compare(functions, *args):
    """Compiled together, the functions give NumPy's bits, on arrays long enough to be vectorised too.

    Returns how many of them NumPy has for these dtypes.
    """
    arrays = [np.tile(a, 9) for a in args]
    known, expected = [], []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for f in functions:
            try:
                y = f(*arrays)
            except TypeError:
                continue
            if y.dtype != np.float16:
                known.append(f)
                expected.append(y)
        compiled = bs.jit(lambda *xs: [f(*xs) for f in known])
        results = compiled(*arrays)
    (made,) = compiled.stats()["specialisations"]
    assert made["native"], made["reason"]
    for f, got, y in zip(known, results, expected, strict=True):
        assert got.dtype == y.dtype
        np.testing.assert_array_equal(got, y, err_msg=str(f))
        if got.dtype.kind == "f":
            numbers = ~np.isnan(y)
            if f in (np.maximum, np.fmin):  # of +0 and −0, NumPy takes either, by machine
                numbers &= y != 0
            np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(y)[numbers], str(f))
    return len(known)


def named(names):
    return [getattr(np, name) for name in names.split()]


def pairs(x, y):
    return [a.ravel() for a in np.meshgrid(x, y)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
class TestIntegers:
    def test_unary(self, dtype):
        # What NumPy makes of 1/0 depends on the machine, and on whether it took vectors.
        x = edges(dtype)
        rest = [f for f in named(UNARY) if f is not np.reciprocal]
        assert compare(rest, x) + compare([np.reciprocal], x[x != 0]) >= 6

    def test_binary(self, dtype):
        x, y = pairs(edges(dtype), edges(dtype))
        assert compare(named(BINARY), x[y != 0], y[y != 0]) >= 14
        names = [f for f in named(BINARY) if f not in (np.floor_divide, np.remainder, np.fmod)]
        assert compare(names, x, y) >= 11

    def test_power(self, dtype):
        exponents = np.array([0, 1, 2, 3, 7, 63, 64, 100]).astype(dtype)
        assert compare([np.power, lambda x, n: x**3], *pairs(edges(dtype), exponents)) == 2

    def test_casts(self, dtype):
        others = [*INTEGERS, np.dtype("f4"), np.dtype("f8")]
        assert compare([lambda x, to=t: x.astype(to) for t in others], edges(dtype)) == 11
        inside = np.array([0.0, 0.9, 1.5, 100.7])
        both = [lambda x, y: x.astype(dtype), lambda x, y: y.astype(dtype)]
        assert compare(both, inside, inside.astype(np.float32)) == 2

    def test_reductions(self, dtype):
        functions = [lambda x, f=f: f(x[None], axis=1) for f in named("sum prod max min any all")]
        assert compare(functions, edges(dtype)) == 6

    def test_mixed(self, dtype):
        for other in INTEGERS[::2]:
            functions = named("add multiply less equal maximum")
            assert compare(functions, *pairs(edges(dtype), edges(other))) == 5


def test_signed_and_unsigned_compare_exactly():
    x, y = pairs(edges(np.dtype("i8")), edges(np.dtype("u8")))
    tests = named("equal not_equal less less_equal greater greater_equal")
    assert compare(tests, x, y) == compare(tests, y, x) == 6


def test_a_negative_power_of_an_integer_is_an_error():
    f = bs.jit(np.power)
    np.testing.assert_array_equal(f(np.array([2, 3]), np.array([3, 2])), [8, 9])
    with pytest.raises(ValueError, match="negative integer powers"):
        f(np.array([2, 3]), np.array([3, -2]))
    with pytest.raises(ValueError, match="negative integer powers"):
        bs.jit(lambda x: x**-1)(np.array([2, 3]))


def test_python_integers_outgrow_their_bits_with_an_error():
    f = bs.jit(lambda x, n: x + n * n * n)
    np.testing.assert_array_equal(f(np.ones(1), 2**20), 1.0 + 2**60)
    with pytest.raises(OverflowError, match="64 bits"):
        f(np.ones(1), 2**30)
    with pytest.raises(OverflowError):
        bs.jit(lambda x, n: x + n)(np.ones(2, np.uint8), 300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestFloats:
    def test_pairs(self, dtype):
        with np.errstate(over="ignore"):
            x, y = pairs(FLOATS.astype(dtype), FLOATS.astype(dtype))
        functions = named("nextafter copysign remainder fmod divide maximum fmin")
        finite = np.isfinite(x) & np.isfinite(y)  # else it is the standard's: test_namespace.py
        assert compare([np.floor_divide], x[finite], y[finite])
        functions += [lambda x, y: np.clip(x, y, 1.0), lambda x, y: np.clip(x, -1.0, y)]
        assert compare(functions, x, y) == 9
        assert compare(named("spacing signbit sign rint floor trunc"), x) == 6

    def test_ldexp(self, dtype):
        values = np.array([1.0, -1.5, 1.7e-5, 3e-300, 1e300, 0.0, -0.0, np.inf, np.nan, 4.9e-322])
        exponents = np.array([0, 1, -1, 52, -1060, -1074, -1075, 2000, -2100, 2**40, -(2**40)])
        with np.errstate(over="ignore"):
            x, n = pairs(values.astype(dtype), exponents)
        assert compare([np.ldexp], x, n)
        assert compare([np.ldexp], x, np.clip(n, -3000, 3000).astype(np.int32))


def close(f, x, ulps=64):
    """Compiled f against NumPy's, relative to the size of the number; NaN where NumPy has it."""
    compiled = bs.jit(f)
    with np.errstate(all="ignore"):
        got, expected = compiled(x), f(x)
    assert compiled.stats()["specialisations"][0]["native"]
    assert got.dtype == expected.dtype
    eps = np.finfo(got.dtype).eps
    size = np.where(np.isfinite(expected), np.abs(expected), 0)
    for a, y in ((got.real, expected.real), (got.imag, expected.imag)):
        with np.errstate(invalid="ignore"):
            apart = ~((np.isnan(a) & np.isnan(y)) | (a == y) | (np.abs(a - y) <= ulps * eps * size))
        where = np.flatnonzero(apart)[:3]
        assert not where.size, [(x[k], got[k], expected[k]) for k in where]


COMPLEX = (
    "exp exp2 expm1 log log2 log10 sqrt sign sinh cosh tanh sin cos tan arcsinh arccosh arctanh "
    "arcsin arccos arctan absolute angle reciprocal conjugate negative"
)


@pytest.mark.parametrize("name", COMPLEX.split())
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_functions_of_complex_numbers(name, dtype):
    rng = np.random.default_rng(0)
    z = rng.normal(size=300) + 1j * rng.normal(size=300)
    circle = np.exp(1j * rng.uniform(0, 6, 100)) * (1 + 1e-6 * rng.normal(size=100))
    close(getattr(np, name), np.concatenate([z, 10 * z, 1e-3 * z, circle]).astype(dtype))


@pytest.mark.parametrize("name", COMPLEX.split())
def test_special_values_of_complex_numbers(name):
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 800.0, -800.0, 1e300, np.inf, -np.inf, np.nan]
    z = np.empty((12, 12), complex)
    z.real, z.imag = np.meshgrid(values, values)
    z = z.ravel()
    if name in ("sin", "sinh"):  # the sign of an infinity beside NaN is nobody's
        z = z[~(np.isinf(z.real) | np.isinf(z.imag)) | (np.isfinite(z.real) | np.isfinite(z.imag))]
    if name == "expm1":  # else it is the standard's: test_namespace.py
        z = z[np.isfinite(z)]
    close(getattr(np, name), z)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_arithmetic_of_complex_numbers(dtype):
    rng = np.random.default_rng(1)
    x, y = ((rng.normal(size=(2, 40)) + 1j * rng.normal(size=(2, 40))).astype(dtype)) * 3
    for f in (np.add, np.multiply, np.divide, np.power, np.maximum, np.less, np.equal):
        got = bs.jit(f)(x, y)
        np.testing.assert_allclose(got, f(x, y), rtol=300 * np.finfo(dtype).eps)
    for n in (-3, 0, 1, 5):
        close(lambda z, n=n: z**n, x)
    np.testing.assert_allclose(bs.jit(np.sum)(x), np.sum(x), rtol=1e-5)
    np.testing.assert_allclose(bs.jit(np.prod)(x[:9]), np.prod(x[:9]), rtol=1e-5)
    assert bs.jit(lambda z: z * 2.0)(1 + 2j) == 2 + 4j
    assert bs.jit(np.max)(x) == np.max(x)


def test_derivatives_of_complex_programs():
    rng = np.random.default_rng(2)
    z = rng.normal(size=5) + 1j * rng.normal(size=5)
    f = lambda z: np.sum(np.abs(np.exp(z) * np.sin(z)) ** 2)
    compiled = bs.jit(bs.grad(f))
    np.testing.assert_allclose(compiled(z), bs.grad(f)(z), rtol=1e-12)
    assert compiled.stats()["specialisations"][0]["native"]


@pytest.mark.parametrize("name", ["gamma", "gammaln", "psi", "erfinv"])
def test_special_functions_are_scipys(name):
    special = pytest.importorskip("scipy.special")
    x = np.array([-1.5, -0.4, 0.1, 0.9, 1.0, 3.5, 170.5, np.inf, np.nan, 0.0, -2.0])
    assert compare([getattr(special, name)], x)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(n):
    special = pytest.importorskip("scipy.special")
    x = np.array([-7.3, -1.5, 1e-10, 0.1, 1.0, 3.5, 9.0, 10.0, 1e5, 1e9, 1e20, np.nan, -np.inf])
    got = bs.jit(lambda x: P.polygamma(x, n=n))(x)
    np.testing.assert_allclose(got, special.polygamma(n, x), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_products_of_complex_matrices(dtype):
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=(2, 2, 40, 30)) + 1j * rng.normal(size=(2, 2, 40, 30))).astype(dtype)
    compiled = bs.jit(lambda a, b: a @ np.conj(np.swapaxes(b, 1, 2)))
    expected = a @ np.conj(np.swapaxes(b, 1, 2))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(compiled(a, b), expected, rtol=0, atol=400 * eps)
    assert compiled.stats()["specialisations"][0]["products"] == 1
    refused = bs.jit(lambda a: np.sort(a, axis=0))
    np.testing.assert_array_equal(refused(a[0]), np.sort(a[0], axis=0))


@pytest.mark.parametrize("power", [2, 3, 4, 3.0])
@pytest.mark.parametrize("dtype", ["int16", "int64", "float16", "float32", "float64", "complex128"])
def test_known_powers(dtype, power):
    x = np.linspace(-3, 5, 33).astype(dtype)
    got, expected = bs.jit(lambda x: x**power)(x), x**power
    assert got.dtype == expected.dtype
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0.0
    np.testing.assert_allclose(got, expected, rtol=4 * eps, atol=0)
