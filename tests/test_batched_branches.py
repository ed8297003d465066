"""Branches inside of vmap: each runs on the examples that take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs


@pytest.mark.parametrize("wrap", [lambda f: f, bs.jit], ids=["eager", "jit"])
def test_a_branch_that_would_fail_for_others_runs_for_its_own(wrap: Any) -> None:
    """Systems of examples that take another branch are singular, and so is what derivatives keep of them."""

    def solved(p: Any) -> Any:
        a = np.stack([np.stack([p * p - 1, 0 * p]), np.stack([p, p * p + 2])])
        return np.linalg.solve(a, np.ones(2))[1]

    f = lambda p: bs.cond(p > 2, solved, lambda p: p * p, p)
    ps = np.array([1.0, 3.0, 0.5])
    for g in (f, bs.grad(f), bs.grad(bs.grad(f))):
        np.testing.assert_allclose(wrap(bs.vmap(g))(ps), [g(float(p)) for p in ps], rtol=1e-10)
    np.testing.assert_allclose(wrap(bs.vmap(f))(ps[:1]), 1.0)
    with pytest.raises(np.linalg.LinAlgError):
        wrap(bs.vmap(lambda p: bs.cond(p > 0, solved, lambda p: p * p, p)))(ps)


def test_a_root_inside_a_branch_of_examples() -> None:
    cubic = lambda p: bs.root(lambda x, q: x**3 + x - q, 1.0, p)
    f = lambda p: bs.cond(p > 2, cubic, lambda p: p * p, p)
    ps = np.array([1.0, 3.0])
    for g in (bs.grad(f), bs.grad(bs.grad(f))):
        np.testing.assert_allclose(bs.vmap(g)(ps), [g(float(p)) for p in ps], rtol=1e-8)
