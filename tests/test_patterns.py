"""Patterns of functions with loops, branches and compiled calls, against dense Jacobians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.solve import patterns

RNG = np.random.default_rng(0)


def laplacian(u: Any) -> Any:
    v = np.concatenate([np.zeros(1), u, np.zeros(1)])
    return v[:-2] - 2 * v[1:-1] + v[2:]


def heat(u: Any) -> Any:
    for _ in range(3):
        u = u + 0.1 * laplacian(u) * np.cos(u)
    return u


def backwards(x: Any) -> Any:
    """An even number of turns: the pattern is a diagonal, not a cross."""
    return bs.fori_loop(0, 4, lambda k, s: s[::-1] * 0.5 + 1, x) * x


def neighbours(x: Any) -> Any:
    """Read and written entry by entry: places are known in every round."""

    @bs.jit
    def run(x: Any) -> Any:
        y = np.zeros(len(x))
        for i in range(1, len(x)):
            y[i] = x[i] * x[i - 1] + np.sin(x[i])
        return y

    return run(x)


def running(x: Any) -> Any:
    return bs.scan(lambda c, a: (c * 0.5 + a, c * a), x[:1], x.reshape(-1, 1))[1]


def halved(x: Any) -> Any:
    return bs.while_loop(lambda s: np.sum(s * s) > 1.0, lambda s: 0.5 * s, x)


def spreading(x: Any) -> Any:
    return bs.while_loop(lambda s: np.sum(s * s) > 2.0, lambda s: 0.4 * laplacian(s), x)


def chosen(x: Any) -> Any:
    return bs.cond(x[0] > 0, lambda x: np.exp(x), lambda x: x[::-1] * 2.0, x)


def nested(x: Any) -> Any:
    inner = lambda s: bs.fori_loop(0, 2, lambda k, t: np.sin(t) + t[k], s)
    return bs.fori_loop(0, 2, lambda k, s: inner(s) * s[k + 1], x)


# The entries that are expected; None: what there is at the point.
FUNCTIONS: dict[str, tuple[Any, int | None]] = {
    "heat": (heat, None),
    "backwards": (backwards, None),
    "neighbours": (neighbours, None),
    "running": (running, None),
    "halved": (halved, None),
    "spreading": (spreading, 81),  # after any number of rounds
    "chosen": (chosen, 17),  # a diagonal and its mirror image
    "nested": (nested, None),
}


def compare(f: Any, x: Any, count: int | None = None, **how: Any) -> Any:
    plan = bs.sparsity(f, x, **how)
    dense = bs.hessian if how.get("hessian") else bs.jacobian
    for at in (x, x + 0.1):
        found = dense(f, sparse=plan)(at)
        expected = np.reshape(dense(f)(at), plan.shape)
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-9, atol=1e-12)
    assert not plan.is_local
    assert plan.nnz == (np.count_nonzero(expected) if count is None else count)
    return plan


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians(name: str) -> None:
    f, count = FUNCTIONS[name]
    compare(f, RNG.uniform(0.5, 1, 9), count)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_joined_rounds_cover_every_number_of_them(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(patterns, "MOST_STEPS", 0)
    f, _ = FUNCTIONS[name]
    x = RNG.uniform(0.5, 1, 9)
    found = bs.jacobian(f, sparse=True)(x)
    np.testing.assert_allclose(
        found.toarray(), bs.jacobian(f)(x).reshape(9, 9), rtol=1e-9, atol=1e-12
    )


def test_a_loop_is_solved_with_as_many_seeds_as_it_has_colours() -> None:
    f = lambda x: bs.fori_loop(0, 3, lambda k, u: u + 0.1 * laplacian(u) * np.cos(u), x)
    plan = compare(f, RNG.uniform(0.5, 1, 60), 60 * 7 - 12)
    assert plan.method == "colour"
    assert plan.colours.count == 7


@pytest.mark.parametrize("colouring", ["star", "acyclic", "column"])
def test_hessian_of_a_loop(colouring: str) -> None:
    def energy(x: Any) -> Any:
        u = bs.fori_loop(0, 2, lambda k, u: u + 0.1 * laplacian(u) * u, x)
        return np.sum(u**3)

    plan = compare(energy, RNG.uniform(0.5, 1, 20), hessian=True, colouring=colouring)
    assert plan.nnz < 20 * 20


def test_several_arguments_and_results() -> None:
    def f(x: Any, y: Any, n: int) -> Any:
        u = bs.fori_loop(0, n, lambda k, u: u[::-1] * y, x)
        return {"u": u, "v": y[:2] * 3.0}

    x, y = RNG.normal(size=5), RNG.normal(size=5)
    for argnums in (0, 1, (0, 1)):
        found = bs.jacobian(f, argnums, sparse=True)(x, y, 3)
        expected = bs.jacobian(f, argnums)(x, y, 3)
        pairs = zip(bs.tree.flatten(found)[0], bs.tree.flatten(expected)[0], strict=True)
        for A, B in pairs:
            np.testing.assert_allclose(A.toarray(), np.reshape(B, A.shape), rtol=1e-12, atol=1e-12)


# ---- what cannot be looked into is full: as many entries as it has inputs and outputs, and those around it


class Through(bs.Function):
    """Its pattern is not that of what it computes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.round(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad[::-1]


class Product(bs.Function):
    """Has a backward alone, of several arguments."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return grad * b, grad * a


@bs.jit
def deeper(y: Any, n: Any) -> Any:
    if n < 0.5:
        return y
    return y * 0.9 * deeper(y * 1.1, n - 1.0)


def beside(f: Any) -> Any:
    """f of the first four entries, beside a diagonal of five."""
    return lambda x: np.concatenate([f(x[:4]), x[4:] ** 2])


def shrinking(x: Any) -> Any:
    """The gradient keeps a tape that grows."""
    u = bs.while_loop(lambda s: np.sum(s * s) > 0.5, lambda s: 0.4 * np.sin(s), x[:4])
    return (u**2).sum() + (x[4:] ** 3).sum()


CALLS: dict[str, tuple[Any, int]] = {
    "by hand": (beside(Through.apply), 21),
    "by hand, twice": (lambda x: Product.apply(x[1:] ** 2, x[:-1]), 8 * 9),
    "by hand in a loop": (
        beside(lambda x: bs.fori_loop(0, 2, lambda k, u: Through.apply(u) * 2.0, x)),
        21,
    ),
    "implicit": (beside(lambda x: bs.root(lambda y, p: y**3 + y - p, x, x)), 21),
    "recursion": (lambda x: np.append(deeper(x[0], x[1]) * x[2:4], x[4:] ** 2), 11),
    "checkpointed": (beside(bs.checkpoint(lambda x: np.sin(x) * x[::-1])), 13),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("method", [None, "colour"])
def test_calls_without_blocks(name: str, method: str | None) -> None:
    f, count = CALLS[name]
    x = np.random.default_rng(1).uniform(0.5, 1, 9)
    plan = compare(f, x, count, method=method)
    assert plan.method == "colour"
    assert plan.colours.count <= 9


def test_second_derivatives_through_calls_without_blocks() -> None:
    x = np.random.default_rng(1).uniform(0.5, 1, 9)
    energies = [lambda x: (CALLS["implicit"][0](x) ** 2).sum(), shrinking]
    for f in energies:
        assert compare(f, x, 21, hessian=True).method == "colour"


def test_a_pattern_that_grows_for_too_long_is_full(monkeypatch: Any) -> None:
    monkeypatch.setattr(patterns, "MOST_JOINS", 4)
    monkeypatch.setattr(patterns, "MOST_STEPS", 0)
    f = beside(lambda x: x)
    turned = lambda x: bs.fori_loop(0, 12, lambda k, u: u + 0.1 * np.roll(u, 1), x[:9])
    g = lambda x: np.concatenate([turned(x), f(x[9:])])
    compare(g, RNG.normal(size=18), 9 * 9 + 9)


def test_a_compiled_call_at_a_point_is_looked_into() -> None:
    inner = bs.jit(lambda v: v[1:] * v[:-1])

    def f(x: Any) -> Any:
        if x[0].value > 0:
            return np.concatenate([inner(x), x[:2] ** 2])
        return x

    x = RNG.uniform(0.5, 1, 9)
    plan = bs.sparsity(f, x)
    assert plan.is_local
    assert plan.nnz == 16 + 2
    for at, nnz in [(x, 18), (-x, 9), (x + 1, 18)]:
        found = bs.jacobian(f, sparse=plan)(at)
        assert found.nnz == nnz
        np.testing.assert_allclose(found.toarray(), bs.jacobian(f)(at), rtol=1e-12)


def test_too_many_entries_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(patterns, "MOST_ENTRIES", 20)
    f = beside(Through.apply)
    with pytest.raises(bs.errors.UnsupportedError, match="more than 20 entries"):
        bs.sparsity(f, np.ones(9))


@pytest.mark.parametrize("sparse", [True, "plan"])
def test_errors_name_what_was_called(sparse: Any) -> None:
    f = lambda x: x * x
    with pytest.raises(bs.errors.NotDifferentiableError, match="`sparsity` needs"):
        bs.sparsity(f, np.arange(3))
    plan = True if sparse is True else bs.sparsity(f, np.ones(3))
    with pytest.raises(bs.errors.NotDifferentiableError, match="`jacobian` needs"):
        bs.jacobian(f, sparse=plan)(np.arange(3))
    with pytest.raises(
        bs.errors.NotDifferentiableError, match="`hessian` was asked for argument 3"
    ):
        bs.hessian(lambda x: x.sum(), 3, sparse=True)(np.ones(3))


def settled(x: Any) -> Any:
    k = 0
    while np.sum(x * x) > 0.5 and k < 20:
        x = 0.8 * x + 0.01 * np.roll(x, 1) * x
        k = k + 1
    return x


def test_a_searched_pattern_is_compared_inside_compiled_code() -> None:
    x = RNG.normal(size=5)
    J = bs.jacobian(settled, sparse=bs.sparsity(settled, x))
    squares = lambda x: np.sum(J(x).data ** 2)
    assert bs.jit(squares)(x + 1) == pytest.approx(squares(x + 1), rel=1e-12)
    np.testing.assert_allclose(bs.jit(bs.grad(squares))(x), bs.grad(squares)(x), rtol=1e-10)
    crossed = lambda x: x * x[::-1]
    plan = bs.sparsity(crossed, np.zeros(5), pattern=np.eye(5))
    compiled = bs.jit(lambda x: bs.jacobian(crossed, sparse=plan)(x).data)
    np.testing.assert_array_equal(compiled(np.array([0.0, 0.0, 2.0, 0.0, 0.0])), [0, 0, 4, 0, 0])
    with pytest.raises(TypeError, match="leaves out an entry"):
        compiled(x)


def test_a_loop_that_is_not_holomorphic_is_refused_inside_compiled_code() -> None:
    turned = lambda u: u * np.conj(u) if u.dtype.kind == "c" else u
    f = lambda x: bs.scan(lambda c, u: (c * u, c + u * u), 1.0 + 0j, x)[1]
    g = lambda x: bs.scan(lambda c, u: (c, turned(u)), 1.0 + 0j, x)[1]
    x = RNG.normal(size=4) + 1j
    J = bs.jacobian(f, sparse=bs.sparsity(f, x))
    np.testing.assert_allclose(bs.jit(lambda x: J(x).data)(2 * x), J(2 * x).data, rtol=1e-12)
    with pytest.raises(ValueError, match="holomorphic"):
        bs.jit(lambda x: bs.jacobian(g, sparse=True)(x).data)(x)
