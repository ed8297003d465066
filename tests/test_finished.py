"""What is kept of a differentiation that is over is a constant, and costs the same however many went before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import row


class Carried:
    """A value that each call leaves to the next one."""

    def __init__(self) -> None:
        self.value: Any = np.ones(3)

    def loss(self, x: Any) -> Any:
        y = np.sum(np.tanh(x * self.value))
        self.value = np.tanh(0.9 * self.value + x)
        return y


X = np.linspace(0.0, 1.0, 3)


@pytest.mark.parametrize(
    "derive",
    [
        lambda f: bs.grad(f)(X),
        lambda f: bs.vjp(f, X)[1](1.0)[0],
        lambda f: bs.jacobian(f)(X),
        lambda f: bs.jvp(f, (X,), (X,))[1],
    ],
)
def test_derivatives_are_those_of_constants(derive: Any) -> None:
    kept, plain = Carried(), Carried()
    for _ in range(4):
        with_arrays = plain.value
        found = derive(kept.loss)
        expected = derive(lambda x, c=with_arrays: np.sum(np.tanh(x * c)))
        assert type(found) is type(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        plain.value = np.tanh(0.9 * with_arrays + X)


def test_no_walk_through_all_that_went_before(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    look = row._live
    monkeypatch.setattr(row, "_live", lambda r: looked.append(r.index) or look(r))

    def looks_of_one_call() -> int:
        looked.clear()
        bs.grad(carried.loss)(X)
        np.asarray(carried.value)
        bs.jvp(carried.loss, (X,), (X,))
        return len(looked)

    carried = Carried()
    first = [looks_of_one_call() for _ in range(5)]
    for _ in range(50):
        last = looks_of_one_call()
    assert 0 < last <= max(first)


def test_what_a_live_leaf_is_under_is_not_over() -> None:
    def outer(z: Any) -> Any:
        carried = Carried()
        total = 0.0 * z
        for _ in range(5):
            carried.value = carried.value * z
            gradient = bs.grad(carried.loss)(X)
            assert not row.is_over(carried.value.row)
            total = total + np.sum(gradient)
            kept.append(carried.value)
        return total

    kept: list[Any] = []
    found = bs.grad(outer)(1.1)
    assert all(row.is_over(k.row) for k in kept)  # the leaf that was found under it is finished now
    assert np.asarray(kept[-1]).shape == X.shape
    step = 1e-6
    difference = _sum_by_hand(1.1 + step) - _sum_by_hand(1.1 - step)
    np.testing.assert_allclose(found, difference / (2 * step), rtol=1e-7)


def _sum_by_hand(z: float) -> float:
    value, total = np.ones(3), 0.0
    for _ in range(5):
        value = value * z
        total += np.sum(value / np.cosh(X * value) ** 2)
        value = np.tanh(0.9 * value + X)
    return total


def test_a_pullback_that_is_kept_goes_on_working() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(np.sin(x))
        return np.sum(kept[-1] ** 2)

    _, pull = bs.vjp(f, X)
    assert type(bs.grad(lambda z: np.sum(z * kept[0]))(X)) is np.ndarray
    np.testing.assert_allclose(pull(1.0)[0], np.sin(2 * X))
