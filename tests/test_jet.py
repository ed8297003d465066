"""Taylor mode against nested forward mode, to order 8; what it counts; how it nests."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import mpmath
import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import ShapeError, StructureError
from backsolve.ir import Type
from backsolve.primitive import P
from backsolve.solve import taylor
from backsolve.trace import stage

RNG = np.random.default_rng(0)
W = RNG.normal(size=(5, 4)) * 0.3


def nested(f: Callable[[Any], Any], x: Any, v: Any, order: int) -> list[Any]:
    def along(t: Any) -> Any:
        return f(x + t * v)

    def slope(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda t: bs.jvp(g, (t,), (1.0,))[1]

    found = []
    for _ in range(order):
        along = slope(along)
        found.append(along(0.0))
    return found


SMOOTH: dict[str, Callable[[Any], Any]] = {
    "network": lambda x: np.tanh(W @ x).sum(),
    "quotient": lambda x: np.log(1 + x @ x) / np.sqrt(2 + np.sin(x).sum()),
    "inverse": lambda x: np.linalg.inv(np.outer(x, x) + np.eye(4)).sum(),
    "system": lambda x: np.linalg.solve(np.outer(x, np.sin(x)) + 3 * np.eye(4), np.cos(x)).sum(),
    "system with a constant": lambda x: np.linalg.solve(np.outer(x, x) + np.eye(4), np.ones(4)) @ x,
    "triangles": lambda x: sum(
        P.triangular_solve(
            np.outer(x, np.cos(x)) + 3 * np.eye(4), x[:, None], lower=lower, unit=unit
        ).sum()
        for lower in (False, True)
        for unit in (False, True)
    ),
    "factor": lambda x: np.linalg.cholesky(np.outer(x, x) + np.eye(4)).sum(),
    "quotients broadcast": lambda x: (x[:, None] / (3 + x) + 1 / (2 + x * x) + (2 + x) / 3).sum(),
    "products along axes": lambda x: np.prod(np.outer(x, 1 + x)[:, :3] + 2, axis=(0, 1)),
    "running product": lambda x: np.sin(np.cumprod(2 + np.outer(x, x), axis=1)).sum(),
    "recurrence": lambda x: bs.grad(lambda x: np.cumprod(2 + x) @ np.cos(x))(x) @ x,
    "product": lambda x: np.exp(-x * x).prod(),
    "branches": lambda x: np.where(x > 0, x**3, np.cos(x)).sum() * np.sort(x)[1],
    "power": lambda x: ((2 + np.sin(x)) ** 2.5).sum() + (1.5 ** x[0]) * np.arctan2(x[1], 3.0),
    "special": lambda x: bs.numpy.special.erf(x).sum() * bs.numpy.special.expit(x[0]),
    "reductions": lambda x: x.max() ** 2 * np.abs(x).sum() + np.cumprod(2 + x)[-1] + np.var(x),
    "shapes": lambda x: np.concatenate([x[::-1], x[1:2] * 3]).reshape(5, 1).T @ np.ones(5),
}


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_against_nested_forward_mode(name: str) -> None:
    f = SMOOTH[name]
    x, v = RNG.normal(size=4), RNG.normal(size=4)
    order = 6 if name in ("network", "quotient", "power", "special", "shapes") else 5
    value, found = bs.jet(f, (x,), [[v, *[np.zeros(4)] * (order - 1)]])
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    for got, expected in zip(found, nested(f, x, v, order), strict=True):
        np.testing.assert_allclose(
            got, expected, rtol=1e-9, atol=1e-9 * (1 + np.max(np.abs(expected)))
        )


def test_order_eight() -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * np.exp(x * 0.5) / (1 + x * x)

    _, found = bs.jet(f, (0.3,), [[1.0, *[0.0] * 7]])
    np.testing.assert_allclose(found, nested(f, 0.3, 1.0, 8), rtol=1e-10)


def test_a_curve_and_several_arguments() -> None:
    """x(t) = 1 + 2t + 3t²/2, y(t) = t − t³/6 + …: derivatives of their product by hand."""
    value, found = bs.jet(
        lambda p: p["x"] * p["y"],
        ({"x": 1.0, "y": 0.0},),
        [[{"x": 2.0, "y": 1.0}, {"x": 3.0, "y": 0.0}, {"x": 0.0, "y": -1.0}]],
    )
    assert value == 0.0
    np.testing.assert_allclose(found, [1.0, 4.0, 3 * 3.0 - 1.0])


def test_work_grows_like_a_power_of_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    next_of = taylor._Product._next

    def counted(self: Any, k: int) -> Any:
        nonlocal calls
        calls += k + 1
        return next_of(self, k)

    monkeypatch.setattr(taylor._Product, "_next", counted)
    counts = []
    for order in (4, 8, 16):
        calls = 0
        bs.jet(lambda x: np.tanh(np.sin(x) * np.exp(x)), (0.3,), [[1.0, *[0.0] * (order - 1)]])
        counts.append(calls)
    assert counts[0] > 0
    assert counts[2] < 6 * counts[1] < 36 * counts[0]  # nesting would double with each order


def test_inside_grad_and_jit() -> None:
    def third(x: Any) -> Any:
        return bs.jet(lambda t: np.sin(t * t), (x,), [[1.0, 0.0, 0.0]])[1][2]

    def exact(x: Any) -> Any:
        return -8 * x**3 * np.cos(x * x) - 12 * x * np.sin(x * x)

    np.testing.assert_allclose(third(0.7), exact(0.7), rtol=1e-12)
    np.testing.assert_allclose(bs.jit(third)(0.7), exact(0.7), rtol=1e-12)
    np.testing.assert_allclose(bs.grad(third)(0.7), bs.grad(exact)(0.7), rtol=1e-10)
    np.testing.assert_allclose(bs.jit(bs.grad(third))(0.7), bs.grad(exact)(0.7), rtol=1e-10)
    xs = np.linspace(0.1, 1, 4)
    np.testing.assert_allclose(bs.vmap(third)(xs), exact(xs), rtol=1e-10)


def test_bad_input() -> None:
    with pytest.raises(StructureError, match="takes a tuple of arguments"):
        bs.jet(np.sin, 1.0, [[1.0]])
    with pytest.raises(StructureError, match="series for each"):
        bs.jet(np.sin, (1.0,), [])
    with pytest.raises(StructureError, match="one length"):
        bs.jet(np.add, (1.0, 2.0), [[1.0], [1.0, 0.0]])
    with pytest.raises(ShapeError, match="shape"):
        bs.jet(np.sin, (np.ones(3),), [[np.ones(2)]])
    inner = bs.checkpoint(lambda x: x * x)
    assert bs.jet(lambda x: inner(x) + 1, (1.0,), [[1.0, 0.0]])[1] == [2.0, 2.0]


def rounds(x: Any) -> Any:
    y = np.zeros(4)
    for i in range(1, 4):
        y[i] = y[i - 1] * x[i] + np.sin(x[i - 1])
    return y.sum()


def until(x: Any) -> Any:
    r = a = 1 + x @ x
    while abs(r * r - a) > 1e-14:
        r = 0.5 * (r + a / r)
    return r * x[0] if x[1] > 0 else r + x[2] ** 3


@pytest.mark.parametrize("f", [rounds, until])
@pytest.mark.parametrize("sign", [1, -1])
def test_loops_branches_and_compiled_calls_are_looked_into(f: Any, sign: int) -> None:
    x, v = sign * np.array([0.3, 0.5, -0.2, 0.7]), RNG.normal(size=4)
    compiled = bs.jit(f)
    series = [[v, *[np.zeros(4)] * 3]]
    expected = nested(f, x, v, 4)
    for g in (f, lambda x: 1.0 * compiled(x)):
        np.testing.assert_allclose(bs.jet(g, (x,), series)[1], expected, rtol=1e-7)
    inside = bs.jit(lambda x: bs.jet(compiled, (x,), series)[1])
    np.testing.assert_allclose(inside(x), expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
        ("bi,bij,bj->b", ((3, 2), (3, 2, 4), (3, 4))),
        ("ij,jk,k,l->il", ((2, 3), (3, 2), (2,), (4,))),
        ("ii,ij,j->i", ((3, 3), (3, 2), (2,))),
    ],
)
def test_contractions_of_many_operands_go_two_at_a_time(subscripts: str, shapes: Any) -> None:
    rng = np.random.default_rng(2)
    xs = [rng.normal(size=s) for s in shapes]
    series = [[rng.normal(size=s) for _ in range(4)] for s in shapes]
    f = lambda *xs: np.einsum(subscripts, *xs)
    value, found = bs.jet(f, xs, series)
    np.testing.assert_allclose(value, f(*xs), atol=1e-13)

    def along(t: Any) -> Any:
        return f(*[
            x + sum(u * t ** (k + 1) / factorial(k + 1) for k, u in enumerate(s))
            for x, s in zip(xs, series, strict=True)
        ])  # fmt: skip

    nested = along
    for derivative in found:
        before = nested
        nested = lambda t, g=before: bs.jvp(g, (t,), (1.0,))[1]
        np.testing.assert_allclose(derivative, nested(0.0), atol=1e-10)


def test_a_product_of_three_takes_work_like_the_square_of_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    products = 0
    splits = taylor._splits

    def counted(k: int, parts: int) -> Any:
        nonlocal products
        found = list(splits(k, parts))
        products += len(found)
        return iter(found)

    monkeypatch.setattr(taylor, "_splits", counted)
    xs = [np.ones((2, 2))] * 3
    bs.jet(lambda *x: np.einsum("ij,jk,kl->il", *x), xs, [[np.ones((2, 2))] * 8] * 3)
    assert products <= 2 * sum(k + 1 for k in range(1, 9)) * 2  # `splits` counts itself once more


@pytest.mark.parametrize(
    "name", ["network", "quotient", "system", "triangles", "factor", "product", "recurrence"]
)
def test_the_program_grows_like_a_power_of_the_order(name: str) -> None:
    """Where a row asks for two of its like, and these for two more, it would double with each order."""
    sizes = []
    for order in (4, 8, 16):

        def along(x: Any, order: int = order) -> Any:
            return tuple(
                bs.jet(SMOOTH[name], (x,), [[np.ones(4), *[np.zeros(4)] * (order - 1)]])[1]
            )

        sizes.append(len(stage(along, [Type((4,), np.dtype(float))])[0].equations))
    assert sizes[1] < 4 * sizes[0]
    assert sizes[2] < 4.2 * sizes[1]


def test_systems_and_products_inside_grad_jit_and_vmap() -> None:
    f = lambda x: SMOOTH["system"](x) + np.prod(1 + x) / (2 + x[0])
    x, v = np.array([0.3, -0.2, 0.5, 0.1]), np.array([1.0, 2.0, -1.0, 0.5])
    third = lambda x: bs.jet(f, (x,), [[v, 0 * v, 0 * v]])[1][2]
    expected = bs.grad(lambda x: nested(f, x, v, 3)[-1])(x)
    np.testing.assert_allclose(bs.grad(third)(x), expected, rtol=1e-10)
    np.testing.assert_allclose(bs.jit(bs.grad(third))(x), expected, rtol=1e-10)
    both = np.stack([x, x + 0.1])
    np.testing.assert_allclose(bs.vmap(third)(both), [third(y) for y in both], rtol=1e-12)


@pytest.mark.parametrize("x", [0.0, 0.03, 0.032, 0.3, 0.63, 0.64, 1.0])
def test_sinc_to_order_twelve(x: float) -> None:
    """Of sin t / t the k-th derivative loses digits like k! / t^(k+1); a series of few terms ends."""
    _, found = bs.jet(np.sinc, (x,), [[1.0, *[0.0] * 11]])
    with mpmath.workdps(60):
        series = mpmath.taylor(lambda x: mpmath.sinc(mpmath.pi * x), mpmath.mpf(x), 12)
        expected = [float(c * mpmath.factorial(k)) for k, c in enumerate(series)][1:]
    for k, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8 * np.pi ** (k + 1))
