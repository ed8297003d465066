"""Switching floating-point warnings off for a solve: nothing is left behind, whatever the way."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import backsolve as bs
from backsolve import ignoring

WAYS = [
    (ignoring.ignore_warnings, ignoring.warn_again),
    (ignoring._by_errstate, ignoring._leave),
]


@pytest.mark.parametrize(("ignore", "restore"), WAYS)
def test_as_errstate_does(ignore, restore):
    with np.errstate(all="raise", under="warn"):
        outside = np.geterr()
        before = ignore()
        assert set(np.geterr().values()) == {"ignore"}
        inner = ignore()
        restore(inner)
        assert np.isinf(np.ones(2) / np.zeros(2)).all()
        restore(before)
        assert np.geterr() == outside
        with pytest.raises(FloatingPointError):
            np.ones(2) / np.zeros(2)


def test_numpy_still_keeps_it_in_a_variable_of_the_context():
    assert ignoring._found is not None


def test_a_solve_warns_of_nothing_and_leaves_the_setting():
    root = lambda x: np.sqrt(x).sum()
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        assert np.isinf(bs.grad(root)(np.zeros(2))).all()
        assert np.isinf(bs.jvp(root, (np.zeros(2),), (np.ones(2),))[1])
        assert set(np.geterr().values()) == {"warn"}


def test_a_solve_that_fails_leaves_the_setting():
    class Fails(bs.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            raise KeyError("on purpose")

    with np.errstate(all="warn"):
        with pytest.raises(KeyError):
            bs.grad(lambda x: Fails.apply(x).sum())(np.ones(2))
        assert set(np.geterr().values()) == {"warn"}
