"""Lists and tuples read at traced places."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors


def entries(x, k):
    weights = [0.1, x * 2, 3]
    arrays = (np.ones(2), np.zeros(2) + x)
    return weights[k] * x + arrays[k % 2].sum() + weights[-k]


@pytest.mark.parametrize("k", [0, 1, 2])
def test_entries(k):
    assert bs.jit(entries)(1.5, k) == pytest.approx(entries(1.5, k))
    bs.testing.check_grads(bs.jit(lambda x: entries(x, k)), [1.5])


@pytest.mark.parametrize("k", [3, -4])
def test_out_of_range(k):
    with pytest.raises(IndexError):
        bs.jit(entries)(1.5, k)


def test_entries_of_other_kinds_are_refused():
    with pytest.raises(errors.TracedValueError, match=r"one shape(.|\n)*test_lists\.py"):
        bs.jit(lambda k: ["a", 1.0][k])(1)


def test_writing_is_refused():
    def f(x, k):
        weights = [0.0, 1.0]
        weights[k] = x
        return weights[0]

    with pytest.raises(errors.TracedValueError, match=r"make it an array(.|\n)*test_lists\.py"):
        bs.jit(f)(1.0, 1)


def test_a_dict_has_no_traced_key():
    with pytest.raises(errors.TracedValueError, match=r"key of a dict(.|\n)*test_lists\.py"):
        bs.jit(lambda k: {1: 2.0}[k])(1)
