"""Linear maps of few entries, tables of rows at their edges, and dropout by its laws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import backsolve as bs
from backsolve.nn import functional as F  # noqa: N812
from backsolve.testing import check_grads

rng = np.random.default_rng(0)
MODES = pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])


# ---- vectors with few entries


def test_sparse_linear_is_linear():
    dense = rng.normal(size=(6, 8)) * (rng.random((6, 8)) < 0.3)
    dense[2] = 0
    w, b = rng.normal(size=(3, 8)), rng.normal(size=3)
    pairs = [(np.flatnonzero(row), row[row != 0]) for row in dense]
    expected = F.linear(dense, w, b)
    for x in (pairs, scipy.sparse.csr_array(dense), scipy.sparse.coo_array(dense)):
        np.testing.assert_allclose(F.sparse_linear(x, w, b), expected, rtol=1e-12, atol=1e-14)
        g = bs.jit(bs.grad(lambda w, b: np.sum(np.sin(F.sparse_linear(x, w, b))), (0, 1)))(w, b)  # noqa: B023
        e = bs.grad(lambda w, b: np.sum(np.sin(F.linear(dense, w, b))), (0, 1))(w, b)
        for a, c in zip(g, e, strict=True):
            np.testing.assert_allclose(a, c, rtol=1e-10, atol=1e-13)
    keys = np.concatenate([k for k, _ in pairs])
    values = np.concatenate([v for _, v in pairs])
    sizes = np.array([len(k) for k, _ in pairs])
    for f in (F.index_linear, bs.jit(F.index_linear)):
        np.testing.assert_allclose(f(keys, values, sizes, w.T, b), expected, rtol=1e-12, atol=1e-14)


def test_derivatives_in_the_values():
    keys, sizes = np.array([3, 1, 1, 0]), np.array([2, 0, 2])
    v, w = rng.normal(size=4), rng.normal(size=(5, 2))
    check_grads(lambda v, w: F.index_linear(keys, v, sizes, w), [v, w], order=2)
    check_grads(
        lambda v, w: F.sparse_linear([([3, 1], v[:2]), ([], []), ([1, 0], v[2:])], w.T), [v, w]
    )


# ---- rows of tables


@MODES
def test_rows_that_are_too_long(compile):
    w = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    x = np.array([0, 1, 2, 0])
    f = lambda w: F.embedding(x, w, max_norm=1.0)
    np.testing.assert_allclose(
        compile(f)(w), [[0.6, 0.8], [0.3, 0.4], [0, 0], [0.6, 0.8]], rtol=1e-7
    )
    g = compile(bs.grad(lambda w: np.sum(f(w))))(w)
    np.testing.assert_array_equal(g, [[2, 2], [1, 1], [1, 1]])
    total = F.embedding_bag(x[None], w, max_norm=1.0, norm_type=1.0, mode="sum")
    np.testing.assert_allclose(total, [[6 / 7 + 0.3, 8 / 7 + 0.4]], rtol=1e-6)


@MODES
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_by_frequency(mode, compile):
    x, w = np.array([[1, 1, 2], [1, 0, 2]]), rng.normal(size=(4, 2))
    total = lambda w, scaled: np.sum(F.embedding_bag(x, w, mode=mode, scale_grad_by_freq=scaled))
    plain, scaled = (compile(bs.grad(lambda w: total(w, s)))(w) for s in (False, True))  # noqa: B023
    np.testing.assert_allclose(scaled, plain / np.array([1, 3, 2, 1])[:, None], rtol=1e-12)


@MODES
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_known_only_when_it_runs(mode, compile):
    x, w, starts = (
        rng.integers(0, 7, 30),
        rng.normal(size=(7, 3)),
        np.array([0, 0, 5, 6, 6, 21, 30]),
    )
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    ends = [*starts[1:], 30]
    bags = [w[x[i:j]] for i, j in zip(starts, ends, strict=True)]
    expected = [reduce(rows, axis=0) if len(rows) else np.zeros(3) for rows in bags]
    got = compile(lambda x, w, o: F.embedding_bag(x, w, o, mode=mode))(x, w, starts)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15)


@MODES
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_without_entries(mode, compile):
    w, none = rng.normal(size=(4, 3)), np.zeros(0, int)
    bag = lambda x, *o, **k: compile(lambda w: F.embedding_bag(x, w, *o, mode=mode, **k))(w)
    np.testing.assert_array_equal(bag(none, np.array([0, 0])), np.zeros((2, 3)))
    np.testing.assert_array_equal(bag(np.zeros((2, 0), int)), np.zeros((2, 3)))
    assert bag(np.zeros((0, 2), int)).shape == (0, 3)
    assert bag(none, none).shape == (0, 3)
    padded = bag(np.array([[1, 1], [1, 2]]), padding_idx=1)
    np.testing.assert_array_equal(padded, [np.zeros(3), w[2]])
    padded = bag(np.array([1, 1, 1, 2]), np.array([0, 2]), padding_idx=1)
    np.testing.assert_array_equal(padded, [np.zeros(3), w[2]])


def test_bags_to_second_order():
    x, starts = np.array([1, 0, 2, 2, 1]), np.array([0, 2, 2])
    w, v = rng.normal(size=(3, 2)), rng.normal(size=5)
    check_grads(lambda w: F.embedding_bag(x, w, starts, mode="max") ** 2, [w], order=2)
    check_grads(
        lambda w, v: F.embedding_bag(x, w, starts, mode="sum", per_sample_weights=v),
        [w, v],
        order=2,
    )


@MODES
def test_indices_out_of_range(compile):
    w = np.zeros((4, 2))
    for wrong in (-1, 4):
        x = np.array([0, wrong])
        with pytest.raises(IndexError, match="embedding: input must be at least 0 and less than 4"):
            compile(F.embedding)(x, w)
        with pytest.raises(IndexError, match="embedding_bag: input"):
            compile(F.embedding_bag)(x, w, np.array([0]))
        with pytest.raises(IndexError, match="index_linear: keys"):
            compile(F.index_linear)(x, np.ones(2), np.array([2]), w)
        with pytest.raises(IndexError, match="one_hot: tensor"):
            compile(lambda x: F.one_hot(x, 4))(x)
    x = np.array([0, 1])
    with pytest.raises(IndexError, match="embedding_bag: offsets"):
        compile(F.embedding_bag)(x, w, np.array([0, 3]))
    with pytest.raises(ValueError, match="offsets must begin with 0"):
        compile(F.embedding_bag)(x, w, np.array([1, 2]))
    with pytest.raises(ValueError, match="index_linear: sizes"):
        compile(F.index_linear)(x, np.ones(2), np.array([1]), w)


def test_what_they_refuse():
    x, w = np.array([0, 1]), np.zeros((4, 2))
    with pytest.raises(ValueError, match="linear takes"):
        F.linear(np.ones(3), w)
    with pytest.raises(ValueError, match="bilinear takes"):
        F.bilinear(np.ones(3), np.ones(3), w)
    with pytest.raises(TypeError, match="embedding: input must be whole numbers"):
        F.embedding(x * 1.0, w)
    with pytest.raises(IndexError, match="embedding: padding_idx"):
        F.embedding(x, w, padding_idx=4)
    with pytest.raises(ValueError, match="offsets"):
        F.embedding_bag(x, w)
    with pytest.raises(ValueError, match="mode"):
        F.embedding_bag(x, w, x, mode="min")
    with pytest.raises(TypeError, match="per_sample_weights"):
        F.embedding_bag(x, w, x, per_sample_weights=np.ones(2))
    with pytest.raises(ValueError, match="how many classes"):
        F.one_hot(np.zeros(0, int))
    with pytest.raises(ValueError, match="example 0 has 1 indices and 2 values"):
        F.sparse_linear([([1], [1.0, 2.0])], w)


# ---- dropout

DROPS = {
    "dropout": ((60, 50, 4, 5), (60, 50, 4, 5)),
    "dropout1d": ((200, 60, 5), (200, 60, 1)),
    "dropout2d": ((200, 60, 3, 2), (200, 60, 1, 1)),
    "dropout3d": ((200, 60, 2, 1, 2), (200, 60, 1, 1, 1)),
}


@MODES
@pytest.mark.parametrize("name", DROPS)
def test_shares_and_means_of_dropout(name, compile):
    shape, apart = DROPS[name]
    f = lambda x, state: getattr(F, name)(x, 0.3, generator=state)
    x, state = np.full(shape, 2.0), bs.random.key(7)
    y = compile(f)(x, state)
    kept = np.broadcast_to(np.isclose(y, 2 / 0.7), shape)
    assert np.all(kept | (y == 0))
    alone = kept[tuple(slice(0, k) for k in apart)]
    assert abs(alone.mean() - 0.7) < 0.02
    np.testing.assert_array_equal(kept, np.broadcast_to(alone, shape))  # whole channels
    assert abs(y.mean() - 2) < 0.06
    gradient = compile(bs.grad(lambda x, state: np.sum(f(x, state))))(x, state)
    np.testing.assert_allclose(gradient, kept / 0.7)
    np.testing.assert_array_equal(compile(f)(x, state), y)
    assert np.any(compile(f)(x, bs.random.key(8)) != y)


@MODES
@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(name, compile):
    x = rng.normal(size=(300, 200, 2)) if "feature" in name else rng.normal(size=100000)
    f = lambda x, state: getattr(F, name)(x, 0.2, True, generator=state)
    state = bs.random.key(2)
    y = compile(f)(x, state)
    assert abs(y.mean()) < 0.03
    assert abs(y.var() - 1) < 0.04
    gradient = compile(bs.grad(lambda x, state: np.sum(f(x, state))))(x, state)
    assert abs(np.mean(gradient == 0) - 0.2) < 0.02
    np.testing.assert_allclose(y[gradient == 0], y[gradient == 0].flat[0])
    assert np.ptp(gradient[gradient != 0]) < 1e-12
    if "feature" in name:
        np.testing.assert_array_equal(gradient[..., 0], gradient[..., 1])


@pytest.mark.parametrize("name", [*DROPS, "alpha_dropout", "feature_alpha_dropout"])
def test_dropout_of_nothing_and_of_all(name):
    x = rng.normal(size=DROPS.get(name, ((2, 3, 4),))[0])[:2]
    f = getattr(F, name)
    np.testing.assert_array_equal(f(x, 0.5, False), x)
    np.testing.assert_array_equal(f(x, 0.0, True), x)
    np.testing.assert_array_equal(f(x, 1.0, True), np.zeros_like(x))
    np.testing.assert_array_equal(bs.grad(lambda x: np.sum(f(x, 1.0, True)))(x), np.zeros_like(x))
    assert f(x[:0], 0.5, True, generator=bs.random.key(0)).shape == x[:0].shape
    single = f(x.astype(np.float32), 0.5, True, generator=bs.random.key(0))
    assert single.dtype == np.float32
    with pytest.raises(ValueError, match=f"{name} draws random numbers: pass generator="):
        f(x, 0.5, True)
    with pytest.raises(ValueError, match=f"{name}: p must be between 0 and 1"):
        f(x, 1.5, True)


def test_ranks_of_dropout():
    x, state = np.ones((3, 4)), bs.random.key(0)
    rows = F.dropout1d(x, generator=state)
    np.testing.assert_array_equal(rows, np.broadcast_to(rows[:, :1], x.shape))
    with pytest.raises(ValueError, match="dropout3d takes arrays of rank"):
        F.dropout3d(x, generator=state)


def test_states_inside_compiled_code():
    @bs.jit
    def twice(x, state):
        first, second = bs.random.split(state)
        return F.dropout(x, generator=first), F.dropout(x, generator=second)

    x = np.ones(1000)
    a, b = twice(x, bs.random.key(0))
    assert np.mean((a == 0) & (b == 0)) == pytest.approx(0.25, abs=0.06)
