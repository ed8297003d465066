"""backsolve.numeric: right values, honest errors, clear messages."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backsolve import numeric
from backsolve.numeric import Method

METHODS: list[Method] = ["central", "forward", "complex", "richardson"]
DIFFERENCES: list[Method] = ["central", "forward", "richardson"]

# name: the function, its derivative in mpmath (60 digits), and the largest |x| to try
SMOOTH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "sin": (np.sin, mpmath.cos, 100),
    "exp": (np.exp, mpmath.exp, 20),
    "tanh": (np.tanh, lambda x: 1 / mpmath.cosh(x) ** 2, 3),
    "log": (lambda x: np.log(x * x), lambda x: 2 / x, 1e6),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2, 1e6),
    "cubic": (lambda x: x**3 - 2 * x + 1, lambda x: 3 * x**2 - 2, 1e3),
    "rational": (lambda x: x / (1 + x * x), lambda x: (1 - x**2) / (1 + x**2) ** 2, 1e3),
    "line": (lambda x: 3 * x - 1, lambda x: mpmath.mpf(3), 1e6),
    "ripple": (lambda x: np.sin(20 * x), lambda x: 20 * mpmath.cos(20 * x), 10),
}


def f_document(x1: Any, x2: Any) -> Any:
    return np.log(x1) + x1 * x2 - np.sin(x2)


def distance(value: Any, truth: Any) -> float:
    with mpmath.workdps(60):
        return float(abs(mpmath.mpf(float(value)) - truth))


def test_reproduces_the_lecture_notes() -> None:
    # "The code above prints 0.09509146": forward difference in float32 with h = 1e-5
    x1, x2, h = np.array([2.0, 5.0, 1e-5], dtype=np.float32)
    d = numeric.derivative(lambda t: f_document(x1, t), x2, method="forward", step=h)
    error = np.abs(x1 - np.cos(x2) - d.value)
    assert error.dtype == np.float32
    assert str(error) == "0.09509146"
    assert d.step == h
    assert error <= d.error < 10 * error
    # the step of our own choice, and the other methods, do better in the same float32
    for method, bound in (("forward", 5e-3), ("central", 5e-4), ("richardson", 5e-5)):
        ours = numeric.derivative(lambda t: f_document(x1, t), np.float32(5), method=method)
        assert abs(float(ours.value) - (2 - math.cos(5))) < bound


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(SMOOTH)),
    method=st.sampled_from(METHODS),
    dtype=st.sampled_from([np.float32, np.float64]),
    place=st.floats(0, 1),
    sign=st.sampled_from([-1, 1]),
)
def test_error_is_honest(name: str, method: Method, dtype: Any, place: float, sign: int) -> None:
    f, df, most = SMOOTH[name]
    x = dtype(sign * 1e-5 * (min(most, 1e3 if dtype is np.float32 else most) / 1e-5) ** place)
    d = numeric.derivative(f, x, method=method)
    assert d.value.dtype == d.error.dtype == d.step.dtype == dtype
    with mpmath.workdps(60):
        truth = df(mpmath.mpf(float(x)))
    assert distance(d.value, truth) <= 10 * float(d.error)


@pytest.mark.parametrize("method", DIFFERENCES)
@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_every_given_step_has_an_honest_error(name: str, method: Method) -> None:
    f, df, _ = SMOOTH[name]
    for step in 10.0 ** -np.arange(2, 16):
        d = numeric.derivative(f, 1.25, method=method, step=step)
        assert d.step == step
        assert distance(d.value, df(mpmath.mpf(1.25))) <= 10 * d.error
    assert numeric.derivative(f, 1.25, method=method).error < 1e-5


@pytest.mark.parametrize("method", ["forward", "central"])
def test_too_small_a_step_is_reported(method: Method) -> None:
    for f, x in ((np.exp, 1.0), (lambda x: x - 1, 1.0), (np.sin, 1e4)):
        assert numeric.derivative(f, x, method=method, step=1e-8).error < 1e-1
        assert numeric.derivative(f, x, method=method, step=1e-13).error > 1e-4
        assert numeric.derivative(f, x, method=method, step=1e-20).error > 1e3  # x + h == x


@pytest.mark.parametrize("method", METHODS)
def test_short_and_long_scales(method: Method) -> None:
    tolerance = 1e-3 if method == "forward" else 1e-4
    for f, df, x in (
        (np.log, lambda x: 1 / x, 1e-9),
        (lambda x: 1 / x, lambda x: -1 / x**2, 1e-9),
        (np.sin, np.cos, 1e5),
        (np.exp, np.exp, 1e-17),
        (lambda x: np.cos(x) - 1, lambda x: -np.sin(x), 1e-3),
    ):
        assert numeric.derivative(f, x, method=method).value == pytest.approx(df(x), rel=tolerance)


def test_evaluations_are_counted() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x)
        return np.sin(x)

    for method in METHODS:
        calls.clear()
        assert numeric.derivative(f, 1.0, method=method).evaluations == len(calls)
        assert all(np.ndim(x) == 0 for x in calls)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_jacobian_has_the_shape_of_out_and_in(method: Method, dtype: Any, shape: Any) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, shape).astype(dtype)
    a = np.arange(2 * x.size, dtype=dtype).reshape(2, 1, *shape)

    def f(x: Any) -> Any:
        return np.sum((a * np.sin(x)).reshape(2, 1, -1), axis=-1)

    j = numeric.jacobian(f, x, method=method)
    assert j.shape == (2, 1, *shape)
    assert np.allclose(j, a * np.cos(x), rtol=1e-5 if dtype is np.float64 else 1e-2, atol=1e-2)
    if x.size:
        assert j.dtype == dtype
        v = np.ones_like(x) / 3
        d = numeric.directional(f, x, v, method=method)
        truth = np.sum((a * np.cos(x) * v).reshape(2, 1, -1), axis=-1)
        assert d.value.shape == d.error.shape == d.step.shape == (2, 1)
        assert np.all(np.abs(d.value - truth) <= 10 * d.error)


@pytest.mark.parametrize("method", METHODS)
def test_grad(method: Method) -> None:
    x = np.array([[0.3, -2.0], [1e-7, 400.0]])
    kept = x.copy()
    g = numeric.grad(lambda x: np.sum(np.sin(x) * x), x, method=method)
    assert np.allclose(g, np.sin(x) + x * np.cos(x), rtol=1e-4, atol=1e-5)
    assert np.array_equal(x, kept)
    assert numeric.grad(lambda x: x * x, 3.0, method=method) == pytest.approx(6, rel=1e-6)
    assert np.all(numeric.directional(np.sin, x, np.zeros_like(x), method=method).value == 0)


def test_hessian() -> None:
    x = np.array([0.5, -1.5, 2.0])
    h = numeric.hessian(lambda x: np.exp(x[0]) * x[1] ** 2 + np.sin(x[1] * x[2]), x)
    (a, b, c), s = x, np.sin(x[1] * x[2])
    bc = np.cos(b * c) - b * c * s
    truth = [
        [np.exp(a) * b**2, 2 * b * np.exp(a), 0],
        [2 * b * np.exp(a), 2 * np.exp(a) - c**2 * s, bc],
        [0, bc, -(b**2) * s],
    ]
    assert np.allclose(h, truth, rtol=1e-8, atol=1e-8)
    assert np.array_equal(h, h.T)
    assert numeric.hessian(np.sum, np.ones((2, 3))).shape == (2, 3, 2, 3)
    assert numeric.hessian(np.sin, np.float32(1.0), step=0.25) == pytest.approx(-0.84147, rel=1e-3)
    tiny = numeric.hessian(lambda x: np.sum(np.log(x)), np.array([1e-6, 1e3]))
    assert np.allclose(np.diag(tiny), [-1e12, -1e-6], rtol=1e-5)


@pytest.mark.parametrize("method", DIFFERENCES)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_x(method: Method, dtype: Any) -> None:
    z = np.array([1 + 2j, -0.5 + 0.25j], dtype=dtype)
    tolerance = 1e-2 if dtype is np.complex64 else 1e-6
    # |z|² = x² + y²: steepest ascent along 2 (x + iy)
    g = numeric.grad(lambda z: np.sum(np.abs(z) ** 2), z, method=method)
    assert g.dtype == dtype
    assert np.allclose(g, 2 * z, rtol=tolerance)
    holomorphic = numeric.jacobian(np.exp, z, method=method)
    assert np.allclose(holomorphic, np.diag(np.exp(z)), rtol=tolerance, atol=tolerance)
    # conj has a derivative along 1 and along i, but not one derivative
    for v in (1, 1j):
        along = numeric.directional(np.conj, z[0], v, method=method).value
        assert np.allclose(along, np.conj(v), rtol=tolerance)
    with pytest.raises(ValueError, match=r"holomorphic.*directional"):
        numeric.derivative(np.conj, z[0], method=method)


def test_what_f_may_return() -> None:
    assert numeric.grad(lambda x: SimpleNamespace(value=x * x), 2.0) == pytest.approx(4)
    assert numeric.derivative(lambda x: [x, 2 * x], 2.0).value == pytest.approx([1, 2])
    assert numeric.derivative(lambda x: 3, 2.0).value == 0
    assert numeric.derivative(math.sin, 1.0).value == pytest.approx(math.cos(1))
    # outer rows of the table fall outside the domain of log and are left out
    wide = numeric.derivative(np.log, 0.5, method="richardson", step=2.0)
    assert wide.value == pytest.approx(2, rel=1e-9)


def test_complex_step_sees_a_lost_imaginary_part() -> None:
    for f in (np.abs, lambda z: np.abs(z) + 0 * z, lambda z: z.real, lambda z: 3.0):
        with pytest.raises(TypeError, match=r"analytic.*central"):
            numeric.derivative(f, 2.0, method="complex")
    partly = numeric.derivative(lambda z: np.abs(z) * z, 2.0, method="complex")  # 4, but Im says 2
    assert partly.error >= 1.9
    with pytest.raises(TypeError, match=r"real x \(got complex128\)"):
        numeric.derivative(np.sin, 2.0 + 0j, method="complex")


def test_errors_say_what_to_do() -> None:
    x, other = np.array([1.0, 2.0]), np.ones(3)
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (TypeError, r"got int64; write 2\.0", lambda: numeric.derivative(np.sin, 2)),
        (TypeError, r"grad needs .* got int64", lambda: numeric.grad(np.sum, [1, 2])),
        (TypeError, "got object", lambda: numeric.grad(np.sum, {"a": 1.0})),
        (ValueError, r"scalar x, got shape \(2,\)", lambda: numeric.derivative(np.sum, x)),
        (ValueError, r"shape \(2,\); reduce it", lambda: numeric.grad(np.sin, x)),
        (TypeError, "complex128.*real", lambda: numeric.grad(lambda x: 1j * np.sum(x), x)),
        (
            ValueError,
            "central, forward, complex, richardson; got 'newton'",
            lambda: numeric.grad(np.sum, x, method="newton"),
        ),
        (ValueError, "non-finite.*smaller step", lambda: numeric.derivative(np.sqrt, 0.0)),
        (ValueError, "non-finite", lambda: numeric.derivative(np.log, -1.0)),
        (ValueError, r"shape \(2,\), got \(3,\)", lambda: numeric.directional(np.sum, x, other)),
        (TypeError, "Cannot cast", lambda: numeric.directional(np.sum, x, 1j * x)),
        (ValueError, "step must be", lambda: numeric.derivative(np.sin, 1.0, step=0.0)),
        (ValueError, "keep its shape", lambda: numeric.jacobian(lambda x: x[x > 1], x)),
        (TypeError, "must return a number", lambda: numeric.jacobian(lambda x: "no", x)),
        (TypeError, "hessian needs a real x", lambda: numeric.hessian(np.abs, 1j)),
    ]
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()


def test_estimate_is_frozen() -> None:
    d = numeric.derivative(np.sin, 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        d.value = 0.0
