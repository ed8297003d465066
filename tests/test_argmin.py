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


def softmax(seed: int, n: int = 3):
    """Multinomial regression without a penalty: convex, and flat along what adds one number to all classes."""
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(80, n)), rng.integers(0, 4, 80)

    def f(W):
        z = A @ W
        return np.sum(np.log(np.sum(np.exp(z), 1)) - z[np.arange(80), y])

    return f, np.zeros((n, 4))


def atoms(seed: int):
    """Four Lennard-Jones atoms near the least energy, −6: free to move and to turn."""
    rng, i, j = np.random.default_rng(seed), *np.triu_indices(4, 1)

    def f(x):
        q = 1 / np.sum((x[i] - x[j]) ** 2, -1) ** 3
        return 4 * np.sum(q * q - q)

    height = np.sqrt(3) / 2
    corners = [[0, 0, 0], [1, 0, 0], [0.5, height, 0], [0.5, height / 3, np.sqrt(2 / 3)]]
    turned = 2 ** (1 / 6) * np.array(corners) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return f, turned + 0.02 * rng.normal(size=(4, 3))


def springs(seed: int, n: int = 8):
    """All points of a cloud at their distances."""
    rng, i, j = np.random.default_rng(seed), *np.triu_indices(n, 1)
    cloud = rng.normal(size=(n, 3))
    lengths = np.sum((cloud[i] - cloud[j]) ** 2, -1)
    f = lambda x: np.sum((np.sum((x[i] - x[j]) ** 2, -1) - lengths) ** 2)
    return f, cloud + 0.05 * rng.normal(size=(n, 3))


def factors(seed: int, m: int = 5, n: int = 4, noise: float = 0.0):
    """A matrix as U Vᵀ, of which any regular 2 × 2 matrix can be moved from one factor to the other."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, 2)) @ rng.normal(size=(2, n)) + noise * rng.normal(size=(m, n))
    return lambda Z: np.sum((Z[:m] @ Z[m:].T - A) ** 2), rng.normal(size=(m + n, 2))


FLAT = {
    "softmax": softmax,
    "many classes": lambda seed: softmax(seed, 20),
    "atoms": atoms,
    "springs": springs,
    "many springs": lambda seed: springs(seed, 20),
    "factors": factors,
    "factors of noise": lambda seed: factors(seed, noise=0.3),
    "large factors": lambda seed: factors(seed, 20, 10),
}


@pytest.mark.parametrize("name", FLAT)
def test_minima_with_flat_directions(name):
    """What is flat is rounding: it is no way down, and nothing to follow."""
    for seed in range(6):
        f, x0 = FLAT[name](seed)
        x = bs.argmin(f, x0)
        assert np.max(np.abs(bs.grad(f)(x))) < 1e-9
        assert np.max(np.abs(x - x0)) < 20


@pytest.mark.parametrize("name", ["softmax", "atoms", "factors"])
def test_minima_with_flat_directions_in_compiled_code(name):
    f, x0 = FLAT[name](0)
    x = bs.jit(lambda x0: bs.argmin(f, x0))(x0)
    assert np.max(np.abs(bs.grad(f)(x))) < 1e-9


def test_where_a_flat_minimum_stands_does_not_drift():
    """Newton's steps from 0 have no part along c 1ᵀ but by rounding."""
    for seed in range(6):
        f, x0 = softmax(seed)
        assert np.max(np.abs(np.sum(bs.argmin(f, x0), axis=1))) < 1e-3


@pytest.mark.parametrize("n", [4, 60])
@pytest.mark.parametrize("fall", [1e-2, 1e-5, 1e-8])
def test_slight_saddles_are_no_minima(n, fall):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        curvatures = np.append(np.linspace(0.5, 2, n - 1), -fall)

        def f(x, Q=Q, curvatures=curvatures):
            z = Q @ x
            return np.sum(curvatures * z * z) + z[-1] ** 4

        with pytest.raises(bs.errors.ConvergenceError, match="saddle or a maximum"):
            bs.argmin(f, np.zeros(n))
