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


Z = RNG.normal(size=(4, 2)) @ [1, 1j]
THROUGH_COMPLEX = {
    "power": lambda x: np.sum(np.abs(Z * (x + 1j * x[::-1])) ** 2),
    "conjugates": lambda x: np.real(np.sum(np.exp(1j * x) * np.conj(x + Z) ** 2)),
    "fft": lambda x: np.sum(np.abs(np.fft.fft2(np.reshape(x, (2, 2)))) ** 2),
    "rfft": lambda x: np.sum(np.fft.irfft(np.arange(3) * np.fft.rfft(x)) ** 3),
    "hfft": lambda x: np.fft.hfft(x + 1j * x[::-1], 5)[1] ** 2,
    "solve": lambda x: np.sum(np.abs(np.linalg.solve(np.diag(Z) + 1j, x + 0j))),
}


def moduli(block: Any) -> Any:
    """|P| + |Q| of t ↦ P t + Q t̄, by the images of a basis and of i times the basis."""
    t = block.in_type
    basis = np.eye(t.size, dtype=t.dtype).reshape(t.size, *t.shape)
    ahead = np.stack([np.ravel(block.apply(e)) for e in basis], 1)
    if t.dtype.kind != "c":
        return np.abs(ahead)
    across = np.stack([np.ravel(block.apply(1j * e)) for e in basis], 1)
    return np.abs(ahead - 1j * across) / 2 + np.abs(ahead + 1j * across) / 2


@pytest.mark.parametrize("name", THROUGH_COMPLEX)
def test_blocks_of_complex_rows(name: str) -> None:
    g, x = THROUGH_COMPLEX[name], W[0]
    system = bs.linearize(g)(x)
    for row in system.rows:
        for _, found in system.edges(row):
            for block in (found, found.T):
                expected = moduli(block)
                np.testing.assert_allclose(moduli(absolute(block)), expected, atol=1e-14)
                assert np.isclose(gain(block), expected.sum(axis=1).max())
    assert np.all(system.pattern()[0] >= (bs.grad(g)(x) != 0))
    found = bs.explain(g, x, paths=100)
    assert found.count == len(found.paths)
    np.testing.assert_allclose(sum(p.carries for p in found.paths), bs.grad(g)(x).sum())


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
