"""Which functions are left to LLVM as they are."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native.heat import GUESS, LARGE, MANY, TOGETHER, VECTOR, Heat, spare_work
from backsolve.backends.native.loops import INT
from backsolve.backends.native.nests import loop
from backsolve.backends.native.repeat import loop_between

VOID = ir.VoidType()


def function(module, name, arguments=0, internal=True):
    made = ir.Function(module, ir.FunctionType(VOID, [INT] * arguments), name)
    made.linkage = "internal" if internal else ""
    return made, ir.IRBuilder(made.append_basic_block("entry"))


def program(rounds):
    """`run` calls `work` once in each of `rounds`, with 10 and once more with 30, and `rest` once."""
    module = ir.Module()
    work, b = function(module, "work", 2)
    loop_between(b, INT(0), work.args[0], lambda b, i: b.mul(i, i))
    b.ret_void()
    rest, b = function(module, "rest")
    b.ret_void()
    _, b = function(module, "run", internal=False)
    b.call(rest, [])
    loop(b, rounds, lambda b, i: b.call(work, [INT(10), i]))
    loop(b, rounds, lambda b, i: b.call(work, [INT(30), i]))
    b.ret_void()
    return module


def test_runs_and_rounds_are_read_off_the_code():
    module = program(50)
    heat = Heat(module)
    work, rest, run = (module.globals[name] for name in ("work", "rest", "run"))
    assert heat.runs == {run: 1, rest: 1, work: 100}
    inner = len(work.blocks[1].instructions)
    around = len(work.blocks[0].instructions) + len(work.blocks[2].instructions)
    assert heat.instructions[work] == 100 * (20 * inner + around)  # 20 on the average
    assert heat.instructions[rest] == 1


def test_what_runs_next_to_never_is_left_as_it_is():
    module = program(10_000)
    spare_work(module)
    marked = {f.name for f in module.functions if "optnone" in f.attributes}
    assert marked == {"rest"}


def test_what_several_call_now_and_then_is_not_copied_into_them():
    module = ir.Module()
    work, b = function(module, "work")
    loop(b, 10_000, lambda b, i: b.mul(i, i))
    b.ret_void()
    tiny, b = function(module, "tiny")
    b.ret_void()
    _, b = function(module, "run", internal=False)
    for _ in range(MANY + 1):
        b.call(work, [])
        loop(b, 10_000, lambda b, _: b.call(tiny, []))
    b.ret_void()
    spare_work(module)
    assert "noinline" in work.attributes
    assert "optnone" not in work.attributes
    assert "noinline" not in tiny.attributes


def test_what_one_place_calls_goes_into_it_unless_that_is_left_as_it_is():
    module = ir.Module()
    made = {name: function(module, name) for name in ("inner", "work", "rare", "seldom")}
    f = {name: x for name, (x, _) in made.items()}
    for name, callee in (("inner", None), ("work", "inner"), ("rare", None), ("seldom", "rare")):
        b = made[name][1]
        loop(b, 10_000 if callee != "rare" else 2, lambda b, i: b.mul(i, i))
        if callee is not None:
            b.call(f[callee], [])
        b.ret_void()
    _, b = function(module, "run", internal=False)
    loop(b, 1000, lambda b, i: b.call(f["work"], []))
    b.call(f["seldom"], [])
    b.ret_void()
    spare_work(module)
    assert {name for name in f if "alwaysinline" in f[name].attributes} == {"inner"}
    assert {name for name in f if "optnone" in f[name].attributes} == {"rare", "seldom"}


def test_a_branch_around_a_loop_is_no_loop():
    module = ir.Module()
    run, b = function(module, "run", internal=False)
    with b.if_then(ir.IntType(1)(1)):
        loop(b, 7, lambda b, i: b.mul(i, i))
    end = b.block
    b.ret_void()
    assert Heat(module)._rounds(run)[0][end] == 1


def test_unknown_rounds_and_activations_are_guessed():
    module = ir.Module()
    deep, b = function(module, "deep", 1)
    b.call(deep, [b.add(deep.args[0], INT(1))])
    b.ret_void()
    run, b = function(module, "run", 1, internal=False)
    loop_between(b, INT(0), run.args[0], lambda b, i: b.call(deep, [i]))
    b.ret_void()
    heat = Heat(module)
    assert heat.instructions[deep] == GUESS * 3


def test_guesses_are_not_multiplied():
    """What runs until something holds is not left as it is because of other such loops, four deep."""
    module = ir.Module()
    work, b = function(module, "work")
    loop(b, 1000, lambda b, i: b.mul(i, i))
    b.ret_void()
    shallow, b = function(module, "shallow", 1)
    loop_between(b, INT(0), shallow.args[0], lambda b, i: b.call(work, []))
    b.ret_void()
    called = work
    deep = []
    for k in range(4):
        outer, b = function(module, f"deep{k}", 1)
        end = outer.args[0]
        if k == 0:
            loop(b, 1000, lambda b, i: b.mul(i, i))
        else:
            loop_between(b, INT(0), end, lambda b, i, f=called, end=end: b.call(f, [end]))
        b.ret_void()
        called = outer
        deep.append(outer)
    run, b = function(module, "run", 1, internal=False)
    b.call(shallow, [run.args[0]])
    b.call(called, [run.args[0]])
    b.ret_void()
    spare_work(module)
    assert not any("optnone" in f.attributes for f in (work, shallow, *deep))
    runs = Heat(module).runs
    assert runs[work] == runs[deep[0]] == GUESS


def test_small_steps_beside_a_large_one():
    def f(x, y):
        return np.sum(np.sin(x) * x) + np.sum(np.tanh(y)[::-1] * y)

    x, y = np.linspace(-1, 1, 1 << 16), np.linspace(-2, 1, 7)
    g = bs.jit(bs.value_and_grad(f, argnums=(0, 1)))
    value, (dx, dy) = g(x, y)
    expected, (ex, ey) = bs.value_and_grad(f, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(dx, ex, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(dy, ey, rtol=1e-12, atol=1e-14)
    assert "optnone" in g.lower(x, y).stages["llvm"]


def test_ends_of_ranges_are_reckoned():
    """A part of a long loop: its end is the smaller of two numbers, and what is left of it a difference."""
    module = ir.Module()
    work, b = function(module, "work", 2)
    loop_between(b, INT(0), b.sub(work.args[1], work.args[0]), lambda b, i: b.mul(i, i))
    b.ret_void()
    body, b = function(module, "body", 2)
    low, high = (b.mul(a, INT(64)) for a in body.args)
    stop = b.select(b.icmp_signed(">", high, INT(640)), INT(640), high)
    b.call(work, [low, stop])
    b.ret_void()
    _, b = function(module, "run", internal=False)
    b.call(body, [INT(0), INT(10)])
    b.ret_void()
    inner = len(work.blocks[1].instructions)
    assert Heat(module).instructions[work] >= 640 * inner / VECTOR


def test_long_functions_stay_apart_where_they_would_make_a_very_long_one():
    def steps(count):
        module = ir.Module()
        made = []
        for k in range(count):
            step, b = function(module, f"step{k}", 1)
            x = step.args[0]
            for _ in range(2 * LARGE):
                x = b.mul(x, x)
            b.ret_void()
            made.append(step)
        _, b = function(module, "run", internal=False)
        for step in made:
            b.call(step, [INT(3)])
        b.ret_void()
        spare_work(module)
        return [{*step.attributes} for step in made]

    many = TOGETHER // LARGE
    assert all("noinline" in attributes for attributes in steps(many))
    assert all("alwaysinline" in attributes for attributes in steps(3))


def test_a_number_of_rounds_that_cannot_be_is_guessed():
    module = ir.Module()
    work, b = function(module, "work", 1)
    loop_between(b, INT(0), work.args[0], lambda b, i: b.mul(i, i))
    b.ret_void()
    ask = ir.Function(module, ir.FunctionType(INT, []), "ask")
    _, b = function(module, "run", internal=False)
    b.call(work, [b.sub(b.call(ask, []), INT(1))])
    b.ret_void()
    inner = len(work.blocks[1].instructions)
    assert Heat(module).instructions[work] > GUESS * inner


def test_the_smaller_of_two_ends_a_range() -> None:
    """Rows of six numbers in blocks of at most 1,024, as sines take them: six rounds each."""
    module = ir.Module()
    _, b = function(module, "run", internal=False)

    def row(b, i):
        left = b.sub(INT(6), b.mul(INT(0), INT(1024)))
        end = b.select(b.icmp_signed("<", left, INT(1024)), left, INT(1024))
        loop_between(b, INT(0), end, lambda b, j: b.mul(j, j))

    loop(b, 250, row)
    b.ret_void()
    (run,) = module.functions
    assert max(Heat(module)._rounds(run)[0].values()) == 250 * 6


def test_the_larger_of_two_ends_a_range() -> None:
    """What is rounded down to vectors, and at least one of them."""
    module = ir.Module()
    part, b = function(module, "part", 2)
    whole = b.and_(b.sub(part.args[1], part.args[0]), INT(-64))
    end = b.select(b.icmp_unsigned("<", whole, INT(64)), INT(64), whole)
    loop_between(b, INT(0), end, lambda b, i: b.mul(i, i))
    b.ret_void()
    _, b = function(module, "run", internal=False)
    b.call(part, [INT(0), INT(640)])
    b.ret_void()
    assert max(Heat(module)._rounds(part)[0].values()) == 640 / VECTOR
