"""Factors that a row shares go out of its sum, and terms that are added twice are added once."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.rewrite import rewrite, rewrite_for_machines
from backsolve.trace import stage

rng = np.random.default_rng(0)


def norm(x):
    c = x - np.mean(x, axis=-1, keepdims=True)
    return c / np.sqrt(np.mean(c * c, axis=-1, keepdims=True) + 1e-5)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def by_root(x):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))


def by_total(x):
    return x / np.sum(x, axis=-1, keepdims=True)


def gradient(f, x, w):
    return bs.grad(lambda x: np.sum(f(x) * w))


@pytest.mark.parametrize("f", [norm, softmax, by_root, by_total])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(40, 256), (7, 5), (3, 4, 65), (5, 1)])
def test_values_are_those_of_eager_mode(f, dtype, shape):
    x = rng.uniform(0.5, 2, size=shape).astype(dtype)
    w = rng.normal(size=shape[-1:]).astype(dtype)
    g = gradient(f, x, w)
    tolerance = 2e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(bs.jit(g)(x), g(x), rtol=tolerance, atol=tolerance)
    hv = lambda x: bs.hvp(lambda x: np.sum(f(x) ** 2 * w))(x, np.cos(x))
    np.testing.assert_allclose(bs.jit(hv)(x), hv(x), rtol=1e2 * tolerance, atol=1e2 * tolerance)


@pytest.mark.parametrize("f", [norm, softmax, by_root])
def test_a_row_is_summed_up_where_its_total_is_made(f):
    x, w = rng.normal(size=(64, 256)), rng.normal(size=256)
    lines = bs.jit(gradient(f, x, w)).lower(x).stages["steps"].splitlines()
    assert any("add add over" in line for line in lines)


def test_special_numbers_come_out_as_in_eager_mode():
    x = rng.normal(size=(6, 128))
    x[0, 3], x[1, 4], x[2, 5], x[3] = np.nan, np.inf, -np.inf, 0.0
    x[4] *= 1e-300
    w = rng.normal(size=128)
    with np.errstate(all="ignore"):
        for f in (norm, softmax):
            g = gradient(f, x, w)
            np.testing.assert_allclose(bs.jit(g)(x), g(x), rtol=1e-12, atol=1e-300)


def test_divisors_that_may_be_tiny_stay_inside():
    """Σ w x / c would lose its digits as (Σ w x) / c where w x does."""
    x = np.full((8, 128), 1e-160) * rng.uniform(1, 2, size=(8, 128))
    w = np.full(128, 1e-160)
    f = lambda x: np.sum(x / np.sum(x, axis=-1, keepdims=True) * w, axis=-1)
    np.testing.assert_allclose(bs.jit(f)(x), f(x), rtol=1e-12)


def test_a_term_that_is_added_twice_is_doubled():
    x, y = rng.normal(size=(2, 300))

    def names(f):
        recorded, _ = stage(lambda x, y: [f(x, y)], [bs.ir.type_of(x), bs.ir.type_of(y)])
        return [e.primitive.name for e in rewrite_for_machines(rewrite(recorded)).equations]

    f = lambda x, y: np.sin((np.cos(x) - y * x) - y * x)
    assert names(f).count("subtract") == 1
    g = lambda x, y: np.sin(y * x + (y * x + np.cos(x)))
    assert names(g).count("add") == 1
    for h in (f, g):
        np.testing.assert_allclose(bs.jit(h)(x, y), h(x, y), rtol=1e-12, atol=1e-12)
    # What a jump rests on, and results, keep every bit.
    assert names(lambda x, y: np.floor((x - y) - y)).count("subtract") == 2
    assert names(lambda x, y: (x + y) + y).count("add") == 2


def test_products_of_the_same_factors_are_one():
    x, t = rng.normal(size=(2, 300))

    def count(f):
        recorded, _ = stage(lambda x, t: [f(x, t)], [bs.ir.type_of(x), bs.ir.type_of(t)])
        program = rewrite_for_machines(rewrite(recorded))
        return sum(e.primitive.name == "multiply" for e in program.equations)

    f = lambda x, t: np.sin((t * x) * x) + np.cos(t * (x * x)) + np.tanh(x * (x * t))
    assert count(f) == 2
    g = lambda x, t: np.sin(((np.cos(x) + t * x) + x * t) + t * x)
    assert count(g) == 2  # one of them by 3
    cube = lambda x, t: np.tanh(bs.grad(lambda x: np.sum(x * x * x * t))(x))
    for h in (f, g, cube):
        np.testing.assert_allclose(bs.jit(h)(x, t), h(x, t), rtol=1e-12, atol=1e-12)
    # Results, and what a jump rests on, keep every bit.
    assert count(lambda x, t: np.floor((t * x) * x) + np.ceil(t * (x * x))) == 4
    y, z = bs.jit(lambda x, t: ((t * x) * x, t * (x * x)))(x, t)
    np.testing.assert_array_equal(y, (t * x) * x)
    np.testing.assert_array_equal(z, t * (x * x))


def test_rows_and_other_types_are_other_factors():
    x, r = rng.normal(size=(5, 70)), rng.normal(size=(5, 1))
    f = lambda x, r: (
        np.sin((x * r) * r) + np.cos(x * (r * r)) + np.sin(x * r * 2) + np.cos(r * 2 * x)
    )
    np.testing.assert_allclose(bs.jit(f)(x, r), f(x, r), rtol=1e-12, atol=1e-12)
    g = lambda x, y: np.sin(x * y) + np.cos(y * x.astype(np.float32))
    y = rng.normal(size=(5, 70)).astype(np.float32)
    np.testing.assert_allclose(bs.jit(g)(x, y), g(x, y), rtol=1e-6, atol=1e-6)
