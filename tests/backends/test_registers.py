"""Loops and branches in registers: hand-made Programs against their meaning in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
import backsolve.control  # what regions mean
from backsolve.backends.native import registers
from backsolve.backends.native.compile import compile_program
from backsolve.ir import Program, Type
from backsolve.primitive import P
from backsolve.primitives.control import BRANCH, LOOP
from backsolve.regions import INDEX, Branches, Loop
from backsolve.trace import evaluate, stage

WHOLE = Type((), np.dtype(int))


def T(*shape: int, dtype: Any = float) -> Type:
    return Type(shape, np.dtype(dtype))


def loop(region: Loop, *atoms: Any) -> Any:
    return LOOP(*atoms, region=region)


def branch(region: Branches, *atoms: Any) -> Any:
    return BRANCH(*atoms, region=region)


def program(f: Any, *types: Type) -> Program:
    return stage(f, types)[0].verify()


def compare(p: Program, *args: Any) -> Any:
    p.verify()
    for e in p.equations:
        if "region" in e.params:
            assert registers.fits(e) == ""
    arrays = [np.array(a, v.dtype) for a, v in zip(args, p.inputs, strict=True)]
    kept = [a.copy() for a in arrays]
    native = compile_program(p)
    found = native.call(*arrays)
    assert found is not NotImplemented
    found = found if isinstance(found, tuple) else (found,)
    for x, y in zip(found, evaluate(p, arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    for a, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(a, before)
    return native


def of_loop(region: Loop, *types: Type) -> Program:
    """The loop alone. Its number of rounds is a bare integer, which no program can return."""

    def run(*xs: Any) -> list[Any]:
        *results, rounds = loop(region, *xs)
        return [*results, P.cast_discrete(rounds, dtype=np.dtype(int))]

    return program(run, *types)


@pytest.mark.parametrize("count", [0, 1, 3, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_scalars_are_carried(count: int, reverse: bool) -> None:
    body = program(lambda k, x, n, r: (r * x * (1 - x) + k, n + k), INDEX, T(), WHOLE, T())
    region = Loop(body, carried=2, fixed=1, sequences=0, count=count, reverse=reverse)
    compare(of_loop(region, T(), WHOLE, T()), 0.3, 5, 0.01)


def test_a_loop_until_it_is_near_enough() -> None:
    goes_on = program(lambda k, x, a: np.abs(x * x - a) > 1e-12, INDEX, T(), T())
    body = program(lambda k, x, a: x - (x * x - a) / (2 * x), INDEX, T(), T())
    compare(of_loop(Loop(body, 1, 1, 0, goes_on=goes_on), T(), T()), 1.0, 2.0)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "f4", "f8", "c8", "c16"])
def test_every_kind_of_number(dtype: str) -> None:
    t = T(3, dtype=dtype)
    body = program(lambda k, x, y: np.where(k % 2 == 0, x * y, x + y), INDEX, t, t)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2, 3).astype(dtype) for _ in range(2))
    compare(of_loop(Loop(body, 1, 1, 0, count=70), t, t), a, b)


def test_sequences_are_read_and_made() -> None:
    def body(k: Any, s: Any, c: Any, x: Any, row: Any) -> Any:
        return s + c * x, s, row * x, x > 0

    p = program(body, INDEX, T(), T(), T(), T(4))
    rng = np.random.default_rng(1)
    for count, reverse in ((200, False), (200, True), (6, True), (0, False)):
        region = Loop(p, 1, 1, 2, count=count, reverse=reverse)
        args = (0.5, 2.0, rng.normal(size=count), rng.normal(size=(count, 4)))
        compare(of_loop(region, T(), T(), T(count), T(count, 4)), *args)


def test_made_entries_beyond_the_last_round_are_zero() -> None:
    body = program(lambda k, x: (x * 2, x, P.broadcast_to(x, shape=(2,))), INDEX, T())
    goes_on = program(lambda k, x: x < 100, INDEX, T())
    compare(of_loop(Loop(body, 1, 0, 0, goes_on, 50), T()), 1.0)
    for reverse in (False, True):
        limited = Loop(body, 1, 0, 0, None, 50, counted=True, reverse=reverse)
        for count in (0, 7, 50):
            compare(of_loop(limited, WHOLE, T()), count, 1.0)


def test_a_counted_loop() -> None:
    body = program(lambda k, s, x: s + x[k], INDEX, T(), T(50))
    for count in (0, 1, 50):
        compare(
            of_loop(Loop(body, 1, 1, 0, counted=True), WHOLE, T(), T(50)),
            count,
            0.0,
            np.arange(50.0),
        )


def test_an_array_is_filled_in_place() -> None:
    fill = program(lambda k, y, x: P.scatter_set(y, np.exp(x[k]), k), INDEX, T(500), T(500))
    x = np.random.default_rng(2).normal(size=500)
    native = compare(of_loop(Loop(fill, 1, 1, 0, count=500), T(500), T(500)), np.zeros(500), x)
    assert "x double>" in native.stages["llvm"]()  # made a loop of vectors


def test_old_entries_are_read_before_they_are_overwritten() -> None:
    def body(k: Any, y: Any, s: Any) -> Any:
        new = P.scatter_set(y, s, k)
        old = y[k]  # recorded after the update, of the array before it
        return new, s + old

    p = program(body, INDEX, T(100), T())
    assert registers.fits(of_loop(Loop(p, 2, 0, 0, count=100), T(100), T()).equations[0]) == ""
    compare(of_loop(Loop(p, 2, 0, 0, count=100), T(100), T()), np.arange(100.0), 1.0)


def test_an_array_that_is_read_again_is_copied() -> None:
    def body(k: Any, y: Any, s: Any) -> Any:
        new = P.scatter_set(y, s, k)
        return new, s + y[99 - k] + new[(k + 3) % 100] * y[
            P.cast_discrete(new[k], dtype=np.dtype(int)) % 100
        ]

    p = program(body, INDEX, T(100), T())
    compare(of_loop(Loop(p, 2, 0, 0, count=10), T(100), T()), np.arange(100.0), 1.0)


def test_carried_arrays_may_change_places() -> None:
    def body(k: Any, x: Any, y: Any) -> Any:
        return y, P.scatter_set(x, y[k] + 1.0, k)

    p = program(body, INDEX, T(60), T(60))
    rng = np.random.default_rng(3)
    compare(of_loop(Loop(p, 2, 0, 0, count=7), T(60), T(60)), *rng.normal(size=(2, 60)))


def test_parts_are_added_in_place() -> None:
    def body(k: Any, y: Any, A: Any, t: Any) -> Any:
        y = y + P.scatter_add(t, k, shape=(90,))
        y = P.unslice(t * 2, spec=(5,), shape=(90,)) + y
        row = P.scatter_add(A[k], (k * 7) % 40, shape=(40, 50))
        return y, A + row

    p = program(body, INDEX, T(90), T(40, 50), T())
    rng = np.random.default_rng(4)
    args = rng.normal(size=90), rng.normal(size=(40, 50)), 0.5
    compare(of_loop(Loop(p, 2, 1, 0, count=40), T(90), T(40, 50), T()), *args)


def test_rows_of_memory() -> None:
    def body(k: Any, A: Any, s: Any, B: Any) -> Any:
        row = P.permute(B, axes=(1, 0))[k]  # 60 entries: a view
        A = P.scatter_set(A, row, k)
        A = P.slice_update(A, s, spec=(0, (None, None, 7)))
        return A, s + row[3] + P.reshape(A, shape=(3000,))[k]

    p = program(body, INDEX, T(50, 60), T(), T(60, 50))
    rng = np.random.default_rng(5)
    args = rng.normal(size=(50, 60)), 0.5, rng.normal(size=(60, 50))
    compare(of_loop(Loop(p, 2, 1, 0, count=50), T(50, 60), T(), T(60, 50)), *args)


def test_small_arrays_are_registers() -> None:
    def body(k: Any, x: Any, A: Any) -> Any:
        y = P.contract(A, x, subscripts="ij,j->i", sizes=())
        y = y / np.max(np.abs(y)) + np.sum(x[1:] * 0.1) + np.concatenate([x[:1], x[:2]])
        y = P.scatter_set(y, y[k % 3] * 0.5, (k + 1) % 3)
        return P.slice_update(y, x[0], spec=(2,)) + P.unslice(x[1], spec=(1,), shape=(3,))

    p = program(body, INDEX, T(3), T(3, 3))
    rng = np.random.default_rng(6)
    args = rng.normal(size=3), rng.normal(size=(3, 3)) * 0.1
    for count in (2, 90):
        compare(of_loop(Loop(p, 1, 1, 0, count=count), T(3), T(3, 3)), *args)


def test_a_small_array_at_indices() -> None:
    def body(k: Any, x: Any, i: Any) -> Any:
        x = P.scatter_set(x, np.asarray(1.0) * k, i[k % 12])
        return x + P.scatter_add(P.gather(x, i[:4]), i[:4], shape=(12,)) * 0.1

    p = program(body, INDEX, T(12), T(12, dtype=int))
    rng = np.random.default_rng(7)
    compare(
        of_loop(Loop(p, 1, 1, 0, count=50), T(12), T(12, dtype=int)),
        rng.normal(size=12),
        rng.permutation(12) - 6,
    )


@pytest.mark.parametrize("dtype", [bool, int])
def test_branches(dtype: Any) -> None:
    arms = [lambda x, y: (x * y, x), lambda x, y: (np.sin(x), y + 1.0), lambda x, y: (y, x - y)]
    programs = tuple(program(f, T(2), T(2)) for f in arms[: 2 if dtype is bool else 3])
    region = Branches(programs)
    p = program(lambda w, x, y: branch(region, w, x, y), T(dtype=dtype), T(2), T(2))
    for which in range(len(programs)):
        compare(p, which, [0.3, 0.4], [2.0, -1.0])


def test_branches_and_loops_in_loops() -> None:
    arms = Branches(
        (
            program(lambda s, i, j: s - i * j, T(), INDEX, INDEX),
            program(lambda s, i, j: s + i + j, T(), INDEX, INDEX),
        )
    )
    body = program(lambda k, s, i: branch(arms, (k + i) % 2 == 0, s, i, k)[0], INDEX, T(), INDEX)
    inner = Loop(body, 1, 1, 0, count=50)
    outer = program(lambda k, s: loop(inner, s, k)[0], INDEX, T())
    compare(of_loop(Loop(outer, 1, 0, 0, count=70), T()), 0.0)


def test_an_array_goes_through_branches_and_inner_loops() -> None:
    def write(y: Any, v: Any, k: Any) -> Any:
        return P.scatter_set(y, v, k)

    some = Branches(
        (program(lambda y, v, k: y, T(80), T(), INDEX), program(write, T(80), T(), INDEX))
    )
    body = program(
        lambda k, y, i, x: branch(some, y[k] < x[i], y, x[i], k)[0], INDEX, T(80), INDEX, T(80)
    )
    inner = Loop(body, 1, 2, 0, count=80)
    outer = program(lambda k, y, x: loop(inner, y, k, x)[0], INDEX, T(80), T(80))
    p = of_loop(Loop(outer, 1, 1, 0, count=80), T(80), T(80))
    rng = np.random.default_rng(8)
    compare(p, *rng.normal(size=(2, 80)))


def test_branches_that_give_different_arrays() -> None:
    region = Branches(
        (
            program(lambda x, y: (x, y), T(70), T(70)),
            program(lambda x, y: (y, P.scatter_set(x, 1.5, 3)), T(70), T(70)),
        )
    )
    p = program(lambda w, x, y: [*branch(region, w, x, y), x[3]], T(dtype=bool), T(70), T(70))
    rng = np.random.default_rng(9)
    for which in (False, True):
        compare(p, which, *rng.normal(size=(2, 70)))


def test_sequences_of_sequences() -> None:
    inner = Loop(program(lambda k, s, x: (s * 0.9 + x, s * k), INDEX, T(), T()), 1, 0, 1, count=60)

    def body(k: Any, s: Any, row: Any) -> Any:
        s, made, _ = loop(inner, s, row)
        return s, made, made[3]

    p = program(body, INDEX, T(), T(60))
    rng = np.random.default_rng(10)
    compare(of_loop(Loop(p, 1, 0, 1, count=50), T(), T(50, 60)), 0.1, rng.normal(size=(50, 60)))


def test_large_constants_of_a_body() -> None:
    table, zeros = np.random.default_rng(11).normal(size=300), np.zeros(300)

    def body(k: Any, s: Any) -> Any:
        fresh = P.scatter_set(np.multiply(zeros, 1.0), s, k)  # a constant, not to be overwritten
        return s + P.gather(table, k) + fresh[k] * 0.5 + fresh[(k + 1) % 300]

    compare(of_loop(Loop(program(body, INDEX, T()), 1, 0, 0, count=300), T()), 0.5)


def test_indices_out_of_range() -> None:
    body = program(lambda k, s, x: s + x[k + 1], INDEX, T(), T(50))
    native = compile_program(of_loop(Loop(body, 1, 1, 0, count=50), T(), T(50)))
    with pytest.raises(IndexError, match="axis 0 with size 50"):
        native.call(np.zeros(()), np.ones(50))
    inside = compile_program(of_loop(Loop(body, 1, 1, 0, count=49), T(), T(50)))
    assert inside.call(np.zeros(()), np.ones(50))[0] == 49
    assert "out of bounds" not in inside.stages["llvm"]()
    negative = program(lambda k, s, x: s + x[k - 50], INDEX, T(), T(50))
    compare(of_loop(Loop(negative, 1, 1, 0, count=50), T(), T(50)), 0.0, np.arange(50.0))


def test_integers_divided_by_zero() -> None:
    body = program(lambda k, n, m: n + k // m, INDEX, WHOLE, WHOLE)
    native = compile_program(of_loop(Loop(body, 1, 1, 0, count=70), WHOLE, WHOLE))
    assert native.call(np.array(0), np.array(2))[0] == sum(k // 2 for k in range(70))
    with pytest.raises(ZeroDivisionError):
        native.call(np.array(0), np.array(0))


def test_large_arithmetic_is_not_of_this_kind() -> None:
    body = program(lambda k, x: x * 2, INDEX, T(1000))
    p = of_loop(Loop(body, 1, 0, 0, count=3), T(1000))
    assert registers.fits(p.equations[0]) == "multiply of 1000 entries"


def test_a_loop_over_an_empty_array_compiles():
    @bs.jit
    def total(x, n):
        s, k = 0.0, 0
        while k < n:
            s = s + x[k]
            k = k + 1
        return s

    assert total(np.zeros(0), 0) == 0.0
    assert bs.grad(total)(np.zeros(0), 0).shape == (0,)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 0"):
        total(np.zeros(0), 2)
