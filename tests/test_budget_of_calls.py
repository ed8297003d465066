"""What is one call on numbers keeps to a budget around it, too: compiled functions, vmap, plain checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import BudgetError

X = np.linspace(0.1, 1.0, 1000)  # 8 kB a state
MEMORY = 250_000
STEPS = 200
WEIGHTS = np.linspace(0.5, 1.1, STEPS)


def counted(x: Any) -> Any:
    return bs.fori_loop(0, STEPS, lambda i, s: np.sin(s) * 1.01, x)


def until(x: Any) -> Any:
    rounds = lambda s: (np.sin(s[0]) * 1.01, s[1] + 1)
    return bs.while_loop(lambda s: (s[0].sum() > 1e-3) & (s[1] < STEPS), rounds, (x, 0))[0]


def along(x: Any) -> Any:
    end, made = bs.scan(lambda s, w: (np.sin(s) * w, (s * s).sum()), x, WEIGHTS)
    return end + made[::100].sum()


def against(x: Any) -> Any:
    end, made = bs.scan(lambda s, w: (np.sin(s) * w, s.sum()), x, WEIGHTS, reverse=True)
    return end + made[::100].sum()


def branching(x: Any) -> Any:
    turn = lambda s: bs.cond(s[0] > 0.5, lambda t: np.sin(t) * 1.1, np.cos, s)
    return bs.fori_loop(0, STEPS, lambda i, s: turn(s), x)


def chosen(x: Any) -> Any:
    return bs.cond(x[0] > 0.05, counted, np.cos, x)


def halves(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: bs.vmap(f)(x.reshape(2, -1)).reshape(-1)


def squares(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (f(x) ** 2).sum()


CALLS = {
    "vmap": halves,
    "checkpoint": bs.checkpoint,
    "checkpoint of vmap": lambda f: bs.checkpoint(halves(f)),
    "backend numpy": lambda f: bs.jit(f, backend="numpy"),
    "jit": bs.jit,
    "jit of checkpoint": lambda f: bs.jit(bs.checkpoint(f)),
    "jit of a budget": lambda f: bs.jit(bs.checkpoint(f, memory=3 * MEMORY - 10_000)),
}


@pytest.mark.parametrize("loop", [counted, until, along, against])
@pytest.mark.parametrize("call", CALLS)
def test_calls_keep_to_it(call: str, loop: Any, peak_of: Any) -> None:
    keeps_to_it(call, loop, peak_of)


@pytest.mark.parametrize("loop", [branching, chosen])
@pytest.mark.parametrize("call", ["vmap", "jit"])
def test_branches_in_calls(call: str, loop: Any, peak_of: Any) -> None:
    keeps_to_it(call, loop, peak_of)


def keeps_to_it(call: str, loop: Any, peak_of: Any) -> None:
    f = squares(CALLS[call](loop))
    want = bs.grad(f)(X)
    memory = MEMORY if loop is not until else 3 * MEMORY  # jit plans for a million rounds
    c = bs.checkpoint(f, memory=memory)
    found, peak = peak_of(lambda: bs.grad(c)(X))
    np.testing.assert_allclose(found, want, rtol=1e-12)
    assert c.report.peak_bytes <= memory
    assert c.report.recorded_steps >= STEPS <= c.report.forward_steps
    beside = 60 * X.nbytes  # the step at work, adjoints, results
    assert peak < memory + beside < STEPS * X.nbytes


@pytest.mark.parametrize("call", CALLS)
def test_second_derivatives(call: str) -> None:
    f = squares(CALLS[call](counted))
    curve = lambda f: bs.grad(lambda x: (bs.grad(f)(x) ** 2).sum())(X)
    c = bs.checkpoint(f, memory=2 * MEMORY)
    np.testing.assert_allclose(curve(c), curve(f), rtol=1e-10)
    assert c.report.peak_bytes <= 2 * MEMORY


def test_loops_make_room_for_compiled_code() -> None:
    """What an older loop keeps goes while compiled adjoints are computed, and the loop runs once more."""
    jitted = bs.jit(counted)
    f = squares(lambda x: jitted(counted(x)))
    c = bs.checkpoint(f, memory=MEMORY)
    np.testing.assert_allclose(bs.grad(c)(X), bs.grad(f)(X), rtol=1e-12)
    assert [r.name for r in c.report.chains] == ["fori_loop"]
    assert len(c.report.compiled) == 1
    assert c.report.peak_bytes <= MEMORY
    alone = bs.checkpoint(squares(counted), memory=MEMORY)
    bs.grad(alone)(X)
    again = c.report.chains[0].forward_steps - alone.report.forward_steps
    assert 0 < again <= STEPS


def test_what_was_captured_stays() -> None:
    """The derivative in a budget is that of the function as it was compiled."""
    held = [2.0]
    jitted = bs.jit(lambda x: bs.fori_loop(0, 3, lambda i, s: s * held[0], x))
    x = np.ones(3)
    assert jitted(x)[0] == 8
    held[0] = 3.0
    f = lambda x: jitted(bs.fori_loop(0, 2, lambda i, s: s * 5, x)).sum()
    assert f(x) == 600
    for derived in (f, bs.checkpoint(f, memory="1kB")):
        np.testing.assert_array_equal(bs.grad(derived)(x), [200, 200, 200])


def test_budgets_are_told_apart() -> None:
    f = squares(bs.jit(counted))
    want = bs.grad(f)(X)
    forward = []
    for memory in (MEMORY, 10 * MEMORY, MEMORY):
        c = bs.checkpoint(f, memory=memory)
        np.testing.assert_allclose(bs.grad(c)(X), want, rtol=1e-12)
        forward.append(c.report.forward_steps)
    assert forward[0] == forward[2] > forward[1]


@pytest.mark.parametrize("call", ["jit", "vmap", "checkpoint"])
def test_budgets_that_cannot_be_met(call: str) -> None:
    c = bs.checkpoint(squares(CALLS[call](counted)), memory=9_000)
    with pytest.raises(BudgetError, match="the least that can be met is"):
        bs.grad(c)(X)


def test_long_straight_code_in_compiled_functions() -> None:
    f = lambda x: reduce(lambda s, k: np.sin(s) * (1 + s * k / 100), range(12), x)
    jitted = bs.jit(f)
    g = squares(lambda x: jitted(counted(x)))  # the loop keeps it from being cut as a whole
    c = bs.checkpoint(g, memory=100_000)
    np.testing.assert_allclose(bs.grad(c)(X), bs.grad(g)(X), rtol=1e-12)
    (report,) = c.report.compiled
    assert [r.name for r in report.chains] == ["segments"]
    assert report.forward_steps > 0
    assert c.report.peak_bytes <= 100_000


def test_branches_with_loops_share_it_in_compiled_code() -> None:
    """One after the other: what each stores is planned for all of them together."""

    def f(x: Any) -> Any:
        for k in range(6):
            loop = lambda t, k=k: bs.fori_loop(0, STEPS + k, lambda i, s: np.sin(s) * 1.01, t)
            x = bs.cond(x[k] > 0.05, loop, np.cos, x)
        return (x * x).sum()

    c = bs.checkpoint(f, memory=MEMORY)
    np.testing.assert_allclose(bs.jit(bs.grad(c))(X), bs.grad(f)(X), rtol=1e-12)
    assert [r.name for r in c.report.chains] == ["segments", *["loop"] * 6]
    assert c.report.chains[0].forward_steps > 0


def test_straight_code_around_a_branch_is_cut_in_compiled_code() -> None:
    waves = lambda x: reduce(lambda s, k: np.sin(s) * (1 + s * k / 100), range(10), x)
    f = squares(lambda x: waves(bs.cond(x[0] > 0.5, np.cos, np.sin, waves(x))))
    c = bs.checkpoint(f, memory=100_000)
    np.testing.assert_allclose(bs.jit(bs.grad(c))(X), bs.grad(f)(X), rtol=1e-12)
    (chain,) = c.report.chains
    assert (chain.name, chain.peak_bytes <= 100_000) == ("segments", True)
    assert chain.forward_steps > 0


class Halved(bs.Function):
    forward = staticmethod(lambda ctx, x: x / 2)
    backward = staticmethod(lambda ctx, g: g / 2)


@pytest.mark.parametrize("call", ["vmap", "jit"])
def test_rules_by_hand_give_arrays(call: str) -> None:
    f = squares(CALLS[call](lambda x: bs.fori_loop(0, 10, lambda i, s: np.sin(Halved.apply(s)), x)))
    x, v = X[:40], np.ones(40)
    found = bs.hvp(bs.checkpoint(f, memory=20_000))(x, v)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, bs.hvp(f)(x, v), rtol=1e-12)


@pytest.mark.parametrize("method", ["forward", "reverse", "auto"])
@pytest.mark.parametrize("f", [counted, halves(counted)], ids=["plain", "vmap"])
def test_jacobians_of_nothing(f: Any, method: str) -> None:
    c = bs.checkpoint(f, memory=2_000)
    assert bs.jacobian(c, method=method)(np.zeros((4, 0))).shape == (
        *f(np.zeros((4, 0))).shape,
        4,
        0,
    )


def few(x: Any) -> Any:
    return bs.fori_loop(0, 4, lambda i, s: np.sin(s) * 1.01, x)


IMPLICIT = {
    "root": lambda x: bs.root(lambda y, p: y + 0.1 * few(y) - p, np.ones(40), few(x)),
    "fixed point": lambda x: bs.fixed_point(lambda y, p: 0.3 * few(y) + p, np.ones(40), x),
    "linear": lambda x: bs.linear_solve(lambda v: (1 + few(x)) * v + np.sum(v), x),
}


@pytest.mark.parametrize("name", IMPLICIT)
def test_equations_with_loops_are_the_same_when_they_run_again(name: str) -> None:
    f = squares(IMPLICIT[name])
    x, v = X[:40], np.ones(40)
    found = bs.hvp(bs.checkpoint(f, memory=20_000))(x, v)
    np.testing.assert_allclose(found, bs.hvp(f)(x, v), rtol=1e-9, atol=1e-15)


def test_what_cannot_be_staged_runs_on_numbers() -> None:
    def f(x: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            y = s * 1
            y[i + 1 :] = y[i + 1 :] * s[0]
            return y

        return bs.fori_loop(0, 4, body, x).sum()

    x = X[:9]
    np.testing.assert_allclose(bs.grad(bs.checkpoint(f, memory=2_000))(x), bs.grad(f)(x))


def choice(x: Any) -> Any:
    """One of eight loops, of as many lengths: their tapes have no type in common."""
    pick: Any = None
    for k in reversed(range(8)):
        loop = lambda t, k=k: bs.fori_loop(0, STEPS + k, lambda i, s: np.sin(s) * (1 + k / 1e4), t)
        other = pick
        pick = loop if other is None else (
            lambda t, k=k, loop=loop, other=other: bs.cond(t[0] > 1 - (k + 1) / 8, loop, other, t)
        )  # fmt: skip
    return (pick(x) ** 2).sum()


def row(x: Any) -> Any:
    """Eight choices one after the other."""
    for k in range(8):
        loop = lambda t, k=k: bs.fori_loop(0, STEPS + k, lambda i, s: np.sin(s) * 1.01, t)
        x = bs.cond(x[k] > 0.05, loop, np.cos, x)
    return (x * x).sum()


@pytest.mark.parametrize("states", [40, 150, STEPS + 20, 2 * STEPS, 10 * STEPS])
@pytest.mark.parametrize("f", [choice, row])
def test_long_loops_in_branches_of_compiled_code(f: Any, states: int) -> None:
    """More of a budget is never refused, and the tapes of what is not taken are not beside the others."""
    c = bs.checkpoint(f, memory=states * X.nbytes)
    g = bs.jit(bs.grad(c))
    for x in (X, X[::-1].copy()):
        np.testing.assert_allclose(g(x), bs.grad(f)(x), rtol=1e-9, atol=1e-300)
    (made,) = g.stats()["specialisations"]
    assert c.report.peak_bytes <= states * X.nbytes
    assert made["arena_bytes"] <= (states + 8) * X.nbytes  # the step at work, adjoints, results


def nest(x: Any) -> Any:
    within = lambda i, s: bs.fori_loop(0, 20, lambda j, t: np.sin(t) * 1.01, s) * 0.999 + 0.001 * x
    return (bs.fori_loop(0, 30, within, x) ** 2).sum()


def choices(x: Any) -> Any:
    """In each round of a loop, of two loops one."""
    short = lambda s: bs.fori_loop(0, 20, lambda j, t: np.sin(t) * 1.01, s)
    long = lambda s: bs.fori_loop(0, 25, lambda j, t: np.cos(t) * 1.01, s)
    within = lambda i, s: bs.cond(s[0] > 0.3, short, long, s)
    return (bs.fori_loop(0, 30, within, x) ** 2).sum()


@pytest.mark.parametrize("states", [100, 2 * STEPS])
@pytest.mark.parametrize("f", [choice, row, nest, choices])
def test_second_derivatives_in_compiled_code(f: Any, states: int) -> None:
    """A loop with tangents stands for the one without, in loops and in branches: no tape is kept twice."""
    c = bs.checkpoint(f, memory=states * X.nbytes)
    g = bs.jit(lambda x: bs.hvp(c)(x, np.ones_like(x)))
    want = bs.hvp(f)(X, np.ones_like(X))
    np.testing.assert_allclose(g(X), want, rtol=1e-8, atol=1e-12 * np.abs(want).max())
    (made,) = g.stats()["specialisations"]
    assert c.report.peak_bytes <= states * X.nbytes
    assert made["arena_bytes"] <= (states + 20) * X.nbytes
