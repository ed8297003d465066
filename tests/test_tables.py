"""Gradients of loops over tables: a round of an inner loop touches entries and rows, never all of the table."""

import re
from math import prod

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp

ROWS, COLUMNS = 23, 19


def viterbi(a, b):
    v = bnp.zeros((ROWS, COLUMNS))
    for j in range(COLUMNS):
        v[0, j] = b[0, j]
    for t in range(1, ROWS):
        for j in range(COLUMNS):
            best = v[t - 1, 0] + a[0, j]
            for i in range(1, COLUMNS):
                c = v[t - 1, i] + a[i, j]
                if c > best:
                    best = c
            v[t, j] = best + b[t, j]
    return bnp.sum(v[ROWS - 1])


def viterbi_by_rows(a, b):
    v = bnp.zeros((ROWS, COLUMNS))
    v[0] = b[0]
    for t in range(1, ROWS):
        for j in range(COLUMNS):
            v[t, j] = bnp.max(v[t - 1] + a[:, j]) + b[t, j]
    return bnp.sum(v[ROWS - 1])


def alignment(a, b):
    h = bnp.zeros((ROWS + 1, COLUMNS + 1))
    best = 0.0
    for i in range(1, ROWS + 1):
        for j in range(1, COLUMNS + 1):
            y = 0.0
            d = h[i - 1, j - 1] + b[i - 1, j - 1]
            if d > y:
                y = d
            d = h[i - 1, j] - a[0, 0]
            if d > y:
                y = d
            d = h[i, j - 1] - a[0, 1]
            if d > y:
                y = d
            h[i, j] = y
            if y > best:
                best = y
    return best


def elimination(a, b):
    a = a.copy()
    total = 0.0
    for k in range(COLUMNS):
        p = k
        for i in range(k + 1, COLUMNS):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            for j in range(COLUMNS):
                t = a[k, j]
                a[k, j] = a[p, j]
                a[p, j] = t
        for i in range(k + 1, COLUMNS):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, COLUMNS):
                a[i, j] = a[i, j] - a[i, k] * a[k, j]
        total = total + bnp.log(abs(a[k, k])) * b[k, 0]
    return total


def elimination_by_rows(a, b):
    a = a.copy()
    total = 0.0
    for k in range(COLUMNS):
        for i in range(k + 1, COLUMNS):
            a[i] -= a[i, k] / a[k, k] * a[k]
        total = total + bnp.log(abs(a[k, k])) * b[k, 0]
    return total


def relaxation(a, b):
    u = b.copy()
    for sweep in range(10):
        for i in range(1, ROWS - 1):
            for j in range(1, COLUMNS - 1):
                if (i + j + sweep) % 2 == 0:
                    r = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                    u[i, j] += 0.3 * r + a[1, j] * u[i, j]
    return bnp.sum(u * u)


def walk(a, b):
    """Which entries are read is known only as it runs, the column as well as the row."""
    p, total = 1, 0.0
    for k in range(20):
        for j in range(18):
            total = total + bnp.sin(b[j, p]) * b[p, j] + a[p, (j * 5) % COLUMNS]
            if total > 1.0:
                total = total * 0.5
        p = (p * 7 + k) % COLUMNS if total > 0.3 else (p + 3) % COLUMNS
    return total


PROGRAMS = (viterbi, viterbi_by_rows, alignment, elimination, elimination_by_rows, relaxation, walk)


def tables():
    r = np.random.default_rng(3)
    return r.normal(size=(COLUMNS, COLUMNS)), r.normal(size=(ROWS, COLUMNS))


def largest_in_rounds(steps):
    """Entries of the largest kernel, or memory set to zero, that a loop on arrays runs in each round."""
    inside = [line for line in steps.splitlines() if line.startswith("  ")]
    loops = [re.findall(r"for \[([\d, ]+)\]", line) for line in inside]
    zeros = [int(n) for line in inside for n in re.findall(r"zero (\d+)", line)]
    return max([1, *zeros, *[prod(map(int, x.split(", "))) for found in loops for x in found]])


def check(f, *args):
    which = tuple(range(len(args)))
    compiled = bs.jit(bs.grad(f, argnums=which))
    for found, expected in zip(compiled(*args), bs.grad(f, argnums=which)(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    return compiled.lower(*args).stages


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_no_round_touches_the_whole_table(f):
    a, b = tables()
    stages = check(f, a, b)
    assert largest_in_rounds(stages["steps"]) < COLUMNS * (COLUMNS - 1)
    value, h = bs.jit(f), 1e-6
    slope = (value(a + h * a, b - h * b) - value(a - h * a, b + h * b)) / (2 * h)
    da, db = bs.grad(f, argnums=(0, 1))(a, b)
    np.testing.assert_allclose(np.sum(da * a) - np.sum(db * b), slope, rtol=1e-5, atol=1e-7)


def test_the_helper_sees_what_rounds_touch():
    def f(x):
        for k in range(30):
            x = bnp.sin(x) * x[k % 20, 1]
        return bnp.sum(x)

    stages = check(f, np.ones((ROWS, COLUMNS)))
    assert largest_in_rounds(stages["steps"]) == ROWS * COLUMNS


def test_a_stencil_with_branches_stores_its_states_alone():
    n, steps = 70, 30  # enough rounds for branches to become choices

    def f(u):
        for _ in range(steps):
            v = bnp.zeros((n, n))
            for i in range(n):
                for j in range(n):
                    c = u[i, j]
                    left = u[i, j - 1] if j > 0 else c
                    up = u[i - 1, j] if i > 0 else c
                    v[i, j] = c + 0.1 * (left + up - 2.0 * c) + 0.01 * c * c
            u = v
        return bnp.sum(u * u)

    u = np.random.default_rng(0).normal(size=(n, n))
    compiled = bs.jit(bs.grad(f))
    g, d, h = compiled(u), np.cos(u), 1e-6
    np.testing.assert_allclose(
        np.sum(g * d), (bs.jit(f)(u + h * d) - bs.jit(f)(u - h * d)) / (2 * h), rtol=1e-6
    )
    stages = compiled.lower(u).stages
    assert largest_in_rounds(stages["steps"]) == n * n
    assert f"float64[{steps},{n},{n}]" in str(stages["rewritten"])
    assert f"int64[{steps},{n},{n}]" not in str(stages["rewritten"])
    assert f"float64[{n},{n},{n}]" not in str(stages["rewritten"])
