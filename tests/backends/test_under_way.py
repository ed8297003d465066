"""How many vectors of a loop are under way at once."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np
import pytest

from backsolve.backends.native import under_way
from backsolve.backends.native.compile import compile_program, scheduled
from backsolve.backends.native.kernel import Kernel
from backsolve.backends.native.tiles import Registers
from backsolve.backends.native.under_way import BUSY, DEEP, INTERLEAVE, vectors_under_way
from backsolve.ir import Program, Type
from backsolve.rewrite import rewrite_for_machines
from backsolve.trace import stage

SIZE = 1024  # a whole number of four vectors each


def program(f: Any) -> Program:
    kind = Type((SIZE,), np.dtype(float))
    return rewrite_for_machines(stage(lambda x, y: [f(x, y)], [kind, kind])[0])


def kernel(f: Any) -> Kernel:
    (found,) = scheduled(program(f))[0].steps
    assert isinstance(found, Kernel)
    return found


def chain(length: int, first: float = 1.5) -> Any:
    """One product after the other."""
    return lambda x, y: reduce(operator.mul, [[x, y][k % 2] for k in range(length)], x * first)


def chains(count: int, length: int, first: float = 1.5) -> Any:
    """So many of them, which know nothing of each other, multiplied in pairs."""
    if count == 1:
        return chain(length, first)
    half = count // 2
    one, other = chains(half, length, first), chains(count - half, length, first + half)
    return lambda x, y: one(x, y) * other(x, y)


def functions(count: int) -> Any:
    return lambda x, y: reduce(operator.add, [np.exp(x * (1.5 + k)) for k in range(count)])


def total(x: Any, y: Any) -> Any:
    return np.sum(x * y)


@pytest.fixture(params=[True, False], ids=["by lane", "not"])
def by_lane(request: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    found = Registers(16, 4, 4, by_lane=request.param, cache=1 << 16, near=1 << 16)
    monkeypatch.setattr(under_way, "registers", lambda: found)
    return request.param


def several(f: Any, is_long: bool = True, has_totals: bool = False, moved: int = 3) -> int:
    return vectors_under_way(kernel(f), is_long, has_totals, moved)


def test_statements_that_wait_for_each_other_stand_side_by_side(by_lane: bool) -> None:
    assert several(chain(DEEP + 2)) == (INTERLEAVE if by_lane else 0)
    assert several(chain(DEEP - 4)) == 0  # LLVM finds these short enough by itself
    assert several(chain(DEEP + 2), is_long=False) == 0


def test_chains_side_by_side_keep_the_units_busy_by_themselves(by_lane: bool) -> None:
    assert several(chains(3, 14)) == (2 if by_lane else 0)
    assert several(chains(12, 14)) == 1


def test_functions_are_chains(by_lane: bool) -> None:
    assert several(functions(1)) == INTERLEAVE
    assert several(functions(2)) == (INTERLEAVE if by_lane else 2)
    assert several(functions(3)) == 2
    assert several(functions(9)) == (1 if by_lane else 2)
    assert several(functions(1), is_long=False) == 0


def test_divisions_wait_for_the_one_unit_that_divides(by_lane: bool) -> None:
    assert several(lambda x, y: np.exp(x / y)) == INTERLEAVE
    assert several(lambda x, y: x / (np.exp(x / y) + 1)) == (2 if by_lane else INTERLEAVE)


def test_many_statements_are_enough(by_lane: bool) -> None:
    wide = chains(BUSY, 1)
    assert several(wide) == several(wide, is_long=False) == 1


def test_running_totals_wait_for_themselves(by_lane: bool) -> None:
    assert [several(total, has_totals=True, moved=n) for n in (2, 6, 30)] == [INTERLEAVE, 2, 1]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_what_is_found_is_what_llvm_is_told(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backsolve.backends.native.loops.vectors_under_way", lambda *_: count)
    length = 30 + count  # sharing.py keeps code of equal kernels
    text = compile_program(program(chain(length))).stages["assembly"]()
    lines = [line.split() for line in text.splitlines()]
    products = sum(
        bool(words)
        and words[0] in ("fmul", "vmulpd")
        and any(".2d" in w or "mm" in w for w in words)
        for words in lines
    )
    assert products == count * (length + 1)


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 1000, 1003])
def test_every_number_of_a_row_is_computed(size: int) -> None:
    x, y = np.random.default_rng(size).uniform(0.5, 1.5, (2, size))
    kind = Type((size,), np.dtype(float))
    f = chain(20)
    made = compile_program(rewrite_for_machines(stage(lambda x, y: [f(x, y)], [kind, kind])[0]))
    np.testing.assert_allclose(made.call(x, y), f(x, y), rtol=1e-14)
