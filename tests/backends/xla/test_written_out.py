"""Rounds of short loops that follow one another in the code for GPUs; the CPU plays the device."""

import numpy as np
import pytest

import backsolve as bs

pytest.importorskip("jax")
T = np.linspace(-1, 1, 40)


def horner(x, t):
    y = np.zeros_like(t)
    for c in x:
        y = y * t + c
    return y


def rounds_in(f, x):
    """How many rounds there are in the code, of products with T."""
    return f.lower(x, T).stages["hlo"].count(" multiply(")


@pytest.mark.parametrize("rounds", [1, 5, 16, 17, 100])
def test_values_and_gradients_are_those_of_single_rounds(rounds, on_gpu):
    x = np.random.default_rng(rounds).normal(size=rounds)
    loss = lambda x: np.sum(horner(x, T) ** 2)
    run = on_gpu(lambda x: (horner(x, T), bs.grad(loss)(x)))
    for y, expected in zip(run(x), (horner(x, T), bs.grad(loss)(x)), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_short_rounds_are_written_out_and_long_ones_are_not(on_gpu):
    def long(x, t):
        y = np.zeros_like(t)
        for c in x:
            for _ in range(3):  # written out by the frontend
                y = np.sin(np.cos(np.tanh(np.exp(np.sin(y * t) + c) - c) + c) * c)
        return y

    def nested(x, t):
        y = np.zeros_like(t)
        for c in x:
            for d in x:
                y = y * t + c - d
        return y

    x = np.ones(64)
    assert rounds_in(bs.jit(horner, backend="xla", device="cpu"), x) == 1
    assert rounds_in(on_gpu(horner), x) == 16
    assert rounds_in(on_gpu(horner), x[:9]) == 9
    for f in (long, nested):
        np.testing.assert_allclose(on_gpu(f)(x, T), f(x, T), rtol=1e-10)
    assert rounds_in(on_gpu(nested), x) == 16  # of the inner one
    assert rounds_in(on_gpu(long), x) == 4 * 6  # four rounds, of thirty equations each


def test_the_round_that_fails_is_told(on_gpu):
    def f(x, places):
        total = 0.0
        for i in places:
            total = total + x[i] ** 2
        return total

    run = on_gpu(f)
    places = np.arange(40) % 5
    np.testing.assert_allclose(run(T[:5], places), f(T[:5], places))
    bs.settle()
    run(T[:5], np.arange(40) % 6)
    with pytest.raises(IndexError, match="size 5"):
        bs.settle()
