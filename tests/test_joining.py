"""Joining arrays: what is done at once, and what goes the long way, give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import DTypeError, ShapeError

rng = np.random.default_rng(2)
JOINS = {
    "concatenate": np.concatenate,
    "concatenate along the last axis": lambda xs: np.concatenate(xs, -1),
    "concatenate flat": lambda xs: np.concatenate(xs, None),
    "stack": np.stack,
    "stack along axis 1": lambda xs: np.stack(xs, 1),
    "stack along the last axis": lambda xs: np.stack(xs, -1),
    "vstack": np.vstack,
    "hstack": np.hstack,
    "dstack": np.dstack,
    "column_stack": np.column_stack,
}


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("name", JOINS)
def test_values_and_derivatives(name: str, shape: tuple[int, ...]) -> None:
    join = JOINS[name]
    xs = [rng.normal(size=shape) for _ in range(3)]
    expected = join(xs)
    weights = rng.normal(size=expected.shape)

    def loss(a: Any, c: Any) -> Any:
        return np.sum(join([a, xs[1], c]) * weights)

    constant = join([bs.tensor(x) for x in xs])
    assert isinstance(constant, bs.Tensor)
    assert constant.row is None
    np.testing.assert_array_equal(constant.value, expected)
    first, last = bs.grad(loss, argnums=(0, 1))(xs[0], xs[2])
    places = [join([np.full(shape, float(k)) for k in range(3)]) == k for k in (0, 2)]
    for found, place in zip((first, last), places, strict=True):
        np.testing.assert_array_equal(np.sort(found.ravel()), np.sort(weights[place]))
    compiled = bs.jit(bs.grad(loss, argnums=(0, 1)))(xs[0], xs[2])
    np.testing.assert_array_equal(compiled[0], first)
    np.testing.assert_array_equal(compiled[1], last)
    direct = bs.jvp(loss, (xs[0], xs[2]), (xs[1], xs[1]))[1]
    np.testing.assert_allclose(direct, np.sum(first * xs[1]) + np.sum(last * xs[1]))


@pytest.mark.parametrize("join", [np.concatenate, np.stack, np.vstack, np.column_stack])
def test_a_leaf_is_computed_anew(join: Any) -> None:
    x, k = bs.tensor([1.0, 2.0], requires_grad=True), bs.tensor([5.0, 6.0])
    y = join([x, k, np.floor(x)])
    x.value = np.array([3.5, 4.5])
    y.forward()
    np.testing.assert_array_equal(y.value, join([[3.5, 4.5], [5.0, 6.0], [3.0, 4.0]]))
    np.sum(y * y).backward()
    np.testing.assert_array_equal(x.grad, [7.0, 9.0])


def test_dtypes_are_numpys() -> None:
    single, whole = np.ones(2, np.float32), np.arange(2)
    assert np.concatenate([bs.tensor(single), single]).dtype == np.float32
    assert np.concatenate([bs.tensor(single), whole]).dtype == np.float64
    grown = bs.grad(lambda x: np.sum(np.concatenate([x, whole])))(single)
    assert grown.dtype == np.float32


def test_mistakes_are_told() -> None:
    x = bs.tensor(np.ones(2))
    with pytest.raises(ShapeError, match="needs equal shapes"):
        np.concatenate([x, np.ones((2, 2))])
    with pytest.raises(ShapeError, match="rank 0"):
        np.concatenate([bs.tensor(1.0), x])
    with pytest.raises(ShapeError, match="equal shapes"):
        np.vstack([x, np.ones(3)])
    with pytest.raises(np.exceptions.AxisError, match="axis=3"):
        np.concatenate([x, x], 3)
    with pytest.raises(DTypeError, match="numbers"):
        np.concatenate([x, np.array(["a", "b"])])


def test_a_transform_keeps_no_values() -> None:
    seen = []

    def loss(x: Any) -> Any:
        y = np.fft.rfft(x)
        seen.append(y.row.saved)
        return np.sum(np.abs(y) ** 2)

    bs.grad(loss)(np.arange(4.0))
    assert not any(isinstance(v, np.ndarray) for v in seen[0])
