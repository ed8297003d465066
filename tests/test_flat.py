"""What is read flat alone is computed flat, unless its shape is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.ir import type_of
from backsolve.rewrite import rewrite
from backsolve.rewrite.flat import compute_flat
from backsolve.trace import evaluate, stage

from .test_eliminate import brusselator

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4))


def flattened(f: Any) -> Any:
    """The Program with its loops flat, after it was compared in every bit."""
    before, _ = stage(lambda x: [f(x)], [type_of(X)])
    before = rewrite(before)
    after = compute_flat(before)
    after.verify()
    np.testing.assert_array_equal(evaluate(before, [X])[0], evaluate(after, [X])[0])
    np.testing.assert_allclose(bs.jit(f)(X), f(X), rtol=1e-13)
    return rewrite(after)


def shapes(program: Any) -> set[int]:
    """How many axes the loops over entries have."""
    return {e.outputs[0].type.ndim for e in program.equations if e.primitive.elementwise}


def test_a_chain_becomes_flat() -> None:
    f = lambda x: np.reshape(np.sin(x[0] * x[1]) + 2.0 * x[0], -1) * np.reshape(x[1], -1)
    assert shapes(flattened(f)) == {1}
    assert shapes(flattened(lambda x: np.reshape(x * np.float64(3.0), -1) + 1.0)) == {1}


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.reshape(np.tanh(x[0] @ x[1].T), -1),
        lambda x: np.reshape(x[0] * np.sum(x[1], axis=1, keepdims=True), -1),
        lambda x: np.reshape(x[0] * np.arange(4.0), -1) + np.exp(np.reshape(x[1], -1)),
    ],
    ids=["after a product", "of a broadcast sum", "of a row that repeats"],
)
def test_what_has_a_shape_keeps_it(f: Any) -> None:
    assert 2 in shapes(flattened(f))


def test_what_is_read_in_its_shape_too_keeps_it() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x[0])
        return np.concatenate([np.reshape(y, -1), np.sum(y, axis=0)])

    assert shapes(flattened(f)) == {2}
    assert shapes(flattened(lambda x: np.exp(x[0]))) == {2}


def test_the_numbers_of_a_sparse_matrix_are_one_loop() -> None:
    plan = bs.sparsity(brusselator, RNG.normal(size=(2, 20, 20)))
    steps = plan._made._values.lower(RNG.normal(size=(2, 20, 20))).stages["steps"]
    loops = [line for line in str(steps).splitlines() if "multiply" in line]
    assert len(loops) == 1
    assert "[400]" in loops[0]
