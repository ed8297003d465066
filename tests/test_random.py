"""Random numbers: NumPy's Philox stream everywhere, distributions, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import backsolve as bs
from backsolve import random
from backsolve.errors import ShapeError

TOP = 2**64 - 1
COUNTERS = [[0, 0, 0, 0], [TOP - 1, 5, 6, 7], [TOP - 1, TOP, TOP, 3], [1, 2, TOP, TOP]]


@pytest.mark.parametrize("counter", COUNTERS)
def test_the_stream_is_numpys(counter: Any) -> None:
    key = np.array([3, TOP - 7], np.uint64)
    state = random.State(key, np.array(counter, np.uint64))
    made = lambda: np.random.Philox(key=key, counter=state.counter)
    np.testing.assert_array_equal(random.bits(state, 37), made().random_raw(37))
    doubles = np.random.Generator(made()).random((5, 3))
    np.testing.assert_array_equal(random.uniform(state, (5, 3)), doubles)
    np.testing.assert_array_equal(bs.jit(lambda s: random.uniform(s, (5, 3)))(state), doubles)


def test_a_seed_is_numpys() -> None:
    numbers = np.random.Generator(np.random.Philox(42)).random(6)
    np.testing.assert_array_equal(random.uniform(random.key(42), 6), numbers)


def test_bits_compile_natively() -> None:
    f = bs.jit(lambda s: random.bits(s, (1000,)))
    f(random.key(0))
    (found,) = f.stats()["specialisations"]
    assert found["native"]
    assert found["elsewhere"] == 0


def test_split_and_fold_in() -> None:
    state = random.key(0)
    parts = random.split(state, 5)
    streams = [random.bits(s, 4) for s in [state, *parts, random.fold_in(state, 1)]]
    streams += [random.bits(random.fold_in(state, k), 4) for k in (0, 2**40)]
    assert len(np.unique(np.concatenate(streams))) == 4 * len(streams)
    draws = bs.vmap(lambda s: random.normal(s, (3,)))(parts)
    for row, part in zip(draws, parts, strict=True):
        np.testing.assert_array_equal(row, random.normal(part, (3,)))
    compiled = bs.jit(lambda s: random.split(s, 5))(state)
    np.testing.assert_array_equal(compiled.key, parts.key)


N = 20000
DRAWS: dict[str, Any] = {
    "uniform": (lambda s: random.uniform(s, N, -1.0, 3.0), stats.uniform(-1, 4)),
    "normal": (lambda s: random.normal(s, N, 1.0, 2.0), stats.norm(1, 2)),
    "exponential": (lambda s: random.exponential(s, N, 3.0), stats.expon(scale=3)),
    "laplace": (lambda s: random.laplace(s, N, 1.0, 2.0), stats.laplace(1, 2)),
    "gumbel": (lambda s: random.gumbel(s, N, 1.0, 2.0), stats.gumbel_r(1, 2)),
    "gamma": (lambda s: random.gamma(s, 0.4, N, 2.0), stats.gamma(0.4, scale=2)),
    "beta": (lambda s: random.beta(s, 0.7, 2.0, N), stats.beta(0.7, 2)),
    "truncated_normal": (lambda s: random.truncated_normal(s, 4.0, 5.0, N), stats.truncnorm(4, 5)),
    "dirichlet": (lambda s: random.dirichlet(s, np.array([1.0, 2.0, 3.0]), N)[:, 1], stats.beta(2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_distribution(name: str) -> None:
    draw, law = DRAWS[name]
    x = draw(random.key(7))
    assert stats.kstest(x, law.cdf).pvalue > 0.01
    np.testing.assert_allclose(np.mean(x), law.mean(), atol=5 * law.std() / N**0.5)
    np.testing.assert_allclose(bs.jit(draw)(random.key(7)), x, rtol=1e-12, atol=1e-13)


def test_multivariate_normal() -> None:
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = random.multivariate_normal(random.key(3), np.array([1.0, -1.0]), cov, N)
    np.testing.assert_allclose(x.mean(0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.08)


def test_integers_and_choices() -> None:
    state = random.key(5)
    x = random.integers(state, -2, 3, N)
    assert x.dtype == np.int64
    assert stats.chisquare(np.bincount(x + 2)).pvalue > 0.01
    p = np.array([0.1, 0.2, 0.7])
    for y in (random.choice(state, 3, N, p=p), random.categorical(state, np.log(p), N)):
        assert stats.chisquare(np.bincount(y), N * p).pvalue > 0.01
    np.testing.assert_allclose(np.mean(random.bernoulli(state, 0.3, N)), 0.3, atol=0.02)
    order = random.permutation(state, 50)
    assert sorted(order) == list(range(50))
    assert list(order) != list(range(50))
    taken = random.choice(state, np.arange(10.0, 20.0), (2, 3), replace=False)
    assert len(np.unique(taken)) == 6
    with pytest.raises(ShapeError, match="without replacement"):
        random.choice(state, 3, 4, replace=False)
    with pytest.raises(ShapeError, match="do not fit"):
        random.normal(state, 3, np.zeros(2))


@pytest.mark.parametrize(
    ("f", "p", "expected"),
    [
        (lambda p: random.normal(random.key(1), N, p, 1.0) ** 2, 1.5, 3.0),  # E = p² + 1
        (lambda p: random.normal(random.key(1), N, 0.0, p) ** 2, 1.5, 3.0),  # E = p²
        (lambda p: random.exponential(random.key(1), N, p) ** 2, 1.5, 6.0),  # E = 2p²
        (lambda p: random.gamma(random.key(1), p, N) ** 2, 1.5, 4.0),  # E = p² + p
        (lambda p: random.beta(random.key(1), p, 2.0, N), 1.5, 2 / 3.5**2),  # E = p / (p + 2)
    ],
)
def test_derivative_of_the_expectation(f: Any, p: float, expected: float) -> None:
    slope = bs.grad(lambda p: np.mean(f(p)))
    np.testing.assert_allclose(slope(p), expected, rtol=0.05)
    np.testing.assert_allclose(bs.jit(slope)(p), slope(p), rtol=1e-10)


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda s: random.poisson(s, 0.3, 5000), stats.poisson(0.3)),
        (lambda s: random.poisson(s, 40.0, 5000), stats.poisson(40)),
        (lambda s: random.binomial(s, 10, 0.3, 5000), stats.binom(10, 0.3)),
        (lambda s: random.binomial(s, 3, np.array([0.0, 1.0]), (2500, 2)), None),
    ],
)
def test_counts(draw: Any, law: Any) -> None:
    x = draw(random.key(11))
    assert x.dtype == np.int64
    np.testing.assert_array_equal(bs.jit(draw)(random.key(11)), x)
    if law is None:
        np.testing.assert_array_equal(x, np.broadcast_to([0, 3], x.shape))
        return
    likely = law.pmf(np.arange(x.max() + 1)) * len(x) > 10
    counted = np.bincount(x)[likely]
    expected = len(x) * law.pmf(np.arange(x.max() + 1)[likely])
    assert stats.chisquare(counted, expected * counted.sum() / expected.sum()).pvalue > 0.01


def test_counts_do_not_vary() -> None:
    f = lambda p: np.sum(random.poisson(random.key(0), p, 4) * 1.0) + p
    assert bs.grad(f)(2.5) == 1


def test_single_draws() -> None:
    state = random.key(2)
    for f in (random.uniform, random.normal, random.gumbel, random.bernoulli):
        assert np.shape(f(state)) == ()
        np.testing.assert_allclose(bs.jit(f)(state), f(state), rtol=1e-12)
    assert random.integers(state, 0, 2**62) == bs.jit(lambda s: random.integers(s, 0, 2**62))(state)
    with pytest.raises(ValueError, match="low < high"):
        random.integers(state, 3, 3)


def test_discrete_draws_have_the_derivative_zero() -> None:
    f = lambda p: np.sum(np.where(random.bernoulli(random.key(0), p, 10), 1.0, 0.0)) + 2 * p
    assert bs.grad(f)(0.5) == 2
