"""Checkpoints of what is no array: counts, flags, axes; functions without operations; what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.errors import BudgetError
from backsolve.solve.revolve import bytes_in, enough

X = np.linspace(0.1, 1.0, 1000)  # 8 kB a state
STEPS = 40


def by_count(x: Any, steps: int) -> Any:
    for _ in range(steps):
        x = np.sin(x) * 1.1
    return (x * x).sum()


def by_flag(x: Any, train: bool) -> Any:
    for k in range(STEPS):
        x = np.sin(x) * 1.1 if train else np.cos(x) * k
    return (x * x).sum()


def by_threshold(x: Any, most: float) -> Any:
    for k in range(STEPS):
        x = np.sin(x) * 1.1 if k * 0.1 < most else np.cos(x)
    return (x * x).sum()


def by_shape(x: Any, rows: Any) -> Any:
    y = np.zeros(rows) + x[:rows]
    for _ in range(STEPS):
        y = np.sin(y).reshape(rows, -1).sum(axis=rows // rows) * 1.1
    return (y * y).sum()


ARGUMENTS = [
    (by_count, STEPS),
    (by_count, np.int64(STEPS)),
    (by_flag, True),
    (by_flag, np.False_),
    (by_threshold, 1.7),
    (by_shape, 500),
]


@pytest.mark.parametrize("compiled", [False, True], ids=["on numbers", "in jit"])
@pytest.mark.parametrize(("f", "known"), ARGUMENTS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_numbers_that_are_known_stay_so(f: Any, known: Any, compiled: bool) -> None:
    """Python decides by them, and what it decides is cut as if the function closed over them."""
    want = bs.grad(f)(X, known)
    memory = 14 * X.nbytes
    for c in (bs.checkpoint(f, memory=memory), bs.checkpoint(f), bs.checkpoint(f, slots=3)):
        g = bs.grad(lambda x, c=c: c(x, known))
        found = (bs.jit(g) if compiled else g)(X)
        np.testing.assert_allclose(found, want, rtol=1e-12)
    c = bs.checkpoint(f, memory=memory)
    g = bs.grad(lambda x: c(x, known))
    (bs.jit(g) if compiled else g)(X)
    assert c.report.recorded_steps >= STEPS
    assert c.report.forward_steps > 0
    assert 0 < c.report.peak_bytes <= memory


@pytest.mark.parametrize("compiled", [False, True], ids=["on numbers", "in jit"])
def test_a_known_count_does_not_hide_a_budget_that_cannot_be_met(compiled: bool) -> None:
    c = bs.checkpoint(by_count, memory=1)
    g = bs.grad(lambda x: c(x, STEPS))
    with pytest.raises(BudgetError, match="the least that can be met is"):
        (bs.jit(g) if compiled else g)(X)


def decides(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.sin(x) * 1.1 if x[0] > 0 else np.cos(x)
    return (x * x).sum()


def test_what_python_decides_by_numbers_that_vary_is_not_cut() -> None:
    """It is refused where all of it is too much: the budget would not be kept."""
    with pytest.raises(
        BudgetError, match=r"the least that can be met is .* kB, for Python decides"
    ) as error:
        bs.grad(bs.checkpoint(decides, memory=100_000))(X)
    (least,) = re.findall(r"met is ([\d.]+ kB)", str(error.value))
    c = bs.checkpoint(decides, memory=least)
    np.testing.assert_allclose(bs.grad(c)(X), bs.grad(decides)(X), rtol=1e-12)
    assert str(c.report).startswith("as a whole: 1 steps, 0 forward, 1 recorded")
    assert STEPS * X.nbytes < c.report.peak_bytes <= 1000 * float(least[:-3])


def test_choices_among_operations_are_cut_on_numbers() -> None:
    """Of branches one runs, as if it stood there."""

    def f(x: Any) -> Any:
        for k in range(STEPS):
            x = bs.cond(x[k] > 0.4, lambda t: np.sin(t) * 1.1, np.cos, x)
        return (x * x).sum()

    memory = 14 * X.nbytes
    c = bs.checkpoint(f, memory=memory)
    np.testing.assert_allclose(bs.grad(c)(X), bs.grad(f)(X), rtol=1e-12)
    assert c.report.forward_steps > 0
    assert 0 < c.report.peak_bytes <= memory


def test_what_stands_beside_a_call_is_not_cut() -> None:
    g = bs.checkpoint(np.tanh)

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = np.sin(x) * 1.1
        return (g(x) * x).sum()

    want = bs.grad(f)(X)
    with pytest.raises(BudgetError, match=r"not cut: give the parts before and after it"):
        bs.grad(bs.checkpoint(f, memory=100_000))(X)
    np.testing.assert_allclose(bs.grad(bs.checkpoint(f, memory="10MB"))(X), want, rtol=1e-12)


NOTHING = {
    "identity": lambda x: x,
    "constant": lambda x: np.ones(3),
    "pair": lambda x: (x, 2.0),
    "dropout": nn.Dropout(0.5).eval(),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["on numbers", "in jit"])
@pytest.mark.parametrize(
    "budget", [{}, {"memory": "1MB"}, {"memory": 1_000}, {"slots": 2}], ids=str
)
@pytest.mark.parametrize("name", NOTHING)
def test_functions_without_operations(name: str, budget: Any, compiled: bool) -> None:
    def loss(f: Any) -> Any:
        def run(x: Any) -> Any:
            y = f(x)
            y = y[0] * y[1] if name == "pair" else y
            return (y * y).sum() + x.sum()

        return bs.grad(run)

    f: Any = NOTHING[name]
    g = loss(bs.checkpoint(f, **budget))
    x = np.arange(3.0)
    np.testing.assert_array_equal((bs.jit(g) if compiled else g)(x), loss(f)(x))


@pytest.mark.parametrize(
    "size", [7, 999, 1_000, 1_001, 10_464, 10_460, 99_999, 123_456_789, 10**12 + 1]
)
def test_the_least_that_is_named_is_enough(size: int) -> None:
    """It is rounded up: taken at its word it is no less, and hardly more."""
    assert size <= bytes_in(enough(size)) <= max(1.001 * size, size)


def test_a_budget_in_a_loop_of_another_budget_knows_its_share() -> None:
    """The refusal names what was given, and a least that can be met."""
    w, x = np.eye(6) * 0.5, np.linspace(0.1, 1, 6)
    inner = bs.checkpoint(
        lambda s: bs.fori_loop(0, 20, lambda k, s: np.tanh(w @ s), s), memory=1200
    )
    f = lambda x: (bs.fori_loop(0, 8, lambda k, s: inner(s) * 0.9, x) ** 2).sum()
    with pytest.raises(BudgetError, match=r"^600 bytes are not enough") as error:
        bs.jit(bs.grad(bs.checkpoint(f, memory=600)))(x)
    (least,) = re.findall(r"([\d.]+ (?:bytes|kB)) (?:are needed|are enough)", str(error.value))
    np.testing.assert_allclose(bs.jit(bs.grad(bs.checkpoint(f, memory=least)))(x), bs.grad(f)(x))
