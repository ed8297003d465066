"""Figures that layers keep of what they have seen are constants, wherever the layer is called from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.row import ancestors

BATCHES = np.random.default_rng(7).normal(2, 3, size=(5, 8, 3))


def batch_norm(momentum: float | None = 0.1) -> Any:
    return nn.BatchNorm1d(3, momentum=momentum, dtype=np.float64)


def spectral() -> Any:
    layer = nn.Linear(3, 4, key=bs.random.key(1), dtype=np.float64)
    return nn.utils.spectral_norm(layer, key=bs.random.key(2))


def rows_behind(x: Any) -> int:
    """How many rows a figure keeps alive, to be differentiated or to be computed again."""
    held = [getattr(x, name, None) for name in ("row", "origin")]
    return len(ancestors([row for row in held if row is not None])[0])


def assert_constants(net: Any) -> None:
    for name, figure in net.named_buffers().items():
        assert rows_behind(figure) == 0, name
        assert np.isfinite(np.asarray(figure)).all()


def eagerly() -> Callable[[Any, Any], Any]:
    def step(net: Any, x: Any) -> Any:
        bs.grad(lambda x: np.sum(net(x) ** 3))(x)
        return net

    return step


def gradient_of_compiled() -> Callable[[Any, Any], Any]:
    @bs.jit
    def value(net: Any, x: Any) -> Any:
        staged.append(net)
        return np.sum(net(x) ** 3), net

    staged: list[Any] = []
    net_now: list[Any] = []

    def loss(x: Any) -> Any:
        y, net_now[0] = value(net_now[0], x)
        return y

    def step(net: Any, x: Any) -> Any:
        net_now[:] = [net]
        bs.grad(loss)(x)
        assert len(staged) == 1  # as compiled code ever after
        return net_now[0]

    return step


def compiled_gradient() -> Callable[[Any, Any], Any]:
    @bs.jit
    def step(net: Any, x: Any) -> Any:
        gradient = bs.grad(lambda x: np.sum(net(x) ** 3))(x)
        return gradient, net

    return lambda net, x: step(net, x)[1]


WAYS = [eagerly, gradient_of_compiled, compiled_gradient]


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("way", WAYS)
def test_batch_norm_has_pytorchs_figures_where_it_is_closed_over(way: Any, momentum: Any) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.BatchNorm1d(3, momentum=momentum, dtype=torch.float64)
    net, step = batch_norm(momentum), way()
    for x in BATCHES:
        net = step(net, x)
        theirs(torch.tensor(x))
        assert_constants(net)
    for name, figure in theirs.named_buffers():
        np.testing.assert_allclose(net.named_buffers()[name], figure.numpy(), rtol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_spectral_norm_closed_over(way: Any) -> None:
    net, step, plain = spectral(), way(), spectral()
    for x in BATCHES:
        net = step(net, x)
        plain(x)
        assert_constants(net)
    for name, figure in plain.named_buffers().items():
        np.testing.assert_allclose(net.named_buffers()[name], figure, rtol=1e-9)


@pytest.mark.parametrize("make", [batch_norm, spectral])
def test_leaves_of_the_users_own_do_not_pile_up_behind_them(make: Any) -> None:
    net = make()
    for x in BATCHES:
        leaf = bs.tensor(x, requires_grad=True)
        scaled = net.replace(
            {k: bs.tensor(v, requires_grad=True) for k, v in net.named_parameters().items()}
        )
        np.sum(scaled(leaf) ** 3).backward()
        assert np.any(np.asarray(leaf.grad))
        net = scaled.replace(net.named_parameters())
        assert_constants(net)


@pytest.mark.parametrize(
    "derive", [bs.grad, lambda f: bs.grad(bs.jit(f)), lambda f: bs.jit(bs.grad(f))]
)
def test_no_derivative_goes_through_them(derive: Any) -> None:
    def mean_afterwards(x: Any) -> Any:
        net = batch_norm()
        y = net(x)
        return np.sum(np.cos(x)) + 0 * np.sum(y) + np.sum(net.running_mean * net.running_var)

    np.testing.assert_allclose(derive(mean_afterwards)(BATCHES[0]), -np.sin(BATCHES[0]), atol=1e-12)


def test_a_net_that_was_trained_eagerly_is_compiled() -> None:
    net = batch_norm()
    bs.grad(lambda x: np.sum(net(x) ** 3))(BATCHES[0])
    net.eval()
    compiled = bs.jit(lambda x: net(x))
    np.testing.assert_allclose(compiled(BATCHES[1]), net(BATCHES[1]))
    assert compiled.stats()["specialisations"][0]["native"]
