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
