"""Simplification does not look again at what it has seen, unless something around it is new."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import rewrite
from backsolve.ir import Equation, Program, Type, Var, type_of
from backsolve.primitive import P
from backsolve.rewrite.engine import Walk
from backsolve.rewrite.expand import expand
from backsolve.rewrite.simplify import simplify
from backsolve.trace import stage

V = np.arange(1.0, 5.0)


def staged(f, *args):
    outputs = lambda *xs: bs.tree.flatten(f(*xs))[0]
    return stage(outputs, [type_of(a) for a in args])[0]


def names(program):
    return [e.primitive.name for e in program.equations]


def without_memory(program):
    """The same with equations that nobody has seen."""
    anew = [
        Equation(e.outputs, e.primitive, e.inputs, e.params, e.where) for e in program.equations
    ]
    return Program(program.inputs, program.constants, tuple(anew), program.outputs)


@pytest.fixture
def visited(monkeypatch):
    """The names of the equations whose rules are asked."""
    found = []
    is_as_seen = Walk.is_as_seen

    def watched(walk, e):
        passed_over = is_as_seen(walk, e)
        found.extend([] if passed_over else [e.primitive.name])
        return passed_over

    monkeypatch.setattr(Walk, "is_as_seen", watched)
    return found


def layers(x, w):
    for _ in range(3):
        x = np.tanh(x @ w) * 2.0 - x
    return np.mean(x**2)


def test_a_simple_program_is_not_visited_again(visited):
    once = rewrite.rewrite(staged(bs.grad(layers), np.eye(4), np.eye(4)))
    assert visited
    visited.clear()
    again = simplify(once)
    assert not visited
    assert all(a is b for a, b in zip(again.equations, once.equations, strict=True))
    assert str(simplify(without_memory(once))) == str(once)
    assert visited


def test_only_what_is_around_an_expansion_is_visited(visited):
    def f(x, w):
        return np.log(layers(x, w)) + bs.nn.functional.softmax(np.sin(x)).sum()

    before = rewrite.rewrite(staged(f, np.eye(4), np.eye(4)))
    after = expand(before)
    assert "softmax" in names(before)
    assert "softmax" not in names(after)
    kept = [e for e in before.equations if e.primitive.name in ("tanh", "contract", "log", "sin")]
    assert len(kept) == 8
    assert all(any(e is other for other in after.equations) for e in kept)
    visited.clear()
    simplify(after)
    assert "exp" in visited
    assert not {"tanh", "contract", "log", "sin"} & set(visited)


def product(x, c):
    """x * c, by an equation that has been seen with a constant c."""
    y = Var(x.type)
    e = Equation((y,), P.multiply, (x, c), {})
    return e, y


def test_another_constant_is_seen():
    x, c = Var(type_of(V)), Var(type_of(V))
    e, y = product(x, c)
    assert simplify(Program((x,), ((c, V),), (e,), (y,))).equations == (e,)
    with_ones = simplify(Program((x,), ((c, np.ones(4)),), (e,), (y,)))
    assert with_ones.equations == ()
    assert with_ones.outputs == (x,)
    assert simplify(Program((x, c), (), (e,), (y,))).equations == (e,)


def test_a_reader_less_is_seen():
    x, w = Var(type_of(V)), Var(type_of(V))
    minus = Var(x.type)
    first = Equation((minus,), P.negative, (x,), {})
    e, y = product(minus, w)
    both = Program((x, w), (), (first, e), (y, minus))
    assert simplify(both).equations == both.equations
    alone = simplify(Program((x, w), (), (first, e), (y,)))
    assert names(alone) == ["negative", "multiply", "negative"]


def test_what_a_mask_rests_on_is_seen():
    """where(m, y, 0) with y = where(m, x, z) + 0: whether z is zero is found two equations away."""
    truth = Type((4,), np.dtype(bool))
    x, z, m = Var(type_of(V)), Var(type_of(V)), Var(truth)
    inner, doubled, out = (Var(x.type) for _ in range(3))
    chosen = lambda other: Equation((inner,), P.where, (m, x, other), {})
    factor = Equation((doubled,), P.multiply, (inner, 2.0), {})
    last = Equation((out,), P.where, (m, doubled, 0.0), {})
    readers = (out, doubled, inner)  # so that no choice is decided inside the product
    before = Program((x, z, m), (), (chosen(z), factor, last), readers)
    assert simplify(before).equations == before.equations
    after = Program((x, z, m), (), (chosen(0.0), factor, last), readers)
    assert simplify(after).outputs == (doubled, doubled, inner)


def test_expansions_know_the_users_line():
    def f(x):
        return np.sum(np.hypot(x, 2.0))  # this line

    wheres = {e.where for e in expand(staged(f, V)).equations}
    assert len(wheres) == 1
    assert "this line" in wheres.pop()
