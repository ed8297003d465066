"""The same substitution over other semirings, against brute force over all paths."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import UnsupportedError
from backsolve.solve.absolute import absolute, gain
from backsolve.solve.semiring import COUNT, Semiring, substitute

RNG = np.random.default_rng(0)
W = RNG.normal(size=(5, 4))
AT = np.array([2.0, 5.0])


def f(x: Any) -> Any:
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


def diamonds(x: Any) -> Any:
    for _ in range(200):
        x = np.sin(x) + np.cos(x)
    return x


def every_path(system: Any) -> list[tuple[float, tuple[int, ...]]]:
    """(product of gains, numbers of the rows), one by one."""

    def back(row: Any) -> Any:
        if row in system.parameters:
            yield 1.0, ()
            return
        for parent, block in system.edges(row):
            for strength, rows in back(parent):
                yield strength * gain(block), (*rows, system.number[row])

    return [path for y in dict.fromkeys(system.outputs) for path in back(y)]


SMALL = [
    (f, (AT,)),
    (lambda x: np.tanh(W @ x).sum() * x[0], (RNG.normal(size=4),)),
    (lambda x, y: (np.outer(x, y) @ y, x * np.exp(-x), x.cumsum()[::2]), (np.full(3, 0.5), W[0])),
]


@pytest.mark.parametrize("k", range(len(SMALL)))
def test_against_every_path(k: int) -> None:
    g, args = SMALL[k]
    system = bs.linearize(g)(*args)
    paths = every_path(system)
    assert system.paths() == len(paths)
    assert len(system.longest_chain()) == max(len(rows) for _, rows in paths)
    found = system.strongest_paths(3)
    strengths = sorted((s for s, _ in paths), reverse=True)
    np.testing.assert_allclose([p.strength for p in found], strengths[:3])
    for p in found:
        assert any(rows == p.rows and np.isclose(s, p.strength) for s, rows in paths)
    total = sum(strengths)
    entropy = -sum(s / total * log(s / total) for s in strengths if s)
    assert np.isclose(system.path_entropy(), entropy)


def test_more_paths_than_could_be_walked() -> None:
    """2²⁰⁰ paths, each block weighed once: substitution, not enumeration."""
    system = bs.linearize(diamonds)(0.7)
    seen = []
    counted = Semiring(
        COUNT.plus, COUNT.times, COUNT.zero, COUNT.one, lambda block, row: seen.append(row) or 1
    )
    assert substitute(system, counted)[system.outputs[0]] == 2**200 == system.paths()
    assert len(seen) == system.blocks
    assert len(system.longest_chain()) == 400
    assert 0 < system.path_entropy() < 200 * log(2)


def test_the_strongest_path_of_numbers_is_a_part_of_the_gradient() -> None:
    system = bs.linearize(f)(AT)
    first, *_ = system.strongest_paths(1)
    assert first.rows == (1, 4, 5, 7)
    assert np.isclose(first.strength, 5.0)
    # Equal shares of n paths have entropy log n.
    even = bs.linearize(lambda x: x[0] + x[1] + x[2])(np.ones(3))
    assert np.isclose(exp(even.path_entropy()), 3)


@pytest.mark.parametrize("k", range(len(SMALL)))
def test_the_pattern_by_booleans(k: int) -> None:
    g, args = SMALL[k]
    numbers = tuple(range(len(args)))
    pattern = bs.linearize(g, numbers)(*args).pattern()
    J = bs.jacobian(g, numbers)(*args)
    for found, expected in zip(bs.tree.flatten(pattern)[0], bs.tree.flatten(J)[0], strict=True):
        assert found.dtype == bool
        assert np.array_equal(found, np.reshape(expected, found.shape) != 0)


def test_the_pattern_does_not_know_numbers() -> None:
    """A derivative that is zero by chance is in the pattern, one that is so by structure is not."""
    system = bs.linearize(lambda x: x[:2] * x[1:])(np.zeros(3))
    assert system.pattern().tolist() == [[True, True, False], [False, True, True]]


@pytest.mark.parametrize("k", range(len(SMALL)))
def test_absolute_values_of_blocks(k: int) -> None:
    g, args = SMALL[k]
    system = bs.linearize(g)(*args)
    for row in system.rows:
        for _, block in system.edges(row):
            expected = np.abs(block.dense())
            np.testing.assert_allclose(absolute(block).dense(), expected)
            assert np.isclose(gain(block), expected.sum(axis=1).max())


def test_bad_input() -> None:
    system = bs.linearize(f)(AT)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        system.strongest_paths(0)
    held = bs.checkpoint(lambda x: np.sin(x) * x)
    opaque = bs.linearize(lambda x: held(x) * 2)(0.5)
    assert opaque.paths() == 1
    with pytest.raises(UnsupportedError, match="no entries to measure"):
        opaque.strongest_paths()
    with pytest.raises(UnsupportedError, match="outside jit"):
        bs.jit(lambda x: bs.linearize(f)(x).path_entropy())(AT)
