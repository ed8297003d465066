"""Prices of eager solves: what they count is what a solve stages, and it stages no more than it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.batch import evaluate_batched
from backsolve.ir import Program, Type
from backsolve.solve import many, masked, work
from backsolve.solve.sweeps import substitution_works
from backsolve.solve.tariff import EAGER, plain_prices
from backsolve.solve.work import EFFORTS, Work, row_work, work_of

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 6))
X = np.linspace(0.1, 1, 6)
AT = np.array([0, 2, 2, 5])

FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "layers": (lambda x: np.tanh(W.T @ np.tanh(W @ x)), [X]),
    "softmax": (lambda x: np.exp(x) / np.exp(x).sum(), [X]),
    "read twice": (lambda x: np.sin(x) * x + x[::-1] * np.cos(x), [X]),
    "halves of five": (lambda x: np.sin(x[:2]) * np.exp(x[2:4]) + x[4], [X[:5]]),
    "gather": (lambda x: np.sin(np.tanh(x)[AT]) * 2, [X]),
    "gather at once": (lambda x: np.sin(x[AT]) * 2, [X]),
    "slices": (lambda x: np.sin(np.tanh(x)[1:]), [X]),
    "pieces": (lambda x: np.concatenate([np.sin(x), x * x, x[:2]]), [X]),
    "running": (lambda x: np.cumsum(np.sin(x)) * x, [X]),
    "two arguments": (lambda x, s: np.sin(x * s) + W.T @ (W @ x) * s, [X, 2.0]),
    "two results": (lambda x: (np.sin(x) * x.sum(), np.cumsum(np.sin(x))), [X]),
    "a result that is read on": (lambda x: (y := np.sin(x) * x, np.tanh(y).sum()), [X]),
}


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Program]]:
    """The Programs of solves, in turn: those that are made, and those of what runs without one."""
    found: list[Program] = []
    original = many.stage

    def watched(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        found.append(made[0])
        return made

    def at_once(f: Any, stacks: Any, size: int) -> list[Any]:
        program, _ = watched(f, [Type(s.shape[1:], s.dtype) for s in stacks])
        return evaluate_batched(program, stacks, [True] * len(stacks), size)

    monkeypatch.setattr(many, "stage", watched)
    monkeypatch.setattr(many, "run_at_once", at_once)
    for module in (many, work):  # few right-hand sides are solved for without either
        monkeypatch.setattr(module, "FEW", 0)
    return iter([found])


def everything(programs: list[Program]) -> Work:
    total = Work()
    for p in programs:
        total = total.plus(work_of(p.equations).times(sum(v.type.size for v in p.inputs)))
    return total


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_counted_is_what_is_staged(
    name: str, staged: Iterator[list[Program]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without masks, which wait until NaN is met."""
    refuse = lambda *args, **kwargs: pytest.fail("a mask")
    monkeypatch.setattr(masked, "apply", refuse)
    f, args = FUNCTIONS[name]
    system = bs.linearize(f, tuple(range(len(args))))(*args)
    own = set(system.parameters)
    steps = [r for r in system.rows if r not in own]
    counted = substitution_works(steps, system.parameters, system.outputs, record=False)
    programs = next(staged)
    for way, expected in zip(("reverse", "forward"), counted, strict=True):
        programs.clear()
        system.jacobian(way)
        np.testing.assert_allclose(expected, everything(programs), rtol=1e-12, err_msg=way)


def test_a_call_is_priced_by_its_primitive() -> None:
    def seconds(f: Any) -> float:
        system = bs.linearize(f)(X)
        reverse, _ = plain_prices(system.rows, system.parameters, system.outputs)
        return reverse.seconds

    one, two, with_sum = (
        seconds(f)
        for f in (np.sin, lambda x: np.sin(np.sin(x)), lambda x: np.sin(np.tanh(x) + np.tanh(x)))
    )
    assert two - one == pytest.approx(EAGER.call, rel=0.01)
    products = 2 * EAGER.call  # of sin and of tanh, which is there once
    assert with_sum - one == pytest.approx(products + EFFORTS["add"].call * EAGER.call, rel=0.5)
    assert EFFORTS["add"].call < 1 < EFFORTS["contract"].call


@pytest.mark.parametrize("way", ["forward", "reverse"])
def test_few_right_hand_sides_are_solved_for_one_by_one(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is priced: one call takes less than a third of one on a stack."""
    f = lambda x: np.sin(x) * np.exp(x)
    refuse = lambda *args: pytest.fail("a stack")
    for n in (1, work.FEW):
        with monkeypatch.context() as patched:
            patched.setattr(many, "run_at_once", refuse)
            found = bs.jacobian(f, method=way)(X[:n])
        x = X[:n]
        want = np.diag(np.exp(x) * (np.sin(x) + np.cos(x)))
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)
    at = dict.fromkeys((1, work.FEW, work.FEW + 1))
    for n in at:
        system = bs.linearize(f)(X[:n])
        prices = plain_prices(system.rows, system.parameters, system.outputs)
        at[n] = prices[way == "forward"].seconds
    assert 3 * at[1] < at[work.FEW + 1]
    assert at[work.FEW] < at[work.FEW + 1]


def test_contractions_count_by_what_they_do() -> None:
    """Sums take most, outer products less, and a diagonal that is read or written least."""
    products, outer, diagonal = (
        row_work(next(r for r in bs.linearize(f)(X).rows if r.primitive.name == "contract"))[
            0
        ].calls
        for f in (lambda x: W @ x, lambda x: np.outer(x, X), np.diag)
    )
    assert products > outer > diagonal > EFFORTS["add"].call


def test_numbers_that_are_read_count_where_they_take_time() -> None:
    x = np.ones(100)
    (sums, _), *_ = [row_work(r) for r in bs.linearize(np.sum)(x).rows if r.parents]
    assert sums.handled == EFFORTS["sum"].written + 100 * EFFORTS["sum"].read
    (sines, _), *_ = [row_work(r) for r in bs.linearize(np.sin)(x).rows if r.parents]
    assert sines.handled == 100


# ---- zeros beside infinities


def roots_of_some(x: Any) -> Any:
    return (np.sqrt(np.abs(x)) ** 3)[AT[:2]]


def test_a_solve_that_is_checked_carries_no_masks(staged: Iterator[list[Program]]) -> None:
    programs = next(staged)
    for way in ("forward", "reverse"):
        found = bs.jacobian(roots_of_some, method=way)(X)
        assert np.isfinite(found).all()
    assert len(programs) == 2
    assert not any(e.primitive.name == "where" for p in programs for e in p.equations)


@pytest.mark.parametrize(("way", "solves"), [("forward", 1), ("reverse", 2)])
def test_what_it_finds_is_solved_with_them(
    way: str, solves: int, staged: Iterator[list[Program]]
) -> None:
    """√x at 0 is infinitely steep, where nobody reads it; ahead, nobody sees that."""
    x = np.array([4.0, 0.0, 9.0])
    f = lambda x: np.sqrt(x)[::2] * 2
    found = bs.jacobian(f, method=way)(x)
    np.testing.assert_allclose(found, [[0.5, 0, 0], [0, 0, 1 / 3]], rtol=1e-12)
    assert len(next(staged)) == solves


@pytest.mark.parametrize("outer", ["forward", "reverse"])
@pytest.mark.parametrize("inner", ["forward", "reverse"])
def test_what_is_differentiated_again_carries_them_at_once(inner: str, outer: str) -> None:
    """The first derivatives of x^1.5 are finite at 0, the second are not."""
    x = np.array([1.0, 0.0])
    J = bs.jacobian(lambda x: (x**1.5)[:1], method=inner)
    found = bs.jacobian(J, method=outer)(x)
    np.testing.assert_allclose(found, [[[0.75, 0], [0, 0]]], rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3])
def test_compiled_solves_carry_them(n: int) -> None:
    """With one seed, which has no zero itself, as with many."""
    x = np.zeros(n + 1)
    x[:n] = 4.0
    J = bs.jit(bs.jacobian(lambda x: np.sqrt(x)[:n], method="reverse"))
    np.testing.assert_allclose(J(x), 0.25 * np.eye(n, n + 1), rtol=1e-12)
