"""Several loops in one budget, on numbers: they take turns, and give up what they kept for one another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs

X = np.linspace(0.1, 1.0, 1000)  # 8 kB a state
MEMORY = 200_000
LOOPS, STEPS = 5, 120


def counted(x: Any) -> Any:
    return bs.fori_loop(0, STEPS, lambda i, s: np.sin(s) * 1.01, x)


def until(x: Any) -> Any:
    def step(s: Any) -> Any:
        return np.sin(s[0]) * 1.01, s[1] + 1

    return bs.while_loop(lambda s: s[1] < STEPS, step, (x, 0))[0]


def along(x: Any) -> Any:
    return bs.scan(lambda s, t: (np.sin(s) * t, None), x, np.full(STEPS, 1.01))[0]


def in_a_row(loop: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(LOOPS):
            x = loop(x)
        return (x * x).sum()

    return f


def apart(loop: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: sum((loop(x * k) ** 2).sum() for k in range(1, LOOPS + 1))


@pytest.mark.parametrize("form", [in_a_row, apart])
@pytest.mark.parametrize("loop", [counted, until, along])
def test_loops_share_a_budget(loop: Any, form: Any, peak_of: Any) -> None:
    f = form(loop)
    want = bs.grad(f)(X)
    c = bs.checkpoint(f, memory=MEMORY)
    found, peak = peak_of(lambda: bs.grad(c)(X))
    np.testing.assert_allclose(found, want, rtol=1e-12)
    beside = (LOOPS + 40) * X.nbytes  # where each loop begins, adjoints, the step at work
    assert MEMORY / 2 < c.report.peak_bytes <= MEMORY < peak < MEMORY + beside < 3 * MEMORY
    # All but the last loop run once more than alone.
    alone = bs.checkpoint(lambda x: (loop(x) ** 2).sum(), memory=MEMORY)
    bs.grad(alone)(X)
    assert alone.report.forward_steps * LOOPS < c.report.forward_steps
    again = c.report.forward_steps - alone.report.forward_steps * LOOPS
    assert again <= (LOOPS - 1) * STEPS + LOOPS
    assert "together at most" in str(c.report)


def test_a_while_makes_room_before_its_first_sweep(peak_of: Any) -> None:
    """It keeps states before it knows how many rounds there are."""
    f = lambda x: (until(counted(x)) ** 2).sum()
    memory = STEPS * X.nbytes  # a loop alone keeps nearly all of it
    c = bs.checkpoint(f, memory=memory)
    found, peak = peak_of(lambda: bs.grad(c)(X))
    np.testing.assert_allclose(found, bs.grad(f)(X), rtol=1e-12)
    assert c.report.peak_bytes <= memory < peak < 1.4 * memory


def test_what_fits_is_run_once() -> None:
    f = in_a_row(counted)
    c = bs.checkpoint(f, memory="20MB")
    np.testing.assert_allclose(bs.grad(c)(X), bs.grad(f)(X), rtol=1e-12)
    assert c.report.forward_steps == 0
    assert c.report.recorded_steps == LOOPS * STEPS
    assert c.report.peak_bytes > LOOPS * STEPS * X.nbytes


def test_a_second_derivative_shares_it(peak_of: Any) -> None:
    f = in_a_row(counted)
    c = bs.checkpoint(f, memory=2 * MEMORY)
    curve = lambda f: bs.grad(lambda x: (bs.grad(f)(x) ** 2).sum())(X)
    want = curve(f)
    found, peak = peak_of(lambda: curve(c))
    np.testing.assert_allclose(found, want, rtol=1e-10)
    assert c.report.peak_bytes <= 2 * MEMORY < peak < 6 * MEMORY


def test_budgets_in_a_budget_share_it(peak_of: Any) -> None:
    """Each of the inner ones may have all of it, but not at the same time."""
    parts = [bs.checkpoint(counted, memory=MEMORY) for _ in range(LOOPS)]

    def f(x: Any) -> Any:
        for part in parts:
            x = part(x)
        return (x * x).sum()

    c = bs.checkpoint(f, memory=MEMORY)
    want, without = peak_of(lambda: bs.grad(f)(X))
    found, peak = peak_of(lambda: bs.grad(c)(X))
    np.testing.assert_allclose(found, want, rtol=1e-12)
    assert c.report.peak_bytes <= MEMORY
    assert peak < 3 * MEMORY < LOOPS * MEMORY < without


@pytest.mark.parametrize("method", ["forward", "reverse"])
def test_jacobians_share_it(method: str) -> None:
    def f(x: Any) -> Any:
        for _ in range(LOOPS):
            x = counted(x)
        return x[:6]

    x = X[:40]
    c = bs.checkpoint(f, memory=4_000)
    found = bs.jacobian(c, method=method)(x)
    np.testing.assert_allclose(found, bs.jacobian(f, method=method)(x), rtol=1e-12)
    assert c.report.peak_bytes <= 4_000


def test_a_graph_that_many_threads_go_back() -> None:
    """At once: none takes steps of another, or what another has just kept."""
    f = in_a_row(counted)
    want = bs.grad(f)(X)
    _y, pull = bs.vjp(bs.checkpoint(f, memory=MEMORY), X)
    found: dict[int, Any] = {}

    def go(k: int) -> None:
        (found[k],) = pull(1.0 + k)

    threads = [threading.Thread(target=go, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        np.testing.assert_allclose(found[k], (1.0 + k) * want, rtol=1e-12)


def test_what_fails_on_the_way_back_can_be_asked_again() -> None:
    """What was left of the stack then is of no use: all steps run once more."""
    fails = [False]

    def step(i: Any, s: Any) -> Any:
        if fails[0] and i == 20:
            raise RuntimeError("not now")
        return np.sin(s)

    f = lambda x: bs.fori_loop(0, 40, step, x).sum()
    _y, pull = bs.vjp(bs.checkpoint(f, memory=100_000), X)
    fails[0] = True
    with pytest.raises(RuntimeError, match="not now"):
        pull(1.0)
    fails[0] = False
    np.testing.assert_allclose(pull(1.0)[0], bs.grad(f)(X), rtol=1e-12)
