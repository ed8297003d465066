"""Dicts are matched by their keys, in whatever order they stand."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import tree
from backsolve.errors import StructureError

HERE = {"a": 2.0, "b": np.array([3.0, 1.0])}
THERE = {"b": np.array([10.0, 20.0]), "a": 1.0}  # a direction
SORTED = {"a": THERE["a"], "b": THERE["b"]}


def f(d: Any) -> Any:
    return d["a"] ** 2 * d["b"][0] + d["b"][1] ** 3 * d["a"]


def pair(d: Any) -> Any:
    return {"x": d["a"] ** 2, "y": 7 * d["b"]}


def model(d: Any, x: Any) -> Any:
    return d["a"] * x + d["b"]


def kfac(v: Any) -> Any:
    at = {"a": np.eye(2) * 2, "b": np.array([[1.0, 2.0], [3.0, 5.0]])}
    layers = lambda p, x: np.tanh(x @ p["a"]) @ p["b"]
    factors = bs.fisher(layers, "normal")(at, np.array([[1.0, 2.0], [3.0, 1.0]])).kfac()
    square = {name: np.outer([1.0, 2.0], x * np.ones(2)) for name, x in v.items()}
    return factors.apply(square), factors.solve(square, 0.1)


WAYS = {
    "jvp": lambda v: bs.jvp(f, [HERE], [v])[1],
    "hvp": lambda v: bs.hvp(f)(HERE, v),
    "forward": lambda v: bs.linearize(f)(HERE).forward(v),
    "operator": lambda v: bs.hessian_operator(f)(HERE)(v),
    "solve": lambda v: bs.gauss_newton(model, lambda z: (z**2).sum())(HERE, np.ones(2)).solve(v, 1.0),
    "gauss newton": lambda v: bs.gauss_newton(model, lambda z: (z**2).sum())(HERE, np.ones(2))(v),
    "fisher": lambda v: bs.fisher(model, "poisson")(HERE, np.array([0.1, 0.2]))(v),
    "kfac": kfac,
    "jet": lambda v: bs.jet(f, (HERE,), [[v, v]])[1],
    "linear solve": lambda v: bs.linear_solve(lambda x: {"b": 2 * x["b"], "a": 3 * x["a"]}, v, method="cg"),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_directions_and_right_hand_sides(name: str) -> None:
    expected, found = WAYS[name](SORTED), WAYS[name](THERE)
    leaves, form = tree.flatten(expected)
    for x, y in zip(leaves, tree.flatten_like(found, form)[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


def test_seeds() -> None:
    seed = {"y": np.array([1.0, 2.0]), "x": 3.0}
    for found in (bs.vjp(pair, HERE)[1](seed)[0], bs.linearize(pair)(HERE).backward(seed)):
        assert found["a"] == 12
        np.testing.assert_array_equal(found["b"], [7, 14])


STEPS = {
    "fori": lambda d: bs.fori_loop(0, 3, lambda i, s: {"b": s["b"] * 2, "a": s["a"] + 1}, d),
    "while": lambda d: bs.while_loop(
        lambda s: s["a"] < 5, lambda s: {"b": s["b"] * 2, "a": s["a"] + 1}, d
    ),
    "scan": lambda d: bs.scan(lambda s, x: ({"b": s["b"] * 2, "a": s["a"] + x}, x), d, np.ones(3))[
        0
    ],
    "cond": lambda d: bs.cond(
        d["a"] > 0, lambda s: {"b": s["b"] * 8, "a": s["a"] + 3}, lambda s: s, d
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_states_of_loops_and_branches(name: str) -> None:
    step = STEPS[name]
    for run in (step, bs.jit(step), bs.checkpoint(step, memory="2kB")):
        found = run(HERE)
        assert found["a"] == 5
        np.testing.assert_array_equal(found["b"], [24, 8])


def test_a_fixed_point_whose_function_turns_its_state_round() -> None:
    found = bs.fixed_point(
        lambda x: {"b": 0.1 * x["a"] + 3, "a": 0.2 * x["a"] + 2}, {"a": 0.0, "b": 0.0}
    )
    np.testing.assert_allclose([found["a"], found["b"]], [2.5, 3.25])  # fmt: skip


def test_other_keys_are_refused() -> None:
    other = {"a": 1.0, "c": np.ones(2)}
    with pytest.raises(StructureError, match="form of the parameters"):
        bs.hessian_operator(f)(HERE)(other)
    with pytest.raises(StructureError, match="derivative 1 must have the form"):
        bs.jet(f, (HERE,), [[other]])
    with pytest.raises(StructureError, match="the form of what it goes with"):
        bs.jvp(f, [HERE], [other])


def test_flatten_like() -> None:
    form = tree.flatten((OrderedDict(u=1, v=[2, {"p": 3, "q": 4}]), defaultdict(list, s=5)))[1]
    turned = (OrderedDict(v=[20, {"q": 40, "p": 30}], u=10), defaultdict(list, s=50))
    assert tree.flatten_like(turned, form) == ([10, 20, 30, 40, 50], form)
    for bad in (
        (turned[0], {"s": 50}),
        (turned[0],),
        [*turned],
        (OrderedDict(v=[20], u=10), turned[1]),
    ):
        assert tree.flatten_like(bad, form) == tree.flatten(bad)  # fmt: skip
