"""Second derivatives ahead, against dense Hessians; what they compute and what they never make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import (
    NotDifferentiableError,
    NotScalarError,
    StructureError,
    UnsupportedError,
)
from backsolve.hooks import Watcher, hooks
from backsolve.operators import contraction
from backsolve.primitive import P
from backsolve.testing.fuzz_control_source import differences, written

from .test_jet import rounds, until

RNG = np.random.default_rng(0)
W = RNG.normal(size=(5, 4)) * 0.3
V = RNG.normal(size=(3, 5))

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "network": lambda x: np.tanh(W @ x).sum(),
    "quotient": lambda x: np.log(1 + x @ x) / np.sqrt(2 + np.sin(x).sum()),
    "inverse": lambda x: np.linalg.inv(np.outer(x, x) + np.eye(4)).sum(),
    "product": lambda x: np.exp(-x * x).prod(),
    "branches": lambda x: np.where(x > 0, x**3, np.cos(x)).sum() * np.sort(x)[1],
    "power": lambda x: ((2 + np.sin(x)) ** 2.5).sum() + (1.5 ** x[0]) * np.arctan2(x[1], x[2]),
    "reductions": lambda x: x.max() ** 2 * np.abs(x).sum() + np.cumprod(2 + x)[-1] + np.var(x),
    "shapes": lambda x: np.concatenate([x[::-1] ** 2, x[1:2] * 3]).reshape(5, 1).T @ np.ones(5),
    "several": lambda x: V @ np.tanh(W @ x * x[0]),
    "quadratic": lambda x: x @ (W[:4] @ x) * x[1],
    "neighbours": lambda x: np.sum(x[1:] ** 2 * np.sin(x[:-1])),
    "spread": lambda x: np.sum(np.exp(x[:, None] * x[None, :]) * x),
    "complex": lambda x: np.abs(np.fft.fft(x * x)).sum(),
    "softmax": lambda x: bs.nn.functional.softmax(W @ x),
    "constant": lambda x: np.ones(2),
    "linear": lambda x: W @ x,
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_against_dense_hessians(name: str, compiled: bool) -> None:
    f, x = FUNCTIONS[name], RNG.normal(size=4)
    dense = np.asarray(bs.jacobian(bs.jacobian(f))(x))
    diagonal = np.einsum("...ii->...i", dense)
    wrap = bs.jit if compiled else lambda g: g
    close = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(wrap(bs.laplacian(f))(x), diagonal.sum(-1), **close)
    np.testing.assert_allclose(wrap(bs.hessian_diagonal(f))(x), diagonal, **close)


class Widest(Watcher):
    """The size of the largest array that a primitive gave."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def on_call(self, prim: Any, row: Any, y: Any, inputs: Sequence[Any]) -> None:
        self.size = max(self.size, int(np.size(y)))


def watched(f: Callable[..., Any], *args: Any) -> tuple[Any, Widest]:
    seen = Widest()
    hooks.add(seen)
    try:
        return f(*args), seen
    finally:
        hooks.remove(seen)


SEPARABLE: dict[str, Callable[[Any], Any]] = {
    "sines": lambda x: np.sum(np.sin(x) ** 2),
    "product": lambda x: x @ x,
    "chain": lambda x: np.sum((x[1:] - 1.0) ** 3) + np.sum(np.exp(x.reshape(2, -1))),
}


@pytest.mark.parametrize("name", sorted(SEPARABLE))
def test_no_matrix_is_made_where_entries_do_not_mix(name: str) -> None:
    f, x = SEPARABLE[name], RNG.normal(size=500)
    for door in (bs.laplacian(f), bs.hessian_diagonal(f)):
        found, seen = watched(door, x)
        assert seen.size <= x.size  # a Hessian, or the Jacobian of a gradient, has 500 × 500
        expected = np.diagonal(bs.hessian(f)(x[:8]))
        small = np.asarray(door(x[:8]))
        np.testing.assert_allclose(small.sum(), expected.sum(), rtol=1e-12)
        assert np.all(np.isfinite(found))


def test_a_network_is_passed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """n + 2 products per layer and not the 4 n of nested modes; no row is visited per direction."""
    n, h = 12, 7
    a, b, c = RNG.normal(size=(h, n)), RNG.normal(size=(h, h)), RNG.normal(size=h)
    f = lambda x: c @ np.tanh(b @ np.tanh(a @ x))
    x = RNG.normal(size=n)
    products = 0
    run = contraction.run_nest

    def counted(*operands: Any, subscripts: str, sizes: Any = ()) -> Any:
        nonlocal products
        inputs = subscripts.split("->")[0].split(",")
        lengths = {
            k: m
            for labels, o in zip(inputs, operands, strict=True)
            for k, m in zip(labels, np.shape(o), strict=True)
        }
        products += int(np.prod(list(lengths.values())))
        return run(*operands, subscripts=subscripts, sizes=sizes)

    monkeypatch.setattr(contraction, "run_nest", counted)
    monkeypatch.setattr(P.contract, "run", counted)
    found = bs.laplacian(f)(x)
    spent = products
    np.testing.assert_allclose(found, np.trace(bs.hessian(f)(x)), rtol=1e-10)
    one_pass = h * n + h * h + h
    # the values twice (as written, and as rows), the partials n times, the second derivatives once
    assert spent <= (n + 3) * one_pass
    products = 0
    bs.hessian(f)(x)
    assert spent < 0.7 * products


def test_derivatives_batches_and_compilation() -> None:
    f = FUNCTIONS["network"]
    xs = RNG.normal(size=(6, 4))
    trace = lambda x: np.trace(bs.hessian(f)(x))
    expected = np.array([trace(x) for x in xs])
    np.testing.assert_allclose(bs.vmap(bs.laplacian(f))(xs), expected, rtol=1e-10)
    np.testing.assert_allclose(bs.jit(bs.vmap(bs.laplacian(f)))(xs), expected, rtol=1e-10)
    np.testing.assert_allclose(
        bs.grad(bs.laplacian(f))(xs[0]), bs.grad(trace)(xs[0]), rtol=1e-8, atol=1e-12
    )
    np.testing.assert_allclose(
        bs.jit(bs.grad(bs.laplacian(f)))(xs[0]), bs.grad(trace)(xs[0]), rtol=1e-8, atol=1e-12
    )
    weights = lambda w: bs.laplacian(lambda x: np.tanh(w @ x).sum())(xs[0])
    dense = lambda w: np.trace(bs.hessian(lambda x: np.tanh(w @ x).sum())(xs[0]))
    np.testing.assert_allclose(bs.grad(weights)(W), bs.grad(dense)(W), rtol=1e-8, atol=1e-12)


def test_arguments_and_containers() -> None:
    def f(p: Any, scale: Any, power: float = 2.0) -> Any:
        return scale * np.sum(p["a"] ** power) * p["b"]

    p = {"a": np.array([1.0, 2.0]), "b": 3.0}
    found = bs.hessian_diagonal(f)(p, 2.0, power=3.0)
    np.testing.assert_allclose(found["a"], 2 * 6 * p["a"] * 3)
    assert found["b"] == 0.0
    np.testing.assert_allclose(bs.laplacian(f)(p, 2.0, power=3.0), np.sum(found["a"]))
    both = bs.hessian_diagonal(f, argnums=(0, 1))(p, 2.0)
    assert both[1] == 0.0
    np.testing.assert_allclose(both[0]["a"], [12.0, 12.0])
    value, gradient, second = bs.laplacian(lambda x: np.sum(np.sin(x)), with_gradient=True)(
        np.array([0.5, 1.0])
    )
    np.testing.assert_allclose(value, np.sin([0.5, 1.0]).sum())
    np.testing.assert_allclose(gradient, np.cos([0.5, 1.0]))
    np.testing.assert_allclose(second, -np.sin([0.5, 1.0]).sum())
    single = bs.laplacian(lambda x: np.sum(x**2))(np.ones(3, np.float32))
    assert single == 6
    assert single.dtype == np.float32


def test_traces() -> None:
    f = FUNCTIONS["network"]
    x = RNG.normal(size=4)
    exact = np.trace(bs.hessian(f)(x))
    np.testing.assert_allclose(bs.hessian_trace(f)(x), exact, rtol=1e-10)
    state = bs.random.key(3)
    estimate = bs.hessian_trace(f, samples=4000, state=state)
    np.testing.assert_allclose(estimate(x), exact, atol=0.1)
    np.testing.assert_array_equal(estimate(x), estimate(x))
    np.testing.assert_allclose(bs.jit(estimate)(x), estimate(x), rtol=1e-10)
    # signs see a diagonal exactly, whatever they are
    np.testing.assert_allclose(
        bs.hessian_trace(lambda x: np.sum(x**3), samples=1, state=state)(x), 6 * x.sum(), rtol=1e-12
    )


def test_bad_input() -> None:
    x = np.ones(3)
    with pytest.raises(UnsupportedError, match="real arguments"):
        bs.laplacian(lambda x: np.abs(x).sum())(x + 1j)
    with pytest.raises(NotDifferentiableError, match="argument 2"):
        bs.laplacian(np.sum, argnums=2)(x)
    with pytest.raises(NotScalarError, match="laplacian"):
        bs.hessian_trace(np.sin)(x)
    with pytest.raises(StructureError, match=r"bs\.random\.key"):
        bs.hessian_trace(np.sum, samples=3)(x)
    with pytest.raises(StructureError, match="leave out"):
        bs.hessian_trace(np.sum, state=bs.random.key(0))
    with pytest.raises(ValueError, match="at least 1"):
        bs.hessian_trace(np.sum, samples=0, state=bs.random.key(0))


def scanned(x: Any) -> Any:
    last, made = bs.scan(lambda c, e: (c * e + np.sin(c), c * c), x[0], x)
    return last + made.sum()


def layers(x: Any) -> Any:
    s = x
    for i in range(3):
        s = np.tanh(W[:4] @ s + i * x)
    return s.sum() * x[0]


def over_one(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: bs.vmap(f)(np.stack([x, x]))[1]


@pytest.mark.parametrize("f", [rounds, until, scanned, layers])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("way", [lambda f: f, bs.jit, over_one], ids=["eager", "jit", "vmap"])
def test_loops_branches_and_compiled_calls_are_looked_into(f: Any, sign: int, way: Any) -> None:
    x = sign * np.array([0.3, 0.5, -0.2, 0.7])
    dense, compiled = bs.hessian(f)(x), bs.jit(f)
    for g in (f, lambda x: 1.0 * compiled(x)):
        close = {"rtol": 1e-8, "atol": 1e-10}
        np.testing.assert_allclose(way(bs.laplacian(g))(x), np.trace(dense), **close)
        np.testing.assert_allclose(way(bs.hessian_diagonal(g))(x), np.diagonal(dense), **close)
    slope = bs.grad(lambda x: np.trace(bs.hessian(f)(x)))(x)
    np.testing.assert_allclose(bs.grad(bs.laplacian(compiled))(x), slope, rtol=1e-7, atol=1e-9)


def test_the_structure_of_a_compiled_call_is_kept() -> None:
    compiled = bs.jit(lambda x: np.sum(np.sin(x) ** 2))
    x = RNG.normal(size=500)
    found, seen = watched(bs.laplacian(lambda x: 2 * compiled(x)), x)
    np.testing.assert_allclose(found, np.sum(4 * np.cos(2 * x)), rtol=1e-10)
    assert seen.size <= 500  # along every direction would be 500 × 500


def test_a_staged_loop_stays_a_loop() -> None:
    """Its rounds are not written out: the Program does not grow with their number."""
    sizes = []
    for count in (3, 300):
        f = lambda x, n=count: bs.fori_loop(0, n, lambda i, s: np.sin(s) * x, x).sum()
        program = bs.jit(bs.laplacian(f)).lower(np.ones(3)).stages["program"]
        sizes.append(len(program.splitlines()))
    assert sizes[0] == sizes[1]


class Bent(bs.Function):
    """A rule that is not the derivative of its values: it is what counts."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0] ** 3


def test_hand_written_derivatives_count() -> None:
    x = np.array([0.3, 0.5])
    f = lambda x: np.sum(Bent.apply(x) * x[0])
    dense = bs.hessian(f)(x)
    np.testing.assert_allclose(bs.jit(bs.laplacian(f))(x), np.trace(dense), rtol=1e-10)
    np.testing.assert_allclose(over_one(bs.hessian_diagonal(f))(x), np.diagonal(dense), rtol=1e-10)
    found = bs.laplacian(f)(x)
    assert isinstance(found, np.floating)
    np.testing.assert_allclose(found, np.trace(dense), rtol=1e-10)


def test_implicit_and_checkpointed_calls() -> None:
    x = np.array([0.3, 0.5])
    cubic = lambda y, x: y**3 + y - x * x[0]
    functions: list[Callable[[Any], Any]] = [
        lambda x: np.sum(bs.root(cubic, np.zeros(2), x)) * x[1],
        lambda x: np.sum(bs.root(lambda y: cubic(y, x), np.zeros(2))),
        lambda x: np.sum(bs.checkpoint(lambda y: np.sin(y * x[0]) ** 2)(x)),
        lambda x: np.sum(Bent.apply(Bent.apply(x) * x[0])),
    ]
    for f in functions:
        dense = bs.hessian(f)(x)
        third = bs.grad(lambda x, f=f: np.trace(bs.hessian(f)(x)))(x)
        np.testing.assert_allclose(bs.laplacian(f)(x), np.trace(dense), rtol=1e-8)
        np.testing.assert_allclose(bs.hessian_diagonal(f)(x), np.diagonal(dense), rtol=1e-8)
        np.testing.assert_allclose(bs.grad(bs.laplacian(f))(x), third, rtol=1e-7)


@pytest.mark.parametrize("seed", range(24))
def test_random_structured_programs(seed: int) -> None:
    p = written(seed)
    f = p.function()
    if differences(f, p) is None:
        return  # it does not end, or is not smooth here
    a, b, x, *rest = p.fresh()
    compiled = bs.jit(f, backend="numpy")
    dense = bs.hessian(lambda x: f(a, b, x, *rest))(x)
    close = {"rtol": 1e-6, "atol": 1e-7 * max(1.0, np.abs(dense).max())}
    through = lambda x: 1.0 * compiled(a, b, x, *rest)
    np.testing.assert_allclose(bs.laplacian(through)(x), np.trace(dense), **close)
    staged = bs.jit(bs.hessian_diagonal(lambda x: f(a, b, x, *rest)), backend="numpy")
    np.testing.assert_allclose(staged(x), np.diagonal(dense), **close)
    series = bs.jet(through, (x,), [[np.ones_like(x), np.zeros_like(x)]])[1]
    np.testing.assert_allclose(series[1], np.sum(dense), **close)


@pytest.mark.parametrize("f", [lambda x: np.sum(x**3), lambda x: np.sum(np.sin(x[::-1]) * x)])
def test_of_no_entries(f):
    x = np.zeros(0)
    assert bs.laplacian(f)(x) == 0
    assert bs.hessian_diagonal(f)(x).shape == (0,)
    assert bs.jit(bs.laplacian(f))(x) == 0
