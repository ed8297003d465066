"""Stacks and calls in registers: derivatives of loops of unknown length, and recursive functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
import backsolve.control
from backsolve.backends.native.compile import compile_program
from backsolve.ir import Program, Type
from backsolve.primitive import P
from backsolve.primitives.control import BRANCH, CALL, LENGTH, LOOP, NO_ENTRIES
from backsolve.regions import INDEX, Branches, Callee, Empty, Length, Loop
from backsolve.trace import evaluate, stage_region

WHOLE = Type((), np.dtype(int))


def T(*shape: int, dtype: Any = float) -> Type:
    return Type(shape, np.dtype(dtype))


def program(f: Any, *types: Type) -> Program:
    def flat(*xs: Any) -> list[Any]:
        found = f(*xs)
        return list(found) if isinstance(found, list | tuple) else [found]

    return stage_region(flat, types, None).verify()


def compare(p: Program, *args: Any) -> Any:
    arrays = [np.array(a, v.dtype) for a, v in zip(args, p.inputs, strict=True)]
    native = compile_program(p)
    assert "registers" in native.stages["steps"]()
    found = native.call(*arrays)
    found = found if isinstance(found, tuple) else (found,)
    for x, y in zip(found, evaluate(p, arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    return native


# A stack of the values x, 2x, 4x, … below a limit; and its sum, taken from its end.
DOUBLING = Loop(
    program(lambda k, x, limit: (x * 2, x), INDEX, T(), T()),
    carried=1,
    fixed=1,
    sequences=0,
    goes_on=program(lambda k, x, limit: x < limit, INDEX, T(), T()),
)
TOTAL = Loop(
    program(lambda k, s, x: 0.5 * s + x, INDEX, T(), T()), 1, 0, 1, counted=True, reverse=True
)


@pytest.mark.parametrize("limit", [0.5, 1.5, 1e300])
def test_a_stack_grows_and_is_read(limit: float) -> None:
    def f(x: Any, limit: Any) -> Any:
        last, tape, rounds = LOOP(x, limit, region=DOUBLING)
        return last, LOOP(rounds, 0.0, tape, region=TOTAL)[0]

    compare(program(f, T(), T()), 1.0, limit)


def test_a_long_stack() -> None:
    body = program(lambda k, x: (x + 1.0, x, k * 2, x > 5.0), INDEX, T())
    make = Loop(body, 1, 0, 0, program(lambda k, x: x < 3000.0, INDEX, T()))
    read = program(
        lambda k, s, x, n, flag: np.where(flag, s + x - n, s), INDEX, T(), T(), INDEX, T(dtype=bool)
    )
    add = Loop(read, 1, 0, 3, counted=True)

    def f(x: Any) -> Any:
        _, xs, ns, flags, rounds = LOOP(x, region=make)
        return LOOP(rounds, 0.0, xs, ns, flags, region=add)[0]

    compare(program(f, T()), 0.0)


def test_stacks_of_stacks() -> None:
    """Entries that are stacks, of different lengths."""

    def body(k: Any, s: Any, limit: Any) -> Any:
        last, tape, _ = LOOP(s, limit, region=DOUBLING)
        return last / 3, tape

    goes_on = program(lambda k, s, limit: k < 40, INDEX, T(), T())
    outer = Loop(program(body, INDEX, T(), T()), 1, 1, 0, goes_on)
    entry = Type((-1,), np.dtype(float))

    def back(k: Any, s: Any, tape: Any) -> Any:
        (count,) = LENGTH(tape, region=Length())
        return LOOP(count, s, tape, region=TOTAL)[0]

    total = Loop(program(back, INDEX, T(), entry), 1, 0, 1, counted=True, reverse=True)

    def f(x: Any, limit: Any) -> Any:
        last, tapes, rounds = LOOP(x, limit, region=outer)
        return last, LOOP(rounds, 0.0, tapes, region=total)[0]

    compare(program(f, T(), T()), 1.0, 1000.0)


def test_a_stack_that_a_round_keeps_to_itself_gives_its_memory_back() -> None:
    def body(k: Any, s: Any, limit: Any) -> Any:
        _, tape, rounds = LOOP(1.0 + 0 * s, limit, region=DOUBLING)
        return 0.5 * s + LOOP(rounds, 0.0, tape, region=TOTAL)[0]

    outer = Loop(program(body, INDEX, T(), T()), 1, 1, 0, count=2000)
    compare(program(lambda s, limit: LOOP(s, limit, region=outer)[0], T(), T()), 0.0, 100.0)


def test_a_branch_makes_a_stack_or_none() -> None:
    empty = Empty(Type((-1,), np.dtype(float)))
    none = program(lambda x, limit: (x, NO_ENTRIES(region=empty)[0]), T(), T())
    some = program(lambda x, limit: LOOP(x, limit, region=DOUBLING)[:2], T(), T())
    region = Branches((none, some))

    def f(which: Any, x: Any, limit: Any) -> Any:
        y, tape = BRANCH(which, x, limit, region=region)
        (count,) = LENGTH(tape, region=Length())
        return y, LOOP(count, 0.0, tape, region=TOTAL)[0]

    p = program(f, T(dtype=bool), T(), T())
    compare(p, True, 1.0, 50.0)
    compare(p, False, 1.0, 50.0)


def test_entries_that_are_arrays() -> None:
    body = program(lambda k, x, A: (x * 0.9, x * A[k % 40, 3], A[k % 40]), INDEX, T(3), T(40, 30))
    goes_on = program(lambda k, x, A: np.max(np.abs(x)) > 1e-3, INDEX, T(3), T(40, 30))
    make = Loop(body, 1, 1, 0, goes_on)
    read = program(lambda k, s, x, row: s + x * row[k % 30], INDEX, T(3), T(3), T(30))
    add = Loop(read, 1, 0, 2, counted=True, reverse=True)

    def f(x: Any, A: Any) -> Any:
        _, xs, rows, rounds = LOOP(x, A, region=make)
        return LOOP(rounds, x, xs, rows, region=add)[0]

    rng = np.random.default_rng(0)
    compare(program(f, T(3), T(40, 30)), rng.normal(size=3), rng.normal(size=(40, 30)))


# ---- calls


def recursive(name: str, f: Any, types: list[Type], outputs: list[Type]) -> Callee:
    """`f(call, *args)`, where call(*args) is the function itself."""
    callee = Callee(name, outputs, is_recursive=True)
    callee.program = program(lambda *xs: f(lambda *ys: CALL(*ys, region=callee), *xs), *types)
    return callee


def select(condition: Any, yes: Any, no: Any, *args: Any) -> Any:
    types = [Type(a.shape, a.dtype) for a in args]
    return BRANCH(condition, *args, region=Branches((program(no, *types), program(yes, *types))))


def test_a_function_that_calls_itself_twice() -> None:
    def f(call: Any, n: Any, x: Any) -> Any:
        more = lambda n, x: call(n - 1, x * 0.5)[0] + call(n - 2, x + 1.0)[0]
        return select(n < 2, lambda n, x: x * 1.0, more, n, x)

    fibonacci = recursive("fibonacci", f, [WHOLE, T()], [T()])
    p = program(lambda n, x: CALL(n, x, region=fibonacci), WHOLE, T())
    compare(p, 12, 0.3)


def test_recursion_without_end_is_an_error() -> None:
    forever = recursive("forever", lambda call, x: [call(x + 1.0)[0] * 2.0], [T()], [T()])
    native = compile_program(program(lambda x: CALL(x, region=forever), T()))
    with pytest.raises(RecursionError, match="`forever` calls itself"):
        native.call(np.zeros(()))


def test_recursion_with_arrays() -> None:
    """Arrays go down by reference; what a call writes, its caller does not see."""

    def more(n: Any, x: Any, A: Any) -> Any:
        B = P.scatter_set(A, x, n)
        y, C = call_it(n - 1, x + A[n], B)
        return y + A[n] + C[n], P.scatter_set(C, y, 0)

    def f(call: Any, n: Any, x: Any, A: Any) -> Any:
        nonlocal call_it
        call_it = call
        return select(n < 1, lambda n, x, A: (x + A[n], A), more, n, x, A)

    call_it: Any = None
    callee = recursive("walk", f, [WHOLE, T(), T(50)], [T(), T(50)])
    p = program(lambda n, x, A: [*CALL(n, x, A, region=callee), A[3]], WHOLE, T(), T(50))
    compare(p, 20, 0.5, np.random.default_rng(1).normal(size=50))


def test_recursion_with_stacks() -> None:
    """Each call makes a stack of its own while calls inside it make theirs."""
    stack = Type((-1,), np.dtype(float))

    def f(call: Any, n: Any, x: Any) -> Any:
        def more(n: Any, x: Any) -> Any:
            def body(k: Any, s: Any, n: Any) -> Any:
                y, tape = call(n - 1, s * 0.5)
                (count,) = LENGTH(tape, region=Length())
                return LOOP(count, y, tape, region=TOTAL)[0] + s * 0.1, s

            goes_on = program(lambda k, s, n: k < n, INDEX, T(), WHOLE)
            made = Loop(program(body, INDEX, T(), WHOLE), 1, 1, 0, goes_on)
            y, tape, _ = LOOP(x, n, region=made)
            return y, tape

        return select(n < 1, lambda n, x: (x, NO_ENTRIES(region=Empty(stack))[0]), more, n, x)

    callee = recursive("tree", f, [WHOLE, T()], [T(), stack])
    p = program(lambda n, x: CALL(n, x, region=callee)[0], WHOLE, T())
    compare(p, 4, 0.5)


def test_a_callee_with_constants_is_called_twice() -> None:
    table = np.random.default_rng(2).normal(size=200)
    callee = Callee("look_up", [T(), T(3)])
    callee.program = program(lambda i, v: (P.gather(table, i), v * 2.0), WHOLE, T(3))

    def f(i: Any, v: Any) -> Any:
        x, v = CALL(i, v, region=callee)
        y, v = CALL(i + 1, v * x, region=callee)
        return x - y, v

    body = program(lambda k, s, v, i: (s + f(i, v)[0], f(i, v)[1]), INDEX, T(), T(3), WHOLE)
    p = program(
        lambda s, v, i: LOOP(s, v, i, region=Loop(body, 2, 1, 0, count=9))[:2], T(), T(3), WHOLE
    )
    compare(p, 0.0, [1.0, 2.0, 3.0], 7)


# ---- derivatives


def check(f: Any, x: float) -> None:
    g = bs.jit(bs.grad(f))
    found = float(g(x))
    assert g.stats()["specialisations"][0]["native"], g.stats()
    h = 1e-6
    assert found == pytest.approx((float(f(x + h)) - float(f(x - h))) / (2 * h), rel=1e-6, abs=1e-7)


def test_gradients_of_loops() -> None:
    def newton(a: Any) -> Any:
        return bs.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)

    def nested(a: Any) -> Any:
        def outer(i: Any, s: Any) -> Any:
            inner = lambda x: bs.cond(x < 2.0, lambda: x * a + 0.1, lambda: x + 0.3)
            return s * 0.9 + bs.while_loop(lambda x: x < 3.0 + i, inner, s * 0.1 + 1.0)

        return bs.fori_loop(0, 6, outer, a)

    check(newton, 3.0)
    check(nested, 1.3)
