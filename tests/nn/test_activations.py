"""Activations and distances where PyTorch's figures do not say enough."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.nn import functional as F  # noqa: N812
from backsolve.testing import check_grads

rng = np.random.default_rng(0)
NAMES = [
    "relu", "relu6", "leaky_relu", "rrelu", "elu", "selu", "celu", "gelu", "silu", "mish", "hardtanh",
    "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "softplus", "softsign",
    "logsigmoid", "sigmoid", "tanh",
]  # fmt: skip
FAR = np.array([-1000.0, -200.0, -30.0, 30.0, 200.0, 1000.0])


def slopes(f, x):
    return bs.grad(lambda x: np.sum(f(x)))(x)


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_far_from_zero(name, dtype, compile):
    f, x = getattr(F, name), FAR.astype(dtype)
    first = lambda x: slopes(f, x)
    second = lambda x: slopes(first, x)
    results = compile(lambda x: (f(x), first(x), second(x)))(x)
    for y in results:
        assert y.dtype == dtype
        assert np.isfinite(y).all()
    assert np.abs(results[2][[0, 1, 4, 5]]).max() < 1e-3


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", NAMES)
def test_nan_stays(name, compile):
    x = np.array([np.nan, 1.0])
    with np.errstate(invalid="ignore"):  # np.logaddexp warns of a NaN
        y = compile(getattr(F, name))(x)
    assert np.isnan(y[0])
    assert not np.isnan(y[1])


@pytest.mark.parametrize("name", NAMES)
def test_both_modes_and_orders(name):
    x = np.array([-7.1, -2.3, -0.7, -0.2, 0.3, 0.8, 2.7, 7.2])
    check_grads(getattr(F, name), [x], order=3)


def test_hardsigmoid():
    x = np.array([-4.0, -3.0, -1.5, 0.0, 3.0, 5.0])
    np.testing.assert_allclose(F.hardsigmoid(x), [0, 0, 0.25, 0.5, 1, 1])
    np.testing.assert_allclose(slopes(F.hardsigmoid, x), [0, 0, 1 / 6, 1 / 6, 0, 0], rtol=1e-15)


def test_softmax_of_what_is_hidden():
    x = np.array([[1.0, -np.inf, 1.0], [1000.0, -1000.0, 1000.0]])
    np.testing.assert_allclose(F.softmax(x, 1), [[0.5, 0, 0.5]] * 2)
    g = bs.grad(lambda x: np.sum(F.softmax(x, 1)[:, 0]))(x)
    np.testing.assert_allclose(g, [[0.25, 0, -0.25]] * 2)


BESIDE_INFINITY = np.array(
    [
        [1.0, np.inf, 3.0],
        [np.inf, -np.inf, 1.0],
        [1.0, -np.inf, 1.0],
        [-np.inf, -np.inf, -np.inf],
        [1.0, np.nan, 3.0],
    ]
)


@pytest.mark.parametrize("backend", [None, "native", "xla"])
def test_softmax_beside_infinity(backend):
    if backend == "xla":
        pytest.importorskip("jax")

    def all_of_it(x):
        rows = [f(x, 1) for f in (F.softmax, F.log_softmax)]
        grads = [
            bs.grad(lambda x, f=f: np.sum(f(x, 1)[:, 0]))(x) for f in (F.softmax, F.log_softmax)
        ]
        return [*rows, *grads]

    nan, inf = np.nan, np.inf
    unknown, half = [nan] * 3, np.log(0.5)
    expected = [
        [[0, nan, 0], [nan, 0, 0], [0.5, 0, 0.5], unknown, unknown],
        [[-inf, nan, -inf], [nan, -inf, -inf], [half, -inf, half], unknown, unknown],
        [[0, nan, 0], unknown, [0.25, 0, -0.25], unknown, unknown],
        [[1, nan, 0], [nan, 0, 0], [0.5, 0, -0.5], unknown, unknown],
    ]
    run = bs.jit(all_of_it, backend=backend) if backend else all_of_it
    with np.errstate(all="ignore"):
        found = run(BESIDE_INFINITY)
    for y, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, right, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_softmax_of_integers(dtype):
    x = np.array([0, 1, 1], dtype)
    for f in (F.softmax, F.log_softmax):
        expected = f(x.astype(np.float64), 0)
        np.testing.assert_allclose(f(x, 0), expected, rtol=1e-3)
        np.testing.assert_allclose(f(list(x), 0), expected, rtol=1e-3)
        np.testing.assert_allclose(bs.jit(lambda x, f=f: f(x, 0))(x), expected, rtol=1e-3)


def test_softmax_converts_first():
    y = F.softmax(np.array([1, 2], dtype=np.int32), 0, dtype=np.float32)
    assert y.dtype == np.float32
    assert F.log_softmax(np.zeros((2, 3), np.float32), 1, dtype=float).dtype == np.float64


def test_axis_that_is_not_named():
    x = rng.normal(size=(2, 3, 4))
    np.testing.assert_array_equal(F.softmax(x), F.softmax(x, 0))
    np.testing.assert_array_equal(F.softmin(x[0]), F.softmin(x[0], 1))


def test_normalize_and_similarity_of_zero():
    zero, x = np.zeros((1, 3)), np.array([[3.0, 0.0, 4.0]])
    np.testing.assert_array_equal(slopes(lambda x: F.normalize(x, eps=0.5), zero), [[2.0] * 3])
    np.testing.assert_array_equal(F.cosine_similarity(zero, x), [0.0])
    g = slopes(lambda z: F.cosine_similarity(z, x, eps=0.5), zero)
    np.testing.assert_allclose(g, x / 5 / 0.5)


def test_similarity_of_short_vectors():
    a, b = rng.normal(size=(2, 4, 3)) * 0.3
    check_grads(lambda a, b: F.cosine_similarity(a, b, eps=0.4), [a, b], order=2)


def test_norms_at_zero():
    for p in (0.7, 1.0, 1.5, 2.0, 3.0, np.inf):
        g = slopes(lambda x: F.pairwise_distance(x, np.zeros(3), p, eps=0.0), np.zeros(3))  # noqa: B023
        np.testing.assert_array_equal(g, np.zeros(3))


# ---- random ones


def test_rrelu_draws_slopes():
    x = -np.ones(20000)
    f = lambda x: F.rrelu(x, 0.1, 0.3, training=True, generator=bs.random.key(3))
    slope = -f(x)
    assert slope.min() >= 0.1
    assert slope.max() <= 0.3
    assert abs(slope.mean() - 0.2) < 0.002
    np.testing.assert_array_equal(slopes(f, x), slope)
    np.testing.assert_array_equal(bs.jit(f)(x), f(x))
    np.testing.assert_array_equal(f(-x), -x)
    assert f(x.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_draws_classes(hard):
    logits = np.log([0.2, 0.5, 0.3])
    f = lambda x: F.gumbel_softmax(x, tau=0.5, hard=hard, generator=bs.random.key(1))
    y = f(np.broadcast_to(logits, (20000, 3)))
    np.testing.assert_allclose(y.sum(1), 1.0)
    assert np.all((y == 0) | (y == 1)) == hard
    shares = np.bincount(y.argmax(1), minlength=3) / len(y)
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.3], atol=0.015)


def test_gumbel_softmax_has_the_soft_derivative():
    x = rng.normal(size=(3, 4))
    weights = rng.normal(size=(3, 4))
    soft, hard = (
        bs.grad(lambda x: np.sum(weights * F.gumbel_softmax(x, hard=h, dim=0, generator=bs.random.key(5))))(x)  # noqa: B023
        for h in (False, True)
    )  # fmt: skip
    np.testing.assert_allclose(hard, soft, rtol=1e-12)
    assert np.abs(soft).max() > 1e-3


@pytest.mark.parametrize("name", ["rrelu", "gumbel_softmax"])
def test_a_generator_is_needed(name):
    options = {"training": True} if name == "rrelu" else {}
    with pytest.raises(ValueError, match=f"{name} draws random numbers: pass generator="):
        getattr(F, name)(np.ones((2, 2)), **options)


# ---- mistakes


def test_what_they_refuse():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="for each of 3 channels"):
        F.prelu(x, np.ones(2))
    with pytest.raises(ValueError, match="glu halves axis -1"):
        F.glu(x)
    with pytest.raises(ValueError, match="min_val"):
        F.hardtanh(x, 2.0, 1.0)
    with pytest.raises(ValueError, match="approximate"):
        F.gelu(x, "sigmoid")
    with pytest.raises(ValueError, match="axis"):
        F.softmax(x, 2)
