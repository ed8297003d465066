"""ReLUs whose truths are computed again from their results (backends/xla/kinks.py); the CPU plays the GPU."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.nn.functional import relu

jax = pytest.importorskip("jax")
FORMS = {"flat where x <= 0": relu, "x where x > 0": lambda x: np.where(x > 0, x, 0)}
X = np.array([[0.0, -0.0, np.nan, 2.0], [-1.0, 6e-8, np.inf, -np.inf]], np.float16)
W = np.array([[1.0, -2.0], [3.0, 0.5], [np.inf, 1.0], [-1.0, 4.0]], np.float16)


def step(form):
    def loss(x, w):
        return np.sum((form(x) @ w) * np.array([[1.0, 2.0], [-1.0, 1.0]], x.dtype))

    return lambda x, w: bs.value_and_grad(loss, argnums=(0, 1))(x, w)


def barriers(f, *args):
    return f.lower(*args).stages["stablehlo"].count("optimization_barrier")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_derivatives_are_the_same_at_zero_and_at_nan(form, monkeypatch):
    expected = bs.jit(step(form), backend="xla")(X, W)[1]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    again = bs.jit(step(form), backend="xla")
    assert barriers(again, X, W) == 1
    for a, b in zip(again(X, W)[1], expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_truths_are_kept_where_the_result_is_not_or_is_wide(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    wide = [a.astype(np.float32) for a in (X, W)]
    assert barriers(bs.jit(step(relu), backend="xla"), *wide) == 0
    for f in (lambda x: np.sum(relu(x)), lambda x: np.sum(relu(x) @ W)):
        assert barriers(bs.jit(bs.value_and_grad(f), backend="xla"), X) == 0
    for other in (lambda x: np.where(x >= 0, x, 0), lambda x: np.where(x <= 1, 0, x)):
        assert barriers(bs.jit(step(other), backend="xla"), X, W) == 0


def test_statistics_of_channels_are_added_up_example_by_example(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def totals(x):
        axes = (0, 2, 3)
        return x.sum(axes), x.sum(axes, keepdims=True), np.any(x > 3, axes)

    f = bs.jit(totals, backend="xla")
    x = np.random.default_rng(0).integers(-4, 4, (16, 3, 8, 8)).astype(np.float64)
    x[:, 1] = np.minimum(x[:, 1], 3)
    assert barriers(f, x) > 1
    for a, b in zip(f(x), totals(x), strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)
    for whole in (
        x[:2],
        np.tile(x, (8, 1, 1, 1)),
    ):  # too few to be worth it, and more than XLA leaves whole
        assert barriers(f, whole) == 0
    assert barriers(bs.jit(np.sum, backend="xla"), x) == 0
