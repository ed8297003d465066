"""Losses at their edges: nothing to look at, everything ignored, certain and impossible events, mistakes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import backsolve as bs
from backsolve.nn import functional as F  # noqa: N812
from backsolve.nn.functional import _one_pass, ctc_paths
from backsolve.testing import check_grads

rng = np.random.default_rng(0)
MODES = pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
signs = np.array([1.0, -1.0, 1.0])


# ---- nothing to look at


@MODES
@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_all_ignored(name, compile):
    x, t = rng.normal(size=(3, 4)), np.full(3, -100)
    f = lambda x, t, **o: getattr(F, name)(x, t, **o)
    assert np.isnan(compile(lambda x, t: f(x, t))(x, t))
    np.testing.assert_array_equal(compile(bs.grad(f))(x, t), np.zeros((3, 4)))
    assert compile(lambda x, t: f(x, t, reduction="sum"))(x, t) == 0
    np.testing.assert_array_equal(
        compile(lambda x, t: f(x, t, reduction="none"))(x, t), np.zeros(3)
    )


@MODES
def test_empty_batches(compile):
    x = np.zeros((0, 3))
    pairs = {
        "mse_loss": x, "l1_loss": x, "huber_loss": x, "smooth_l1_loss": x, "kl_div": x,
        "binary_cross_entropy": x, "cross_entropy": np.zeros(0, int), "nll_loss": np.zeros(0, int),
        "multi_margin_loss": np.zeros(0, int), "multilabel_margin_loss": np.zeros((0, 3), int),
        "multilabel_soft_margin_loss": x, "poisson_nll_loss": x, "soft_margin_loss": x,
    }  # fmt: skip
    for name, t in pairs.items():
        f = lambda x, t, r: getattr(F, name)(x, t, reduction=r)  # noqa: B023
        assert np.isnan(compile(lambda x, t: f(x, t, "mean"))(x, t)), name  # noqa: B023
        assert compile(lambda x, t: f(x, t, "sum"))(x, t) == 0, name  # noqa: B023
        assert bs.grad(lambda x: f(x, t, "sum"))(x).shape == (0, 3)  # noqa: B023


# ---- large numbers


@MODES
def test_logits_far_from_zero(compile):
    x = np.array([1000.0, -1000.0, 1000.0, -1000.0])
    t = np.array([1.0, 0.0, 0.0, 1.0])
    f = lambda x: F.binary_cross_entropy_with_logits(x, t, reduction="sum")
    assert compile(f)(x) == 2000
    np.testing.assert_array_equal(compile(bs.grad(f))(x), [0, 0, 1, -1])
    g = lambda x: F.soft_margin_loss(x, 2 * t - 1, reduction="sum")
    assert compile(g)(x) == 2000
    np.testing.assert_array_equal(compile(bs.grad(g))(x), [0, 0, 1, -1])
    h = lambda x: F.cross_entropy(x[None], np.array([1]), reduction="sum")
    assert compile(h)(x) == pytest.approx(2000 + np.log(2))
    np.testing.assert_allclose(compile(bs.grad(h))(x), [0.5, -1, 0.5, 0])


@MODES
def test_probabilities_of_zero_and_one(compile):
    x, t = np.array([0.0, 0.0, 1.0, 1.0, 1e-20]), np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    f = lambda x: F.binary_cross_entropy(x, t, reduction="none")
    np.testing.assert_allclose(compile(f)(x), [0, 100, 100, 0, 1e-20])
    slope = compile(bs.grad(lambda x: np.sum(f(x))))(x)
    np.testing.assert_allclose(slope, [1, -1e12, 1e12, -1, 1])


def test_variances_of_zero_can_grow():
    x, t, v = np.array([2.0]), np.array([0.0]), np.array([0.0])
    f = lambda v: np.sum(F.gaussian_nll_loss(x, t, v, eps=0.5))
    assert f(v) == pytest.approx(0.5 * (np.log(0.5) + 8))
    np.testing.assert_allclose(bs.grad(f)(v), [0.5 * (2 - 16)])
    single = F.gaussian_nll_loss(np.float32([2.0]), np.float32([0.0]), 0.25)
    assert single.dtype == np.float32


# ---- both modes, higher orders

CASES = {
    "cross_entropy": lambda x: F.cross_entropy(x, np.array([2, 0, -100]), label_smoothing=0.1),
    "nll_loss": lambda x: F.nll_loss(x, np.array([2, 0, 1]), np.array([0.5, 1.0, 2.0, 1.0])),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, np.array([2, 0, 1]), p=2),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(
        x, np.array([[2, 0, -1, 1], [-1, 1, 2, 3], [0, 1, 2, 3]])
    ),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(1 / (1 + np.exp(x)), np.full((3, 4), 0.3)),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, np.ones((3, 4)), x * x, full=True),
    "cosine_embedding_loss": lambda x: F.cosine_embedding_loss(x, x[:, ::-1], signs),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, x[::-1], x * x, swap=True),
    "kl_div": lambda x: F.kl_div(x, np.exp(x), reduction="batchmean"),
    "ctc_loss": lambda x: F.ctc_loss(
        x[:, None], np.array([[1, 2]]), np.array([3]), np.array([2]), blank=3
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_modes_and_orders(name):
    check_grads(CASES[name], [rng.normal(size=(3, 4))], order=2)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_compiled(name):
    x, v = rng.normal(size=(2, 3, 4))
    expected = bs.hvp(CASES[name])(x, v)
    np.testing.assert_allclose(bs.jit(bs.hvp(CASES[name]))(x, v), expected, rtol=1e-9, atol=1e-12)


def test_single_precision_stays():
    x = rng.normal(size=(3, 4)).astype(np.float32)
    for name, f in CASES.items():
        if name not in (
            "binary_cross_entropy",
            "gaussian_nll_loss",
            "nll_loss",
            "cosine_embedding_loss",
        ):
            assert f(x).dtype == np.float32, name
            assert bs.jit(f)(x).dtype == np.float32, name


def test_batched():
    x, t = rng.normal(size=(5, 3, 4)), rng.integers(0, 4, (5, 3))
    got = bs.vmap(F.cross_entropy)(x, t)
    np.testing.assert_allclose(got, [F.cross_entropy(a, b) for a, b in zip(x, t, strict=True)])


# ---- sequences


def spelled(path, blank):
    """What a path reads: repeated labels once, blanks not at all."""
    return [k for k, _ in itertools.groupby(path) if k != blank]


@pytest.mark.parametrize("target", [[], [1], [1, 1], [2, 0], [0, 0, 0]])
def test_ctc_counts_all_paths(target):
    p = rng.uniform(0.1, 1, (4, 4))
    blank, given = 3, np.array(target, int)
    total = sum(
        np.prod([p[k, c] for k, c in enumerate(path)])
        for path in itertools.product(range(4), repeat=4)
        if spelled(path, blank) == target
    )
    with np.errstate(divide="ignore"):
        expected = -np.log(total)
    got = F.ctc_loss(np.log(p), given, 4, len(target), blank, "none")
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@MODES
def test_ctc_of_what_is_impossible(compile):
    x = np.log(rng.uniform(0.1, 1, (3, 2, 4)))
    t, given, lengths = np.array([[1, 1, 1], [1, 2, 9]]), np.array([3, 3]), np.array([3, 2])
    f = lambda x, zero: F.ctc_loss(x, t, given, lengths, reduction="none", zero_infinity=zero)
    assert np.isposinf(compile(lambda x: f(x, False))(x)[0])
    assert compile(lambda x: f(x, True))(x)[0] == 0
    g = compile(bs.grad(lambda x: np.sum(f(x, True))))(x)
    np.testing.assert_array_equal(g[:, 0], 0)
    assert np.abs(g[:, 1]).max() > 0
    assert np.isfinite(g).all()


def test_ctc_with_lengths_known_only_when_it_runs():
    x = np.log(rng.uniform(0.1, 1, (6, 2, 4)))
    labels, given, lengths = np.array([1, 2, 3, 3, 1]), np.array([6, 5]), np.array([3, 2])
    expected = F.ctc_loss(x, labels, given, lengths)
    np.testing.assert_allclose(bs.jit(F.ctc_loss)(x, labels, given, lengths), expected, rtol=1e-12)
    g = bs.jit(bs.grad(F.ctc_loss))(x, labels, given, lengths)
    np.testing.assert_allclose(
        g, bs.grad(F.ctc_loss)(x, labels, given, lengths), rtol=1e-10, atol=1e-15
    )


def test_ctc_is_a_loop():
    def size(time):
        f = bs.jit(lambda x: F.ctc_loss(x, np.array([[1, 2]]), np.array([time]), np.array([2])))
        return f.lower(np.zeros((time, 1, 3))).stages["program"].count("\n")

    assert size(5) == size(50)


# ---- mistakes


@MODES
@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy", "multi_margin_loss"])
@pytest.mark.parametrize("wrong", [-1, 4])
def test_classes_out_of_range(name, wrong, compile):
    with pytest.raises(IndexError, match=f"{name}: target must be at least 0 and less than 4"):
        compile(getattr(F, name))(np.zeros((2, 4)), np.array([0, wrong]))


@MODES
def test_other_numbers_out_of_range(compile):
    with pytest.raises(IndexError, match="multilabel_margin_loss: target"):
        compile(F.multilabel_margin_loss)(np.zeros((1, 2)), np.array([[2, -1]]))
    with pytest.raises(ValueError, match="binary_cross_entropy: input"):
        compile(F.binary_cross_entropy)(np.array([1.5]), np.array([1.0]))
    with pytest.raises(ValueError, match="gaussian_nll_loss: var"):
        compile(F.gaussian_nll_loss)(np.zeros(2), np.zeros(2), np.array([1.0, -1.0]))
    x, t = np.zeros((4, 1, 3)), np.array([[1, 2]])
    with pytest.raises(IndexError, match="ctc_loss: input_lengths"):
        compile(F.ctc_loss)(x, t, np.array([5]), np.array([2]))
    with pytest.raises(IndexError, match="ctc_loss: target_lengths"):
        compile(F.ctc_loss)(x, t, np.array([4]), np.array([3]))
    with pytest.raises(IndexError, match="ctc_loss: targets"):
        compile(F.ctc_loss)(x, t + 1, np.array([4]), np.array([2]))


def test_shapes_and_options():
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="reduction"):
        F.mse_loss(x, x, reduction="average")
    with pytest.raises(ValueError, match="cross_entropy: target of shape"):
        F.cross_entropy(x, np.zeros(3, int))
    with pytest.raises(TypeError, match="must be probabilities"):
        F.cross_entropy(x, np.zeros((2, 3), int))
    with pytest.raises(TypeError, match="nll_loss: target must be whole numbers"):
        F.nll_loss(x, np.zeros(2))
    with pytest.raises(ValueError, match="nll_loss: weight"):
        F.nll_loss(x, np.zeros(2, int), np.ones(2))
    with pytest.raises(ValueError, match="binary_cross_entropy: target"):
        F.binary_cross_entropy(x, np.zeros(3))
    with pytest.raises(ValueError, match="margin"):
        F.triplet_margin_loss(x, x, x, margin=0)
    with pytest.raises(ValueError, match="gaussian_nll_loss: var of shape"):
        F.gaussian_nll_loss(x, x, np.ones(3))
    with pytest.warns(UserWarning, match="mse_loss: target of shape"):
        F.mse_loss(x, np.zeros(3))


def test_ctc_in_eager_mode_is_the_staged_formula() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(6, 3, 5))
    labels, given, lengths = rng.integers(1, 5, (3, 2)), np.array([6, 4, 2]), np.array([2, 1, 2])
    f = lambda x: F.ctc_loss(x, labels, given, lengths, reduction="sum")
    t = rng.normal(size=x.shape)
    for transform in (
        bs.grad,
        bs.hessian,
        lambda f: lambda x: bs.jvp(f, (x,), (t,))[1],
        lambda f: lambda x: bs.jvp(bs.grad(f), (x,), (t,))[1],
        lambda f: lambda x: bs.vmap(f)(np.stack([x, 2 * x])),
    ):
        eager, compiled = transform(f)(x), bs.jit(transform(f))(x)
        np.testing.assert_allclose(eager, compiled, rtol=1e-9, atol=1e-12)


def test_ctc_ignores_probabilities_behind_the_end() -> None:
    p = np.full((4, 2, 3), 1 / 3)
    p[3, 1] = 0
    f = lambda p: F.ctc_loss(np.log(p), np.array([[1, 2]] * 2), np.array([4, 3]), np.array([2, 2]))
    with np.errstate(divide="ignore"):
        for g in (bs.grad(f)(p), bs.jit(bs.grad(f))(p)):
            assert np.isfinite(g).all()
            np.testing.assert_array_equal(g[3, 1], 0)


def test_ctc_ignores_probabilities_that_no_label_reads() -> None:
    p = np.full((4, 2, 5), 1 / 5)
    p[:, :, 3:] = 0
    f = lambda p: F.ctc_loss(np.log(p), np.array([[1, 2]] * 2), np.array([4, 3]), np.array([2, 2]))
    with np.errstate(divide="ignore"):
        for g in (bs.grad(f)(p), bs.jit(bs.grad(f))(p)):
            np.testing.assert_array_equal(g[..., 3:], 0)


def test_ctc_of_one_example_that_is_not_a_number() -> None:
    x = rng.normal(size=(6, 3, 5))
    x[2, 1] = np.nan
    labels, given, lengths = rng.integers(1, 5, (3, 2)), np.array([6, 4, 2]), np.array([2, 1, 2])
    terms = lambda x: F.ctc_loss(x, labels, given, lengths, reduction="none")
    with np.errstate(invalid="ignore"):  # np.logaddexp warns of a NaN
        np.testing.assert_array_equal(np.isnan(terms(x)), [False, True, False])
        g = bs.grad(lambda x: np.sum(terms(x)))(x)
        t = bs.jvp(terms, (x,), (np.ones_like(x),))[1]
    assert np.isfinite(g[:, [0, 2]]).all()
    assert np.isfinite(t[[0, 2]]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ctc_by_compiled_steps(dtype, monkeypatch) -> None:
    x = np.log(rng.uniform(0.0, 1, (9, 4, 6))).astype(dtype)
    x[3, 1, 2] = -np.inf
    t = rng.normal(size=x.shape).astype(dtype)
    labels = rng.integers(1, 6, (4, 3))
    given, lengths = np.array([9, 7, 0, 4]), np.array([3, 2, 0, 3])
    f = lambda x: F.ctc_loss(x, labels, given, lengths, reduction="sum", zero_infinity=True)
    run = lambda: (f(x), bs.grad(f)(x), bs.jvp(f, (x,), (t,))[1])
    monkeypatch.setattr(_one_pass, "ENOUGH", 1 << 60)
    for step in (ctc_paths._entering, ctc_paths._pulled, ctc_paths._pushed):
        monkeypatch.setattr(step, "loops", {})
    expected = run()
    monkeypatch.setattr(_one_pass, "ENOUGH", 1)
    for found, known in zip(run(), expected, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, known, rtol=64 * np.finfo(dtype).eps, atol=1e-6)
    assert ctc_paths._pulled.loops
    assert ctc_paths._pushed.loops
