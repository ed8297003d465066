"""Sums in adjoints of normalisations, as XLA gets them: deviations from a mean need no pass of their own."""

import numpy as np

import backsolve as bs
from backsolve import rewrite
from backsolve.ir import type_of
from backsolve.trace import evaluate, stage

RNG = np.random.default_rng(0)


def program_of(f, *args):
    return rewrite.rewrite_for_xla(stage(f, [type_of(a) for a in args])[0])


def summed(program):
    """By what the numbers that are added up are made."""
    made = {v: e.primitive.name for e in program.equations for v in e.outputs}
    return [made.get(e.inputs[0]) for e in program.equations if e.primitive.name == "sum"]


def normalised(x, axis, eps=1e-5):
    centred = x - np.mean(x, axis=axis, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=axis, keepdims=True) + eps)


def test_the_adjoint_of_a_normalisation_adds_no_deviations_up():
    x, w, t = RNG.normal(size=(6, 8)), RNG.normal(size=8), RNG.normal(size=(6, 8))
    g = bs.grad(lambda x: np.sum(t * np.tanh(normalised(x, -1) * w)))
    program = program_of(lambda x: [g(x)], x)
    assert "add" not in summed(program)
    np.testing.assert_allclose(evaluate(program, [x])[0], g(x), rtol=1e-12, atol=1e-14)


def test_behind_a_ramp_channels_that_are_off_stay_so():
    x, b = RNG.normal(size=(8, 3)), np.array([0.0, -10.0, 0.0])
    x[:, 2] = 0.5  # no variance, without eps: infinite slopes

    def f(x, b, eps):
        y = normalised(x, 0, eps) + b
        return np.sum(np.where(y <= 0, 0, y) ** 2)

    gradient = bs.grad(f, argnums=(0, 1))
    for eps in (1e-5, 0.0):
        program = program_of(lambda x, b, eps=eps: list(gradient(x, b, eps)), x, b)
        assert "add" not in summed(program)
        with np.errstate(all="ignore"):
            for mine, theirs in zip(evaluate(program, [x, b]), gradient(x, b, eps), strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-14)
                assert np.all(mine[..., 1] == 0)


def test_other_sums_stay():
    x, y = RNG.normal(size=(2, 4, 5))
    means = lambda x: np.mean(x, axis=1, keepdims=True)
    cases = [
        lambda x, y: np.sum(2.0 * x + 3.0 * y, axis=0),
        lambda x, y: np.sum(y + 2.0 * (x - means(y)), axis=1),
        lambda x, y: np.sum(y + np.arange(5.0) * (x - means(x)), axis=1),
        lambda x, y: np.sum(2.0 * y + 3.0 * (x - means(x)), axis=0),
    ]
    for f in cases:
        program = program_of(lambda x, y, f=f: [f(x, y)], x, y)
        assert "add" in summed(program)
        np.testing.assert_allclose(evaluate(program, [x, y])[0], f(x, y), rtol=1e-12, atol=1e-14)


def test_sums_with_fixed_factors_are_multiples_of_one():
    x, y, s = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5)), RNG.normal(size=(4, 1))

    def f(x, y, s):
        return [np.sum(x * y, axis=1), np.sum((s * x) * -(y * 3.0), axis=1), np.sum(x * s * s)]

    program = program_of(f, x, y, s)
    assert len(summed(program)) == 3  # of x y, of x, and of what is left of the last
    for mine, theirs in zip(evaluate(program, [x, y, s]), f(x, y, s), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_an_infinite_factor_meets_no_line_that_is_hidden():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [-1.0, -2.0]])
    s = np.array([[2.0], [np.inf], [np.inf]])

    def f(x, s):
        shown = x > 0
        some = np.any(shown, axis=1, keepdims=True)
        return [np.sum(np.where(shown, x * s, 0), axis=1), np.where(some, s, 0)]

    program = program_of(f, x, s)
    assert summed(program) == ["where"]
    with np.errstate(invalid="ignore"):  # 0 · ∞, where it is not chosen
        np.testing.assert_array_equal(evaluate(program, [x, s])[0], [6, np.inf, 0])

    without = program_of(lambda x, s: f(x, s)[:1], x, s)  # nothing says whether any is shown
    np.testing.assert_array_equal(evaluate(without, [x, s])[0], [6, np.inf, 0])


def test_sums_of_what_was_rounded_to_16_bits():
    """As many as without rounding, and with more digits."""
    x, w, b = (RNG.normal(size=n).astype(np.float16) for n in ((4, 3, 2, 2), (3, 1, 1), (3, 1, 1)))
    t = RNG.normal(size=(4, 3, 2, 2)).astype(np.float16)

    def f(x, w, b):
        y = normalised(x.astype(np.float32), (0, 2, 3)).astype(np.float16) * w + b
        return np.sum((np.where(y <= 0, 0, y) * t).astype(np.float32))

    gradient = bs.grad(f, argnums=(0, 1, 2))
    program = program_of(lambda *args: list(gradient(*args)), x, w, b)
    # mean and variance, and of the adjoint u and u · x normalised
    assert len(summed(program)) == 4
    for mine, theirs in zip(evaluate(program, [x, w, b]), gradient(x, w, b), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0.02, atol=0.02)
