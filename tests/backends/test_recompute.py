"""Cheap values are computed where they are needed, not stored by one kernel for another."""

import numpy as np
import pytest

from backsolve.backends.native.kernel import Kernel
from backsolve.backends.native.schedule import Schedule
from backsolve.ir import type_of
from backsolve.testing.backends import check_compiled
from backsolve.trace import stage

X = np.random.default_rng(0).normal(size=(6, 5))
W = np.linspace(1, 2, 5)


def kernels(f, *args):
    program, _ = stage(f, [type_of(a) for a in args])
    return [step for step in Schedule(program).steps if isinstance(step, Kernel)]


def stored(f, *args):
    """The primitives whose values go to memory, by kernel; results included."""
    out = []
    for kernel in kernels(f, *args):
        makers = {e.outputs[0]: e.primitive.name for e in kernel.statements}
        out.append([makers[a] for a, _ in kernel.stores])
    return out


def scaled_twice(x, w):
    y = np.exp(x)
    a = y * w
    return a + np.sum(a, axis=1, keepdims=True) * y


def costly(x, w):
    y = np.exp(x) * w
    a = np.tanh(y)
    return a + np.sum(a, axis=1, keepdims=True) * y


def returned(x, w):
    y = np.exp(x)
    a = y * w
    return a + np.sum(a, axis=1, keepdims=True) * y, a


def test_a_product_is_computed_again():
    assert stored(scaled_twice, X, W) == [["exp"], ["add"]]
    last = kernels(scaled_twice, X, W)[-1]
    assert [e.primitive.name for e in last.statements].count("multiply") == 2


def test_what_costs_is_stored():
    assert "tanh" in stored(costly, X, W)[0]


def test_a_result_is_stored_anyway_and_read():
    first, last = kernels(returned, X, W)
    assert len(first.stores) == 2
    assert [e.primitive.name for e in last.statements].count("multiply") == 1


def overwritten(x, w):
    y = np.exp(x)
    a = y * w
    total = np.sum(a, axis=1, keepdims=True)
    z = y * 1.0
    y[1:3] = 0.0  # in place: y is not read again
    return a + total * z, y, a.max()


@pytest.mark.parametrize("f", [scaled_twice, costly, returned, overwritten])
def test_values(f):
    assert check_compiled(lambda x, w: f(x * 1.0, w), [X, W], f.__name__)
