"""A module whose functions are compiled in two halves: what they call and read in each other is found."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native import build, halves
from backsolve.backends.native.functions import keep_apart
from backsolve.backends.native.steps import INT


def internal(module, name, arguments, as_it_is):
    made = ir.Function(module, ir.FunctionType(INT, [INT] * arguments), name)
    made.linkage = "internal"
    keep_apart(made, as_it_is)
    return made, ir.IRBuilder(made.append_basic_block("entry"))


def program():
    """run(x) = cold(x) = 100 hot(x, 3) + table[1]; hot(x, n) = n (x + once(7)) + table[0]."""
    module = ir.Module()
    table = ir.GlobalVariable(module, ir.ArrayType(INT, 2), "table")
    table.initializer, table.linkage = ir.Constant(table.value_type, [5, 6]), "internal"
    entry = lambda b, k: b.load(b.gep(table, [INT(0), INT(k)]))
    once, b = internal(module, "once", 1, False)
    once.attributes.discard("noinline")
    once.attributes.add("alwaysinline")
    b.ret(b.mul(once.args[0], INT(2)))
    hot, b = internal(module, "hot", 2, False)
    x, n = hot.args
    b.ret(b.add(b.mul(n, b.add(x, b.call(once, [INT(7)]))), entry(b, 0)))
    cold, b = internal(module, "cold", 1, True)
    y = b.mul(INT(100), b.call(hot, [cold.args[0], INT(3)]))
    b.ret(b.add(b.add(y, entry(b, 1)), b.sub(b.call(once, [INT(7)]), INT(14))))
    run = ir.Function(module, ir.FunctionType(INT, [INT]), "run")
    b = ir.IRBuilder(run.append_basic_block("entry"))
    b.ret(b.call(cold, run.args))
    return module


@pytest.mark.parametrize("few", [0, halves.FEW], ids=["two", "one"])
def test_both_halves_are_one_program(monkeypatch, few):
    monkeypatch.setattr(halves, "FEW", few)
    text = halves.text_of(program())
    assert (halves.BETWEEN in text) == (few == 0)
    engine, _ = build.load(text)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("run"))
    assert run(4) == 100 * (3 * (4 + 14) + 5) + 6
    assert "cold" in build.assembly(text)


def test_a_number_that_all_callers_give_is_put_in():
    module = program()
    halves.put_in_constants([f for f in module.functions if f.blocks])
    hot = str(module.globals["hot"])
    first, second = module.globals["hot"].args
    assert "mul i64 3, " in hot
    assert hot.count(second.get_reference()) == 1  # where it is declared
    assert hot.count(first.get_reference()) == 2  # what cold was given is not known


def test_a_number_that_differs_stays_an_argument():
    module = program()
    b = ir.IRBuilder(module.globals["run"].blocks[0])
    b.position_before(b.block.instructions[0])
    b.call(module.globals["hot"], [INT(1), INT(2)])
    halves.put_in_constants([f for f in module.functions if f.blocks])
    second = module.globals["hot"].args[1]
    assert str(module.globals["hot"]).count(second.get_reference()) == 2


@pytest.mark.parametrize("few", [0, 10**9], ids=["two", "one"])
def test_a_gradient_is_the_same_in_halves(monkeypatch, few):
    monkeypatch.setattr(halves, "FEW", few)
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", "")
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(30, 40)), rng.normal(size=(50, 30))

    def loss(w, x):
        return np.sum(np.tanh(x @ w) ** 2) / np.sum(np.abs(w[0]))

    got = bs.jit(bs.grad(loss))(w, x)
    np.testing.assert_allclose(got, bs.grad(loss)(w, x), rtol=1e-10)
