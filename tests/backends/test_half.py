"""float16 in compiled code: the same bits as NumPy's, for every number there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.testing.backends import check_compiled

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
rng = np.random.default_rng(0)


def pairs(seed: int, count: int = 1 << 16) -> Any:
    bits = np.random.default_rng(seed).integers(0, 1 << 16, size=(2, count)).astype(np.uint16)
    return bits.view(np.float16)


def same_bits(f: Callable[..., Any], *args: Any) -> None:
    compiled = bs.jit(f)
    with np.errstate(all="ignore"):
        got, expected = np.asarray(compiled(*args)), np.asarray(f(*args))
    (made,) = compiled.stats()["specialisations"]
    assert made["native"], made["reason"]
    assert not made["elsewhere"]
    assert got.dtype == expected.dtype
    if got.dtype.kind == "f":
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(got), nan)
        got, expected = (x[~nan].view(f"u{x.itemsize}") for x in (got, expected))
    np.testing.assert_array_equal(got, expected)


UNARY = ("negative", "absolute", "sign", "sqrt", "square", "reciprocal", "floor", "ceil", "trunc")
UNARY += ("rint", "isnan", "isinf", "isfinite", "signbit", "logical_not", "spacing", "positive")


@pytest.mark.parametrize("name", UNARY)
def test_every_number(name: str) -> None:
    same_bits(getattr(np, name), ALL)


BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "fmod")
BINARY += ("copysign", "nextafter", "less", "equal", "not_equal", "greater_equal", "heaviside")


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_numbers(name: str) -> None:
    f = getattr(np, name)
    same_bits(f, *pairs(1))
    same_bits(f, ALL, ALL)
    same_bits(f, ALL, np.roll(ALL, 1))


def test_remainders() -> None:
    x, y = pairs(2)
    finite = np.isfinite(x) & np.isfinite(y)
    same_bits(np.remainder, x[finite], y[finite])
    same_bits(np.floor_divide, x[finite], y[finite])


@pytest.mark.parametrize("dtype", [*"?bBhHiIlLqQfdFD"])
def test_conversions(dtype: str) -> None:
    t = np.dtype(dtype)
    if t.kind in "fc":
        # float16, and what lies half-way between two of them, and next to that
        with np.errstate(all="ignore"):
            near = np.sort(ALL[np.isfinite(ALL)]).astype(
                t if t.kind == "f" else t.type(0).real.dtype
            )
        middle = (near[1:] + near[:-1]) / 2
        above, below = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
        limits = np.array([65519.99, 65520, 65536, 1e30, np.inf, np.nan, 1e-30, -1e-10], near.dtype)
        x = np.concatenate([near, middle, above, below, limits, -limits]).astype(t)
        if t.kind == "c":
            x = x + t.type(1j)
    else:
        x = rng.integers(0, 1 << 63, size=4000).astype(np.int64)
        x = np.right_shift(x, rng.integers(0, 63, size=4000)).astype(t)
    half = lambda x: (x.real if x.dtype.kind == "c" else x).astype(np.float16)
    same_bits(half, x)
    if t.kind == "f":
        same_bits(lambda x: x.astype(t), ALL)
    else:
        small = ALL[(ALL >= 0) & (ALL < 100)]
        same_bits(lambda x: np.asarray(x.astype(t)).real, small)


def test_python_numbers_are_rounded_first() -> None:
    same_bits(lambda x: (x * 0.1 + 1 / 3) / 3, ALL)
    same_bits(lambda x, c: x * c, ALL, 0.1)
    same_bits(lambda x: x > 0.1, ALL)
    same_bits(lambda x: np.where(x > 1, x, 0.1), ALL)
    same_bits(lambda x: x * 1e6, ALL)


def test_beside_other_dtypes() -> None:
    x = ALL[np.isfinite(ALL)]
    for t in ("b", "B", "h", "i", "f", "d"):
        y = rng.integers(1, 100, size=x.shape).astype(t)
        same_bits(lambda x, y: x * y, x, y)
        same_bits(lambda x, y: x / y, x, y)
        same_bits(lambda x, y: x < y, x, y)


def test_functions_of_bytes() -> None:
    for t in (np.int8, np.uint8, np.bool_):
        x = np.arange(256).astype(np.uint8).astype(t)
        same_bits(np.sqrt, x[x >= 0] if t == np.int8 else x)
        for f in (np.sin, np.exp, np.log1p, np.arctan):
            assert check_compiled(f, [x[:100]], ulps=1)


FUNCTIONS = ("sin", "exp", "tanh", "log", "cbrt", "arcsinh", "exp2", "expm1", "log2")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    """They may differ where the float32 lies on the edge between two float16."""
    with np.errstate(all="ignore"):
        assert check_compiled(getattr(np, name), [ALL], name, ulps=1)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x: np.sum(x, axis=1),
    "sum of rows": lambda x: np.sum(x, axis=0),
    "mean": lambda x: np.mean(x),
    "prod": lambda x: np.prod(x, axis=0),
    "max": lambda x: x.max(axis=1) + x.min(),
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "matmul": lambda x: x @ x.T,
    "einsum": lambda x: np.einsum("ij,ik,il->jkl", x, x, x)[:3],
    "sort": lambda x: np.sort(x, axis=1),
    "argmax": lambda x: np.argmax(x, axis=0),
    "slices": lambda x: np.concatenate([x[:, ::2], x[::-1, 1::2]], axis=1).T,
    "gather": lambda x: x[np.array([2, 0, 0])],
    "softmax": lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x).sum(1, keepdims=True),
    "logsumexp": lambda x: np.log(np.sum(np.exp(x), axis=1)),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x),
    "logaddexp": lambda x: np.logaddexp(x, x[:1]),
    "hypot": lambda x: np.hypot(x, 0.5),
    "power": lambda x: np.abs(x) ** 1.5 + x**3,
    "ldexp": lambda x: np.ldexp(x, np.arange(8) - 4),
    "to complex": lambda x: np.abs(x * 1j + 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, x = PROGRAMS[name], rng.normal(size=(6, 8)).astype(np.float16)
    assert check_compiled(f, [x], name, ulps=8)
    for k in range(3):
        assert check_compiled(f, [rng.normal(size=(6, 8)).astype(np.float16)], f"{name} {k}", 8)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "matmul", "softmax", "logsumexp", "sort", "slices", "gather"]
)
def test_gradients(name: str) -> None:
    f, x = PROGRAMS[name], rng.normal(size=(6, 8)).astype(np.float16)
    assert check_compiled(bs.grad(lambda x: np.sum(np.sin(f(x)))), [x], name, ulps=64)


def test_loops_branches_and_places() -> None:
    @bs.jit
    def f(x: Any, n: int) -> Any:
        y = x * 1
        for k in range(n):
            if y[k] > 0.5:
                y[k + 1] = y[k] * 0.75 + y[k + 1]
            else:
                y[k] = y[k] - 1
        return y, np.float16(2) * y[0]

    x = rng.normal(size=9).astype(np.float16)
    y = x.copy()
    for k in range(8):
        if y[k] > 0.5:
            y[k + 1] = y[k] * np.float16(0.75) + y[k + 1]
        else:
            y[k] = y[k] - np.float16(1)
    got, first = f(x, 8)
    np.testing.assert_array_equal(got, y)
    assert first == 2 * y[0]
    assert first.dtype == np.float16
    assert f.stats()["specialisations"][0]["native"]


def test_one_number() -> None:
    f = bs.jit(lambda x: x * x + 0.1)
    x = np.float16(1.1)
    assert f(x) == x * x + np.float16(0.1)
    assert type(f(x)) is np.float16
