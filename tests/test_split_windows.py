"""Pooling taken apart into entries of windows (rewrite/windows.py): values, ties, NaN, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, rewrite
from backsolve.ir import type_of
from backsolve.operators.windows import Cut
from backsolve.primitive import P
from backsolve.trace import stage

F = nn.functional
RNG = np.random.default_rng(0)
# height and width, kernel, stride, padding, dilation, ceil_mode
POOLS = [
    ((8, 16), 2, None, 0, 1, False),  # side by side
    ((9, 17), 2, None, 0, 1, False),  # a row and a column are left over
    ((9, 17), 2, None, 0, 1, True),
    ((9, 18), (2, 3), None, 1, 1, False),
    ((9, 17), 3, 2, 1, 1, False),  # overlapping
    ((7, 9), 3, 1, 1, 1, False),
    ((11, 19), 2, 2, 0, 3, False),
    ((7, 19), 2, 3, 0, 1, False),  # with gaps
    ((8, 12), (1, 2), None, 0, 1, False),
    ((8, 8), 1, None, 0, 1, False),
]


def integers(shape: Any) -> Any:
    """Few different numbers: most windows have several largest entries."""
    return RNG.integers(-2, 3, size=(4, 3, *shape)).astype(float)


def max_pool(args: Any) -> Any:
    return lambda x: F.max_pool2d(x, *args)


def avg_pool(args: Any) -> Any:
    size, stride, padding, _, ceil = args
    return lambda x: F.avg_pool2d(x, size, stride, padding, ceil)


def equations(f: Any, *args: Any) -> set[str]:
    program = rewrite.rewrite_for_machines(
        stage(lambda *xs: [f(*xs)], [type_of(a) for a in args])[0]
    )
    program.verify()
    return {e.primitive.name for e in program.equations}


@pytest.mark.parametrize("pool", [max_pool, avg_pool])
@pytest.mark.parametrize(("shape", "args"), [(p[0], p[1:]) for p in POOLS])
def test_compiled_as_eager(pool: Any, shape: Any, args: Any) -> None:
    f, x = pool(args), integers(shape)
    x[0, 0, 3, 3:5] = np.nan
    x[1] = -np.inf
    y = f(x)
    c, d = RNG.normal(size=y.shape), RNG.normal(size=x.shape)
    np.testing.assert_allclose(bs.jit(f)(x), y, rtol=1e-12)

    def loss(x: Any) -> Any:
        return np.sum(np.sin(f(x)) * c)

    finite = integers(shape)
    for z in (x, finite):
        with np.errstate(invalid="ignore"):
            expected = bs.grad(loss)(z)
        np.testing.assert_allclose(bs.jit(bs.grad(loss))(z), expected, rtol=1e-12)
    along = lambda z: bs.jvp(loss, (z,), (d,))[1]
    np.testing.assert_allclose(bs.jit(along)(finite), along(finite), rtol=1e-12)
    second = lambda z: bs.jvp(bs.grad(loss), (z,), (d,))[1]
    np.testing.assert_allclose(bs.jit(second)(finite), second(finite), rtol=1e-12, atol=1e-15)


def test_the_first_of_several_largest_entries_has_it_all() -> None:
    x = np.zeros((2, 2, 16, 16), np.float32)
    g = bs.jit(bs.grad(lambda x: np.sum(F.max_pool2d(x, 2))))(x)
    expected = np.zeros_like(x)
    expected[:, :, ::2, ::2] = 1
    np.testing.assert_array_equal(g, expected)
    assert g.dtype == np.float32


def test_windows_side_by_side_are_neither_reduced_nor_folded() -> None:
    x = integers((8, 16))
    found = equations(bs.grad(lambda x: np.sum(F.max_pool2d(x, 2) ** 2)), x)
    assert not found & {"windows", "fold", "first_max", "min", "scatter_add"}


def test_overlapping_windows_are_folded() -> None:
    x = integers((9, 17))
    found = equations(bs.grad(lambda x: np.sum(F.max_pool2d(x, 3, 2) ** 2)), x)
    assert "fold" in found
    assert not found & {"windows", "first_max", "min"}


def test_windows_of_a_convolution_stay_whole() -> None:
    x, w = integers((8, 16)), RNG.normal(size=(5, 3, 3, 3))
    assert "windows" in equations(lambda x: F.conv2d(x, w), x)


def test_windows_that_somebody_wants_whole_stay_so() -> None:
    cut = Cut((2, 3), (2, 2), (2, 2), (1, 1))

    def f(x: Any) -> Any:
        windows = np.exp(P.windows(x, cut=cut))
        return windows, np.max(windows, axis=(4, 5))

    x = integers((8, 16))
    for y, expected in zip(bs.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-14)


@pytest.mark.parametrize("shape", [(64, 2), (16, 4)])
def test_windows_in_a_loop(shape: Any) -> None:
    x = RNG.normal(size=(4, 3, *shape))

    def f(x: Any, n: Any) -> Any:
        total = 0.0
        for _ in range(n):
            x = x * 1.5 + F.max_pool2d(x, 3, 1, 1)
            total = total + np.sum(x)
        return total

    np.testing.assert_allclose(bs.jit(bs.grad(f))(x, 3), bs.grad(f)(x, 3), rtol=1e-12)
