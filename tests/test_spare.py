"""Back substitution in memory that nobody else holds: the same numbers, and nobody's array changes."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.operators import Diagonal
from backsolve.ownership import LARGE
from backsolve.primitive import Primitive
from backsolve.solve import reverse, spare

N = 12
W = np.linspace(0.5, 1.5, N)
FIXED = Diagonal(np.linspace(1.0, 2.0, N))
KEPT = Diagonal(np.linspace(2.0, 3.0, N))
# not `primitive(…)`: other tests walk the table that it would enter
fixed = Primitive("fixed", lambda a: a * FIXED.d, blocks=(FIXED,), elementwise=True)
kept = Primitive("kept", lambda a: a * KEPT.d, blocks=(lambda a: KEPT,), elementwise=True)

PROGRAMS = {
    "twice": lambda x: x + x,
    "difference": lambda x: (x * W) - (x * W)[::-1],
    "both ways": lambda x: np.sin(x) * np.cos(x) - x,
    "negative": lambda x: -(-x * 3.0),
    "shared adjoint": lambda x: (lambda y: (y - y * y) + (y - 2.0))(np.exp(x)),
    "views": lambda x: (lambda y: y.reshape(3, 4).T * 2.0 + y.reshape(4, 3))(x * x),
    "broadcast": lambda x: x.reshape(3, 4) * np.arange(1.0, 5.0) - x[:4],
    "roots": lambda x: np.sqrt(x) / x + np.log(x) * W,
    "spread": lambda x: np.std(x) * x - np.var(x),
    "norm": lambda x: np.linalg.norm(x.reshape(3, 4), axis=1) * W[:3],
    "product": lambda x: np.prod(x.reshape(3, 4), axis=1),
    "running sum": lambda x: np.cumsum(x * x)[::-1] * x,
    "a block of the table": lambda x: fixed(fixed(x * x)) * W,
    "a block that a rule keeps": lambda x: kept(kept(x * x)) * W,
    "single precision": lambda x: x.astype(np.float32) * W.astype(np.float32) * x,
    "complex": lambda x: np.abs((x + 2j * x) * (W - 1j * W)),
}


@pytest.fixture(autouse=True)
def all_arrays_count_as_large(monkeypatch):
    monkeypatch.setattr(spare, "LARGE", 0)
    monkeypatch.setattr(reverse, "LARGE", 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_forward_mode(name):
    f = PROGRAMS[name]
    x = np.linspace(0.3, 2.0, N)
    arrays = (x, W, FIXED.d, KEPT.d)
    before = [a.copy() for a in arrays]
    tolerance = 1e-5 if name == "single precision" else 1e-12
    for seed in (1.0, np.random.default_rng(0).normal(size=np.shape(f(x)))):
        g = bs.grad(lambda x, seed=seed: np.sum(f(x) * seed))(x)
        J = np.atleast_2d(bs.jacobian(f, method="forward")(x).reshape(-1, N))
        expected = np.broadcast_to(seed, np.shape(f(x))).reshape(-1) @ J
        np.testing.assert_allclose(g, expected, rtol=tolerance, atol=tolerance)
        assert g.flags.writeable
        assert not any(np.shares_memory(g, a) for a in arrays)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_pullback_can_be_used_again():
    x, seed = np.linspace(0.3, 2.0, N), np.linspace(-1.0, 1.0, N)
    for f in (lambda x: -x, lambda x: np.sqrt(x) * W, lambda x: x * 3.0):
        _, pull = bs.vjp(f, x)
        first, again = pull(seed)[0], pull(seed)[0]
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(seed, np.linspace(-1.0, 1.0, N))
        assert not np.shares_memory(first, again)


def test_what_leaves_keep_is_not_written_into():
    x = bs.tensor(np.linspace(0.3, 2.0, N), requires_grad=True)
    y = np.exp(x)
    (-y).sum().backward()
    held = np.array(x.grad)
    z = (y * 2.0).sum()
    z.backward()
    z.backward()
    np.testing.assert_allclose(x.grad, 3 * np.exp(x.value), rtol=1e-15)
    np.testing.assert_allclose(held, -np.exp(x.value), rtol=1e-15)
    np.testing.assert_array_equal(y.value, np.exp(np.linspace(0.3, 2.0, N)))


def test_the_adjoint_of_a_sum_is_no_view_of_what_it_multiplies():
    y = []

    def f(x):
        y.append(np.exp(x))
        return np.sum(y[-1])

    g = bs.grad(f)(np.linspace(0.3, 2.0, N))
    g[:] = 0
    np.testing.assert_array_equal(y[0].value, np.exp(np.linspace(0.3, 2.0, N)))


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_only_if_nobody_else_holds_it():
    d = np.full(N, 2.0)
    seed = [np.linspace(-1.0, 1.0, N).copy()]
    at = place(seed[0])
    assert place(spare.pull([Diagonal(d)], seed)) == at
    held = seed[0]
    assert not np.shares_memory(spare.pull([Diagonal(d)], [held]), held)
    assert not np.shares_memory(spare.pull([Diagonal(d)], [held[:]]), held)
    fresh = [Diagonal(np.full(N, 2.0))]
    at = place(fresh[0].d)
    assert place(spare.pull(fresh, [held])) == at
    np.testing.assert_array_equal(held, 2 * np.linspace(-1.0, 1.0, N))
    np.testing.assert_array_equal(d, np.full(N, 2.0))


def test_the_last_of_many_parents_is_looked_for_once(monkeypatch):
    """A row of n parents costs O(n), not O(n²)."""
    looked, last_row = [], spare.last_row
    monkeypatch.setattr(spare, "last_row", lambda p: looked.append(len(p)) or last_row(p))
    x, n = np.linspace(0, 1, 2 * LARGE), 64
    gradient = bs.grad(lambda x: np.sum(np.concatenate([2 * p for p in np.split(x, n)]) ** 2))
    np.testing.assert_allclose(gradient(x), 8 * x)
    assert looked.count(n) == 1
