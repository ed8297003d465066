"""Logarithms of rotations, one by one and in stacks."""

from __future__ import annotations

import numpy as np
import pytest

from backsolve import manifolds as mf
from backsolve.errors import UnsupportedError

ROTATIONS = mf.SpecialOrthogonal()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 4, 2, 2), (0, 3, 3), (5, 1, 1)])
def test_logarithms_lead_where_exp_goes(shape: tuple[int, ...], dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = ROTATIONS.random_point(rng, shape).astype(dtype)
    u = ROTATIONS.project(x, 0.3 * rng.normal(size=shape).astype(dtype))
    y = ROTATIONS.exp(x, u)
    found, tolerance = ROTATIONS.log(x, y), 1e-12 if dtype == np.float64 else 1e-5
    assert found.dtype == dtype
    np.testing.assert_allclose(found, u, atol=tolerance)
    np.testing.assert_allclose(ROTATIONS.distance(x, y), np.sqrt(np.sum(u * u)), atol=tolerance)


def test_half_a_turn_among_others_is_an_error() -> None:
    ends = np.stack([np.eye(3), np.diag([1.0, -1.0, -1.0])])
    with pytest.raises(UnsupportedError, match="half a turn"):
        ROTATIONS.log(np.stack([np.eye(3)] * 2), ends)
    np.testing.assert_array_equal(ROTATIONS.log(np.eye(3), ends[:1]), np.zeros((1, 3, 3)))
