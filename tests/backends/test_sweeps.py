"""Sweeps: runs of steps done slice by slice compute what the steps alone compute."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import cutting, share_out, sweep
from backsolve.testing import fuzz
from backsolve.testing.backends import check_compiled
from backsolve.testing.fuzz_sketch import sketch

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True, params=[1, 3])
def _small_things_too(monkeypatch, request):
    """Sweep whatever can be swept, however little it saves, and share it out however short it is."""
    monkeypatch.setattr(sweep, "LONG", 0.0)
    for name in ("ROUNDS", "BLOCK", "TOGETHER"):
        monkeypatch.setattr(share_out, name, 1)
    before = bs.get_threads()
    bs.set_threads(request.param)
    monkeypatch.setattr(cutting, "LARGE", 1)
    monkeypatch.setattr(cutting, "SHORT", 1)
    monkeypatch.setattr(cutting, "SLICE", 1 << 9)
    monkeypatch.setattr(cutting, "PRODUCT_SLICE", 1 << 10)
    yield
    bs.set_threads(before)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x):
    c = x - np.mean(x, axis=-1, keepdims=True)
    return c / np.sqrt(np.mean(c * c, axis=-1, keepdims=True) + 1e-5)


def sweeps(f, *args):
    compiled = bs.jit(f)
    compiled(*args)
    (made,) = compiled.stats()["specialisations"]
    return made["sweeps"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(16, 8), (7, 5), (67, 20), (1, 64), (64, 1), (3, 4, 10)])
@pytest.mark.parametrize("f", [softmax, layer_norm])
def test_rows(f, shape, dtype):
    x, w = rng.normal(size=shape).astype(dtype), rng.normal(size=shape[-1]).astype(dtype)
    g = bs.grad(lambda x, w: np.sum(f(x) * w), argnums=(0, 1))
    assert check_compiled(g, (x, w), ulps=512)
    assert check_compiled(f, (x,), ulps=512)
    if len(shape) == 2 and min(shape) > 1:
        assert sweeps(g, x, w)


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked):
    q, k, v = (rng.normal(size=(2, 3, 10, 4)) for _ in range(3))
    mask = np.tril(np.ones((10, 10), bool))

    def f(q, k, v):
        s = np.matmul(q, np.swapaxes(k, -1, -2)) * 0.5
        s = np.where(mask, s, -1e30) if masked else s
        return np.sum(np.matmul(softmax(s), v) ** 2)

    g = bs.grad(f, argnums=(0, 1, 2))
    assert check_compiled(g, (q, k, v), ulps=4096)
    assert sweeps(g, q, k, v)


@pytest.mark.parametrize("rows", [40, 41, 127])
def test_sums_over_the_slices(rows):
    X, y, w = rng.normal(size=(rows, 6)), rng.normal(size=rows), rng.normal(size=6)

    def loss(w):
        z = X @ w
        return np.mean(np.logaddexp(0.0, z) - y * z) + np.max(z) + np.min(z)

    for f in (loss, bs.value_and_grad(loss), bs.hessian(loss)):
        assert check_compiled(f, (w,), ulps=4096)
    assert sweeps(bs.grad(loss), w)


def test_what_a_later_slice_needs_is_not_swept_away():
    """A transposed reader needs all rows before it can begin."""
    x = rng.normal(size=(12, 12))

    def f(x):
        y = np.tanh(x)
        z = np.exp(y.T + y)  # rows of y.T are columns of y
        return z / np.sum(z, axis=1, keepdims=True), np.cumsum(y, axis=0), y[::-1] * z

    assert check_compiled(f, (x,), ulps=256)


def test_donated_memory():
    w, x = rng.normal(size=(24, 5)), rng.normal(size=(24, 5))

    def step(w, x):
        p = softmax(w * x)
        return w - 0.1 * layer_norm(p), np.sum(w, axis=0)

    expected = step(w, x)
    mine = w.copy()
    got = bs.jit(step, donate=0)(mine, x)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_division_by_what_a_row_shares(dtype):
    """By the reciprocal, but with division's zeros, infinities and NaN, and its range."""
    info = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max]
    c = np.array([*special, 3.0, -7.5, info.tiny * 8, info.max / 4], dtype)[:, None]
    x = np.array([*special, 1.0, -2.5, info.max / 3, 1e-3, 5e4, info.tiny * 3, 1e-30, 9.0], dtype)
    x = np.broadcast_to(x, (len(c), len(x)))
    with np.errstate(all="ignore"):
        expected = x / c
    got = -bs.jit(lambda x, c: -(x / c))(np.ascontiguousarray(x), c)
    np.testing.assert_allclose(got, expected, rtol=3 * info.eps, atol=info.smallest_subnormal)
    c = np.concatenate([np.arange(1, 60), rng.normal(size=20)]).astype(dtype)[:, None]
    for whole in (c * np.arange(1, 40, dtype=dtype), np.broadcast_to(c, (79, 16)).copy()):
        for f in (
            lambda x, c: x / c,
            lambda x, c: np.floor(x / c),
            lambda x, c: (x / c == 1) * 2.0,
        ):
            np.testing.assert_array_equal(bs.jit(f)(whole, c), f(whole, c))
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_division_by_roots(dtype):
    """Their reciprocals neither overflow nor lose digits: one product each."""
    info = np.finfo(dtype)
    special = [0.0, np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max, -1.0, 3.0]
    c = np.array(special, dtype)[:, None]
    x = np.array([*special, -0.0, info.max / 3, info.tiny * 3, *np.arange(5)], dtype)
    x = np.broadcast_to(x, (len(c), len(x))).copy()
    f = lambda x, c: -(x / np.sqrt(c))
    with np.errstate(all="ignore"):
        expected = f(x, c)
    compiled = bs.jit(f)
    np.testing.assert_allclose(
        compiled(x, c), expected, rtol=3 * info.eps, atol=2 * info.smallest_subnormal
    )
    assert "greater" not in compiled.lower(x, c).stages["steps"]


@pytest.mark.parametrize("seed", range(50_000, 50_020))
def test_random_programs(seed):
    fuzz.check(sketch(seed))


@pytest.mark.parametrize(
    ("wanted", "lead", "rows"),
    [
        (10, (1000,), 8),
        (30, (1000,), 20),
        (60, (1000,), 40),
        (300, (1000,), 200),
        (13, (997,), 8),  # a prime: a shorter slice is the last
        (5, (997,), 5),
        (13, (3, 997), 1),
        (9, (27,), 9),
        (2000, (1000,), 1000),
        (1, (7,), 1),
    ],
)
def test_slices_are_whole_vectors_where_they_can_be(wanted, lead, rows):
    assert cutting.near(wanted, lead) == rows
