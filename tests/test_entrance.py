"""Calls of compiled functions with containers: the second one takes the written-out way, and both agree."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import backsolve as bs

X = np.arange(3.0)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Point:
    x: Any
    y: Any


FORMS = {
    "list": [X, 1.5],
    "nested": {"a": [X, (X + 1, None)], "b": {}, "c": ()},
    "one": (X,),
    "named tuple": Pair(X, 2.0),
    "dataclass": Point(X, Pair(1.0, X)),
    "subclass of dict": collections.OrderedDict(p=X, q=2.0),
    "number": np.float64(3.0),
    "integers": [3, True, X, -7],
    "complex": (1 + 2j, X),
}


def twice(tree: Any) -> Any:
    if isinstance(tree, np.ndarray | np.generic | float | int | complex | bs.Tensor):
        return tree * 2
    if isinstance(tree, Point):
        return Point(twice(tree.x), twice(tree.y))
    if isinstance(tree, Pair):
        return Pair(*[twice(x) for x in tree])
    if isinstance(tree, dict):
        return type(tree)((k, twice(v)) for k, v in tree.items())
    return tree if tree is None else type(tree)([twice(x) for x in tree])


def assert_same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    (xs, form), (ys, other) = bs.tree.flatten(a), bs.tree.flatten(b)
    assert form == other
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_array_equal(x, y)
        assert type(x) is type(y)
        assert getattr(x, "dtype", None) == getattr(y, "dtype", None)


@pytest.mark.parametrize("tree", FORMS.values(), ids=FORMS)
def test_forms(tree: Any) -> None:
    f = bs.jit(twice)
    first = f(tree)
    (enter,) = f._entrances.values()
    if isinstance(tree, collections.OrderedDict):
        assert enter is None  # the general way
    else:
        assert_same(enter((tree,), {}), first)
    assert_same(f(tree), first)
    np.testing.assert_array_equal(
        bs.tree.flatten(first)[0][-1], np.multiply(bs.tree.flatten(tree)[0][-1], 2)
    )


def test_another_form_is_not_taken_for_it() -> None:
    f = bs.jit(lambda p: p["a"] - p["b"])
    assert f({"a": 3.0, "b": 1.0}) == 2.0
    assert f({"b": 1.0, "a": 3.0}) == 2.0
    assert f({"a": 3, "b": 1}) == 2
    np.testing.assert_array_equal(f({"a": X, "b": 1.0}), X - 1)
    np.testing.assert_array_equal(f({"a": X[:2], "b": 1.0}), X[:2] - 1)
    np.testing.assert_array_equal(f({"a": X[::-1], "b": 1.0}), X[::-1] - 1)
    np.testing.assert_array_equal(f({"a": X.astype(np.float32), "b": 1.0}), X - 1)
    np.testing.assert_array_equal(f(p={"a": X, "b": 2.0}), X - 2)
    np.testing.assert_array_equal(f(p={"a": X, "b": 2.0}), X - 2)
    with pytest.raises(KeyError):
        f({"a": 1.0})


def test_static_values_are_compared() -> None:
    f = bs.jit(lambda x, how, k: x * k if how == "times" else x + k, static_argnums=(1, 2))
    for _ in range(3):
        assert f(5.0, "times", 2) == 10.0
        assert f(5.0, "plus", 2) == 7.0
        assert f(5.0, "".join(["ti", "mes"]), 3) == 15.0
        assert f(5.0, "times", 2.0) == 10.0
        assert f(5.0, "times", -0.0) == 0.0
        assert np.signbit(f(5.0, "times", -0.0))
        assert not np.signbit(f(5.0, "times", 0.0))
        assert f(5.0, "times", True) == 5.0


def test_integers_of_every_size() -> None:
    f = bs.jit(lambda n: n + 1)
    for n in (0, -1, 2**31 - 2, -(2**31), 2**31, 2**40, -(2**62), 2**62):
        for _ in range(2):
            assert f(n) == n + 1
    assert f(2**70) == 2**70 + 1  # a constant of the function: Python's own
    assert f(True) == 2
    assert f(False) == 1


def test_numbers_come_back_as_they_are() -> None:
    f = bs.jit(lambda n, b: (n, n > 2, b, n * 1.0))
    for _ in range(2):
        got = f(3, False)
        assert [type(x) for x in got] == [int, np.bool_, bool, float]
        assert got == (3, True, False, 3.0)


def test_many_forms_in_turn() -> None:
    f = bs.jit(lambda xs: sum(xs))
    for _ in range(3):
        for n in range(1, 14):
            assert f([1.0] * n) == n


def test_a_donated_container_is_written_in_place() -> None:
    f = bs.jit(lambda p, g: {k: p[k] - g for k in p}, donate=0)
    p = {"a": np.ones(100), "b": np.ones(50)}
    arrays = list(p.values())
    for _ in range(3):
        p = f(p, 1.0)
    assert all(x is y for x, y in zip(p.values(), arrays, strict=True))
    np.testing.assert_array_equal(p["a"], -2.0)


def test_objects_are_not_kept_alive() -> None:
    import weakref

    f = bs.jit(lambda p: p["x"] * 2)
    x = np.ones(10)
    seen = weakref.ref(x)
    f({"x": x})
    f({"x": x})
    del x
    assert seen() is None


def test_counters_come_back_from_native_loops() -> None:
    @bs.jit
    def root(x: Any) -> Any:
        y, rounds = x, 0
        while abs(y * y - x) > 1e-12:
            y, rounds = 0.5 * (y + x / y), rounds + 1
        return y, rounds

    for _ in range(2):
        y, rounds = root(7.0)
        assert (type(rounds), rounds) == (int, 6)
        assert y * y == pytest.approx(7.0)
    assert root.stats()["specialisations"][0]["native"]


def test_a_counter_that_outgrows_64_bits() -> None:
    @bs.jit
    def power(n: Any) -> Any:
        result = 1
        for _ in range(n):
            result *= 3
        return result

    assert power(39) == 3**39
    with pytest.raises(OverflowError, match="64 bits"):
        power(40)


def test_keys_that_are_equal_but_differ() -> None:
    f = bs.jit(lambda d: {k: k * v for k, v in d.items()})
    n = np.arange(3)
    for _ in range(2):
        for key in (1, 1.0, True, 0.0, -0.0):
            (got,) = f({key: n}).items()
            assert repr(got[0]) == repr(key)
            assert got[1].dtype == (key * n).dtype
            np.testing.assert_array_equal(np.signbit(1.0 * got[1]), np.signbit(1.0 * (key * n)))


@pytest.mark.parametrize(
    ("first", "second", "use"),
    [
        (np.float32(0.0), np.float32(-0.0), lambda v: v),
        (range(0, 10, 3), range(0, 11, 3), lambda r: r.stop),
    ],
)
def test_static_values_that_are_equal_but_differ(first: Any, second: Any, use: Any) -> None:
    f = bs.jit(lambda x, v: np.copysign(x, use(v)) + use(v), static_argnums=1)
    for v in (first, second, first, second):
        np.testing.assert_array_equal(f(X + 1, v), np.copysign(X + 1, use(v)) + use(v))


class Twin(collections.namedtuple("Twin", "a b")):
    """Made of one number, though it has two."""

    def __new__(cls, a: Any) -> Any:
        return super().__new__(cls, a, -a)


def test_named_tuples_with_a_new_of_their_own() -> None:
    f = bs.jit(lambda t: Twin(t.a * t.b))
    for _ in range(2):
        got = f(Twin(X))
        assert type(got) is Twin
        np.testing.assert_array_equal(got.a, -X * X)
        np.testing.assert_array_equal(got.b, X * X)


def test_a_number_given_back_enters_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count begins as an array without axes and comes back as NumPy's number: the state of an optimiser."""
    step = bs.jit(lambda p, state: (p - 1, {"count": state["count"] + 1}), donate=(0, 1))
    p, state = step(X.copy(), {"count": np.zeros((), np.int64)})
    monkeypatch.setattr(step, "_call", lambda *_: pytest.fail("took the general way"))
    for k in range(2, 5):
        before = p
        p, state = step(p, state)
        assert p is before
        assert state["count"] == k
        np.testing.assert_array_equal(p, X - k)


def test_a_scalar_beside_donated_arrays_costs_no_copy() -> None:
    step = bs.jit(lambda p, c: p + c, donate=0)
    p = X.copy()
    assert step(p, np.float64(1.0)) is p
    np.testing.assert_array_equal(p, X + 1)
    shared = X.copy()
    both = bs.jit(lambda p, q: (p + 1, q + 2), donate=(0, 1))
    for y, k in zip(both(shared, shared), (1, 2), strict=True):
        np.testing.assert_array_equal(y, X + k)
