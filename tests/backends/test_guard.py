"""Sums that a condition keeps from most of their rounds."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import loops

rng = np.random.default_rng(0)


def nearest(c, p):
    return np.sum(np.min(np.sum((p[:, None] - c) ** 2, axis=-1), axis=1))


@pytest.mark.parametrize("d", [3, 8, 16, 40])  # shorter loops have no branch
@pytest.mark.parametrize("n", [1, 7, 300])
def test_the_derivative_of_a_minimum(n, d):
    c, p = rng.normal(size=(5, d)), rng.normal(size=(n, d))
    got = bs.jit(bs.grad(nearest, (0, 1)))(c, p)
    for a, b in zip(got, bs.grad(nearest, (0, 1))(c, p), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


CHOICES = {
    "along rows": lambda x, m: np.sum(np.where(m[:, None], x * 3, 0), axis=0),
    "along columns": lambda x, m: np.sum(np.where(m[:, None], x * 3, 0), axis=1),
    "of all": lambda x, m: np.sum(np.where(m[:, None], x * 3, 0)),
    "else one": lambda x, m: np.sum(np.where(m[:, None], x * 3, 1), axis=0),
    "two conditions": lambda x, m: (
        np.sum(np.where(m[:, None], x, 0), axis=0),
        np.sum(np.where(~m[:, None], x * 2, 0), axis=0),
    ),
    "largest": lambda x, m: np.max(np.where(m[:, None], x, 0), axis=0),
    "by entries": lambda x, m: np.sum(np.where(x > 0, x, 0), axis=0),
}


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0])
def test_choices(name, kept):
    x, m = rng.normal(size=(50, 24)), rng.random(50) < kept
    got, want = bs.jit(CHOICES[name])(x, m), CHOICES[name](x, m)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_what_is_skipped_is_not_looked_at():
    """A NaN under a false condition is no part of the sum."""
    x = np.full((20, 16), np.nan)
    x[3] = 2.0
    m = np.arange(20) == 3
    np.testing.assert_array_equal(bs.jit(CHOICES["along rows"])(x, m), np.full(16, 6.0))


def test_a_branch_is_there(monkeypatch):
    found = []
    look = loops.condition_of_sums

    def watched(*args):
        found.append(look(*args))
        return found[-1]

    monkeypatch.setattr(loops, "condition_of_sums", watched)
    x, m = rng.normal(size=(51, 24)), rng.random(51) < 0.5
    bs.jit(CHOICES["along rows"])(x, m)
    assert any(view is not None for view in found)
