"""Dense Jacobians by reverse mode through checkpoints in a budget, staged: in `jit`, `vmap` and one another."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs

RNG = np.random.default_rng(0)


def layer(W):
    return lambda h: np.tanh(W @ h) + h * h / 4


STEPS = [layer(W) for W in RNG.normal(size=(6, 5, 5)) / 3]
X = RNG.normal(size=(3, 5))


def plain(x):
    for step in STEPS:
        x = step(x)
    return x


def sequence(x):
    return bs.checkpoint(STEPS, memory="2kB")(x)


def whole(x):
    return bs.checkpoint(plain, memory="1kB")(x)


def square(f):
    return lambda x: np.sum(f(x) ** 2)


def reverse(f):
    return bs.jacobian(f, method="reverse")


WAYS = {
    "reverse": reverse,
    "auto": bs.jacobian,
    "of its own": lambda f: reverse(reverse(f)),
    "of a gradient": lambda f: reverse(bs.grad(square(f))),
    "in a gradient": lambda f: bs.grad(square(reverse(f))),
    "pushed": lambda f: lambda x: bs.jvp(reverse(f), (x,), (x,))[1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [sequence, whole])
def test_staged_jacobians_through_budgets(f, way):
    derive = WAYS[way]
    expected = np.stack([derive(plain)(x) for x in X])
    found = derive(f)
    np.testing.assert_allclose(found(X[0]), expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bs.jit(found)(X[0]), expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bs.vmap(found)(X), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bs.jit(bs.vmap(found))(X), expected, rtol=1e-10, atol=1e-12)
