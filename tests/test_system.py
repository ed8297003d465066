"""The System: its entries as dense matrices, its solves, its text."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors, nn
from backsolve.operators import Diagonal, Zero

rng = np.random.default_rng(0)
A = rng.normal(size=(3, 4))

PROGRAMS = {
    "scalars": (lambda x: np.log(x[0]) + x[0] * x[1] - np.sin(x[1]), [np.array([2.0, 5.0])]),
    "layer": (lambda W, x, b: np.tanh(W @ x + b), [A, rng.normal(size=4), 0.5]),
    "broadcast": (
        lambda x, y: np.exp(x * y).sum(axis=0),
        [rng.normal(size=(3, 1)), rng.normal(size=4)],
    ),
    "square twice": (lambda x: (x * x) * (x * x), [rng.normal(size=3)]),
    "where": (lambda x: np.where(x > 0, x, x * x)[::2], [rng.normal(size=5)]),
    "write": (lambda x: _write(x), [rng.normal(size=4)]),
    "joined": (
        lambda x, y: np.concatenate([x * 2, y[None]]).reshape(2, 2),
        [np.ones(3), np.float64(2)],
    ),
    "checkpoint": (lambda x: bs.checkpoint(lambda t: np.sin(t) * t)(x) * 2, [rng.normal(size=3)]),
}


def _write(x):
    y = x * 2
    y[1:3] = x[0] * y[:2]
    return y


def dense_jacobian(system):
    """(I − L)⁻¹ D by dense linear algebra, from the entries that the system shows."""
    sizes = [r.size for r in system.rows]
    ends = np.cumsum([0, *sizes])
    columns = np.cumsum([0, *[p.size for p in system.parameters]])
    L, D = np.zeros((ends[-1], ends[-1])), np.zeros((ends[-1], columns[-1]))
    for (i, j), block in system.L.items().items():
        L[ends[i - 1] : ends[i], ends[j - 1] : ends[j]] = block.dense()
    for (i, k), block in system.D.items().items():
        D[ends[i - 1] : ends[i], columns[k - 1] : columns[k]] = block.dense()
    everything = np.linalg.solve(np.eye(ends[-1]) - L, D)
    k = system.number[system.outputs[0]]
    return everything[ends[k - 1] : ends[k]]


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "checkpoint"])
def test_entries_are_those_of_the_system(name):
    f, args = PROGRAMS[name]
    system = bs.linearize(f)(*args)
    numbers = tuple(range(len(args)))
    J = bs.jacobian(f, argnums=numbers)(*args)
    flat = np.concatenate([np.reshape(j, (system.outputs[0].size, -1)) for j in J], axis=1)
    np.testing.assert_allclose(dense_jacobian(system), flat, atol=1e-12)
    assert all(j < i for i, j in system.L.items())  # strictly lower triangular


@pytest.mark.parametrize("name", PROGRAMS)
def test_solves_agree(name):
    f, args = PROGRAMS[name]
    system = bs.linearize(f)(*args)
    dp = [rng.normal(size=np.shape(a)) for a in args]
    y, dy = bs.jvp(f, args, dp)
    np.testing.assert_allclose(system.forward(*dp), dy, atol=1e-12)
    seed = rng.normal(size=np.shape(y))
    expected = bs.vjp(f, *args)[1](seed)
    got = system.backward(seed)
    for a, b in zip(got if len(args) > 1 else [got], expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    J = system.jacobian("forward")
    K = system.jacobian("reverse")
    for a, b in zip(J if len(args) > 1 else [J], K if len(args) > 1 else [K], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_entries_by_printed_number():
    system = bs.linearize(PROGRAMS["scalars"][0])(np.array([2.0, 5.0]))
    assert isinstance(system.L[2, 1], Diagonal)
    assert repr(system.L[2, 1]) == "Diagonal(0.5)"
    assert isinstance(system.L[3, 1], Zero)
    assert repr(system.D[1, 1]) == "Slice[0]"
    assert system.L.shape == (7, 7)
    with pytest.raises(IndexError, match=r"rows are 1 … 7"):
        system.L[0, 1]


def test_repeated_reads_are_one_row():
    system = bs.linearize(lambda x: x[0] * x[0] + np.sin(x[0]) * np.sin(x[0]))(np.ones(2))
    assert [r.primitive.name for r in system.rows] == [
        "slice",
        "multiply",
        "sin",
        "multiply",
        "add",
    ]


def test_costs_of_a_chain_of_matrices():
    """y = A B C x: reverse multiplies three matrices by each of 2 rows, forward by each of 5 columns."""
    C, B, D = rng.normal(size=(4, 5)), rng.normal(size=(3, 4)), rng.normal(size=(2, 3))
    system = bs.linearize(lambda x: D @ (B @ (C @ x)))(np.ones(5))
    assert system.cost("reverse") == 2 * (20 + 12 + 6)
    assert system.cost("forward") == 5 * (20 + 12 + 6)
    with pytest.raises(ValueError, match="forward"):
        system.cost("sideways")


def test_joint_rows_print_and_have_no_price():
    system = bs.linearize(PROGRAMS["checkpoint"][0])(np.ones(3))
    assert "checkpoint" in str(system)
    with pytest.raises(errors.UnsupportedError, match="not known"):
        system.cost("reverse")


def test_text_of_a_vector_program():
    text = str(bs.linearize(lambda W, x: np.tanh(W @ x))(A, np.ones(4)))
    assert "2 rows, 2 parameters, 3 blocks" in text
    assert "contract[ab,b->a](W, x)" in text
    assert "seed" in text


def test_text_of_a_large_program_is_its_pattern():
    def f(x):
        for _ in range(40):
            x = np.sin(x) * 2.0
        return x.sum()

    text = str(bs.linearize(f)(np.ones(3)))
    assert "81 rows" in text
    assert "80 Diagonal" in text
    assert "╲" in text


def test_wrong_number_of_differentials():
    system = bs.linearize(lambda x, y: x * y)(1.0, 2.0)
    with pytest.raises(errors.StructureError, match="2 parameters"):
        system.forward(1.0)


def test_linearize_inside_grad():
    def f(x):
        return bs.linearize(lambda y: np.sin(x * y))(2.0).backward(1.0)

    assert bs.grad(f)(0.3) == pytest.approx(
        bs.grad(lambda x: bs.grad(lambda y: np.sin(x * y))(2.0))(0.3)
    )


class Two(NamedTuple):
    left: float
    right: list[float]


@dataclass
class Line:
    slope: float
    shift: float


@pytest.mark.parametrize(
    ("f", "args", "names"),
    [
        (lambda p, x: p["w"] * x, ({"w": 2.0}, 3.0), ["p['w']", "x"]),
        (lambda p: p[0]["a"] * p[1], (({"a": 1.0}, 2.0),), ["p[0]['a']", "p[1]"]),
        (lambda t: t.left * t.right[1], (Two(1.0, [2.0, 3.0]),), ["t.left", "t.right[0]", "t.right[1]"]),
        (lambda line: line.slope, (Line(1.0, 2.0),), ["line.slope", "line.shift"]),
        (lambda d: d[1] * d["1"], (OrderedDict({1: 2.0, "1": 3.0}),), ["d[1]", "d['1']"]),
        (lambda a, *rest: a * rest[1], (1.0, 2.0, 3.0), ["a", "rest[0]", "rest[1]"]),
        (lambda d: d["x"], ({"name": "a", "x": 1.0},), ["d['x']"]),
        (lambda m: m(np.ones(2)), (nn.Sequential(nn.Linear(2, 1)),), ["m.0.weight", "m.0.bias"]),
    ],
)  # fmt: skip
def test_parameters_are_named_as_their_callers_do(f, args, names):
    assert bs.linearize(f)(*args).names == names


def test_only_the_parameters_that_vary_are_named():
    assert bs.linearize(lambda x, y, z: x * y * z, argnums=(2, 0))(1.0, 2.0, 3.0).names == [
        "z",
        "x",
    ]


def test_a_function_that_does_not_tell_its_names_has_numbered_parameters():
    class Silent:
        __signature__ = "none"

        def __call__(self, x):
            return x * x

    assert bs.linearize(Silent())(1.0).names == ["p1"]


@pytest.mark.parametrize("place", [(slice(1, 3), 1), 1, (1.0, 1)])
def test_entries_are_asked_for_by_two_numbers(place):
    system = bs.linearize(lambda x: np.sin(x) * x)(2.0)
    with pytest.raises(IndexError, match=r"a row and a column, as in \[2, 1\]"):
        system.L[place]
