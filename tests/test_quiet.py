"""Functions that write into no array are known; all others have what they use copied."""

from __future__ import annotations

import math

import numpy as np
import pytest

import backsolve as bs
from backsolve import quiet
from backsolve.errors import ShapeError
from backsolve.hooks import undisturbed
from backsolve.nn import functional as F  # noqa: N812
from backsolve.nn.functional import relu

N = quiet.MANY + 1
W = np.linspace(0.5, 1.5, 8)
BUFFER = np.zeros(8)


class Model:
    def __init__(self):
        self.buffer = np.zeros(8)

    def sum(self, x):
        self.buffer[:] = 1.0
        return np.sum(x)

    def __mul__(self, x):
        BUFFER[:] = 1.0
        return x


MODEL = Model()


def half(x, factor=0.5):
    return x * factor


def writer(x):
    BUFFER[:] = 2.0
    return x


def with_default(x, model=MODEL):
    return model * x


def by_name(np_, x):
    return np_.sum(np_.tanh(x)) + x.mean(0)


QUIET = {
    "arithmetic": lambda x, w: np.sum(x * w - 2.0 * x / w),
    "methods": lambda x, w: (x.reshape(2, -1).T @ w[:2]).sum(axis=0),
    "another function": lambda x, w: half(x, factor=2.0).sum() + half(w).sum(),
    "a module handed on": lambda x, w: by_name(np, x * w),
    "slices": lambda x, w: (x[1:] * w[:-1])[::-1].sum(),
    "attributes": lambda x, w: np.sum(x * W.T) * np.pi / x.shape[0],
    "keywords": lambda x, w: np.mean(np.stack([x, w], axis=1), axis=0, dtype=np.float64).sum(),
    "linalg": lambda x, w: np.linalg.norm(x) + np.sort(x).sum(),
    "a function of networks": lambda x, w: F.hardswish(x, inplace=True).sum() + relu(w).sum(),
    "a function of networks, by its long name": lambda x, w: bs.nn.functional.gelu(x * w).sum(),
    "two lines": None,
}


def two_lines(x, w):
    y = np.exp(x)
    return (y * w).sum()


QUIET["two lines"] = two_lines


def assigns(x, w):
    w[0] = 1.0
    return (x * w).sum()


def adds(x, w):
    w += 1.0
    return (x * w).sum()


def branches(x, w):
    return x.sum() if w[0] > 0 else w.sum()


def loops(x, w):
    for _ in range(2):
        x = x * w
    return x.sum()


def makes_a_function(x, w):
    return (lambda: (x * w).sum())()


def sets_an_attribute(x, w):
    MODEL.buffer = x
    return (x * w).sum()


def imports(x, w):
    import numpy

    return numpy.sum(x * w)


NOT_QUIET = {
    "assigns": assigns,
    "adds": adds,
    "branches": branches,
    "loops": loops,
    "makes a function": makes_a_function,
    "sets an attribute": sets_an_attribute,
    "imports": imports,
    "out by name": lambda x, w: np.add(x, w, out=w).sum(),
    "out by place": lambda x, w: np.add(x, w, w).sum(),
    "out by place of a function": lambda x, w: np.sum(x, None, None, w),
    "out by place of a method": lambda x, w: w.max(0, w),
    "out by place of what may be a method": lambda x, w: w.clip(0.0, 1.0, w),
    "copyto": lambda x, w: np.copyto(w, 1.0),
    "ufunc.at": lambda x, w: np.add.at(w, 0, 1.0),
    "fill": lambda x, w: w.fill(0.0),
    "sorts in place": lambda x, w: w.sort(),
    "shuffles": lambda x, w: np.random.shuffle(w),
    "setitem": lambda x, w: w.__setitem__(0, 1.0),
    "a mutating method handed on": lambda x, w: max(w.fill, w.put),
    "a function that writes": lambda x, w: writer(x).sum(),
    "a function that writes, handed on": lambda x, w: half(writer, x),
    "a default": lambda x, w: with_default(x).sum(),
    "an object's method": lambda x, w: MODEL.sum(x * w),
    "an object's operator": lambda x, w: (MODEL * x).sum(),
    "a function of ours": lambda x, w: bs.tensor(x).sum(),
    "networks given one that writes": lambda x, w: F.triplet_margin_with_distance_loss(
        x, w, w, distance_function=writer
    ),
    "star": lambda x, w: np.sum(*(x, w)),
    "unknown": lambda x, w: undefined_name(x),  # noqa: F821
    "exec": lambda x, w: exec("w[0] = 1", {"w": w}),
    "apply": lambda x, w: np.apply_along_axis(half, 0, x),
    "map": lambda x, w: list(map(w.fill, (1.0,))),
    "math": lambda x, w: math.sqrt(2.0) * x.sum(),
}


@pytest.mark.parametrize("name", QUIET)
def test_a_function_that_writes_nothing_is_known(name):
    assert quiet.writes_nothing(QUIET[name], (W, W))


@pytest.mark.parametrize("name", NOT_QUIET)
def test_what_may_write_is_not_trusted(name):
    assert not quiet.writes_nothing(NOT_QUIET[name], (W, W))


def test_arguments_and_variables_that_are_not_plain_are_not_trusted():
    f = QUIET["arithmetic"]
    assert quiet.writes_nothing(f, ({"a": [W, 1.0]}, bs.tensor(W)))
    assert not quiet.writes_nothing(f, (W, MODEL))
    assert not quiet.writes_nothing(f, (W, [MODEL]))
    assert not quiet.writes_nothing(f, (bs.tensor(W, requires_grad=True), W))
    assert not quiet.writes_nothing(f, (np.ma.masked_array(W), W))
    varying = bs.tensor(W, requires_grad=True)
    assert not quiet.writes_nothing(lambda x: (x * varying).sum(), (W,))
    assert not quiet.writes_nothing(MODEL.sum, (W,))


def test_a_name_is_looked_up_each_time(monkeypatch):
    f = QUIET["another function"]
    assert quiet.writes_nothing(f, (W, W))
    monkeypatch.setitem(globals(), "half", writer)
    assert not quiet.writes_nothing(f, (W, W))


def test_a_buffer_that_is_written_into_again_counts_as_it_was():
    x, buffer = np.linspace(0.5, 1.5, N), np.ones(N)

    def f(x):
        y = x * buffer
        buffer[:] = 7.0
        return (y * buffer).sum()

    np.testing.assert_allclose(bs.grad(f)(x), np.full(N, 7.0))


def test_an_argument_that_is_written_into_counts_as_it_was():
    x = np.linspace(0.5, 1.5, N)
    was = x.copy()

    def f(t):
        y = t * t
        x[:] = 7.0
        return y.sum()

    np.testing.assert_allclose(bs.grad(f)(x), 2 * was)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: np.sum(x * w),
        lambda x, w: np.sum(x),
        lambda x, w: np.sum(x * x * w),
        lambda x, w: np.sum(x[::-1] * w[::-1]),
        lambda x, w: np.sum(x.reshape(1, -1) * w),
        lambda x, w: x.dot(w),
        lambda x, w: np.sum(np.where(x > 1.0, x, w) * w),
    ],
)
def test_gradients_share_no_memory_with_what_was_not_copied(f):
    x, w = np.linspace(0.5, 1.5, N), np.linspace(1.5, 2.5, N)
    assert quiet.writes_nothing(f, (x, w))
    value, g = bs.value_and_grad(f)(x, w)
    both = bs.grad(f, (0, 1))(x, w)
    for part in (g, *both):
        assert part.flags.writeable
        assert not np.shares_memory(part, x)
        assert not np.shares_memory(part, w)
        part[:] = 0
    np.testing.assert_array_equal(x, np.linspace(0.5, 1.5, N))
    np.testing.assert_array_equal(w, np.linspace(1.5, 2.5, N))
    assert not undisturbed.depth
    assert np.isfinite(value)


def test_what_fails_leaves_nothing_behind():
    with pytest.raises(ShapeError):
        bs.grad(lambda x: np.sum(x * W))(np.ones(N))
    assert not undisturbed.depth


def test_results_besides_the_value_are_the_callers_own():
    x = np.linspace(0.5, 1.5, N)
    g, aux = bs.grad(lambda x: (np.sum(x * x), x), has_aux=True)(x)
    aux[:] = 0
    g[:] = 0
    np.testing.assert_array_equal(x, np.linspace(0.5, 1.5, N))


def _calling(h):
    return lambda x: h(x)


def test_functions_of_one_code_are_looked_at_each():
    """The second of two closures writes into what the first has captured."""
    buffer = np.full(N, 2.0)

    def refilled(x):
        buffer[:] = 7.0
        return x * 1.0

    first, second = _calling(lambda x: x * buffer), _calling(refilled)
    f = lambda x: np.sum(first(x) + second(x))
    assert not quiet.writes_nothing(f, (np.ones(N),))
    np.testing.assert_array_equal(bs.grad(f)(np.ones(N)), 3.0)


def test_functions_of_one_code_may_fill_arrays():
    def filled(x):
        y = np.zeros(2)
        y[0], y[1] = x[1], x[0] * 3
        return y

    first, second = _calling(np.sin), _calling(filled)
    f = lambda x: np.sum(first(x) * second(x))
    x = np.array([0.3, 0.8])
    np.testing.assert_allclose(bs.grad(f)(x), bs.jit(bs.grad(f))(x))


class _Writing(np.float64):
    def __add__(self, other):
        REFILLED[:] = 7.0
        return 1.0


REFILLED = np.full(N, 2.0)
KEEPING = np.frompyfunc(lambda t: (REFILLED.fill(7.0), t)[1], 1, 1)
OBJECTS = np.array([_Writing(1.0)], dtype=object)
NUMBER = _Writing(1.0)


@pytest.mark.parametrize(
    "last",
    [
        lambda y: y + KEEPING(1.0) * 0.0,
        lambda y: y * (OBJECTS[0] + 0.0),
        lambda y: y * (NUMBER + 0.0),
    ],
    ids=["frompyfunc", "objects", "a subclass of float64"],
)
def test_python_within_numpy_is_not_trusted(last):
    REFILLED[:] = 2.0
    f = lambda x: last(np.sum(x * REFILLED))
    np.testing.assert_array_equal(bs.grad(f)(np.ones(N)), 2.0)
