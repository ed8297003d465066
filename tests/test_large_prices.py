"""Prices of large programs: by sizes and structure, in little memory, and the numbers that small ones have."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.costs import costs_of
from backsolve.hooks import hooks
from backsolve.operators.entries.limit import Limits
from backsolve.solve import auto, tariff
from backsolve.solve.eliminate import Graph
from backsolve.solve.strongest import carrying_most
from backsolve.solve.tariff import elimination_prices
from backsolve.system import System

F = nn.functional
RNG = np.random.default_rng(0)


def convolution(batch: int, size: int) -> tuple[Callable[[Any], Any], Any]:
    images = RNG.normal(size=(batch, 2, size, size))
    return lambda W: np.sin(F.conv2d(images, W, padding=1)).sum(), RNG.normal(size=(3, 2, 3, 3))


def conv_net(batch: int) -> System:
    """Convolutions, batch norm, a skip, pooling: training, as ResNet has it, with its parameters alone."""
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * 16 * 16, 10)),
    )
    x, y = RNG.normal(size=(batch, 3, 32, 32)).astype(np.float32), RNG.integers(0, 10, batch)
    loss = lambda p: F.cross_entropy(model.replace(p)(x), y)
    return bs.linearize(loss, merge=False)(model.named_parameters())


def test_pricing_a_convolution_net_takes_little_memory() -> None:
    """Lists of the entries that meet had taken gigabytes."""
    system = conv_net(batch=2)
    values = sum(r.size * r.dtype.itemsize for r in (*system.rows, *system.parameters))
    tracemalloc.start()
    costs = costs_of(system)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert costs.chosen == "reverse"
    assert peak < 4 * values + 100e6
    assert all(p.note for p in costs.prices if p.multiplications is None)
    eliminated = {p.order: p for p in costs.prices if p.way == "eliminate"}
    assert {*eliminated} == {*tariff.CHEAP}
    assert all(p.is_bound and p.bytes is None for p in eliminated.values())
    (plain,) = [p.multiplications for p in costs.prices if p.way == "reverse"]
    bound = eliminated["reverse"].multiplications
    assert plain is not None
    assert bound is not None
    assert plain <= bound <= 1.02 * plain  # one output: from the last row to the first
    assert f"≤ {bound:,}" in str(costs)


@pytest.mark.parametrize(("batch", "size"), [(1, 4), (2, 5), (16, 64)])
def test_multiplications_back_through_a_convolution(batch: int, size: int) -> None:
    """One for each point of the nest, and one for each sine: exactly counted, and as the table has it."""
    f, W = convolution(batch, size)
    by_hand = batch * size**2 * 3 * (2 * 9 + 1)
    (priced,) = [p for p in bs.explain_cost(f, W).prices if p.way == "reverse"]
    assert priced.multiplications == by_hand
    assert bs.linearize(f)(W).cost("reverse", "solves") == by_hand


MATRIX = RNG.normal(size=(5, 5))
SMALL: list[tuple[Callable[[Any], Any], Any]] = [
    convolution(1, 4),
    (lambda x: F.softmax(x, -1) @ MATRIX, RNG.normal(size=(2, 5))),
    (lambda m: np.sin(np.linalg.solve(m + 5 * np.eye(5), np.sin(m[0]))), MATRIX),
    (lambda q: F.scaled_dot_product_attention(q, q, q).sum(0), RNG.normal(size=(1, 3, 4))),
    (lambda x: np.sort(np.tanh(x)) * np.cumsum(x), RNG.normal(size=8)),
]


@pytest.mark.parametrize("k", range(len(SMALL)))
def test_limits_do_not_change_a_price(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = SMALL[k]
    system = bs.linearize(f, merge=False)(x)
    limited = costs_of(system).prices
    monkeypatch.setattr(tariff, "LIMITS", Limits(1 << 60, 1 << 60))
    assert costs_of(system).prices == limited
    eliminated = [p for p in limited if p.way == "eliminate"]
    assert eliminated
    for p in eliminated:
        assert p.multiplications == system.cost(p.plan)


def test_no_matrix_is_formed_for_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that has no other form than its matrix is priced as a full one of its size."""
    f, x = SMALL[2]
    system = bs.linearize(f, merge=False)(x)

    def refuse(a: Any) -> Any:
        raise AssertionError(f"the matrix of {a!r} is formed")

    monkeypatch.setattr(hooks, "images_of_basis", refuse)
    prices = [p for p in costs_of(system).prices if p.way == "eliminate"]
    assert prices
    assert all(p.multiplications is not None for p in prices)


def test_where_the_plain_orders_are_too_large_all_are_bounded_and_none_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, x = SMALL[3]
    system = bs.linearize(f, merge=False)(x)
    exact = {p.plan: p.multiplications or 0 for p in elimination_prices(Graph(system))}
    monkeypatch.setattr(tariff, "LIMITS", Limits(entries=1 << 60, products=0))
    refused = elimination_prices(Graph(system))
    assert [p.order for p in refused] == ["forward", "reverse"]
    assert all("not priced: there would be more than 0 products" in p.note for p in refused)
    costs = costs_of(system)
    bounds = {p.plan: p.multiplications or 0 for p in costs.prices if p.is_bound}
    assert costs.chosen != "eliminate"
    assert bounds
    assert all(bounds[plan] >= n for plan, n in exact.items() if plan in bounds)


def test_paths_that_are_followed_together_carry_what_each_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from backsolve.solve import strongest
    from backsolve.solve.semiring import gains_of

    def f(x: Any) -> Any:
        h = np.tanh(MATRIX @ x)
        return (h * np.sin(x) + MATRIX.T @ h).sum() + (h @ h)

    system = bs.linearize(f)(np.linspace(0.1, 1, 5))
    gains = gains_of(system)
    searched, is_proven = carrying_most(system, 20, gains)
    assert is_proven
    monkeypatch.setattr(strongest, "_STEPS", 0)
    followed, is_proven = carrying_most(system, 20, gains)
    assert not is_proven
    assert len(followed) == system.paths() == len(searched) == 4
    whole = {p.rows: p.gradient for p in searched}
    for p in followed:
        np.testing.assert_allclose(p.gradient, whole[p.rows], rtol=1e-12)
    np.testing.assert_allclose(sum(p.gradient for p in followed), system.backward(), rtol=1e-12)


def test_each_price_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice, and the table of all ways, rest on the same prices."""
    told: list[str] = []

    def counted(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            told.append(args[1] if name == "eliminate" else name)
            return f(*args, **options)

        return call

    monkeypatch.setattr(auto, "_decided", {})
    monkeypatch.setattr(tariff, "_elimination", counted("eliminate", tariff._elimination))
    for name in ("plain_prices", "scan_price", "Graph"):
        monkeypatch.setattr(auto, name, counted(name, getattr(auto, name)))
    W = np.linspace(-1, 1, 512 * 512).reshape(512, 512)
    found = bs.explain_cost(lambda x: np.tanh(W @ np.tanh(W @ x)), np.ones(512))
    assert {"forward", "reverse", "plain_prices", "scan_price", "Graph"} <= {*told}
    assert len(told) == len({*told})
    assert any(p.seconds < np.inf for p in found.prices if p.way == "eliminate")
