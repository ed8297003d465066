"""Activations of large arrays, in compiled loops, against their formulas on small ones."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.nn import functional as F  # noqa: N812
from backsolve.nn.functional import _one_pass
from backsolve.primitives.large import LARGE

FUNCTIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.125),
    "threshold": lambda x: F.threshold(x, 1.0, 7.0),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardshrink": F.hardshrink,
    "softshrink": lambda x: F.softshrink(x, 1),
    "elu": lambda x: F.elu(x, 0.5),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 2.0),
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": lambda x: F.softplus(x, 2.0, 15.0),
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
}
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 3.0, -3.0, 6.0, np.inf, -np.inf, np.nan]
N = LARGE + 17


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch):
    monkeypatch.setattr(_one_pass, "ENOUGH", 1)


def numbers(dtype, seed=0):
    x = np.random.default_rng(seed).normal(size=N) * 3
    x[-len(SPECIAL) :] = SPECIAL
    return x.astype(dtype)


def in_pieces(f, *arrays):
    """f of arrays too small for the compiled loops, put together."""
    parts = [f(*p) for p in zip(*[np.array_split(a, 4) for a in arrays], strict=True)]
    return np.concatenate(parts)


def same(found, expected, ulps=8):
    assert found.dtype == expected.dtype
    eps = np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=ulps * eps, atol=ulps * eps)


def slopes(f, w):
    return bs.grad(lambda x: np.sum(f(x) * w))


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return np.dtype(request.param)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_slopes_are_those_of_the_formula(name, dtype):
    f, x, w = FUNCTIONS[name], numbers(dtype), numbers(dtype, 1)[::-1]
    same(f(x), in_pieces(f, x))
    first = lambda x, w: slopes(f, w)(x)
    same(first(x, w), in_pieces(first, x, w), 256)
    plain = lambda x: bs.grad(lambda x: np.sum(f(x)))(x)
    same(plain(x), in_pieces(plain, x), 256)
    along = lambda x, w: bs.jvp(f, (x,), (w,))[1]
    same(along(x, w), in_pieces(along, x, w), 256)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_row_is_recorded(name, dtype):
    x = bs.tensor(numbers(dtype), requires_grad=True)
    row = FUNCTIONS[name](x).row
    assert row.parents == (x.row,)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_those_of_the_formula(name, dtype):
    f = FUNCTIONS[name]
    x, w = (np.random.default_rng(k).normal(size=N).astype(dtype) for k in (0, 1))
    second = lambda x, w: slopes(slopes(f, w), w)(x)
    same(second(x, w), in_pieces(second, x, w), 64)
    turned = lambda x, w: bs.jvp(slopes(f, w), (x,), (w,))[1]
    same(turned(x, w), in_pieces(turned, x, w), 64)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_zeros_by_structure_stay(name):
    """√x has an infinite slope at 0, which a function that is flat there hides."""
    x = np.abs(numbers(np.float64)[: LARGE + 1])
    x[::3] = 0.0
    f = lambda x: bs.grad(lambda x: np.sum(FUNCTIONS[name](np.sqrt(x))))(x)
    same(f(x), in_pieces(f, x), 32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_was_not_chosen_stays_zero(name):
    x = numbers(np.float64)
    x[::2] = np.nan
    chosen = np.isfinite(x)
    with np.errstate(invalid="ignore"):
        g = bs.grad(lambda x: np.sum(np.where(chosen, FUNCTIONS[name](x), 0.0)))(x)
    assert np.isfinite(g).all()
    assert not g[~chosen].any()


def test_a_leaf_of_a_user_is_run_forward_again():
    x = bs.tensor(numbers(np.float64), requires_grad=True)
    y = F.hardswish(x * 2.0).sum()
    x.value = np.ones(N)
    y.forward()
    np.testing.assert_allclose(y.value, N * 2.0 * 5 / 6)
    y = F.relu(bs.tensor(np.ones(N), requires_grad=True) * 3.0)
    y.sum().backward()


def test_an_observer_sees_the_formula():
    system = bs.linearize(lambda x: F.hardsigmoid(x).sum())(numbers(np.float32))
    assert len(system.rows) > 2


def test_other_arrays_go_by_the_formula():
    x = np.random.default_rng(0).normal(size=(300, 200))
    for y in (F.hardswish(x.T), F.hardswish(x[:, ::2].T).T.copy()):
        assert y.flags.c_contiguous or y.T.flags.c_contiguous
    np.testing.assert_array_equal(F.hardswish(x.T), F.hardswish(x).T)
    g = slopes(F.hardswish, 1.0)
    np.testing.assert_allclose(g(x.T), g(x).T, rtol=1e-15)
    w = np.random.default_rng(1).normal(size=(200, 300))
    turned = bs.grad(lambda x: np.sum(F.gelu(x).T * w))  # an adjoint that is not contiguous
    np.testing.assert_allclose(turned(x), bs.grad(lambda x: np.sum(F.gelu(x) * w.T))(x))
    assert F.relu(np.arange(-N, N)).dtype == np.int64
    np.testing.assert_array_equal(F.leaky_relu(x, np.float64(0.5)), F.leaky_relu(x, 0.5))


def test_many_parameters_are_not_compiled_each(monkeypatch):
    compiled = []
    compile = _one_pass._Passes._compile
    monkeypatch.setattr(_one_pass._Passes, "_compile", lambda p: compiled.append(compile(p)))
    x = numbers(np.float64)[: LARGE + 1]
    for k in range(4 * _one_pass.MOST):
        np.testing.assert_array_equal(F.threshold(x, 100.0 + k, 0.5 * k)[:9], np.full(9, 0.5 * k))
    assert 0 < len(compiled) <= 2 * _one_pass.MOST


def test_rank_and_batches():
    x = np.random.default_rng(0).normal(size=(4, 100, 100))
    np.testing.assert_allclose(bs.vmap(F.silu)(x), F.silu(x), rtol=1e-14)
    assert F.silu(x).shape == x.shape
