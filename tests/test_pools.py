"""Parts of arrays: read from the whole where that is less, computed alone where they are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.ir import type_of
from backsolve.primitive import P
from backsolve.rewrite import rewrite, rewrite_for_machines
from backsolve.rewrite.pools import read_from_wholes
from backsolve.trace import evaluate, stage

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)


def compare(f: Any, *args: Any) -> Any:
    """The rewritten Program, after it was compared in every bit."""
    before, _ = stage(lambda *xs: [f(*xs)], [type_of(a) for a in args])
    after = read_from_wholes(rewrite(before))
    after.verify()
    for program in (after, rewrite_for_machines(before)):
        for a, b in zip(evaluate(before, args), evaluate(program, args), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(bs.jit(f)(*args), f(*args), rtol=1e-14)
    return rewrite(after)


def largest_joined(program: Any) -> int:
    joins = [e for e in program.equations if e.primitive.name == "concatenate"]
    return max([e.outputs[0].type.size for e in joins], default=0)


def count(program: Any, name: str) -> int:
    return sum(e.primitive.name == name for e in program.equations)


def places(size: int, dtype: Any = np.int32) -> Any:
    return RNG.integers(0, size, 3 * size).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_one_function_of_many_parts_is_computed_once(dtype: Any) -> None:
    cuts = [slice(2, None), slice(1, -1), slice(0, -2), slice(None, None, -1), slice(3, 30, 4)]
    at = places(sum(len(range(N)[c]) for c in cuts), dtype)
    program = compare(
        lambda x: P.gather(np.concatenate([-np.sin(x * 2.0)[c] for c in cuts]), at), X
    )
    assert count(program, "sin") == 1
    late = lambda x: P.gather(np.concatenate([-np.sin(x[c] * 2.0) for c in cuts]), at)
    program = compare(late, X)
    assert count(program, "sin") == 1
    assert count(program, "slice") == 0
    assert largest_joined(program) == 0


def test_parts_by_different_functions_stay_apart() -> None:
    at = places(4 * (N - 1))

    def f(x: Any) -> Any:
        parts = [np.exp(x[1:]), np.exp(x[:-1]), x[1:] * 2.0, x[:-1] * 3.0]
        return P.gather(np.concatenate(parts), at)

    program = compare(f, X)
    assert count(program, "exp") == 1
    assert count(program, "multiply") == 2
    assert largest_joined(program) == N + 2 * (N - 1)


def test_few_entries_are_not_computed_in_full() -> None:
    at = places(20)
    program = compare(lambda x: P.gather(np.concatenate([np.exp(x[:10]), np.exp(x[30:])]), at), X)
    assert max(e.outputs[0].type.size for e in program.equations if e.primitive is P.exp) == 10


def test_parts_that_others_read_stay() -> None:
    at = places(2 * (N - 1))

    def f(x: Any) -> Any:
        a, b = np.exp(x[1:]), np.exp(x[:-1])
        return P.gather(np.concatenate([a, b]), at).sum() + a.sum() + b.sum()

    before, _ = stage(lambda x: [f(x)], [type_of(X)])
    program = read_from_wholes(rewrite(before))
    assert count(program, "exp") == 2


def test_numbers_of_a_sparse_matrix() -> None:
    from .test_eliminate import broyden

    plan = bs.sparsity(broyden, np.ones(200))
    made = plan._made
    program, _ = stage(made._traced, [type_of(np.ones(200))])
    program = rewrite_for_machines(program)
    assert largest_joined(program) == 2 * 200
    assert plan.nnz > 6 * 190


def sizes_of(f: Any, name: str, *args: Any) -> list[int]:
    before, _ = stage(lambda *xs: [f(*xs)], [type_of(a) for a in args])
    after = rewrite_for_machines(before)
    np.testing.assert_array_equal(evaluate(after, args)[0], f(*args))
    np.testing.assert_allclose(bs.jit(f)(*args), f(*args), rtol=1e-14)
    return [e.outputs[0].type.size for e in after.equations if e.primitive.name == name]


def test_a_few_entries_of_a_result_are_computed_alone() -> None:
    assert sizes_of(lambda x: np.exp(np.sin(x) * 2.0)[::10] + 1.0, "exp", X) == [4]
    assert sizes_of(lambda x: np.exp(np.sin(x) * 2.0)[::10] + 1.0, "sin", X) == [4]
    assert sizes_of(lambda x, y: np.exp(x * y)[3:5], "multiply", X, X + 1) == [2]


def test_entries_that_are_read_anyway_are_computed_once() -> None:
    assert sizes_of(lambda x: np.exp(x)[1:] + np.exp(x)[:-1], "exp", X) == [N]
    assert sizes_of(lambda x: np.exp(x)[:4] + np.exp(x).sum(), "exp", X) == [N]
