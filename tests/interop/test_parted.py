"""A function and its pullback in two parts: what is kept in between, and that nothing else runs again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from torch.autograd import gradcheck, gradgradcheck

import backsolve as bs
from backsolve.interop import parted
from backsolve.interop.derived import Derived
from backsolve.interop.keeping import least
from backsolve.ir import Equation, Type, Var
from backsolve.primitive import PRIMITIVES

function = bs.interop.torch.function
LIGHT, HEAVY = PRIMITIVES["add"], PRIMITIVES["argsort"]


def value(entries: int) -> Var:
    return Var(Type((entries,), np.dtype(bool)))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_are_the_fewest_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = [value(5), value(7)]
    made, equations = list(inputs), []
    for _ in range(30):
        read = [made[k] for k in rng.integers(max(0, len(made) - 8), len(made), 2)]
        y = value(int(rng.integers(1, 20)))
        equations.append(Equation((y,), HEAVY if rng.random() < 0.3 else LIGHT, tuple(read), {}))
        made.append(y)
    crossing = [made[k] for k in rng.choice(len(made), 8, replace=False)]
    kept, again = least(crossing, equations, set(inputs))
    there = {*inputs, *kept}
    for e in again:
        assert e.primitive is LIGHT
        assert there.issuperset(e.inputs)
        there.update(e.outputs)
    assert there.issuperset(crossing)
    assert sum(v.type.size for v in kept) == _flow(inputs, equations, crossing)


def _flow(inputs: list[Var], equations: list[Equation], crossing: list[Var]) -> int:
    """The same by SciPy: values are pairs of places, from where they are made to where they are read."""
    place = {e.outputs[0]: 2 * k + 2 for k, e in enumerate(equations)}
    edges = {(place[v] + 1, 1): 10**6 for v in crossing if v not in inputs}
    for e in equations:
        (y,) = e.outputs
        edges[place[y], place[y] + 1] = y.type.size
        if e.primitive is HEAVY:
            edges[0, place[y]] = 10**6
            continue
        edges |= {(place[a] + 1, place[y]): 10**6 for a in e.inputs if a not in inputs}
    (rows, columns), size = zip(*edges, strict=True), 2 * len(equations) + 2
    capacities = np.array(list(edges.values()), np.int32)
    network = coo_array((capacities, (rows, columns)), (size, size)).tocsr()
    return int(maximum_flow(network, 0, 1).flow_value)


def soft_sort(x):
    ordered = np.sort(x)
    away = -np.abs(ordered[:, None] - x) / 0.3
    weights = np.exp(away - away.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ x


def trajectory(start, rates):
    states = np.zeros((50, len(start)))
    state = start
    for k in range(50):
        state = state + 0.1 * np.tanh(rates @ state)
        states[k] = state
    return states


def solution(a, b):
    return np.linalg.solve(a, b)


def several(x, w):
    y = x
    for _ in range(5):
        y = np.sin(w @ y)
    return {"last": y, "best": np.argmax(y), "name": "several", "all": [y * x, x.sum()]}


def draw(*shape: int) -> Any:
    numbers = np.random.default_rng(sum(shape)).normal(size=shape)
    return torch.from_numpy(numbers).requires_grad_()


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "soft sort": (soft_sort, (draw(9),)),
    "trajectory": (trajectory, (draw(4), draw(4, 4))),
    "solution": (solution, (draw(5, 5), draw(5))),
    "several": (several, (draw(4), draw(4, 4))),
}


def kept_by(y: Any) -> list[tuple[int, ...]]:
    """The shapes of what the node of a result has saved beyond its arguments."""
    node = y.grad_fn
    return sorted([tuple(t.shape) for t in node.saved_tensors[node.call.tensors :]])


def flat(result: Any) -> Any:
    numbers = [y for y in bs.tree.flatten(result)[0] if isinstance(y, torch.Tensor)]
    return torch.cat([y.reshape(-1) for y in numbers if y.requires_grad])


@pytest.fixture
def always(monkeypatch: Any) -> None:
    """Two parts whatever they cost: that depends on sizes, and on the machine."""
    monkeypatch.setattr(parted, "_pays", lambda *_: True)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", CASES)
def test_backward_runs_nothing_forward_again(name: str, monkeypatch: Any) -> None:
    f, args = CASES[name]
    operator = function(f)
    want = torch.autograd.grad(flat(operator(*args)).square().sum(), args, create_graph=True)
    monkeypatch.setattr(Derived, "pulled", None)  # which begins at the arguments
    result = flat(operator(*args))
    for _ in range(2):
        found = torch.autograd.grad(result.square().sum(), args, retain_graph=True)
        for a, b in zip(found, want, strict=True):
            assert torch.allclose(a, b.detach(), rtol=1e-10, atol=1e-12)


KEPT = {
    "soft sort": [(9,), (9, 9)],  # the order and the weights
    "trajectory": [(50, 4), (50, 4)],
    "solution": [(5, 1)],
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_until_backward(name: str) -> None:
    f, args = CASES[name]
    result = function(f)(*args)
    assert kept_by(result) == KEPT[name]
    result.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        _ = result.grad_fn.saved_tensors


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["soft sort", "solution", "several"])
def test_derivatives_of_both_orders(name: str) -> None:
    f, args = CASES[name]
    operator = function(f)
    assert gradcheck(lambda *xs: flat(operator(*xs)), args, check_batched_grad=True)
    assert gradgradcheck(lambda *xs: flat(operator(*xs)), args)


@pytest.mark.usefixtures("always")
def test_results_may_be_changed_in_place() -> None:
    a, b = CASES["solution"][1]
    x = function(solution)(a, b)
    (want,) = torch.autograd.grad(x.sum(), b, retain_graph=True)
    x.mul_(2)
    (found,) = torch.autograd.grad(x.sum(), b)
    assert torch.allclose(found, 2 * want)


@pytest.mark.usefixtures("always")
def test_a_result_without_a_seed_is_none_with_a_seed_of_zero() -> None:
    f = function(lambda x: (np.sort(x) ** 2, np.sqrt(np.sort(x) - np.sort(x)[0])))
    x = draw(5)
    squares, roots = f(x)
    assert kept_by(squares)
    squares.sum().backward()
    assert torch.allclose(x.grad, 2 * x)  # the roots have an infinite slope
    assert not torch.isfinite(torch.autograd.grad(f(x)[1].sum(), x)[0]).all()
    assert roots[0] == 0


@pytest.mark.usefixtures("always")
def test_numbers_of_python_are_kept_as_such() -> None:
    @function
    def f(x):
        factor = 1.0
        for k in range(len(x)):
            if x[k] > 0:
                factor = factor * 1.5
        return np.sin(x) * factor

    x = torch.tensor([1.0, -1.0, 2.0], requires_grad=True)
    y = f(x)
    assert y.grad_fn.call.kept != []
    y.sum().backward()
    assert x.grad.dtype == torch.float32
    assert torch.allclose(x.grad, 2.25 * torch.cos(x))


@pytest.mark.usefixtures("always")
def test_checkpoints_and_loops_of_unknown_length_keep_nothing() -> None:
    def root(a):
        x = a
        while np.abs(x * x - a).max() > 1e-12:
            x = (x + a / x) / 2
        return x

    start, rates = CASES["trajectory"][1]
    y = function(bs.checkpoint(trajectory))(start, rates)
    want = torch.autograd.grad(function(trajectory)(start, rates).sum(), (start, rates))
    assert kept_by(y) == []
    for a, b in zip(torch.autograd.grad(y.sum(), (start, rates)), want, strict=True):
        assert torch.allclose(a, b)
    a = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = function(root)(a)
    assert kept_by(y) == []
    y.sum().backward()
    assert torch.allclose(a.grad, 0.5 / a.sqrt())


@pytest.mark.usefixtures("always")
def test_checkpoints_of_pytorch_compute_it_anew() -> None:
    start, rates = CASES["trajectory"][1]
    f = function(trajectory)
    want = torch.autograd.grad(f(start, rates).sum(), rates)
    y = torch.utils.checkpoint.checkpoint(f, start, rates, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(y.sum(), rates)[0], want[0])


def test_it_has_to_pay() -> None:
    small, x = function(lambda a, x: np.tanh(a @ x)), draw(2)
    assert kept_by(small(draw(2, 2), x)) == []

    def long(start, rates):
        state = start
        for _ in range(2000):
            state = state + 0.001 * np.tanh(rates @ state)
        return state

    assert kept_by(function(long)(draw(30), draw(30, 30))) == [(2000, 30)] * 2
