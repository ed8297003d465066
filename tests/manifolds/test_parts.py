"""Points that `vmap`, `scan` and `map` take apart: parts are points, or it is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve.errors import ShapeError

_rng = np.random.default_rng(4)


def cube(x: Any) -> Any:
    return np.sum(x**3)


@pytest.mark.parametrize(
    ("manifold", "shape"),
    [
        (mf.PositiveDefinite(), (3, 2, 2)),
        (mf.Stiefel(), (3, 4, 2)),
        (mf.Oblique(), (3, 4, 2)),
        (mf.Simplex(), (3, 4)),
        (mf.Euclidean(), (3, 4)),
    ],
    ids=str,
)
def test_points_beside_each_other(manifold: mf.Manifold, shape: tuple[int, ...]) -> None:
    x = manifold.random_point(_rng, shape)
    stack = bs.on(manifold, x)
    want = bs.grad(cube)(stack)
    np.testing.assert_allclose(bs.vmap(bs.grad(cube))(stack), want, atol=1e-12)
    np.testing.assert_allclose(bs.map(bs.grad(cube), stack), want, atol=1e-12)


@pytest.mark.parametrize(
    ("manifold", "shape", "axis"),
    [
        (mf.Sphere(), (3, 4), 0),
        (mf.Simplex(), (3, 4), 1),
        (mf.Simplex(), (4,), 0),
        (mf.Oblique(), (2, 3, 2), -1),
        (mf.Symmetric(), (2, 2, 2), 1),
        (mf.Stiefel(), (4, 2), 1),
    ],
    ids=str,
)
def test_parts_of_one_point(manifold: mf.Manifold, shape: tuple[int, ...], axis: int) -> None:
    point = bs.on(manifold, manifold.random_point(_rng, shape))
    with pytest.raises(ShapeError, match="whose parts are no points"):
        bs.vmap(bs.grad(cube), in_axes=axis)(point)
    with pytest.raises(ShapeError, match="whose parts are no points"):
        bs.vmap(lambda p: cube(p["x"]), in_axes=axis)({"x": point})
    if axis == 0:
        with pytest.raises(ShapeError, match="`scan` goes along axis 0"):
            bs.map(bs.grad(cube), point)
