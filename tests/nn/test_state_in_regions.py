"""Functions that compiled loops, branches and checkpoints are given move the state of modules as in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors, nn

BATCHES = np.random.default_rng(7).normal(2, 3, size=(4, 8, 3))
X = BATCHES[0]


def batch_norm() -> Any:
    return nn.BatchNorm1d(3, dtype=np.float64)


def dropout() -> Any:
    return nn.Dropout(0.5, key=bs.random.key(1))


def several() -> Any:
    return nn.Sequential(nn.utils.weight_norm(batch_norm(), dim=None), dropout())


class Counts(nn.Module):
    factor: np.ndarray
    calls: int = 0

    def __call__(self, x: Any) -> Any:
        self.calls = self.calls + 1
        return self.factor * x / self.calls


class Keeps(nn.Module):
    factor: np.ndarray

    def __call__(self, x: Any) -> Any:
        self.seen = self.factor * x
        return self.seen


def counts() -> Any:
    return Counts(np.array(1.5))


def in_fori_loop(net: Any) -> Callable[..., Any]:
    return lambda x: bs.fori_loop(0, 12, lambda i, y: net(1.5 * y + x), x)


def in_while_loop(net: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        body = lambda s: (s[0] + 1, net(1.5 * s[1] + x))
        return bs.while_loop(lambda s: s[0] < 12, body, (0, x))[1]

    return f


def in_scan(net: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        xs = x * np.arange(1.0, 11.0)[:, None, None]
        return bs.scan(lambda c, t: (net(c + t), np.sum(c)), x, xs, reverse=True)

    return f


def in_map(net: Any) -> Callable[..., Any]:
    return lambda x: bs.map(net, np.stack([x, 2 * x, 3 * x]))


def in_one_branch(net: Any) -> Callable[..., Any]:
    return lambda x: bs.cond(x[0, 0] > 0, lambda t: net(t), lambda t: -t, x)


def in_two_branches(net: Any) -> Callable[..., Any]:
    return lambda x: bs.cond(x[0, 0] > 0, lambda t: net(t), lambda t: net(net(2 * t)), x)


def in_checkpoint(net: Any) -> Callable[..., Any]:
    return lambda x: bs.checkpoint(lambda t: net(t) ** 2)(x) + bs.checkpoint(net)(2 * x)


def in_checkpoint_of_what_is_known(net: Any) -> Callable[..., Any]:
    return lambda x: x * np.sum(bs.checkpoint(lambda: net(X) ** 2)())


def in_loop_of_what_is_known(net: Any) -> Callable[..., Any]:
    return lambda x: x * bs.fori_loop(0, 12, lambda i, s: s + np.sum(net(X) ** 2), 0.0)


def first_known(net: Any) -> Callable[..., Any]:
    """The first round is tried on what is known."""
    return lambda x: bs.fori_loop(0, 12, lambda i, s: s + np.sum(net(X) * x), 0.0)


def in_pythons_loop(net: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        y = x
        for _ in range(12):
            y = net(1.5 * y + x)
        return y

    return f


def in_all(net: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        y = x
        for _ in range(10):
            y = bs.fori_loop(0, 10, lambda i, t: net(1.1 * t + x), y)
            if y[0, 0] > 0:
                y = bs.checkpoint(lambda t: net(t) * 2)(y)
            else:
                y = bs.map(lambda t: net(t + x), np.stack([y, y + 1]))[0]

        def outer(c: Any, t: Any) -> Any:
            for _ in range(10):
                t = bs.cond(t[0, 0] > c, net, lambda s: net(-s), t + x)
            return c + 0.1, t

        return bs.scan(outer, 0.0, np.stack([y, x]))[1]

    return f


WAYS = [in_fori_loop, in_while_loop, in_scan, in_map, in_one_branch, in_two_branches, in_checkpoint]
WAYS += [in_checkpoint_of_what_is_known, in_loop_of_what_is_known, first_known, in_pythons_loop]
named = {"ids": lambda f: f.__name__}


def assert_same_state(net: Any, plain: Any) -> None:
    for name, figure in plain.state_dict().items():
        found = net.state_dict()[name]
        assert not isinstance(found, bs.Tensor), name
        np.testing.assert_allclose(found, np.asarray(figure), rtol=1e-9, err_msg=name)
    assert getattr(net, "calls", 0) == getattr(plain, "calls", 0)


def assert_as_in_python(compiled: Any, eager: Any, net: Any, plain: Any) -> None:
    for x in BATCHES[:3]:
        found, expected = (bs.tree.flatten(f(x))[0] for f in (compiled, eager))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
        assert_same_state(net, plain)
    assert [s["native"] for s in compiled.stats()["specialisations"]] == [True]


def total(f: Any) -> Any:
    return lambda x: sum(np.sum(y**3) for y in bs.tree.flatten(f(x))[0])


@pytest.mark.parametrize("make", [batch_norm, dropout, several], **named)
@pytest.mark.parametrize("way", WAYS, **named)
def test_values_and_state(make: Any, way: Any) -> None:
    net, plain = make(), make()
    assert_as_in_python(bs.jit(way(net)), way(plain), net, plain)


@pytest.mark.parametrize("way", [*WAYS, in_all], **named)
def test_derivatives(way: Any) -> None:
    net, plain = batch_norm(), batch_norm()
    compiled, eager = bs.jit(bs.grad(total(way(net)))), bs.grad(total(way(plain)))
    assert_as_in_python(compiled, eager, net, plain)


@pytest.mark.parametrize("way", [in_scan, in_checkpoint], **named)
def test_second_derivatives(way: Any) -> None:
    def twice(net: Any) -> Any:
        once = bs.grad(total(way(net)))
        return bs.grad(lambda x: np.sum(once(x) ** 2))

    net, plain = batch_norm(), batch_norm()
    assert_as_in_python(bs.jit(twice(net)), twice(plain), net, plain)


@pytest.mark.parametrize("way", [in_fori_loop, in_scan, in_checkpoint, in_two_branches], **named)
def test_numbers_of_pythons_are_state_too(way: Any) -> None:
    net, plain = counts(), counts()
    assert_as_in_python(bs.jit(way(net)), way(plain), net, plain)


def test_a_module_that_is_an_argument_or_carried() -> None:
    def closed_over(net: Any, x: Any) -> Any:
        return bs.fori_loop(0, 12, lambda i, y: net(1.5 * y + x), x), net

    def carried(net: Any, x: Any) -> Any:
        def body(m: Any, t: Any) -> Any:
            y = m(t)
            return m, y

        return bs.scan(body, net, np.stack([x, 2 * x]))

    for f in (closed_over, carried):
        net, compiled = batch_norm(), bs.jit(f)
        for found, expected in zip(compiled(net, X), f(batch_norm(), X), strict=True):
            for a, b in zip(*(bs.tree.flatten(y)[0] for y in (found, expected)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        assert_same_state(net, batch_norm())
        assert compiled.stats()["specialisations"][0]["native"]


def test_a_condition_reads_state_but_does_not_change_it() -> None:
    def reads(net: Any) -> Any:
        return lambda x: bs.while_loop(
            lambda y: np.sum(net.running_mean) < 5, lambda y: net(y) + 2, x
        )

    net, plain = batch_norm(), batch_norm()
    assert_as_in_python(bs.jit(reads(net)), reads(plain), net, plain)
    net = batch_norm()
    changes = bs.jit(lambda x: bs.while_loop(lambda y: np.sum(net(y)) < 9, lambda y: y + 1, x))
    with pytest.raises(errors.ControlFlowError, match=r"condition.*running_mean.*in its body"):
        changes(X)
    assert_same_state(net, batch_norm())


def test_an_attribute_that_a_round_makes_is_refused_by_name() -> None:
    net = Keeps(np.array(2.0))
    compiled = bs.jit(lambda x: bs.fori_loop(0, 12, lambda i, y: net(y), x))
    with pytest.raises(errors.ControlFlowError, match=r"makes Keeps\.seen.*first value"):
        compiled(X)
    assert not hasattr(net, "seen")
    net.seen = np.zeros_like(X)
    np.testing.assert_allclose(compiled(X), 2.0**12 * X)
    np.testing.assert_allclose(net.seen, 2.0**12 * X)


def test_a_checkpoint_keeps_an_attribute_that_it_makes() -> None:
    net = Keeps(np.array(2.0))
    compiled = bs.jit(lambda x: bs.checkpoint(net)(x))
    for x in BATCHES[:2]:
        np.testing.assert_allclose(compiled(x), 2 * x)
        np.testing.assert_allclose(net.seen, 2 * x)


def test_state_of_another_type_after_a_round_is_named() -> None:
    net = Keeps(np.array(2.0))
    net.seen = np.zeros(3)
    with pytest.raises(errors.CarriedTypeError, match=r"`Keeps\.seen` is float64\[3\]"):
        bs.jit(lambda x: bs.fori_loop(0, 12, lambda i, y: net(y), x))(X)


def test_a_budget_refuses_state_in_compiled_loops() -> None:
    net = batch_norm()
    f = bs.checkpoint(in_fori_loop(net), memory="1MB")
    with pytest.raises(errors.TracedValueError, match="without a budget"):
        bs.jit(bs.grad(lambda x: np.sum(f(x))))(X)
    assert_same_state(net, batch_norm())
