"""What goes out turned is computed turned: the same numbers, and no copy of an array in strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.ir import Program, Type
from backsolve.rewrite import rewrite_for_machines
from backsolve.trace import stage

rng = np.random.default_rng(0)
X, A, E = rng.normal(size=(50, 6)), rng.normal(size=(50, 6, 4)), rng.normal(size=(6, 4))
NUMBERS = rng.integers(6, size=20)


def rewritten(f: Any, *args: Any) -> Program:
    types = [Type(a.shape, a.dtype) for a in args]
    return rewrite_for_machines(stage(lambda *xs: [f(*xs)], types)[0])


def count(program: Program, name: str) -> int:
    return sum(e.primitive.name == name for e in program.equations)


@pytest.mark.parametrize(
    ("f", "args", "left"),
    [
        (lambda x: np.swapaxes(np.sin(x)[:, :, None] * E, 1, 2), [X], 0),
        (lambda x: np.swapaxes(np.where(E > 0, np.cos(x)[:, :, None] * E, 0.0), 1, 2), [X], 0),
        (lambda x: np.transpose(np.sin(x)[:, :, None] * E, (2, 0, 1)), [X], 0),
        (lambda x: np.swapaxes(np.sin(x)[:, :, None] * E, 1, 2).reshape(50, -1), [X], 0),
        (lambda a: np.swapaxes(np.sin(a) + a * E, 1, 2), [A], 1),  # one array, read in strides
        (lambda a, b: np.swapaxes(a * b, 1, 2), [A, A + 1], 1),  # two: the copy stays
        (lambda a: np.swapaxes(np.exp(a), 1, 2) - 1, [A], 1),  # it does not go out as it is
        (lambda a: np.swapaxes(np.sin(np.swapaxes(a, 1, 2)), 1, 2), [A], 0),
    ],
)
def test_what_goes_out_turned_is_computed_turned(f: Any, args: Any, left: int) -> None:
    assert count(rewritten(f, *args), "permute") == left
    np.testing.assert_allclose(bs.jit(f)(*args), f(*args), rtol=1e-14, atol=1e-13)


def test_what_is_read_elsewhere_too_is_kept() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)[:, :, None] * E
        return np.swapaxes(y, 1, 2), y

    for got, expected in zip(bs.jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-13)


def test_columns_by_number_are_read_where_they_are() -> None:
    columns = bs.vmap(lambda v: v[NUMBERS])
    assert [e.primitive.name for e in rewritten(columns, X).equations] == ["gather"]
    np.testing.assert_array_equal(bs.jit(columns)(X), X[:, NUMBERS])


def test_jacobians_by_forward_substitution_are_not_turned() -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * np.roll(x, 1)

    J = bs.vmap(bs.jacobian(f, method="forward"))
    assert count(rewritten(J, X), "permute") == 0
    expected = [bs.jacobian(f, method="reverse")(x) for x in X]
    np.testing.assert_allclose(bs.jit(J)(X), expected, rtol=1e-13, atol=1e-13)
