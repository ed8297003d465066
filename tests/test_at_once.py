"""Stacks of seeds, solved without a Program: what runs, what it holds, and what falls back to one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.at_once import run_at_once
from backsolve.hooks import Watcher, hooks
from backsolve.solve import many

RNG = np.random.default_rng(0)
W = RNG.normal(size=(5, 5))
X = np.linspace(0.2, 1.1, 5)
WAYS = ("forward", "reverse")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "entry by entry": lambda x: np.sin(x) * np.exp(-x) + x**2,
    "products": lambda x: W @ np.tanh(W.T @ x) + np.outer(x, x).sum(0),
    "places": lambda x: np.concatenate([x[::2], np.sort(x), np.cumsum(x)[[0, 3, 3]]]),
    "several results": lambda x: (np.linalg.inv(W + np.diag(x)), x.sum(), x[:0]),
    "numbers": lambda x: np.stack([x[0] * x[1], np.float64(2.0) * x[2], x.max()]),
    "transforms": lambda x: np.abs(np.fft.rfft(x)) ** 2,
}


def columns(f: Callable[[Any], Any], x: Any) -> Any:
    """By one derivative along each axis."""
    each = [bs.jvp(f, (x,), (e,))[1] for e in np.eye(x.size)]
    if isinstance(each[0], tuple):
        return tuple(np.stack(c, axis=-1) for c in zip(*each, strict=True))
    return np.stack(each, axis=-1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_jacobian_of_numbers_writes_no_program(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("staged")

    f = FUNCTIONS[name]
    expected = columns(f, X)
    monkeypatch.setattr(many, "stage", refuse)
    found = bs.jacobian(f, method=way)(X)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
        assert got.shape == want.shape


class Calls(Watcher):
    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[str, tuple[int, ...]]] = []

    def on_call(self, prim: Any, row: Any, y: Any, inputs: Any) -> None:
        self.shapes.append((prim.name, np.shape(y)))


def test_each_block_is_applied_to_the_whole_stack_once() -> None:
    calls = Calls()
    J = bs.jacobian(lambda x: np.sin(np.exp(x)), method="reverse")
    J(X)
    hooks.add(calls)
    try:
        J(X)
    finally:
        hooks.remove(calls)
    assert [s for n, s in calls.shapes if n == "multiply"] == [(5, 5), (5, 5)]


def test_back_substitution_holds_no_stack_longer_than_it_is_read() -> None:
    def f(x: Any) -> Any:
        for _ in range(60):
            x = np.sin(x) + 0.5
        return x

    x = np.linspace(0, 1, 300)
    J = bs.jacobian(f, method="reverse")
    J(x)
    tracemalloc.start()
    J(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * x.size * x.nbytes  # of 120 that are made


@pytest.mark.parametrize("way", WAYS)
def test_loops_inside_of_a_block_run_from_a_program(way: str) -> None:
    class Cubed(bs.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            state = bs.while_loop(lambda s: s[1] < 3, lambda s: (s[0] + g, s[1] + 1), (0 * g, 0))
            return state[0] * x**2

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            (x,) = ctx.saved_tensors
            return (
                bs.while_loop(lambda s: s[1] < 3, lambda s: (s[0] + t, s[1] + 1), (0 * t, 0))[0]
                * x**2
            )

    found = bs.jacobian(lambda x: Cubed.apply(np.sin(x)), method=way)(X)
    np.testing.assert_allclose(found, np.diag(3 * np.sin(X) ** 2 * np.cos(X)), rtol=1e-12)


def test_what_needs_a_program_is_said() -> None:
    stack = np.ones((3, 2))
    double = lambda x: [2 * x, x.sum() + 1, np.arange(2.0)]
    twice, sums, same = run_at_once(double, [stack], 3) or []
    np.testing.assert_array_equal(twice, 2 * stack)
    np.testing.assert_array_equal(sums, [3.0, 3.0, 3.0])
    np.testing.assert_array_equal(same, [[0.0, 1.0]] * 3)
    loop = lambda x: [bs.while_loop(lambda s: s.sum() < 9, lambda s: s * 2, x)]
    assert run_at_once(loop, [stack], 3) is None
    varies = bs.tensor(2.0, requires_grad=True)
    assert run_at_once(lambda x: [varies * x], [stack], 3) is None


def test_an_infinite_block_that_meets_a_zero_is_solved_with_masks() -> None:
    """√x at 0 is infinitely steep where nobody reads it."""
    f = lambda x: np.sqrt(x)[::2] * 2
    found = bs.jacobian(f, method="reverse")(np.array([4.0, 0.0, 9.0]))
    np.testing.assert_allclose(found, [[0.5, 0, 0], [0, 0, 1 / 3]], rtol=1e-12)


def test_a_hand_written_rule_may_read_what_varies_outside() -> None:
    w = bs.tensor(2.0, requires_grad=True)

    class Scaled(bs.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (w,) = ctx.saved_tensors
            return g * w, None

    found = bs.jacobian(lambda x: Scaled.apply(x, w) * w, method="reverse")(X)
    np.testing.assert_allclose(np.asarray(getattr(found, "value", found)), 4 * np.eye(5))
    total = found.sum()
    total.backward()
    assert w.grad is not None


def rule(backward: Callable[[Any, Any], Any], jvp: Callable[[Any, Any], Any] | None = None) -> Any:
    """The sine of x with this rule, of a gradient (or a tangent) and x."""

    class Sine(bs.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return np.sin(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return backward(g, ctx.saved_tensors[0])

    if jvp is not None:
        Sine.jvp = staticmethod(lambda ctx, t: jvp(t, ctx.saved_tensors[0]))  # type: ignore[attr-defined]
    return Sine.apply


SIZES = (2, 3, 5)  # one by one, and at once


@pytest.mark.parametrize("n", SIZES)
def test_rules_may_catch_everything(n: int) -> None:
    """A loop that needs a Program is no error of the user's, though he catches all there are."""

    def backward(g: Any, x: Any) -> Any:
        try:
            return bs.cond(np.sum(g) > -1e9, lambda q: q * np.cos(x), lambda q: q, g)
        except BaseException:
            return 100.0 * g

    x = np.linspace(0.1, 1.0, n)
    np.testing.assert_allclose(bs.jacobian(rule(backward), method="reverse")(x), np.diag(np.cos(x)))


def test_what_a_rule_keeps_is_refused_afterwards() -> None:
    kept = []

    def backward(g: Any, x: Any) -> Any:
        kept.append(g)
        return g * np.cos(x)

    bs.jacobian(rule(backward), method="reverse")(X)
    for use in (
        lambda g: g * 2,
        lambda g: bs.grad(lambda x: np.sum(x * g))(X),
        lambda g: bs.jit(lambda x: x * g)(X),
        lambda g: bs.cond(np.sum(g) > 0, lambda: 1.0, lambda: 2.0),
    ):
        with pytest.raises(bs.errors.TracedValueError, match="kept from an earlier staging"):
            use(kept[-1])


def in_place(t: Any, x: Any) -> Any:
    t *= np.cos(x)
    return t


def by_entries(t: Any, x: Any) -> Any:
    t[...] = t * np.cos(x)
    return t


def halved(t: Any, x: Any) -> Any:
    t[0] = 0.0
    return t


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("write", [in_place, by_entries])
@pytest.mark.parametrize("with_jvp", [False, True])
def test_rules_may_write_into_what_they_are_given(n: int, write: Any, with_jvp: bool) -> None:
    """Others read it, too: another path, the pullback that forward mode is derived from, a second try."""
    x = np.linspace(0.5, 1.0, n)
    sine = rule(write, write if with_jvp else None)
    for method in ("auto", "forward", "reverse", "eliminate", "colour"):
        for f, slope in ((sine, np.cos(x)), (lambda x: sine(x) + x, 1 + np.cos(x))):
            np.testing.assert_allclose(bs.jacobian(f, method=method)(x), np.diag(slope))
    tangent = np.ones(n)
    _, found = bs.jvp(lambda x: sine(x) + x, (x,), (tangent,))
    np.testing.assert_allclose(found, 1 + np.cos(x))
    np.testing.assert_array_equal(tangent, 1.0)
    np.testing.assert_allclose(bs.grad(lambda x: np.sum(sine(x) * x))(x), np.sin(x) + x * np.cos(x))


@pytest.mark.parametrize("n", SIZES)
def test_a_tangent_that_is_written_into_is_solved_for_again(n: int) -> None:
    """The first try meets NaN; the second begins with the seeds as they were."""
    f = lambda x: np.sqrt(x) + rule(lambda g, x: g, halved)(x)
    with np.errstate(all="ignore"):
        found = bs.jacobian(f, method="forward")(np.linspace(0.0, 1.0, n))
    assert found[0, 0] == np.inf
    assert found[1, 0] == 0.0


@pytest.mark.parametrize("n", SIZES)
def test_a_larger_gradient_is_summed_forward_as_well(n: int) -> None:
    f = rule(lambda g, x: np.stack([g, 2.0 * g]))
    for method in (*WAYS, "auto"):
        np.testing.assert_array_equal(bs.jacobian(f, method=method)(np.ones(n)), 3 * np.eye(n))


@pytest.mark.parametrize("n", SIZES)
def test_a_watch_for_nan_sees_what_derivatives_really_make(n: int) -> None:
    hidden = lambda x: np.where(x > 0, np.sqrt(x), 0.0)
    with bs.debug_nans(), np.errstate(all="ignore"):
        for method in WAYS:
            np.testing.assert_array_equal(bs.jacobian(hidden, method=method)(np.zeros(n)), 0.0)
            found = bs.jacobian(np.sin, method=method)(np.ones(n))
            np.testing.assert_allclose(found, np.cos(1.0) * np.eye(n))
            with pytest.raises(bs.errors.NaNError, match="`sqrt` made a NaN"):
                bs.jacobian(np.sqrt, method=method)(-np.ones(n))
            with pytest.raises(bs.errors.NaNError, match="the derivative of `multiply` made a NaN"):
                bs.jacobian(lambda x: np.sqrt(x) * 0.0, method="forward")(np.zeros(n))
            with pytest.raises(bs.errors.NaNError, match="the derivative of `sqrt` made a NaN"):
                bs.jacobian(lambda x: np.sqrt(x) * 0.0, method="reverse")(np.zeros(n))


@pytest.mark.parametrize("n", [2, 3])  # seeds one by one: on a stack such a rule is refused
def test_rules_that_refuse_nan_see_none_that_zeros_by_structure_made(n):
    """Without masks 0 · ∞ is NaN there: what a rule raises for it is no answer yet."""

    def finite(g):
        if np.isnan(g).any():
            raise ValueError("must not contain NaN")
        return g

    class Doubled(bs.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * finite(g)

        @staticmethod
        def jvp(ctx, t):
            return 2 * finite(t)

    x = np.arange(n) * 2.0
    want = np.diag([np.inf, *(1 / np.sqrt(2 * x[1:]))])
    back = bs.jacobian(lambda x: np.sqrt(Doubled.apply(x)), method="reverse")
    np.testing.assert_allclose(back(x), want)
    ahead = bs.jacobian(lambda x: Doubled.apply(np.sqrt(x)), method="forward")
    np.testing.assert_allclose(ahead(x), np.diag([np.inf, *(1 / np.sqrt(x[1:]))]))
