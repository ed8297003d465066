"""Bounds of rounding errors where numbers underflow, beside mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import backsolve as bs
from backsolve.nn import functional as F  # noqa: N812

A = np.array([0.3, -0.7, 0.11])
FAR = np.array([0.0, -742.0, -760.0])
LEAST = 5e-324  # the smallest number above 0


def exactly(x: float) -> Any:
    return mpmath.mpf(float(x))


def softmax_far_out(x: Any) -> Any:
    terms = [mpmath.exp(exactly(a) * x) for a in FAR]
    return exactly(1e100) * terms[1] / sum(terms)


Case = tuple[Callable[[Any], Any], Callable[[Any], Any], list[float], float]
CASES: dict[str, Case] = {
    # in NumPy, in mpmath, where, what the bound of the value is at most
    "to a subnormal number": (
        lambda x: x * 1e-200 * 3.3e-120,
        lambda x: x * exactly(1e-200) * exactly(3.3e-120),
        [0.1, 0.7, 1e-10],
        4 * LEAST,
    ),
    "to 0": (
        lambda x: x * 1e-200 * 1e-200,
        lambda x: x * exactly(1e-200) * exactly(1e-200),
        [0.1, 0.7],
        4 * LEAST,
    ),
    "to 0 and up again": (
        lambda x: x * 1e-200 * 1e-150 * 1e150,
        lambda x: x * exactly(1e-200) * exactly(1e-150) * exactly(1e150),
        [0.1, 0.7],
        4e150 * LEAST,
    ),
    "square": (
        lambda x: (x * 1e-160) ** 2 * 1e100,
        lambda x: (x * exactly(1e-160)) ** 2 * exactly(1e100),
        [0.1, 0.7],
        10e100 * LEAST,
    ),
    "quotient": (
        lambda x: x * 1e-200 / 3e120,
        lambda x: x * exactly(1e-200) / exactly(3e120),
        [0.1, 0.7],
        4 * LEAST,
    ),
    "reciprocal": (
        lambda x: np.reciprocal(x * 1e308),
        lambda x: 1 / (x * exactly(1e308)),
        [1.1, 1.7],
        10 * LEAST,
    ),
    "exp": (
        lambda x: np.exp(x * -740.0),
        lambda x: mpmath.exp(x * -740),
        [0.96, 0.99, 1.0, 1.01, 1.1],
        100 * LEAST,
    ),
    "tanh": (
        lambda x: np.tanh(x * 1e-310),
        lambda x: mpmath.tanh(x * exactly(1e-310)),
        [0.3, 0.7],
        20 * LEAST,
    ),
    "product of vectors": (
        lambda x: (x * A * 1e-160) @ (A[::-1] * 1e-162),
        lambda x: sum(
            x * exactly(a * 1e-160) * exactly(b * 1e-162) for a, b in zip(A, A[::-1], strict=True)
        ),
        [0.1, 0.7],
        10 * LEAST,
    ),
    "product of three vectors": (
        lambda x: np.einsum("i,i,i->", x * A * 1e-160, A * 1e-162, A * 1e20),
        lambda x: sum(x * exactly(a * 1e-160) * exactly(a * 1e-162) * exactly(a * 1e20) for a in A),
        [0.1, 0.7],
        20e20 * LEAST,
    ),
    "softmax": (lambda x: F.softmax(FAR * x, 0)[1] * 1e100, softmax_far_out, [0.99, 1, 1.003], 1e-219),
    "norm": (
        lambda x: np.linalg.norm(A * 1e-312 * x),
        lambda x: mpmath.sqrt(sum((exactly(a * 1e-312) * x) ** 2 for a in A)),
        [0.1, 0.7],
        20 * LEAST,
    ),
    "erfc": (scipy.special.erfc, mpmath.erfc, [26.6, 27.1, 28.0], 1e-303),
    "Bessel": (
        lambda x: scipy.special.kv(1, x),
        lambda x: mpmath.besselk(1, x),
        [699.0, 700.3, 741.1],
        1e-303,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_bound_holds_and_is_not_absurd(name: str) -> None:
    """The derivative by p of p f(x) is f(x), as it was computed."""
    f, exact, places, most = CASES[name]
    for x in places:
        found = bs.rounding(lambda p, x: p * f(x), 1.0, float(x), argnums=(0, 1))
        with mpmath.workdps(60):
            wanted = exact(exactly(x)), mpmath.diff(exact, exactly(x))
            for value, true, bound in zip(found.gradient, wanted, found.bound, strict=True):
                assert abs(exactly(value) - true) <= exactly(bound)
        assert found.bound[0] <= most


@pytest.mark.parametrize(
    "f",
    [lambda x, of: np.exp(-x), lambda x, of: np.exp2(-x), lambda x, of: x * of(1e-30) * of(1e-12)],
)
def test_single_precision(f: Any) -> None:
    for x in np.linspace(85, 152, 200, dtype=np.float32):
        found = bs.rounding(lambda p, x: p * f(x, np.float32), np.float32(1), x, argnums=(0, 1))
        exact = bs.value_and_grad(lambda x: f(x, np.float64))(float(x))
        assert np.all(np.abs(np.subtract(found.gradient, exact)) <= found.bound)


def test_products_that_are_0_are_exact() -> None:
    mask = np.array([0.0, 1.0])
    found = bs.rounding(
        lambda x: np.sum(np.sqrt(x * mask + (1 - mask)) * mask), np.array([1.0, 2.0])
    )
    assert found.bound[0] == 0
    assert 0 < found.bound[1] < 1e-15


def test_no_digit_is_sure_where_a_derivative_is_infinite() -> None:
    found = bs.rounding(lambda x: np.hypot(x * 1e-310, 3e-311), 0.7)
    assert found.bound == np.inf
