"""The functions of the sparse benchmark, small: patterns and numbers against dense derivatives."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import backsolve as bs

FOLDER = Path(__file__).parents[2] / "benchmarks"
if str(FOLDER) not in sys.path:  # scripts, no part of the package
    sys.path.insert(0, str(FOLDER))

import sparse_problems as problems  # noqa: E402


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (problems.bratu, (9,)),
        (problems.brusselator, (2, 4, 4)),
        (problems.broyden, (12,)),
        (problems.cart_pole, (25,)),
    ],
)
def test_jacobians(make, shape):
    x = np.random.default_rng(0).uniform(0.2, 1, shape)
    f = make(np)
    found = bs.jacobian(f, sparse=True)(x)
    expected = bs.jacobian(f)(x).reshape(found.shape)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-10, atol=1e-10)


def test_hessian_of_the_lagrangian():
    z = np.random.default_rng(0).uniform(0.2, 1, 30)
    f = problems.cart_pole_lagrangian(np)
    found = bs.hessian(f, sparse=True)(z)
    np.testing.assert_allclose(found.toarray(), bs.hessian(f)(z), rtol=1e-9, atol=1e-10)
    assert found.nnz <= 4 * z.size  # of each point by itself


@pytest.mark.parametrize(
    ("name", "shape"), [("bratu", (20,)), ("broyden", (20,)), ("brusselator", (2, 5, 5))]
)
def test_derivatives_by_hand(name, shape):
    x = np.random.default_rng(0).uniform(0.2, 1, shape)
    by_hand = getattr(problems, f"{name}_by_hand")(x)(x)
    expected = bs.jacobian(getattr(problems, name)(np))(x).reshape(by_hand.shape)
    np.testing.assert_allclose(by_hand.toarray(), expected, rtol=1e-12)
