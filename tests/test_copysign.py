"""Of copysign the size has a derivative, and the sign, which may vary as well, has the derivative 0."""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs


def test_jets_where_the_sign_varies_are_arrays() -> None:
    f = lambda x: np.copysign(x**2, np.sin(x))
    x = np.array([1.0, -2.0, 4.0])
    y, derivatives = bs.jet(f, (x,), [[np.ones(3), np.zeros(3), np.zeros(3)]])
    signs = np.sign(np.sin(x))
    for found, expected in zip([y, *derivatives], [x**2, 2 * x, 2 + 0 * x, 0 * x], strict=True):
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, signs * expected, rtol=1e-12)


def test_derivatives_by_the_sign_are_zero() -> None:
    f: Any = lambda a, b: np.copysign(a, np.sin(b))
    for way in (bs.grad, lambda f, argnums: bs.jit(bs.grad(f, argnums))):
        assert way(f, (0, 1))(-3.0, 1.0) == (-1.0, 0.0)
        assert way(f, (0, 1))(2.0, -1.0) == (-1.0, 0.0)
    assert bs.grad(lambda b: np.copysign(3.0, b))(2.0) == 0.0
    outer = lambda p: bs.jet(lambda x: np.copysign(p * x, np.sin(p * x)), (4.0,), [[1.0]])[1][0]
    np.testing.assert_allclose(bs.grad(outer)(1.0), -1.0)
