"""One entry in each line of a matrix (rewrite/lines.py): sums and choices go to the entries."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, rewrite
from backsolve.ir import type_of
from backsolve.primitive import P
from backsolve.trace import evaluate, stage

X = np.random.default_rng(0).normal(size=(6, 4))
LABELS = np.array([3, 0, 0, 2, 1, 3])


def rewritten(f, *args):
    before = stage(lambda *xs: bs.tree.flatten(f(*xs))[0], [type_of(a) for a in args])[0]
    after = rewrite.rewrite(before)
    after.verify()
    for a, b in zip(evaluate(before, args), evaluate(after, args), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
    return [e.primitive.name for e in after.equations]


def placed(t, j):
    return P.scatter_add(t, np.arange(6), j, shape=(6, 4))


def test_a_sum_along_lines_is_the_entries():
    def f(t, j, x):
        y = placed(t, j)
        return y + x, np.sum(y, axis=1, keepdims=True)

    t = np.array([1.0, -0.0, np.inf, -2.0, 0.0, np.nan])
    assert "sum" not in rewritten(f, t, LABELS, X)


def test_a_choice_by_a_mask_of_the_same_places_is_one_of_entries():
    def f(t, m, j, x):
        y, mask = placed(t, j), placed(m, j)
        return y + x, np.sum(np.where(mask, -y, 0), axis=1)

    t, m = np.arange(-2.0, 4.0), np.array([True, False, True, True, False, True])
    assert rewritten(f, t, m, LABELS, X).count("scatter_add") == 1


def test_lines_may_run_along_any_axis():
    def f(t, j, x):
        y = P.scatter_add(t, np.arange(2)[:, None], j, np.arange(3), shape=(2, 4, 3))
        return y + x, np.sum(y, axis=1)

    j = LABELS.reshape(2, 3)
    assert "sum" not in rewritten(f, np.arange(6.0).reshape(2, 3), j, np.ones((2, 4, 3)))


def test_other_places_and_other_axes_stay_as_they_are():
    def f(t, j, k, x):
        y = placed(t, j)
        return y + x, np.sum(y, axis=0), np.sum(np.where(placed(t, k) != 0, -y, 0))

    assert "sum" in rewritten(f, np.arange(6.0), LABELS, LABELS[::-1].copy(), X)


def test_the_gradient_of_cross_entropy_makes_one_array_of_places():
    g = bs.grad(lambda x, y: nn.functional.cross_entropy(x, y))
    names = rewritten(lambda x, y: [g(x, y)], X, LABELS)
    assert names.count("scatter_add") == 1


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_an_index_that_nothing_else_looks_at_is_still_checked(backend):
    """Sums of the lines alone: with the scatter the check would go."""
    f = bs.jit(lambda t, j: np.sum(placed(t, j), axis=1), backend=backend)
    np.testing.assert_array_equal(f(np.arange(6.0), LABELS), np.arange(6.0))
    with pytest.raises(IndexError):
        f(np.arange(6.0), LABELS + 2)
