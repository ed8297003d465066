"""Chains that are no bs.recurrence, found in their rows and solved at once: against plain ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import UnsupportedError
from backsolve.hooks import Watcher, hooks
from backsolve.primitives import chains
from backsolve.solve import scanned, ways
from backsolve.solve.auto import choose
from backsolve.solve.rounds import find_rounds
from backsolve.solve.tariff import Price

STEPS = 40
RNG = np.random.default_rng(3)
SMALL = [0.4 * RNG.normal(size=(n, n)) for n in range(6)]


def euler(x: Any) -> Any:
    for _ in range(STEPS):
        x = x + 0.05 * np.sin(1.3 * x)
    return x


def network(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.tanh(SMALL[x.shape[0]] @ x) + 0.5 * x
    return x


def elman(W: Any, U: Any, h: Any, xs: Any) -> Any:
    loss = 0.0
    for t in range(STEPS):
        h = np.tanh(W @ h + U @ xs[t])
        loss = loss + (h**2).sum()
    return loss


def elman_from_zero(W: Any, U: Any, xs: Any) -> Any:
    h = np.zeros(3)
    for x in xs:
        h = np.tanh(W @ h + U @ x)
    return h


def elman_states(W: Any, U: Any, xs: Any) -> Any:
    h, states = np.zeros(3), []
    for x in xs:
        h = np.tanh(W @ h + U @ x)
        states.append(h)
    return np.stack(states)


def residual(x: Any, layers: Any) -> Any:
    for W, b in layers:
        x = x + np.tanh(W @ x + b)
    return x


def oscillator(p: Any) -> Any:
    a, b, k = p
    for _ in range(STEPS):
        a, b = a + 0.1 * b, b - 0.1 * np.sin(a) * k
    return np.stack([a, b])


def leapfrog(a: Any, b: Any) -> Any:
    for _ in range(STEPS):
        a = a + 0.1 * b
        b = b + -0.1 * a
    return a, b


def lagged(x: Any) -> Any:
    before, now = x[0], x[1]
    for _ in range(STEPS):
        before, now = now, 1.9 * now - np.sin(before)
    return now


def runge_kutta(x: Any, k: Any) -> Any:
    f = lambda x: np.stack([x[1], -k * np.sin(x[0])])
    h = 0.05
    for _ in range(STEPS):
        k1 = f(x)
        k2 = f(x + h / 2 * k1)
        k3 = f(x + h / 2 * k2)
        k4 = f(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def uneven_steps(x: Any) -> Any:
    for t in range(STEPS):
        x = x + 0.1 / (1 + t) * np.cos(x)
    return x


def all_states(x: Any) -> Any:
    states = [x]
    for _ in range(STEPS):
        x = np.tanh(SMALL[2] @ x)
        states.append(x)
    return states


def number_states(x: Any) -> Any:
    states = []
    for _ in range(STEPS):
        x = x + 0.1 * np.cos(x)
        states.append(x)
    return np.stack(states)


def two_loops(x: Any, w: Any) -> Any:
    for _ in range(STEPS):
        x = np.sin(w * x)
    y = x.sum()
    for _ in range(STEPS):
        y = y - 0.1 * np.sin(y) + 0.01 * w[0]
    return y, x


def from_the_end(x: Any, h: Any) -> Any:
    for t in reversed(range(STEPS)):
        h = 0.9 * h + x[t, 1:] * x[t, 0]
    return h


def middle(x: Any) -> Any:
    kept = None
    for t in range(STEPS):
        x = x * np.cos(x)
        if t == STEPS // 2:
            kept = x
    return kept + 2 * x


def summed_later(x: Any) -> Any:
    states = []
    for _ in range(STEPS):
        x = np.sin(x) + 0.3 * x
        states.append(x)
    return sum((s**2 for s in states[1:]), states[0])


def mixed_state(x: Any, c: Any) -> Any:
    """A vector and a number that read each other."""
    for _ in range(STEPS):
        x, c = np.tanh(c * x), 0.9 * c + 0.1 * x.sum()
    return x, c


def masked_steps(x: Any) -> Any:
    for _ in range(STEPS):
        x = np.where(x > 0.2, 0.8 * x, x + 0.1)
    return x


def holomorphic(z: Any) -> Any:
    for _ in range(STEPS):
        z = 0.9 * np.sin(z) + 0.1
    return z


def conjugating(x: Any) -> Any:
    z = x[0] + 1j * x[1]
    for _ in range(STEPS):
        z = 0.5 * np.conj(z) + 0.3 * np.exp(1j * z)
    return np.real(z), np.imag(z)


def prepared(x: Any, w: Any) -> Any:
    """What rounds share is computed before them."""
    v = np.exp(w)
    for _ in range(STEPS):
        x = x + 0.01 * v * np.cos(x)
    return x * v


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)


LAYERS = [(0.3 * normal(3, 3) + 0.01 * k, 0.1 * normal(3)) for k in range(STEPS)]
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "euler, a number": (euler, (0.7,)),
    "euler, 1": (euler, (normal(1),)),
    "euler, 4": (euler, (normal(4),)),
    "euler, 3 x 2": (euler, (normal(3, 2),)),
    "network, 1": (network, (normal(1),)),
    "network, 2": (network, (normal(2),)),
    "network, 4": (network, (normal(4),)),
    "elman": (elman, (0.5 * normal(3, 3), normal(3, 2), normal(3), normal(STEPS, 2))),
    "elman from zero": (elman_from_zero, (0.5 * normal(3, 3), normal(3, 2), normal(STEPS, 2))),
    "elman states": (elman_states, (0.5 * normal(3, 3), normal(3, 2), normal(STEPS, 2))),
    "residual": (residual, (normal(3), LAYERS)),
    "oscillator": (oscillator, (np.array([1.0, 0.5, 0.9]),)),
    "leapfrog": (leapfrog, (1.0, 0.3)),
    "leapfrog, lanes": (leapfrog, (normal(5), normal(5))),
    "lagged": (lagged, (np.array([0.1, 0.2]),)),
    "runge-kutta": (runge_kutta, (np.array([1.0, 0.2]), 1.3)),
    "uneven steps": (uneven_steps, (normal(2),)),
    "all states": (all_states, (normal(2),)),
    "states of a number": (number_states, (0.3,)),
    "two loops": (two_loops, (normal(2), normal(2))),
    "from the end": (from_the_end, (normal(STEPS, 3), normal(2))),
    "middle": (middle, (normal(2),)),
    "summed later": (summed_later, (normal(2),)),
    "mixed state": (mixed_state, (normal(3), 0.5)),
    "masked": (masked_steps, (normal(4),)),
    "holomorphic": (holomorphic, (np.array([0.3 + 0.2j, 0.1 - 0.4j]),)),
    "conjugating": (conjugating, (np.array([0.3, 0.2]),)),
    "prepared": (prepared, (normal(3), normal(3))),
}


def flat(x: Any) -> list[Any]:
    return [np.asarray(a) for a in bs.tree.flatten(x)[0]]


def assert_same(a: Any, b: Any, rtol: float = 1e-9) -> None:
    assert len(flat(a)) == len(flat(b))
    for p, q in zip(flat(a), flat(b), strict=True):
        assert (p.shape, p.dtype) == (q.shape, q.dtype)
        np.testing.assert_allclose(p, q, rtol=rtol, atol=1e-12)


@pytest.fixture
def no_plain_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails if more than a few rows are substituted through one by one."""
    make = scanned.Scan.__init__

    def made(self: Any, rows: Any, *rest: Any) -> None:
        make(self, rows, *rest)
        assert len(self.singles()) <= len(rows) / 10 + 6

    monkeypatch.setattr(scanned.Scan, "__init__", made)
    # Seeds with masks would be solved for row by row.
    monkeypatch.setattr(scanned, "_are_masked", _fail_if_masked)


def _fail_if_masked(pairs: Any) -> bool:
    assert not any(isinstance(s, scanned.Masked) for _, s in pairs)
    return False


@pytest.mark.parametrize("name", CASES)
def test_jacobian_is_that_of_plain_ways(name: str, no_plain_rounds: None) -> None:
    f, args = CASES[name]
    numbers = tuple(range(len(args)))
    found = bs.jacobian(f, numbers, method="scan")(*args)
    assert_same(found, bs.jacobian(f, numbers, method="forward")(*args))


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_back_substitution(name: str, no_plain_rounds: None) -> None:
    f, args = CASES[name]
    system = bs.linearize(f)(*args)
    assert_same(system.backward(method="scan"), system.backward())


@pytest.mark.parametrize("name", CASES)
def test_both_directions_agree(
    name: str, no_plain_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, args = CASES[name]
    system = bs.linearize(f)(*args)
    monkeypatch.setattr(scanned.Scan, "is_entrywise", lambda self, p: False)
    found = []
    for price in (Price("forward"), Price("reverse")):
        monkeypatch.setattr(ways, "by_sizes", lambda *_, price=price: price)
        found.append(system.jacobian(method="scan"))
    assert_same(*found)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_linear_chain_is_a_product_of_matrices(n: int) -> None:
    factors = [np.random.default_rng(k).normal(size=(n, n)) for k in range(STEPS)]

    def f(x: Any) -> Any:
        for A in factors:
            x = A @ x
        return x

    expected = np.linalg.multi_dot(factors[::-1])
    np.testing.assert_allclose(bs.jacobian(f, method="scan")(np.ones(n)), expected, rtol=1e-8)


def test_float32_stays() -> None:
    x = normal(3).astype(np.float32)
    found = bs.jacobian(network, method="scan")(x)
    assert found.dtype == np.float32
    assert_same(found, bs.jacobian(network, method="reverse")(x), rtol=1e-4)


# ---- what is executed


class Calls(Watcher):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def on_call(self, prim: Any, row: Any, y: Any, inputs: Any) -> None:
        self.names.append(prim.name)


def executed(system: Any, method: str) -> list[str]:
    calls = Calls()
    hooks.add(calls)
    try:
        system.jacobian(method=method)
    finally:
        hooks.remove(calls)
    return calls.names


@pytest.mark.parametrize("f", [euler, network, elman], ids=["lanes", "blocks", "shared weights"])
def test_operations_do_not_grow_with_the_rounds(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for steps in (64, 512):
        monkeypatch.setitem(globals(), "STEPS", steps)
        weights = 0.5 * normal(3, 3), normal(3, 2), normal(3), normal(steps, 2)
        args = weights if f is elman else (0.1 * np.ones(2),)
        counts.append(len(executed(bs.linearize(f)(*args), "scan")))
    assert counts[0] == counts[1] < 200


def test_products_are_made_in_log_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = chains.times_matrices

    def counted(b: Any, a: Any) -> Any:
        made.append(len(a))
        return real(b, a)

    monkeypatch.setattr(chains, "times_matrices", counted)
    monkeypatch.setitem(globals(), "STEPS", 512)
    W = np.array([[0.6, 0.8], [-0.8, 0.6]])

    def turning(x: Any) -> Any:
        for _ in range(512):
            x = W @ x + 0.01 * np.sin(x)
        return x

    bs.jacobian(turning, method="scan")(np.ones(2))
    assert made == [256, 128, 64, 32, 16]


def test_an_entrywise_state_takes_one_right_hand_side(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed = []
    real = scanned.Scan.ahead
    monkeypatch.setattr(
        scanned.Scan, "ahead", lambda *args: pushed.append(args[1][0][1].shape) or real(*args)
    )
    found = bs.jacobian(euler, method="scan")(normal(1000))
    assert pushed == [(1000,)]
    np.testing.assert_array_equal(found != 0, np.eye(1000, dtype=bool))
    slopes = bs.grad(lambda x: euler(x).sum())(normal(1000))
    np.testing.assert_allclose(found.diagonal(), slopes, rtol=1e-12)


# ---- how rounds are found


def test_necks_are_where_fewest_numbers_cross() -> None:
    def f(x: Any) -> Any:
        for _ in range(STEPS):
            wide = np.sin(np.ones((5, 1)) * x)
            x = wide.sum(axis=0) * 0.1
        return x

    system = bs.linearize(f)(np.ones(2))
    (rounds,) = find_rounds(system.rows, system.parameters)
    (position,) = rounds.carried
    assert system.rows[rounds.start + position].shape == (2,)
    assert rounds.count >= STEPS - 1


def test_rows_that_read_two_rounds_back_make_rounds_of_two() -> None:
    system = bs.linearize(lagged)(np.array([0.1, 0.2]))
    (rounds,) = find_rounds(system.rows, system.parameters)
    assert (rounds.period, len(rounds.carried)) == (6, 2)


def test_a_state_and_a_sum_are_solved_for_one_after_the_other() -> None:
    f, args = CASES["elman"]
    system = bs.linearize(f)(*args)
    by = scanned.Scan(system.rows, system.parameters, system.outputs, False)
    (loop,) = by.loops
    assert [c.width for c in loop.components] == [3, 1]


# ---- zeros, infinities, sizes


def test_products_that_vanish_are_taken_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of neighbouring blocks are no numbers, but every adjoint is one."""
    taken = []
    real = chains.in_order
    monkeypatch.setattr(chains, "in_order", lambda *args: taken.append(1) or real(*args))
    W = np.array([[0.3, 0.1], [-0.1, 0.2]])
    sizes = [1e-40 if t // 14 % 2 == 0 else 1e40 for t in range(140)][::-1]

    def f(h: Any, xs: Any) -> Any:
        for x, size in zip(xs, sizes, strict=True):
            h = (size * W) @ h + x
        return h

    system = bs.linearize(f)(np.zeros(2), np.zeros((140, 2)))
    seed = np.full(2, 1e290)
    for a, b in zip(system.backward(seed, method="scan"), system.backward(seed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=0)
    assert taken


def test_zeros_beside_infinite_slopes() -> None:
    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = np.where(x > 0, np.sqrt(np.maximum(x, 0)), 0.5 * x)
        return x

    x = np.array([0.0, 0.3, -1.0])
    found = bs.jacobian(f, method="scan")(x)
    assert np.isfinite(found).all()
    assert_same(found, bs.jacobian(f, method="reverse")(x))
    system = bs.linearize(f)(x)
    assert_same(system.backward(method="scan"), system.backward())


def test_what_is_no_number_is_solved_for_by_a_plain_way() -> None:
    """Back substitution does not meet the infinite slope that forward substitution multiplies by zero."""

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = np.sqrt(np.maximum(np.linalg.norm(x) * x, 0))
        return x * x[0]

    x = np.array([0.0, -0.3])
    system = bs.linearize(f)(x)
    assert_same(system.jacobian(method="scan"), system.jacobian(method="reverse"))


def test_infinite_slopes_stay_infinite() -> None:
    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = np.sqrt(x)
        return x

    found = bs.jacobian(f, method="scan")(np.array([0.0, 0.5]))
    assert_same(found, bs.jacobian(f, method="reverse")(np.array([0.0, 0.5])))


def test_wide_blocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanned, "MOST_ENTRIES", 100)
    with pytest.raises(UnsupportedError, match=r"4 × 4 numbers"):
        bs.jacobian(network, method="scan")(normal(4))


# ---- no chain


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sin(x) * x,
        lambda x: np.stack([np.sin(x[k]) for k in range(20)]),
        lambda x: np.concatenate([np.sin(x[: k + 1]) for k in range(20)]),
    ],
    ids=["short", "side by side", "uneven"],
)
def test_without_a_chain_it_is_an_error(f: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match="rounds"):
        bs.jacobian(f, method="scan")(normal(20))
    with pytest.raises(UnsupportedError, match="rounds"):
        bs.linearize(f)(normal(20)).backward(method="scan")


def test_compiled_calls_have_no_rows() -> None:
    step = bs.jit(lambda x: 0.9 * np.sin(x))

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = step(x)
        return x

    with pytest.raises(UnsupportedError, match="rounds"):
        bs.jacobian(f, method="scan")(normal(2))


def test_inside_jit_it_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match="compiled"):
        bs.jit(bs.jacobian(euler, method="scan"))(normal(2))


def test_unknown_methods() -> None:
    with pytest.raises(ValueError, match=r'"reverse" or "scan"'):
        bs.linearize(euler)(0.5).backward(method="forward")
    with pytest.raises(ValueError, match="order"):
        bs.jacobian(euler, method="scan", order=[1])


# ---- derivatives of the solve


@pytest.mark.parametrize("name", ["euler, 4", "network, 2", "oscillator", "elman from zero"])
def test_second_derivatives(name: str) -> None:
    f, args = CASES[name]
    weight = np.cos(np.arange(12.0))

    def first(method: str) -> Any:
        def total(x: Any) -> Any:
            J = bs.jacobian(f, method=method)(x, *args[1:])
            return (J.reshape(-1)[:9] * weight[: min(9, J.size)]).sum()

        return bs.grad(total)(args[0])

    assert_same(first("scan"), first("reverse"))


def test_stacks_hold_what_blocks_captured_once() -> None:
    """A weight that all rounds share is no stack."""
    f, args = CASES["elman"]
    system = bs.linearize(f)(*args)
    by = scanned.Scan(system.rows, system.parameters, system.outputs, False)
    assert all(v.shape[0] == by.loops[0].count and v.ndim < 3 for v in by.loops[0].values)


def test_nothing_is_left_to_the_collector(left_to_collector: Any) -> None:
    f, args = CASES["elman"]
    run = bs.jacobian(f, (0, 1, 2, 3), method="scan")
    run(*args)
    assert left_to_collector(lambda: run(*args)) == []


# ---- the chooser


def chosen(f: Callable[..., Any], *args: Any) -> str:
    system = bs.linearize(f, merge=False)(*args)
    parts = system.rows, system.parameters, system.outputs
    return choose(*parts, record=False, is_staged=False, system=lambda: system).way


def test_a_long_chain_is_scanned_and_a_short_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "STEPS", 150)
    assert chosen(euler, normal(4)) == chosen(network, normal(4)) == "scan"
    weights = 0.5 * normal(3, 3), normal(3, 2)
    assert chosen(elman_from_zero, *weights, normal(150, 2)) == "scan"
    assert chosen(elman, *weights, normal(3), normal(150, 2)) == "reverse"  # one right-hand side
    made = []
    real = scanned.Scan.back
    monkeypatch.setattr(scanned.Scan, "back", lambda *args: made.append(1) or real(*args))
    assert_same(bs.jacobian(network)(normal(4)), bs.jacobian(network, method="reverse")(normal(4)))
    assert len(made) == 1
    monkeypatch.setitem(globals(), "STEPS", 10)
    assert chosen(euler, normal(2)) != "scan"
    assert chosen(network, normal(4)) != "scan"


def test_large_blocks_are_not_multiplied() -> None:
    W = normal(64, 64) / 16

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = np.tanh(W @ x)
        return x

    assert chosen(f, normal(64)) != "scan"


def test_a_choice_that_does_not_fit_is_taken_back() -> None:
    """Numbers that differ in what blocks capture make no rounds, though the structure is the same."""
    sizes: list[Any] = [0.9] * 200

    def f(x: Any) -> Any:
        for s in sizes:
            x = s * x
        return x

    x = normal(2)
    assert_same(bs.jacobian(f)(x), np.eye(2) * 0.9**200)
    sizes[::2] = [np.array([0.5, 1.0])] * 100
    sizes[1::3] = [np.float32(0.9)] * len(sizes[1::3])
    assert_same(bs.jacobian(f)(x), bs.jacobian(f, method="reverse")(x))


def test_the_table_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "STEPS", 150)
    table = str(bs.explain_cost(network, normal(4)))
    assert "scan" in table
    assert "all rounds of a loop at once" in table


def volatility(x: Any) -> Any:
    state, found = 0.1, []
    for t in range(20):
        state = 0.9 * state + 0.1 * x[t % 3] ** 2
        found.append(np.sqrt(1 + state))
    return (np.stack(found) ** 2).sum()


def moving_products(x: Any) -> Any:
    before, found = 0.0, []
    for v in x:
        found.append(before * v)
        before = 0.5 * before + v
    return (np.stack(found) ** 2).sum()


def filtered(x: Any) -> Any:
    made = bs.scan(lambda c, v: (c * 0.5 + v, c * v), 0.0, x)[1]
    return (np.sin(made) * made).sum()


@pytest.mark.parametrize(
    ("f", "x"), [(volatility, np.ones(3)), (moving_products, normal(16)), (filtered, normal(16))]
)
def test_jacobians_of_gradients_of_loops(f: Any, x: Any) -> None:
    """Some rounds of a gradient hand on nothing that an adjoint reaches."""
    want = bs.hessian(f)(x)
    gradient = bs.grad(f)
    for method in ("auto", "measured", "scan", "reverse"):
        assert_same(bs.jacobian(gradient, method=method)(x), want)
        assert_same(bs.hessian(f, method=method)(x), want)
    assert_same(bs.linearize(gradient)(x).jacobian(), want)
    assert "scan" in str(bs.explain_cost(gradient, x))
