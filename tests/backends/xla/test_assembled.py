"""Arrays of which a round writes every part: one concatenation, whatever is read and written between."""

import numpy as np
import pytest

import backsolve as bs

pytest.importorskip("jax")
RNG = np.random.default_rng(0)
STATE = RNG.normal(size=(4, 3))


def layers(x, w):
    x = bs.tensor(x)
    for _ in range(20):
        signal = w[0]
        for i in range(2):
            hidden, cell = x[2 * i], x[2 * i + 1]
            cell = cell * np.tanh(signal) + hidden
            signal = np.sin(cell) * w[i]
            x[2 * i] = signal
            x[2 * i + 1] = cell
    return np.sum(x * x)


def read_after_writing(x, w):
    x = bs.tensor(x)
    for _ in range(20):
        x[:2] = np.tanh(x[2:] + w[0])
        x[2:] = x[:2] * w[1] + x[2:]
    return np.sum(x**3)


def written_twice(x, w):
    x = bs.tensor(x)
    for _ in range(20):
        x[0] = x[1] * w[0]
        x[1:] = x[1:] * 0.5
        x[0] = x[0] + np.sin(x[3])
    return np.sum(x**3)


def overlapping(x, w):
    x = bs.tensor(x)
    for _ in range(20):
        x[1:3] = x[0:2] * w[0]
        x[:2] = x[2:] * w[1]
        x[2:] = x[1:3]
    return np.sum(x**3)


def of_columns(x, w):
    x = bs.tensor(x)
    for _ in range(20):
        first = x[:, 0].copy()
        x[:, 0] = x[:, 2] * w[0, 0]
        x[:, 1:] = np.sin(x[:, :2])
        x[:, 2] = first + x[:, 2]
    return np.sum(x**3)


def numbers_and_wholes(x, w):
    x, total = bs.tensor(x), 0.0
    for _ in range(20):
        x[0] = 0.25
        x[1] = w[0, 0]
        total = total + np.sum(x * x)
        x[2:] = x[:2] + x[2:] * w[1]
    return np.sum(x**3) + total


FUNCTIONS = [layers, read_after_writing, written_twice, overlapping, of_columns, numbers_and_wholes]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_gradients(f):
    w = RNG.normal(size=(2, 3))
    g = bs.value_and_grad(f, argnums=(0, 1))
    value, gradients = bs.jit(g, backend="xla")(STATE, w)
    expected, expected_gradients = g(STATE, w)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for a, b in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    single = bs.jit(g, backend="xla")(STATE.astype(np.float32), w.astype(np.float32))
    assert single[1][0].dtype == np.float32
    np.testing.assert_allclose(single[1][0], expected_gradients[0], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("f", [layers, read_after_writing])
def test_no_round_writes_into_the_array(f):
    w = RNG.normal(size=(2, 3))
    run = bs.jit(bs.grad(f), backend="xla")
    text = run.lower(STATE, w).stages["stablehlo"]
    assert "stablehlo.while" in text
    assert "stablehlo.scatter" not in text
    assert "stablehlo.pad" not in text  # parts among zeros


def test_a_version_that_is_needed_whole_stays():
    w = RNG.normal(size=(2, 3))
    text = bs.jit(numbers_and_wholes, backend="xla").lower(STATE, w).stages["stablehlo"]
    assert "stablehlo.scatter" in text
