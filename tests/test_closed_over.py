"""Functions whose arguments are known while what they close over is staged: loops and checkpoints."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import BudgetError, StructureError
from backsolve.ir import Type
from backsolve.trace import stage

START = np.array([0.3, -0.8, 1.2])
INPUTS = np.random.default_rng(0).normal(size=(40, 3))


def scanned(a: Any, inputs: Any = INPUTS) -> Any:
    last, sums = bs.scan(lambda c, x: (np.tanh(a * c + x), np.sum(c)), START, inputs)
    return np.sum(sums**2) + np.sum(last)


def mapped(a: Any, inputs: Any = INPUTS) -> Any:
    return np.sum(bs.map(lambda x: np.sin(a * x), inputs))


@pytest.mark.parametrize("f", [scanned, mapped])
def test_a_scan_over_known_values_is_one_loop_whatever_its_length(f: Callable[..., Any]) -> None:
    count = lambda n: len(stage(lambda a: f(a, INPUTS[:n]), [Type((), np.float64)])[0].equations)
    assert count(40) == count(20)
    for a in (0.5, np.float64(-0.2)):
        np.testing.assert_allclose(bs.jit(bs.grad(f))(a), bs.grad(f)(a), rtol=1e-12)


def test_what_cannot_be_a_loop_is_written_out() -> None:
    matrices = [np.eye(3) / (k + 1) for k in range(20)]

    def f(a: Any) -> Any:
        return bs.scan(lambda c, k: (matrices[int(k)] @ c * a + 1, c), START, np.arange(20))

    for found, expected in zip(bs.jit(f)(0.5), f(0.5), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("stages", [bs.jit, lambda f: f])
def test_the_body_of_a_scan_gives_two_things(stages: Any) -> None:
    with pytest.raises(StructureError, match="must return"):
        stages(lambda a: bs.scan(lambda c, x: a * c, START, INPUTS))(0.5)


def loops(a: Any, x: Any) -> Any:
    return np.sum(bs.fori_loop(0, 12, lambda i, c: np.sin(a * c) + c, x))


def scans(a: Any, x: Any) -> Any:
    return np.sum(bs.scan(lambda c, k: (np.sin(a * c), c[0] * k), x, np.arange(12.0))[1])


def ends(a: Any, x: Any) -> Any:
    return a * np.sum(bs.while_loop(lambda c: np.sum(c * c) < 20 * a, lambda c: 1.3 * a * c, x))


def plain(a: Any, x: Any) -> Any:
    return np.sum(np.sin(a * x) * np.cos(a * x))


@pytest.mark.parametrize("budget", [{}, {"memory": 20_000}], ids=str)
def test_a_checkpointed_function_runs_once_while_it_is_staged(budget: dict[str, int]) -> None:
    runs = []

    def f(a: Any, x: Any) -> Any:
        runs.append(a)
        return loops(a, x)

    of_known = lambda a: a + bs.checkpoint(lambda x: f(0.5, x), **budget)(START)
    closing = lambda a: bs.checkpoint(lambda x: f(a, x), **budget)(START)
    given = lambda a: bs.checkpoint(lambda a: f(a, START), **budget)(a)
    for g in (of_known, closing, given):
        for h in (g, bs.grad(g)):
            runs.clear()
            found = bs.jit(h)(0.9)
            assert len(runs) == 1
            np.testing.assert_allclose(found, h(0.9), rtol=1e-12)


@pytest.mark.parametrize("budget", [{}, {"memory": 20_000}, {"slots": 3}], ids=str)
@pytest.mark.parametrize("f", [loops, scans, ends, plain])
def test_checkpoints_of_known_arguments(f: Callable[..., Any], budget: dict[str, int]) -> None:
    kept = lambda a: bs.checkpoint(lambda x: f(a, x), **budget)(START)
    whole = lambda a: f(a, START)
    expected = bs.grad(whole)(0.9)
    np.testing.assert_allclose(bs.grad(kept)(0.9), expected, rtol=1e-12)
    np.testing.assert_allclose(bs.jit(bs.grad(kept))(0.9), expected, rtol=1e-12)
    np.testing.assert_allclose(bs.vmap(bs.grad(kept))(np.full(2, 0.9)), [expected] * 2, rtol=1e-12)
    np.testing.assert_allclose(bs.jet(kept, (0.9,), [[1.0]])[1][0], expected, rtol=1e-12)
    np.testing.assert_allclose(
        bs.laplacian(kept)(0.9), bs.grad(bs.grad(whole))(0.9), rtol=1e-9, atol=1e-12
    )


def test_a_sequence_of_functions_that_close_over_what_is_staged() -> None:
    steps = lambda a: [lambda x: np.sin(a * x), lambda x: x * a, np.sum]
    for budget in ({"memory": 20_000}, {"slots": 2}):
        kept = lambda a, budget=budget: bs.checkpoint(steps(a), **budget)(START)
        expected = bs.grad(lambda a: a * np.sum(np.sin(a * START)))(0.9)
        np.testing.assert_allclose(bs.jit(bs.grad(kept))(0.9), expected, rtol=1e-12)


def test_constants_stay_known_inside_jit() -> None:
    """Python may branch on what a checkpointed function makes of constants."""
    kept = bs.checkpoint(lambda x: loops(0.9, x), memory=20_000)
    f = bs.jit(lambda a: a if kept(START).item() > 0 else -a)
    assert f(2.0) == (2.0 if kept(START) > 0 else -2.0)


@pytest.mark.parametrize("bad", [0, -1, 2.5])
def test_slots_are_whole_numbers(bad: Any) -> None:
    with pytest.raises(BudgetError, match="a number of `slots` above 0"):
        bs.checkpoint(np.sin, slots=bad)
