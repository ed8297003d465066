"""The native mathematics: accuracy over the whole range, special values, and that it vectorises.

Accuracy is measured against mpmath in float64 and against float64 functions in float32, in units in the
last place (ulp) of the right answer.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import llvmlite.binding as llvm
import mpmath as mp
import numpy as np
import pytest
from scipy import special

import backsolve as bs
from backsolve.backends.native.mathematics import BINARY, EMITTERS, NARROW, RANGE_LIMIT, kernels
from backsolve.primitive import PRIMITIVES

DTYPES = (np.float64, np.float32)
inf, nan = np.inf, np.nan

# The largest error allowed, in ulp, in float64 and float32: the largest seen on half a million and on
# several million arguments (of erf and erfc in float64, 250,000), rounded up. Of logaddexp in ulp of
# the larger of its result and its larger argument: log(eᵃ + eᵇ) near 0 cancels digits of a.
LARGEST_ERROR = {
    "exp": (1.6, 1.7),
    "exp2": (0.95, 0.95),
    "expm1": (1.7, 1.5),
    "sinh": (0.95, 0.95),
    "cosh": (0.9, 0.9),
    "tanh": (1.8, 1.7),
    "sigmoid": (1.7, 1.7),
    "log": (1.0, 1.0),
    "log2": (0.75, 0.8),
    "log10": (0.75, 0.75),
    "log1p": (1.6, 1.6),
    "softplus": (1.9, 1.9),
    "log_sigmoid": (1.9, 1.9),
    "logaddexp": (1.5, 1.5),
    "arcsinh": (0.7, 0.7),
    "arccosh": (0.7, 0.7),
    "arctanh": (0.7, 0.7),
    "sin": (1.6, 1.6),
    "cos": (1.6, 1.6),
    "tan": (1.2, 1.2),
    "arctan": (0.95, 0.95),
    "arctan2": (0.95, 0.95),
    "arcsin": (0.75, 0.75),
    "arccos": (0.75, 0.75),
    "erf": (1.5, 1.5),
    "erfc": (1.5, 1.5),
    "power": (0.85, 0.51),
    "sqrt": (0.5, 0.5),
    "rsqrt": (1.51, 1.51),
    "cbrt": (0.51, 0.51),
}


def _mp_logaddexp(a: Any, b: Any) -> Any:
    return max(a, b) + mp.log1p(mp.exp(-abs(a - b)))


def _mp_softplus(a: Any) -> Any:
    return _mp_logaddexp(a, mp.mpf(0))


def _mp_erfc(a: Any) -> Any:
    return mp.erfc(a) if abs(a) < 30 else mp.mpf(2 if a < 0 else 0)


def _mp_cbrt(a: Any) -> Any:
    return mp.sign(a) * mp.cbrt(abs(a))


# What mpmath calls it, or the formula.
EXACT = {
    "exp2": lambda a: mp.power(2, a),
    "log2": lambda a: mp.log(a) / mp.ln2,
    "sigmoid": lambda a: 1 / (1 + mp.exp(-a)),
    "softplus": _mp_softplus,
    "log_sigmoid": lambda a: -_mp_softplus(-a),
    "logaddexp": _mp_logaddexp,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "arctan": mp.atan,
    "arctan2": mp.atan2,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "erf": lambda a: mp.erf(a) if abs(a) < 30 else mp.sign(a),
    "erfc": _mp_erfc,
    "rsqrt": lambda a: 1 / mp.sqrt(a),
    "cbrt": _mp_cbrt,
}
# NumPy's name for it, where that is not ours.
NUMPY: dict[str, Any] = {
    "sigmoid": special.expit,
    "softplus": lambda a: np.logaddexp(a, a.dtype.type(0)),
    "log_sigmoid": special.log_expit,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "erf": special.erf,
    "erfc": special.erfc,
}


def kernel_of(name: str, dtype: Any) -> kernels.Kernel:
    return (kernels.binary if name in BINARY else kernels.unary)(name, dtype)


def numpy_of(name: str) -> Any:
    return NUMPY.get(name) or getattr(np, name)


def any_bits(rng: np.random.Generator, dtype: Any, n: int) -> np.ndarray:
    """Finite numbers of all exponents, subnormal ones among them."""
    width = np.dtype(dtype).itemsize
    x = rng.integers(0, 256, n * width, dtype=np.uint8).view(dtype)
    return x[np.isfinite(x)]


def spread(rng: np.random.Generator, dtype: Any, n: int) -> np.ndarray:
    """Numbers where functions bend: all exponents, several scales, near 1, near multiples of π/2."""
    parts = [any_bits(rng, dtype, n), rng.uniform(-1, 1, n)]
    parts += [rng.standard_normal(n) * s for s in (0.1, 1, 10, 100)]
    parts.append(1 + rng.standard_normal(n) * 10.0 ** rng.uniform(-17, 0, n))
    parts.append(np.round(2.0 ** rng.uniform(0, 52, n)) * (np.pi / 2))
    return rng.permutation(np.concatenate([p.astype(dtype) for p in parts]))


def arguments(name: str, dtype: Any, n: int, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = spread(rng, dtype, n)
    if name not in BINARY:
        return (x,)
    y = np.resize(spread(rng, dtype, n), x.shape)
    half = len(x) // 2
    with np.errstate(all="ignore"):
        if name == "power":  # results of all exponents
            most = np.log2(np.finfo(dtype).max)
            x[:half] = abs(x[:half])
            wanted = rng.uniform(-1.1 * most, most, half)
            y[:half] = (wanted / np.log2(x[:half], dtype=np.float64)).astype(dtype)
        elif name == "logaddexp":
            y[:half] = x[:half] + rng.standard_normal(half) * 5
    return x, y


def ulp_of(y: np.ndarray) -> np.ndarray:
    return np.spacing(np.abs(np.where(np.isfinite(y), y, 1)))


def assert_same_kind(name: str, got: np.ndarray, wanted: np.ndarray, inputs: Any) -> None:
    """NaN, infinities, and the sign, zeros' too, where they should be."""
    same = np.where(np.isnan(wanted), np.isnan(got), np.signbit(got) == np.signbit(wanted))
    same &= np.isinf(got) == np.isinf(wanted)
    assert same.all(), [(a[~same][:3]) for a in (*inputs, got, wanted)]


def check_float64(name: str, inputs: tuple[np.ndarray, ...]) -> None:
    got = kernel_of(name, np.float64)(*inputs)
    exact = EXACT.get(name) or getattr(mp, name)
    worst, where = 0.0, None
    with mp.workprec(200), np.errstate(all="ignore"):
        defined = numpy_of(name)(*inputs)
        for i in np.flatnonzero(np.isfinite(defined) & np.isfinite(got)):
            args = [float(a[i]) for a in inputs]
            right = exact(*(mp.mpf(a) for a in args))
            ulp = ulp_of(np.float64(float(right)))
            if name == "logaddexp":
                ulp = max(ulp, ulp_of(np.float64(max(args))))
            error = float(abs(mp.mpf(float(got[i])) - right) / mp.mpf(float(ulp)))
            if error > worst:
                worst, where = error, args
    assert worst <= LARGEST_ERROR[name][0], (worst, where)
    assert_same_kind(name, got, defined, inputs)


def check_float32(name: str, inputs: tuple[np.ndarray, ...]) -> None:
    got = kernel_of(name, np.float32)(*inputs)
    with np.errstate(all="ignore"):
        right = numpy_of(name)(*(a.astype(np.float64) for a in inputs))
        wanted = right.astype(np.float32)
        ulp = ulp_of(wanted)
        if name == "logaddexp":
            ulp = np.maximum(ulp, ulp_of(np.maximum(*inputs)))
        error = np.where(np.isfinite(wanted), abs(got - right) / ulp, 0)
    assert_same_kind(name, got, wanted, inputs)
    worst = int(np.argmax(error))
    assert error[worst] <= LARGEST_ERROR[name][1], (error[worst], [a[worst] for a in inputs])


class TestAccuracy:
    @pytest.mark.parametrize("name", EMITTERS)
    def test_float64(self, name: str) -> None:
        check_float64(name, arguments(name, np.float64, 160, seed=1))

    @pytest.mark.parametrize("name", EMITTERS)
    def test_float32(self, name: str) -> None:
        check_float32(name, arguments(name, np.float32, 20_000, seed=2))

    @pytest.mark.parametrize("name", NARROW)
    def test_narrow_forms(self, name: str) -> None:
        """Of arguments in their range alone: one beyond sends its block another way."""
        for check, dtype, n in (
            (check_float64, np.float64, 160),
            (check_float32, np.float32, 20_000),
        ):
            (x,) = arguments(name, dtype, n, seed=3)
            check(name, (x[abs(x) <= RANGE_LIMIT[np.dtype(dtype).name]],))

    def test_hardest_reductions(self) -> None:
        """The float64 closest to a multiple of π/2 of all, and others nearly as close."""
        x = np.array(
            [6381956970095103.0 * 2.0**797, 5319372648326541.0 * 2.0**797, 1e22, 2.0**1023]
        )
        with mp.workprec(1300):
            for name in NARROW:
                right = [getattr(mp, name)(mp.mpf(v)) for v in x]
                np.testing.assert_array_max_ulp(
                    kernels.unary(name, np.float64)(x), np.array([float(r) for r in right]), 1
                )

    def test_hardest_float32_reductions(self) -> None:
        """Of every exponent, the float32 numbers closest to multiples of π/2."""
        significands = np.arange(2**23, 2**24, 1499, dtype=np.float32)
        x = np.concatenate([np.ldexp(significands, e) for e in range(-23, 104, 3)])
        s, c = np.sin(x.astype(np.float64)), np.cos(x.astype(np.float64))
        close = np.minimum(abs(s), abs(c)) < 1e-4
        for name, right in (("sin", s), ("cos", c), ("tan", s / c)):
            got = kernels.unary(name, np.float32)(x)[close]
            np.testing.assert_array_max_ulp(got, right[close].astype(np.float32), 2)


# ---- special values

SPECIAL = (nan, inf, 0.0, 1.0, 0.5, 1.5, 2.0, 3.0, 1e10, "max", "tiny", "least")


def special_values(dtype: Any) -> np.ndarray:
    info = np.finfo(dtype)
    named = {"max": info.max, "tiny": info.tiny, "least": info.smallest_subnormal}
    values = np.array([named.get(v, v) for v in SPECIAL], dtype)
    return np.concatenate([values, -values, np.nextafter(dtype(1), dtype([0, 2]))])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EMITTERS)
def test_special_values_are_numpys(name: str, dtype: Any) -> None:
    values = special_values(dtype)
    inputs = (values,)
    if name in BINARY:
        pairs = np.array(list(itertools.product(values, values)), dtype)
        inputs = (np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
    got = kernel_of(name, dtype)(*inputs)
    with np.errstate(all="ignore"):
        wanted = numpy_of(name)(*(a.astype(np.float64) for a in inputs)).astype(dtype)
    assert_same_kind(name, got, wanted, inputs)
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps, atol=0)


# f(x) = y exactly, or the neighbours of a threshold: name, float64 rows, float32 rows.
EXACT_VALUES: list[tuple[str, list[tuple[float, ...]], list[tuple[float, ...]]]] = [
    (
        "exp",
        [(-745.13, 5e-324), (-745.14, 0.0), (0.0, 1.0), (-0.0, 1.0)],
        [(-103.97, 1e-45), (-103.98, 0.0), (0.0, 1.0), (-0.0, 1.0)],
    ),
    (
        "exp2",
        [(1023.0, 2.0**1023), (1024.0, inf), (-1074.0, 5e-324), (-1075.0, 0.0), (10.0, 1024.0)],
        [(127.0, 2.0**127), (128.0, inf), (-149.0, 1e-45), (-150.0, 0.0), (10.0, 1024.0)],
    ),
    (
        "expm1",
        [(-40.0, -1.0), (5e-324, 5e-324), (-0.0, -0.0), (1e-20, 1e-20)],
        [(-40.0, -1.0), (1e-45, 1e-45), (-0.0, -0.0), (1e-20, 1e-20)],
    ),
    ("sinh", [(711.0, inf), (-0.0, -0.0)], [(89.5, inf), (-1e30, -inf), (-0.0, -0.0)]),
    ("cosh", [(-711.0, inf), (0.0, 1.0)], [(-89.5, inf), (0.0, 1.0)]),
    ("tanh", [(20.0, 1.0), (-400.0, -1.0), (-0.0, -0.0)], [(10.0, 1.0), (-400.0, -1.0)]),
    (
        "sigmoid",
        [(40.0, 1.0), (-745.14, 0.0), (0.0, 0.5)],
        [(20.0, 1.0), (-104.0, 0.0), (0.0, 0.5)],
    ),
    ("log", [(0.0, -inf), (-0.0, -inf), (1.0, 0.0)], [(0.0, -inf), (-0.0, -inf), (1.0, 0.0)]),
    ("log2", [(2.0**k, k) for k in range(-1074, 1024, 3)], [(2.0**k, k) for k in range(-149, 128)]),
    ("log10", [(10.0**k, k) for k in range(0, 23)], [(10.0**k, k) for k in range(0, 11)]),
    ("log1p", [(-1.0, -inf), (-0.0, -0.0), (5e-324, 5e-324)], [(-1.0, -inf), (1e-45, 1e-45)]),
    ("softplus", [(-746.0, 0.0), (1e300, 1e300)], [(-104.0, 0.0), (1e30, 1e30)]),
    (
        "logaddexp",
        [(1e308, -1e308, 1e308), (-inf, -inf, -inf)],
        [(3e38, -3e38, 3e38), (1.0, -inf, 1.0)],
    ),
    ("arctanh", [(1.0, inf), (-1.0, -inf), (-0.0, -0.0)], [(1.0, inf), (-1.0, -inf), (-0.0, -0.0)]),
    ("arcsin", [(1.0, np.pi / 2), (-1.0, -np.pi / 2)], [(1.0, np.pi / 2), (-1.0, -np.pi / 2)]),
    ("arccos", [(1.0, 0.0), (-1.0, np.pi), (0.0, np.pi / 2)], [(1.0, 0.0), (-1.0, np.pi)]),
    (
        "arctan2",
        [
            (0.0, -0.0, np.pi),
            (-0.0, -0.0, -np.pi),
            (-0.0, 0.0, -0.0),
            (inf, inf, np.pi / 4),
            (inf, -inf, 0.75 * np.pi),
            (1e308, 1e308, np.pi / 4),
            (5e-324, 5e-324, np.pi / 4),
        ],
        [(0.0, -0.0, np.pi), (-0.0, -0.0, -np.pi), (inf, -inf, 0.75 * np.pi)],
    ),
    ("erf", [(6.0, 1.0), (-30.0, -1.0), (-0.0, -0.0)], [(4.0, 1.0), (-30.0, -1.0), (-0.0, -0.0)]),
    ("erfc", [(28.0, 0.0), (-7.0, 2.0), (0.0, 1.0)], [(10.2, 0.0), (-5.0, 2.0), (0.0, 1.0)]),
    ("cbrt", [(k**3, k) for k in range(-50, 50)], [(k**3, k) for k in range(-50, 50)]),
    (
        "power",
        [(x, 2.0, x * x) for x in range(-9, 9)]
        + [
            (2.0, -1074.0, 5e-324),
            (2.0, 1024.0, inf),
            (-2.0, 1023.0, -(2.0**1023)),
            (-8.0, 1 / 3, nan),
        ]
        + [
            (nan, 0.0, 1.0),
            (1.0, nan, 1.0),
            (-1.0, inf, 1.0),
            (-0.0, -1.0, -inf),
            (-inf, 3.0, -inf),
        ]
        + [(-inf, -3.0, -0.0), (-0.0, 0.5, 0.0), (0.5, -inf, inf), (-1.0, 2.0**53 + 2, 1.0)],
        [(x, 3.0, x**3) for x in range(-9, 9)]
        + [(2.0, -149.0, 1e-45), (2.0, 128.0, inf), (-8.0, 1 / 3, nan), (-0.0, -1.0, -inf)],
    ),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", EXACT_VALUES, ids=lambda row: row[0])
def test_exact_values(row: Any, dtype: Any) -> None:
    name, double, single = row
    *inputs, wanted = np.array(double if dtype is np.float64 else single, dtype).T.copy()
    got = kernel_of(name, dtype)(*inputs)
    np.testing.assert_array_equal(got, wanted)
    assert_same_kind(name, got, wanted, inputs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "expm1", "sinh", "cosh", "exp2", "power"])
def test_overflow_begins_where_it_should(name: str, dtype: Any) -> None:
    most = mp.mpf(float(np.finfo(dtype).max))
    inverse = {"expm1": mp.log, "cosh": mp.acosh, "sinh": mp.asinh, "exp": mp.log}
    last = dtype(float(inverse.get(name, lambda v: mp.log(v, 2))(most)))
    inputs = [np.array([last - 2 * np.spacing(last), last + 2 * np.spacing(last)], dtype)]
    if name == "power":
        inputs.insert(0, np.array([2, 2], dtype))
    got = kernel_of(name, dtype)(*inputs)
    assert np.isfinite(got[0])
    assert np.isinf(got[1])


# ---- vectors

TARGETS = {
    "AVX2": ("x86_64-unknown-linux-gnu", "haswell"),
    "AVX-512": ("x86_64-unknown-linux-gnu", "znver4"),
    "NEON": ("aarch64-unknown-linux-gnu", "neoverse-n1"),
    "SVE": ("aarch64-unknown-linux-gnu", "neoverse-v1"),
}
LANES = {
    "AVX2": (4, 8),
    "AVX-512": (8, 16),
    "NEON": (2, 4),
    "SVE": ("(?:vscale x )?2", "(?:vscale x )?4"),
}


def vector_stores(text: str, lanes: Any) -> int:
    """How often a whole vector of results is stored, as numbers or as their bits, masked (SVE) or not."""
    return len(
        re.findall(
            rf"  (store |.*@llvm\.masked\.store.*\()<{lanes} x (double|float|i64|i32)>", text
        )
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EMITTERS)
def test_vectorised_on_this_machine(name: str, dtype: Any) -> None:
    optimised = kernel_of(name, dtype).loop.optimised
    assert vector_stores(optimised, r"(vscale x )?\d+") >= kernels.INTERLEAVE


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EMITTERS)
def test_vectorised_elsewhere(name: str, target: str) -> None:
    """Results are stored a whole vector at a time, and nothing is called."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, cpu = TARGETS[target]
    try:
        found = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"this llvmlite has no {triple}")
    machine = found.create_target_machine(cpu=cpu, opt=3)
    for dtype, lanes in zip(("float64", "float32"), LANES[target], strict=True):
        module = kernels.optimise(kernels.emit_loop(name, dtype), machine)
        assert vector_stores(str(module), lanes) >= kernels.INTERLEAVE
        if name in NARROW:  # two loops; the wide one of float32 computes in float64
            assert vector_stores(str(module), r"(vscale x )?\d+") >= 2 * kernels.INTERLEAVE
        assert not re.search(r"\n\s+(callq?|blr?)\s", machine.emit_assembly(module))


# ---- kernels


def test_names_are_those_of_primitives() -> None:
    assert set(EMITTERS) - {"rsqrt"} <= set(PRIMITIVES)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 31, 33, 1023, 1025, 2049])
def test_sizes(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n)
    np.testing.assert_allclose(kernels.unary("sin", np.float64)(x), np.sin(x), rtol=1e-15)
    np.testing.assert_allclose(kernels.unary("exp", np.float64)(x), np.exp(x), rtol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NARROW)
def test_blocks_within_and_beyond_the_range(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(5000).astype(dtype)
    limit = RANGE_LIMIT[np.dtype(dtype).name]
    x[1500:1510] = dtype(limit) * rng.uniform(0.99, 1e5, 10)
    x[4999] = nan
    x[2047:2050] = [limit, np.nextafter(dtype(limit), dtype(inf)), -limit]
    wanted = getattr(np, name)(x.astype(np.float64)).astype(dtype)
    np.testing.assert_array_max_ulp(kernels.unary(name, dtype)(x)[:-1], wanted[:-1], 1)
    assert np.isnan(kernels.unary(name, dtype)(x)[-1])


def test_in_place_shifted_strided_and_broadcast() -> None:
    exp, power = kernels.unary("exp", np.float64), kernels.binary("power", np.float64)
    x = np.linspace(0, 1, 101)
    y = x.copy()
    assert exp(y, out=y) is y
    np.testing.assert_array_equal(y, exp(x))
    shifted = x.copy()
    exp(shifted[:-1], out=shifted[1:])
    np.testing.assert_array_equal(shifted[1:], exp(x[:-1]))
    np.testing.assert_array_equal(exp(x[::2]), exp(x)[::2])
    np.testing.assert_allclose(power(x.reshape(1, 101), [[1.0], [2.0]])[1], x * x, rtol=1e-15)
    assert exp(0.0).shape == ()


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="no native loop of `sine` with 1 inputs of float64"):
        kernels.unary("sine", np.float64)
    with pytest.raises(ValueError, match="power take two"):
        kernels.unary("power", np.float64)
    with pytest.raises(ValueError, match="float16"):
        kernels.unary("sin", np.float16)
    with pytest.raises(ValueError, match=r"contiguous float64 array of shape \(3,\) \(got float32"):
        kernels.unary("sin", np.float64)(np.zeros(3), out=np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("dtype", "ends"), [(np.float64, (-744.0, -748.0)), (np.float32, (-103.0, -105.0))]
)
def test_exp_ends_in_zero(dtype: Any, ends: tuple[float, float]) -> None:
    """Through its last subnormal numbers, each at most one off, and not a step too early."""
    x = np.linspace(*ends, 4001).astype(dtype)
    least = np.finfo(dtype).smallest_subnormal
    got, expected = bs.jit(np.exp)(x), np.array([float(mp.exp(mp.mpf(float(a)))) for a in x])
    assert np.max(np.abs(got.astype(float) - expected)) <= float(least)
    assert got[0] > 0
    assert not np.any(bs.jit(np.exp)(np.array([-1e9, -np.inf, -np.finfo(dtype).max], dtype)))
