"""Minima of what people fit: robust losses, counts, classes, units far apart; from near and from far."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs


def huber(r, width):
    size = np.abs(r)
    return np.sum(np.where(size < width, 0.5 * r * r / width, size - 0.5 * width))


def line(seed: int, m: int, n: int = 4):
    """Data of a linear model with heavy tails: A, b and the seed's generator."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, n))
    return A, A @ rng.normal(size=n) + 0.1 * rng.standard_t(2, size=m), rng


def classes(seed: int):
    """What logistic regression of drawn data makes least."""
    A, _, rng = line(seed, 30)
    y = (A @ rng.normal(size=4) + rng.logistic(size=30) > 0) * 1.0
    return lambda w: np.sum(np.logaddexp(0, A @ w) - y * (A @ w)) + 0.005 * np.sum(w * w)


@pytest.mark.parametrize("far", [0.0, 10.0, 1000.0])
@pytest.mark.parametrize("width", [0.03, 1.0])
def test_robust_regression(width, far):
    """Huber's loss has no curvature where residuals are large: at the start nearly everywhere."""
    for seed in range(8):
        A, b, rng = line(seed, 50)
        f = lambda x, A=A, b=b: huber(A @ x - b, width)
        x = bs.argmin(f, far * rng.normal(size=4))
        assert np.max(np.abs(bs.grad(f)(x))) < 1e-8


def test_as_few_data_as_bends():
    """Four of six residuals are next to 0 in the end: f is but rounding there, and steps are below x's."""
    for seed in range(70, 90):
        A, b, _ = line(seed, 6)
        f = lambda x, A=A, b=b: huber(A @ x - b, 0.03)
        x = bs.argmin(f, np.zeros(4))
        assert np.max(np.abs(bs.grad(f)(x))) < 1e-8


def test_what_is_out_of_reach_is_not_taken_for_a_minimum():
    """Far away, in units far apart, a step along the gradient is little beside x, and no sign of an end."""
    for seed in (1, 5, 6, 7, 8):
        A, b, rng = line(seed, 6)
        units = np.where(rng.random(4) < 0.3, 1e8, 1.0)
        f = lambda x, A=A, b=b, units=units: huber(A @ (x / units) - b, 0.03)
        try:
            x = bs.argmin(f, 1e3 * rng.normal(size=4) * units)
        except bs.errors.ConvergenceError:
            continue
        assert np.max(np.abs(bs.grad(f)(x) * units)) < 1e-6


@pytest.mark.parametrize("decades", [2, 4, 6])
def test_classes_in_units_far_apart(decades):
    """Logistic regression whose features are in units 10^±decades."""
    units = 10.0 ** np.linspace(-decades, decades, 4)
    for seed in range(6):
        f = classes(seed)
        expected = bs.argmin(f, np.zeros(4))
        assert np.max(np.abs(bs.grad(f)(expected))) < 1e-8
        found = bs.argmin(lambda x, f=f: f(x * units), np.zeros(4)) * units
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_derivatives_of_a_robust_fit():
    """By the inliers alone, inside `jit`, too: dx = (AᵀA)⁻¹ Aᵀ db of theirs, and the outliers' signs stay."""
    A, b, _ = line(3, 50)
    fit = lambda b: bs.argmin(lambda x, b: huber(A @ x - b, 1.0), np.zeros(4), b)
    x = fit(b)
    near = np.abs(A @ x - b) < 1.0
    expected = np.linalg.solve(A[near].T @ A[near], A.T * near)
    for jacobian in (bs.jacobian(fit), bs.jit(bs.jacobian(fit))):
        np.testing.assert_allclose(jacobian(b), expected, rtol=1e-7, atol=1e-9)


# ---- what is long is recorded once


def decayed(rate):
    return bs.scan(lambda s, t: (s - 0.05 * rate * s, s), 1.0, np.arange(20.0))[1]


def test_a_function_with_a_loop_is_called_from_all_places():
    """Values and gradients are two Programs, however often a minimisation asks for them."""
    data = decayed(1.3)
    fit = lambda data: bs.argmin(lambda r: np.sum((decayed(r) - data) ** 2), 1.0)
    compiled = bs.jit(fit)
    assert compiled(data) == pytest.approx(1.3, rel=1e-9)
    lines = str(compiled.lower(data).stages["program"]).splitlines()
    for name in ("f", "gradient"):
        assert sum(f"= call {name}(" in line for line in lines) >= 3
        assert sum(line.startswith(f"{name}(") for line in lines) == 1
    slope = bs.jit(bs.grad(lambda data: fit(data) ** 2))(data)
    np.testing.assert_allclose(slope, bs.grad(lambda data: fit(data) ** 2)(data), rtol=1e-6)


def test_a_short_function_stays_where_it_is():
    fit = bs.jit(lambda c: bs.argmin(lambda x: np.cosh(x - c) + x**2, 0.5))
    assert "call" not in str(fit.lower(1.0).stages["program"])


def test_no_unknowns():
    f = lambda p: bs.argmin(lambda x, p: np.sum((x - p) ** 2), np.zeros(0), p)
    for g in (f, bs.jit(f), bs.jacobian(f), bs.jit(bs.jacobian(f))):
        assert g(0.6).shape == (0,)
