"""`odeint` where a dissipative equation cannot be followed back: gradients beside other ways to the same."""

from typing import Any

import numpy as np
import pytest
import scipy.integrate

import backsolve as bs

odeint = bs.scipy.integrate.odeint


def van_der_pol(y: Any, t: Any, mu: Any) -> Any:
    return np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def oscillation(duration: float, **options: Any) -> Any:
    times, start = np.array([0.0, duration]), np.array([2.0, 0.0])
    return lambda mu: odeint(van_der_pol, start, times, (mu,), **options)[-1, 0]


def relaxation(k: Any) -> Any:
    slope = lambda y, t, k: np.stack([-15 * (y[0] - y[1]), -k * y[1] * y[0]])
    return odeint(slope, np.array([3.0, 1.0]), np.array([0.0, 2.0]), (k,))[-1, 1]


def robertson(k: Any) -> Any:
    def slope(y: Any, t: Any, k: Any) -> Any:
        first, second, third = k * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] * y[1]
        return np.stack([second - first, first - second - third, third])

    start, times = np.array([1.0, 0.0, 0.0]), np.array([0.0, 4.0])
    return odeint(slope, start, times, (k,), rtol=1e-9, atol=1e-12)[-1, 0]


def logistic(k: Any) -> Any:
    slope = lambda y, t, k: k * y * (1 - y / 2)
    return odeint(slope, np.array([0.1]), np.array([0.0, 20.0]), (k,))[-1, 0]


def pulled(rate: float) -> Any:
    slope = lambda y, t, k: -rate * (y - np.sin(k * t))
    return lambda k: odeint(slope, np.zeros(1), np.array([0.0, 2.0]), (k,))[-1, 0]


CASES = {
    "van der Pol 3, 3": (oscillation(3.0), 3.0),
    "van der Pol 3, 5": (oscillation(5.0), 3.0),
    "van der Pol 3, 10": (oscillation(10.0), 3.0),
    "van der Pol 5, 5": (oscillation(5.0), 5.0),
    "van der Pol 10, 1": (oscillation(1.0), 10.0),
    "van der Pol 10, 5": (oscillation(5.0), 10.0),
    "relaxation": (relaxation, 0.3),
    "Robertson": (robertson, 0.04),
    "logistic": (logistic, 1.5),
    "pulled": (pulled(100.0), 0.7),
    "pulled hard": (pulled(1e6), 0.7),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_forward_derivatives(name: str) -> None:
    f, x = CASES[name]
    expected = bs.jvp(f, (x,), (1.0,))[1]
    np.testing.assert_allclose(bs.grad(f)(x), expected, rtol=2e-5, atol=2e-8)
    np.testing.assert_allclose(bs.jit(bs.grad(f))(x), expected, rtol=2e-5, atol=2e-8)


@pytest.mark.parametrize("name", ["van der Pol 3, 3", "van der Pol 10, 1", "relaxation"])
def test_second_derivatives_are_differences_of_forward_ones(name: str) -> None:
    f, x = CASES[name]
    forward = lambda x: bs.jvp(f, (x,), (1.0,))[1]
    h = 1e-3 * x
    expected = (forward(x + h) - forward(x - h)) / (2 * h)
    for second in (
        bs.grad(bs.grad(f)),
        bs.jit(bs.grad(bs.grad(f))),
        bs.grad(forward),
        lambda x: bs.jvp(bs.grad(f), (x,), (1.0,))[1],
    ):
        np.testing.assert_allclose(second(x), expected, rtol=1e-3)


def test_sensitivities_that_solve_ivp_finds() -> None:
    def with_variation(t: float, z: Any, mu: float) -> Any:
        y, v = z[:2], z[2:]
        rate = mu * (1 - y[0] ** 2)
        dy = [y[1], rate * y[1] - y[0]]
        across = (-2 * mu * y[0] * y[1] - 1) * v[0]
        return [*dy, v[1], across + rate * v[1] + (1 - y[0] ** 2) * y[1]]

    exact = {"rtol": 1e-11, "atol": 1e-11}
    found = scipy.integrate.solve_ivp(
        with_variation, (0, 5), [2.0, 0, 0, 0], "Radau", args=(5.0,), **exact
    )
    got = bs.grad(oscillation(5.0, rtol=1e-11, atol=1e-11, mxstep=5000))(5.0)
    np.testing.assert_allclose(got, found.y[2, -1], rtol=1e-7)


@pytest.mark.parametrize("direction", [1, -1])
def test_of_many_times_and_of_the_times_themselves(direction: int) -> None:
    """Also where time runs back and the equation is dissipative so."""
    times = direction * np.array([0.0, 0.5, 0.5, 2.0, 3.5, 5.0])
    weights = np.array([0.3, 1.0, 0.2, 0.0, -0.4, 0.7])

    def loss(start: Any, times: Any, mu: Any) -> Any:
        slope = lambda y, t, mu: direction * van_der_pol(y, t, mu)
        y = odeint(slope, start, times, (mu,), rtol=1e-9, atol=1e-9, mxstep=5000)
        return np.sum(weights[:, None] * np.sin(y))

    point = (np.array([2.0, 0.1]), times, 4.0)
    along = (np.array([0.3, -0.2]), np.array([0.1, 0.2, 0.2, -0.3, 0.1, 0.05]), 0.4)
    expected = bs.jvp(loss, point, along)[1]
    for gradient in (bs.grad(loss, (0, 1, 2)), bs.jit(bs.grad(loss, (0, 1, 2)))):
        found = gradient(*point)
        got = sum(np.sum(a * b) for a, b in zip(found, along, strict=True))
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    curved = lambda mu: loss(point[0], times, mu)
    forward = lambda mu: bs.jvp(curved, (mu,), (1.0,))[1]
    expected = (forward(4.001) - forward(3.999)) / 2e-3
    np.testing.assert_allclose(bs.grad(bs.grad(curved))(4.0), expected, rtol=1e-4)


def test_batched() -> None:
    f, mu = oscillation(3.0), np.array([1.0, 3.0, 6.0])
    expected = [bs.jvp(f, (m,), (1.0,))[1] for m in mu]
    np.testing.assert_allclose(bs.vmap(bs.grad(f))(mu), expected, rtol=2e-5)
    np.testing.assert_allclose(bs.jit(bs.vmap(bs.grad(f)))(mu), expected, rtol=2e-5)


def test_no_warning_of_what_was_tried() -> None:
    """Followed back, this one passes every bound; warnings are errors here."""
    slope = lambda y, t, k: -k * np.sinh(3 * (y - np.sin(t)))
    final = lambda k: odeint(slope, np.ones(1), np.array([0.0, 1.0]), (k,))[-1, 0]
    expected = bs.jvp(final, (30.0,), (1.0,))[1]
    np.testing.assert_allclose(bs.grad(final)(30.0), expected, rtol=1e-5)


def test_a_first_step_is_one_in_either_direction() -> None:
    for mu in (0.5, 3.0):
        f = oscillation(3.0, h0=1e-4, hmax=0.1)
        np.testing.assert_allclose(bs.grad(f)(mu), bs.jvp(f, (mu,), (1.0,))[1], rtol=2e-5)


def test_no_times() -> None:
    f = lambda k, t: odeint(lambda y, t, k: -k * y, np.array([1.0, 2.0]), t, (k,))
    for way in (lambda f: f, bs.jit):
        assert way(lambda k: f(k, np.zeros(0)))(1.0).shape == (0, 2)
        assert way(bs.grad(lambda k: np.sum(f(k, np.zeros(0)))))(1.0) == 0
