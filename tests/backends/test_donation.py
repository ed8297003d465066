"""bs.jit(…, donate=…): results in the memory of donated arguments, never a wrong number."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import compile as native

rng = np.random.default_rng(0)


@pytest.fixture(params=[True, False], ids=["fast entry", "slow entry"], autouse=True)
def entry(request, monkeypatch):
    if request.param and not native.knows_layout():
        pytest.skip("the fast entry does not know this interpreter's objects")
    monkeypatch.setattr(native, "knows_layout", lambda: request.param)


def loss(params, x, y):
    h = x
    for w, b in params[:-1]:
        h = np.tanh(h @ w + b)
    w, b = params[-1]
    return np.mean((h @ w + b - y) ** 2)


def adam(state, x, y):
    params, first, second = state
    grads = bs.grad(loss)(params, x, y)
    each = lambda f, *trees: [tuple(map(f, *pairs)) for pairs in zip(*trees, strict=True)]
    first = each(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = each(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
    step = lambda p, m, v: p - 0.01 * m / (np.sqrt(v) + 1e-8)
    return each(step, params, first, second), first, second


def leaves(tree):
    return bs.tree.flatten(tree)[0]


def new_state(sizes=(8, 16, 16, 3)):
    params = [(rng.normal(size=(n, m)), np.zeros(m)) for n, m in zip(sizes, sizes[1:])]  # noqa: B905
    zeros = lambda: [tuple(np.zeros_like(a) for a in pair) for pair in params]
    return params, zeros(), zeros()


def copied(tree):
    flat, structure = bs.tree.flatten(tree)
    return structure.unflatten([np.array(x) for x in flat])


def test_a_training_step_allocates_nothing():
    state, x, y = new_state(), rng.normal(size=(32, 8)), rng.normal(size=(32, 3))
    step, plain = bs.jit(adam, donate=0), bs.jit(adam)
    expected = copied(state)
    for _ in range(3):
        before = leaves(state)
        state, expected = step(state, x, y), plain(expected, x, y)
        assert all(a is b for a, b in zip(leaves(state), before, strict=True))
        for a, b in zip(leaves(state), leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    (made,) = step.stats()["specialisations"]
    (other,) = plain.stats()["specialisations"]
    assert made["in_place"] == len(leaves(state))
    assert made["arena_bytes"] <= other["arena_bytes"]


def test_references_are_kept_straight():
    step = bs.jit(lambda p, g: p - 0.1 * g, donate=0)
    p, g = np.ones(3), np.ones(3)
    assert step(p, g) is p
    before = sys.getrefcount(p)
    for _ in range(100):
        step(p, g)
    assert sys.getrefcount(p) == before
    np.testing.assert_allclose(p, 1 - 0.1 * 101)


PROGRAMS = {
    "entry by entry": lambda a, b: a * 2 + b,
    "shifted": lambda a, b: np.concatenate([a[1:], a[:1]]) + b,
    "turned round": lambda a, b: a[::-1] + b,
    "a number of its own": lambda a, b: a + a[0] * b,
    "read after the write": lambda a, b: (a + 1, np.sum(np.cumsum(a)) * b),
    "swapped": lambda a, b: (b, a),
    "the same": lambda a, b: a,
    "the same twice": lambda a, b: (a, a, b),
    "constant": lambda a, b: (np.zeros_like(a), b * 3),
    "crossed": lambda a, b: (a[::-1] * b, b[::-1] * a),
    "sum and update": lambda a, b: (a.sum(), a - a.sum() * b),
    "a matrix product": lambda a, b: (np.outer(a, b) @ a, b @ np.outer(a, b)),
    "another type": lambda a, b: (a.astype(np.float32), a > b),
    "part of it": lambda a, b: (a[2:], a[:3] * 2),
    "gathered": lambda a, b: (a - a[[3, 3, 0, 1, 5, 2]], b),
    "gathered from both": lambda a, b: (a + b[::-1][[1, 1, 1, 0, 0, 2]], b - a[[1, 1, 1, 0, 0, 2]]),
    "nothing gathered": lambda a, b: (a[np.zeros(0, int)], a * 2),
    "written in part": lambda a, b: bs.numpy.where(a > 0, a, b[::-1]),
}


@pytest.mark.parametrize("donate", [0, 1, (0, 1), -1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_right(name, donate):
    f = PROGRAMS[name]
    step = bs.jit(f, donate=donate)
    for _ in range(2):
        a, b = rng.normal(size=6), rng.normal(size=6)
        kept = [a.copy(), b.copy()]
        expected = copied(f(*kept))
        for got, wanted in zip(leaves(step(a, b)), leaves(expected), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)
        given = {k % 2 for k in np.atleast_1d(donate)}
        for k, x in enumerate((a, b)):
            if k not in given:
                np.testing.assert_array_equal(x, kept[k])


def test_writes_into_a_part_touch_nothing_else():
    def f(table, rows, i):
        table = bs.tensor(table) if isinstance(table, np.ndarray) else table
        table[i] = rows
        table[0] = 0.0
        return table

    table, rows, i = np.ones((6, 2)), np.full((2, 2), 5.0), np.array([1, 3])
    step = bs.jit(f, donate=0)
    for _ in range(2):
        assert step(table, rows, i) is table
        np.testing.assert_array_equal(table[:, 0], [0, 5, 1, 5, 1, 1])
    assert "for [6, 2]" not in step.lower(table, rows, i).stages["steps"]


class TestArgumentsThatCannotBeWritten:
    step = staticmethod(lambda p, g: p - 0.5 * g)
    g = np.arange(4.0)

    def test_read_only(self):
        p = np.ones(4)
        p.flags.writeable = False
        np.testing.assert_allclose(bs.jit(self.step, donate=0)(p, self.g), 1 - 0.5 * self.g)
        np.testing.assert_array_equal(p, np.ones(4))

    def test_strided(self):
        p = np.ones(8)[::2]
        np.testing.assert_allclose(bs.jit(self.step, donate=0)(p, self.g), 1 - 0.5 * self.g)
        np.testing.assert_array_equal(p, np.ones(4))

    def test_passed_twice(self):
        p = np.arange(4.0)
        got = bs.jit(lambda p, q: (p + 1, q[::-1] * 2), donate=(0, 1))(p, p)
        np.testing.assert_array_equal(got[0], np.arange(4.0) + 1)
        np.testing.assert_array_equal(got[1], np.arange(4.0)[::-1] * 2)

    def test_overlapping(self):
        buffer = np.arange(6.0)
        f = bs.jit(lambda p, q: p + q[::-1], donate=0)
        p, q = buffer[:4].copy(), buffer[2:].copy()
        np.testing.assert_array_equal(f(buffer[:4], buffer[2:]), p + q[::-1])
        np.testing.assert_array_equal(buffer, np.arange(6.0))

    def test_neighbours_are_apart(self):
        buffer = np.arange(8.0)
        p, q = buffer[:4], buffer[4:]
        got = bs.jit(lambda p, q: p + q[::-1], donate=0)(p, q)
        assert got is p
        np.testing.assert_array_equal(buffer, [7, 7, 7, 7, 4, 5, 6, 7])

    def test_what_a_tensor_holds(self):
        p = bs.tensor(np.ones(4), requires_grad=True)
        f = bs.jit(lambda p, g: p * p * g, donate=0)
        y = f(p, self.g)
        np.testing.assert_array_equal(p.value, np.ones(4))
        y.sum().backward()
        np.testing.assert_allclose(p.grad, 2 * self.g)
        constant = bs.tensor(np.ones(4))
        f(constant, self.g)
        np.testing.assert_array_equal(constant.value, np.ones(4))

    def test_inside_another_transformation(self):
        f = bs.jit(lambda p, g: p * p * g, donate=0)
        p = np.ones(4)
        np.testing.assert_allclose(bs.grad(lambda p: f(p, self.g).sum())(p), 2 * self.g)
        np.testing.assert_allclose(bs.jit(lambda p: f(p, self.g) + p)(p), self.g + 1)
        np.testing.assert_array_equal(p, np.ones(4))


def test_static_and_donated():
    with pytest.raises(ValueError, match="not both"):
        bs.jit(lambda a, b: a, static_argnums=0, donate=0)
    f = bs.jit(lambda n, p, scale: p * n * scale, static_argnums=0, donate=1)
    p = np.ones(3)
    assert f(2, p, 3.0) is p
    np.testing.assert_array_equal(p, [6, 6, 6])


@pytest.mark.parametrize("option", ["donate", "static_argnums"])
def test_a_place_of_no_argument_is_an_error(option):
    p = np.ones(3)
    for place in (3, 2, -3, (0, 2)):
        with pytest.raises(
            ValueError, match=rf"`{option}` names the argument at -?\d, .* takes 2 by"
        ):
            bs.jit(lambda a, b: a + b, **{option: place})(2, p)
    with pytest.raises(ValueError, match=r"takes 1 by place.*by name alone"):
        bs.jit(lambda a, *, b: a + b, **{option: 1})(2, b=p)
    with pytest.raises(ValueError, match="at 2"):
        bs.jit(bs.grad(lambda a, b: a * b), **{option: 2})(2.0, 3.0)


def test_places_of_arguments_that_are_not_given_or_that_a_signature_hides():
    p = np.ones(3)
    assert bs.jit(lambda a, b=1.0: a + b, donate=(0, 1))(p) is p
    assert bs.jit(lambda *a: a[0] * 2, donate=(0, 3))(p) is p

    @functools.wraps(lambda a: a)
    def more(a, *others):
        return a + others[0]

    assert bs.jit(more, donate=1)(2.0, p) is p


def test_without_native_code_arrays_stay():
    p = np.ones(3)
    got = bs.jit(lambda p: p * 2, donate=0, backend="numpy")(p)
    np.testing.assert_array_equal(got, [2, 2, 2])
    np.testing.assert_array_equal(p, [1, 1, 1])


@pytest.mark.parametrize("donate", [0, 1, (0, 1)])
def test_steps_that_are_swept_slice_by_slice(donate):
    """Rows large enough that several steps are done on each slice before the next."""

    def f(x, w):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        y = e / np.sum(e, axis=-1, keepdims=True)
        return y * w, w - y.sum(axis=0) * x[0]

    step = bs.jit(f, donate=donate)
    x, w = rng.normal(size=(512, 256)), rng.normal(size=(512, 256))
    expected = f(x.copy(), w.copy())
    for got, wanted in zip(step(x, w), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
    (made,) = step.stats()["specialisations"]
    assert made["in_place"] == np.size(donate)
