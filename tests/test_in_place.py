"""Functions that write into what they are given: the same results everywhere; arrays of others stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs

ROWS = np.array([[2.0, 3.0, 4.0], [0.5, 1.0, 1.5]])
P = np.array([1.0, 2.0, 3.0])


def grown(x: Any) -> Any:
    x *= np.sin(x) + 1.0
    return x


def grown_anew(x: Any) -> Any:
    return x * (np.sin(x) + 1.0)


def carried(h: Any, x: Any) -> Any:
    h *= x
    x += 1.0
    return h, h


def carried_anew(h: Any, x: Any) -> Any:
    return h * x, h * x


def blended(h: Any, x: Any) -> Any:
    h *= 0.5
    h += x
    return h


USES: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "fori_loop": (lambda f, x: bs.fori_loop(0, 3, lambda i, s: f(s), x), grown, grown_anew),
    "while_loop": (
        lambda f, x: bs.while_loop(lambda s: np.sum(s) < 8.0, f, x),
        grown,
        grown_anew,
    ),
    "cond": (lambda f, x: bs.cond(x[0] > 0, f, f, x) + x, grown, grown_anew),
    "map": (lambda f, x: bs.map(f, ROWS * x), grown, grown_anew),
    "vmap": (lambda f, x: bs.vmap(f)(ROWS * x), grown, grown_anew),
    "scan": (lambda f, x: bs.scan(f, x, ROWS), carried, carried_anew),
    "scan, reverse": (lambda f, x: bs.scan(f, x, ROWS, reverse=True), carried, carried_anew),
    "recurrence": (lambda f, x: bs.recurrence(f, x, ROWS), blended, lambda h, x: 0.5 * h + x),
    "checkpoint": (lambda f, x: bs.checkpoint(f)(x) * x, grown, grown_anew),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda f: f,
    "jit": bs.jit,
    "jacobian": bs.jacobian,
    "compiled jacobian": lambda f: bs.jit(bs.jacobian(f)),
}


PLAIN = ("checkpoint", "numbers")  # on numbers checkpoint(f) is a plain call of f
PAIRS = [(name, way) for name in USES for way in WAYS if (name, way) != PLAIN]


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_control_flow(name: str, way: str) -> None:
    use, f, anew = USES[name]
    x, rows = P.copy(), ROWS.copy()
    derive = WAYS[way]
    found = derive(lambda x: use(f, x))(x)
    expected = derive(lambda x: use(anew, x))(P)
    for got, want in zip(*(bs.tree.flatten(t)[0] for t in (found, expected)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    np.testing.assert_array_equal(x, P)
    np.testing.assert_array_equal(ROWS, rows)


@pytest.mark.parametrize("limit", [{"slots": 3}, {"memory": 900}, {}])
def test_chains_in_a_budget(limit: dict[str, int]) -> None:
    """A step that writes into its state lost its input's row: gradients were those of the last one's value."""
    chain = lambda f: bs.checkpoint(
        lambda x: bs.fori_loop(0, 12, lambda i, s: f(s), 0.1 * x).sum(), **limit
    )
    sums = lambda f: bs.checkpoint(
        lambda x: bs.scan(f, x * 1.0, np.tile(ROWS, (4, 1)))[1].sum(), **limit
    )
    for make, f, anew in ((chain, grown, grown_anew), (sums, carried, carried_anew)):
        for derive in (bs.grad, bs.hessian, lambda g: bs.jit(bs.grad(g))):
            expected = derive(make(anew))(P)
            np.testing.assert_allclose(derive(make(f))(P), expected, rtol=1e-10)
    steps = bs.checkpoint([grown, grown, grown], **(limit or {"slots": 2}))
    plain = lambda x: grown_anew(grown_anew(grown_anew(x))).sum()
    np.testing.assert_allclose(bs.grad(lambda x: steps(x).sum())(P), bs.grad(plain)(P))


def squared(x: Any, p: Any) -> Any:
    x *= x
    return x - p


def halved(x: Any, p: Any) -> Any:
    x *= 0.5
    x += p
    return x


def distance(x: Any, p: Any) -> Any:
    x -= p
    x *= x
    return np.sum(x)


def test_implicit_functions() -> None:
    x0 = np.array([1.0, 1.5, 2.0])
    before = x0.copy()
    np.testing.assert_allclose(bs.root(squared, x0, P), np.sqrt(P))
    slope = bs.jacobian(lambda p: bs.root(squared, x0, p))(P)
    np.testing.assert_allclose(slope, np.diag(0.5 / np.sqrt(P)))
    np.testing.assert_allclose(bs.fixed_point(halved, x0, P), 2 * P)
    np.testing.assert_allclose(bs.argmin(distance, x0, P), P)
    np.testing.assert_array_equal(x0, before)


@pytest.mark.parametrize("method", ["auto", "cg", "gmres", "minres", "direct"])
def test_linear_solves(method: str) -> None:
    def times(v: Any) -> Any:
        v *= np.array([2.0, 3.0, 5.0])
        return v

    def near(v: Any) -> Any:
        v /= np.array([2.0, 3.0, 5.0])
        return v

    exact = P / np.array([2.0, 3.0, 5.0])
    preconditioned = {} if method == "direct" else {"preconditioner": near}
    for given in ({}, preconditioned):
        solve = lambda b, given=given: bs.linear_solve(times, b, method=method, **given)
        np.testing.assert_allclose(solve(P), exact)
        np.testing.assert_allclose(bs.jit(solve)(P), exact)
        slope = bs.grad(lambda b, solve=solve: np.sum(solve(b)))(P)
        np.testing.assert_allclose(slope, 1 / np.array([2.0, 3.0, 5.0]))


def test_differences() -> None:
    x = P.copy()
    bs.testing.check_grads(lambda x: np.sum(grown(x) ** 2), (x,))
    np.testing.assert_array_equal(x, P)
