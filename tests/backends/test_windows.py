"""Windows added back in compiled code: places that no window holds are zero, whatever was there before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.operators.windows import Cut
from backsolve.primitive import P

CUTS = [
    Cut((1,), (1,), (2,), (1,)),  # apart, with gaps
    Cut((1,), (2,), (3,), (1,)),
    Cut((1,), (3,), (1,), (1,)),  # overlapping
    Cut((1,), (2,), (2,), (1,)),  # side by side
]


@pytest.mark.parametrize("cut", CUTS)
def test_places_outside_of_all_windows_are_zero(cut: Cut) -> None:
    shape = (3, 40)

    def f(t: Any) -> Any:
        # The memory of `large` is free again where the result of fold is laid out.
        large = np.exp(P.fold(np.cos(t), cut=cut, shape=shape) + 1.0)
        return P.fold(np.sin(t), cut=cut, shape=shape) * 2 + np.sum(large)

    t = np.random.default_rng(0).normal(size=cut.shape(shape))
    compiled = bs.jit(f)
    for k in range(3):
        np.testing.assert_allclose(compiled(t + k), f(t + k), rtol=1e-12)


@pytest.mark.parametrize("cut", CUTS)
def test_a_result_that_is_a_fold(cut: Cut) -> None:
    shape = (3, 40)
    t = np.random.default_rng(0).normal(size=cut.shape(shape))
    compiled = bs.jit(lambda t: P.fold(np.sin(t), cut=cut, shape=shape))
    for k in range(4):
        found = compiled(t + k)
        np.testing.assert_allclose(found, P.fold(np.sin(t + k), cut=cut, shape=shape))
        found[:] = np.nan  # its memory comes again, with these in it
        del found


@pytest.mark.parametrize(
    "cut", [*CUTS, Cut((2, 0), (2, 3), (3, 2), (2, 1)), Cut((1,), (9,), (2,), (6,))]
)
def test_which_places_windows_hold(cut: Cut) -> None:
    shape = (6, 40, 9)
    ones = np.ones(cut.shape(shape), bool)
    found = cut.covered(shape)
    np.testing.assert_array_equal(found, P.fold(ones, cut=cut, shape=shape))
    assert found.shape == shape
    # nothing is held for axes that are not cut
    assert all(found.strides[k] == 0 for k in range(3) if k not in cut.axes)


def planes(size: int, step: int, dilation: int, height: int, width: int) -> tuple[Cut, Any]:
    cut = Cut((2, 3), (size, size), (step, step), (dilation, dilation))
    return cut, (2, 3, height, width)


# Rows of windows of many lengths, steps and distances: whole vectors, rests, a loop, a single window.
PLANES = [
    planes(3, 1, 1, 6, 3),
    planes(3, 1, 1, 5, 12),
    planes(5, 1, 1, 9, 33),
    planes(3, 1, 2, 9, 100),
    planes(3, 2, 1, 9, 19),
    planes(3, 2, 1, 8, 90),
    planes(2, 1, 3, 7, 20),
    planes(4, 3, 1, 11, 31),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
@pytest.mark.parametrize(("cut", "shape"), PLANES)
def test_windows_are_added_in_rows(cut: Cut, shape: Any, dtype: str) -> None:
    """As rows of windows lie in memory, and as whole windows do."""
    whole = cut.shape(shape)
    t = np.random.default_rng(0).integers(-9, 9, whole).astype(dtype)
    in_rows = np.ascontiguousarray(t.transpose(1, 4, 5, 0, 2, 3))
    compiled = bs.jit(lambda t: P.fold(P.permute(t, axes=(3, 0, 4, 5, 1, 2)), cut=cut, shape=shape))
    expected = cut.add(np.zeros(shape, dtype), t)
    np.testing.assert_array_equal(compiled(in_rows), expected)
    whole_windows = bs.jit(lambda t: P.fold(t, cut=cut, shape=shape))
    np.testing.assert_array_equal(whole_windows(t), expected)


@pytest.mark.parametrize("where", [0, -1])
def test_rows_with_steps_touch_nothing_beside_them(where: int) -> None:
    """Zeros that are added between entries spoil neither NaN nor infinity there."""
    cut, shape = planes(3, 2, 1, 9, 19)
    t = np.ones(cut.shape(shape))
    t[..., where, 1, 1] = np.inf
    t[..., where, 2, 2] = np.nan
    in_rows = np.ascontiguousarray(t.transpose(1, 4, 5, 0, 2, 3))
    f = bs.jit(lambda t: P.fold(P.permute(t, axes=(3, 0, 4, 5, 1, 2)), cut=cut, shape=shape))
    np.testing.assert_array_equal(f(in_rows), cut.add(np.zeros(shape), t))
