"""Where an operator fails, the message names what it was given, as the user wrote it."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import DTypeError, IndexingError, ShapeError

W = bs.tensor(np.ones((3, 4)))
X = bs.tensor(np.ones((5, 2)))


def added_in_place(a, b):
    a = a * 1.0
    a += b[0]
    return a


def written(a):
    a = a * 1.0
    a[9] = 1.0
    return a


def over_two_lines(a, b):
    return (
        a
        + b
    )  # fmt: skip


CASES = [
    (lambda w, x: w @ x, ShapeError, "`w` and `x` of w @ x"),
    (lambda w, x: 2 * (w.T + x), ShapeError, r"`w.T` and `x` of w.T \+ x"),
    (lambda w, x: w[0, 7], IndexingError, r"`w` and `\(0, 7\)` of w\[0, 7\]"),
    (lambda w, x: w["a"], IndexingError, r"`w` and `'a'` of w\[\"a\"\]"),
    (lambda w, x: w < x, ShapeError, "`w` and `x` of w < x"),
    (lambda w, x: written(w), IndexingError, r"`a` and `9` of a\[9\]"),
    (added_in_place, ShapeError, r"`a` and `b\[0\]` of a \+= b\[0\]"),
]


@pytest.mark.parametrize(("f", "error", "named"), CASES)
def test_operands_are_named_eagerly_and_staged(f, error, named):
    for call in (f, bs.jit(f)):
        with pytest.raises(error, match=rf"\n    in {named}\n    at .*test_operands"):
            call(W, X)


def test_what_is_no_operator_is_told_by_its_line_alone():
    for f in (over_two_lines, lambda a, b: bs.numpy.sum([a, b])):
        with pytest.raises((ShapeError, DTypeError)) as caught:
            f(W, X)
        assert "\n    in `" not in str(caught.value)
        assert "test_operands.py" in str(caught.value)
