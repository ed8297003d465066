"""Random numbers: NumPy's Philox stream everywhere, distributions, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import backsolve as bs
from backsolve import random
from backsolve.errors import ShapeError
from backsolve.random.discrete import _smallest
from backsolve.random.uniforms import inside

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


def test_single_precision_is_numpys_too() -> None:
    state = random.key(9)
    made = np.random.Generator(np.random.Philox(9)).random(7, dtype=np.float32)
    for draw in (random.uniform, bs.jit(random.uniform, static_argnums=(1, 2, 3, 4))):
        x = draw(state, 7, 0.0, 1.0, np.float32)
        assert x.dtype == np.float32
        np.testing.assert_array_equal(x, made)


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


SINGLE: dict[str, Any] = {
    "uniform": (lambda s, t: random.uniform(s, N, -1.0, 3.0, t), stats.uniform(-1, 4)),
    "normal": (lambda s, t: random.normal(s, N, np.ones(1), 2.0, t), stats.norm(1, 2)),
    "exponential": (lambda s, t: random.exponential(s, N, 3.0, t), stats.expon(scale=3)),
    "laplace": (lambda s, t: random.laplace(s, N, 1.0, 2.0, t), stats.laplace(1, 2)),
    "gumbel": (lambda s, t: random.gumbel(s, N, 1.0, 2.0, t), stats.gumbel_r(1, 2)),
    "gamma": (lambda s, t: random.gamma(s, 2.5, N, 2.0, t), stats.gamma(2.5, scale=2)),
    "beta": (lambda s, t: random.beta(s, 0.7, 2.0, N, t), stats.beta(0.7, 2)),
    "truncated_normal": (lambda s, t: random.truncated_normal(s, -1.0, 2.0, N, t), stats.truncnorm(-1, 2)),
    "dirichlet": (lambda s, t: random.dirichlet(s, np.array([1.0, 2.0, 3.0]), N, t)[:, 1], stats.beta(2, 4)),
    "multivariate_normal": (
        lambda s, t: random.multivariate_normal(s, np.zeros(2), 4 * np.eye(2), N, t)[:, 0], stats.norm(0, 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, "float64"])
@pytest.mark.parametrize("name", SINGLE)
def test_precision(name: str, dtype: Any) -> None:
    draw, law = SINGLE[name]
    x = draw(random.key(17), dtype)
    assert x.dtype == dtype
    assert stats.kstest(x.astype(float), law.cdf).pvalue > 0.01
    compiled = bs.jit(lambda s: draw(s, dtype))(random.key(17))
    assert compiled.dtype == dtype
    np.testing.assert_allclose(compiled, x, rtol=2e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize("dtype", [f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)])
def test_integers_of_any_type(dtype: str) -> None:
    state, info = random.key(4), np.iinfo(dtype)
    for low, high in (
        (int(info.min), int(info.max) + 1),
        (3, 100),
        (int(info.max) - 4, int(info.max) + 1),
    ):
        draw = lambda s, low=low, high=high: random.integers(s, low, high, N, dtype)
        x = draw(state)
        assert x.dtype == dtype
        assert low <= int(x.min())
        assert int(x.max()) < high
        np.testing.assert_array_equal(bs.jit(draw)(state), x)
        cells = np.floor((x.astype(float) - low) / (high - low) * 4).astype(int)
        if high - low > 100:
            assert stats.chisquare(np.bincount(np.minimum(cells, 3))).pvalue > 0.01
    with pytest.raises(ValueError, match="not all of dtype"):
        random.integers(state, int(info.min) - 1, 3, 2, dtype)
    with pytest.raises(ValueError, match="not all of dtype"):
        random.integers(state, 0, int(info.max) + 2, 2, dtype)


def test_many_integers_are_equally_likely() -> None:
    """Of 3 · 2⁶² numbers each third comes as often, which one word of 64 bits could not give."""
    x = random.integers(random.key(8), 0, 3 * 2**62, N, np.uint64)
    assert stats.chisquare(np.bincount((x >> np.uint64(62)).astype(int))).pvalue > 0.01
    assert stats.chisquare(np.bincount((x % np.uint64(3)).astype(int))).pvalue > 0.01


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
        (lambda s: random.poisson(s, 4.0, 5000), stats.poisson(4)),
        (lambda s: random.binomial(s, 1000, 0.02, 5000), stats.binom(1000, 0.02)),
        (lambda s: random.binomial(s, 60, 0.9, 5000), stats.binom(60, 0.9)),
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


@pytest.mark.parametrize("mean", [0.0, 1e-8, 0.5, 9.5, 300.0, 1e6, 1e12])
def test_counts_are_quantiles(mean: float) -> None:
    """Of extreme uniform numbers, too; whatever was guessed first."""
    state, shape = random.key(21), 300
    u = inside(state, shape, np.dtype(float))
    x = random.poisson(state, mean, shape)
    assert np.all(special.gammaincc(x + 1.0, mean) >= u)
    assert np.all((x == 0) | (special.gammaincc(np.maximum(x, 1.0), mean) < u))
    tails = np.array([1e-300, 1e-20, 1e-5, 0.5, 1 - 1e-5, 1 - 2.0**-53])
    reached = lambda k: special.gammaincc(k + 1.0, mean) >= tails
    top = np.full(6, np.ceil(mean + 12 * mean**0.5 + 60))
    found = _smallest(reached, np.full(6, mean), top)
    for guess in (0.0, mean + 7, 2 * mean):
        np.testing.assert_array_equal(_smallest(reached, np.full(6, guess), top), found)
    assert np.all(reached(found))


def test_counts_in_batches() -> None:
    lam, parts = np.array([0.2, 3.0, 500.0]), random.split(random.key(6), 3)
    batch = bs.vmap(lambda s, m: random.poisson(s, m, 5))(parts, lam)
    for row, part, m in zip(batch, parts, lam, strict=True):
        np.testing.assert_array_equal(row, random.poisson(part, m, 5))


@pytest.mark.parametrize("mean", [1e15, 1e300, np.inf, np.nan, -1.0])
def test_a_search_ends(mean: float) -> None:
    """Compiled code does not look at parameters first; nor are there whole numbers beyond 2⁵³ to tell apart."""
    x = bs.jit(lambda s, m: random.poisson(s, m, 3))(random.key(1), mean)
    assert x.shape == (3,)
    if mean == 1e15:
        np.testing.assert_allclose(x, mean, rtol=1e-6)


def test_counts_are_one_loop() -> None:
    f = bs.jit(lambda s: random.poisson(s, 40.0, 100))
    f(random.key(0))
    (found,) = f.stats()["specialisations"]
    assert found["native"]
    assert found["elsewhere"] == 0
    text = str(f.lower(random.key(0)).stages["program"])
    assert text.count("gammaincc") == 1


def test_the_derivative_in_a_shape_is_compiled() -> None:
    f = bs.jit(bs.grad(lambda a: np.sum(random.gamma(random.key(0), a, 50))))
    assert np.isfinite(f(1.5))
    (found,) = f.stats()["specialisations"]
    assert found["native"]
    assert found["elsewhere"] == 0


UPPER, STATE = special.ndtr(2.0), random.key(13)
U = inside(STATE, 200, np.dtype(float))
QUANTILES: list[tuple[str, Any, Any, float]] = [  # in each parameter by itself
    ("normal loc", lambda p: random.normal(STATE, 200, p, 2.0), lambda p: stats.norm(p, 2).ppf(U), 0.7),
    ("normal scale", lambda p: random.normal(STATE, 200, 1.0, p), lambda p: stats.norm(1, p).ppf(U), 0.7),
    ("exponential", lambda p: random.exponential(STATE, 200, p), lambda p: stats.expon(scale=p).isf(U), 1.3),
    ("laplace", lambda p: random.laplace(STATE, 200, 1.0, p), lambda p: stats.laplace(1, p).ppf(U), 1.3),
    ("gumbel", lambda p: random.gumbel(STATE, 200, 1.0, p), lambda p: stats.gumbel_r(1, p).ppf(U), 1.3),
    *[
        (f"gamma {a}", lambda p: random.gamma(STATE, p, 200), lambda p: special.gammaincinv(p, U), a)
        for a in (0.3, 1.0, 7.5, 200.0)
    ],
    (
        "truncated_normal", lambda p: random.truncated_normal(STATE, -p, 2.0, 200),
        lambda p: special.ndtri(special.ndtr(-p) + (UPPER - special.ndtr(-p)) * U), 1.0,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "draw", "quantile", "p"), QUANTILES)
def test_the_derivative_is_that_of_the_quantile(
    name: str, draw: Any, quantile: Any, p: float
) -> None:
    np.testing.assert_allclose(draw(p), quantile(p), rtol=1e-8)
    h = 1e-4 * p
    by_differences = (
        8 * (quantile(p + h) - quantile(p - h)) - quantile(p + 2 * h) + quantile(p - 2 * h)
    ) / (12 * h)
    _, slope = bs.jvp(draw, (p,), (1.0,))
    np.testing.assert_allclose(slope, by_differences, rtol=1e-6, atol=1e-9)
    _, compiled = bs.jit(lambda p: bs.jvp(draw, (p,), (1.0,)))(p)
    np.testing.assert_allclose(compiled, slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "kind", "argument"),
    [
        (lambda s: random.poisson(s, -1.0), ValueError, "lam"),
        (lambda s: random.poisson(s, np.nan), ValueError, "lam"),
        (lambda s: random.poisson(s, 1e300), ValueError, "lam"),
        (lambda s: random.normal(random.split(s), 3), ValueError, "state"),
        (lambda s: random.normal(3, 3), TypeError, "state"),
        (lambda s: random.permutation(s, np.float64(3)), ValueError, "x"),
        (lambda s: random.binomial(s, 3, 1.5), ValueError, "p"),
        (lambda s: random.binomial(s, -3, 0.5), ValueError, "n"),
        (lambda s: random.gamma(s, 0.0), ValueError, "a"),
        (lambda s: random.normal(s, 3, scale=-1.0), ValueError, "scale"),
        (lambda s: random.normal(s, 3, dtype=int), TypeError, "dtype"),
        (lambda s: random.integers(s, 0, 5, dtype=float), TypeError, "dtype"),
        (lambda s: random.normal(s, "no"), TypeError, "shape"),
        (lambda s: random.choice(s, 4, p=np.ones(3)), ValueError, "p"),
        (lambda s: random.bernoulli(s, 2.0), ValueError, "p"),
    ],
)
def test_bad_parameters(call: Any, kind: Any, argument: str) -> None:
    with pytest.raises(kind, match=rf"the argument `{argument}` of \w+\(") as caught:
        call(random.key(0))
    assert f"test_random.py:{call.__code__.co_firstlineno}" in str(caught.value)


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


def test_quotients_of_tiny_gamma_variables_are_no_zeros_over_zeros():
    key = random.key(4)
    for dtype in (np.float64, np.float32):
        x = random.beta(key, 1e-3, 2e-3, 20_000, dtype)
        assert x.dtype == dtype
        assert abs(x.mean() - 1 / 3) < 0.02
        y = random.dirichlet(key, np.array([1e-4, 1e-4]), 1000, dtype)
        np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)

    def mean(a):
        return np.mean(random.beta(key, a, 2e-3, 20_000))

    slope = bs.grad(mean)(1e-3)  # E = a / (a + b)
    assert abs(slope / (2e-3 / 3e-3**2) - 1) < 0.2
    np.testing.assert_allclose(bs.jit(bs.grad(mean))(1e-3), slope, rtol=1e-9)


@pytest.mark.parametrize("shape", [-1, (2, -3), (-1, -1)])
def test_shapes_must_not_be_negative(shape: Any) -> None:
    for draw in (bs.random.bits, bs.random.normal, bs.random.uniform):
        with pytest.raises(ShapeError, match="must not be negative"):
            draw(bs.random.key(0), shape)
    with pytest.raises(ShapeError, match="must not be negative"):
        bs.nn.Linear(3, -4)
