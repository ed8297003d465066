"""Comprehensions: a loop where there are many entries of one type, Python's own otherwise."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors

V = np.linspace(-1, 1, 40)
A = np.arange(60.0).reshape(20, 3) / 30
CASES = []


def case(x):
    def note(f):
        CASES.append((f, x))
        return f

    return note


@case(V)
def an_array(x):
    return np.array([t * t if t > 0 else -t for t in x])


@case(V)
def a_list(x):
    return [np.sin(t) for t in x]


@case(V)
def sums(x):
    return sum([x[i] * i for i in range(len(x))]) + sum(t * x[0] for t in x)


@case(V)
def extremes(x):
    return (
        any(t > 0.9 for t in x),
        all([t > -2 for t in x]),
        max(t * t for t in x),
        min([t for t in x]),
    )


@case(A)
def rows_of_rows(A):
    return np.array([[A[i, j] * i + A[j, 0] for j in range(3)] for i in range(20)])


@case(A)
def stacked(A):
    return np.stack([r * 2 for r in A], axis=1), np.vstack([r * 2 for r in A])


@case(A)
def a_list_that_changes(A):
    rows = [r.sum() for r in A]
    before = np.array(rows)
    rows[0] = 5.0
    rows.append(A[0, 0])
    return np.array(rows)[:-1] + before + sum(rows)


@case(A)
def pairs(A):
    return np.array([(r[0], r[1] * r[2]) for r in A]), [(i, r) for i, r in enumerate(A)][3][1]


@case(A)
def two_loops(A):
    return np.array([[A[i] @ A[j] for j in range(20)] for i in range(20)])


@case(V)
def of_two(x):
    return np.mean([abs(a - b) for a, b in zip(x, x[::-1], strict=True)])


@case(V)
def conditions(x):
    return np.array([t for t in x if len(x) > 3]), np.array([t * u for t in x for u in x[:2]])


@case(V)
def keeps_a_count(x):
    seen = []
    none = [seen.append(t) for t in x]
    return len(seen) + len(none) + sum(seen)


@case(V)
def lengths_that_differ(x):
    parts = [x[: k + 1] for k in range(20)]
    return sum([p.sum() for p in parts])


@case(V)
def of_few(x):
    y = x[::8]
    return (
        max([t * t for t in y]),
        min(t for t in y),
        any(t > 0.9 for t in y),
        all([t < 0.9 for t in y]),
    )


@case(V)
def functions(x):
    fs = [lambda t, k=k: t * k for k in range(20)]
    return sum(f(x[1]) for f in fs)


def flat(y):
    parts = y if isinstance(y, tuple | list) else [y]
    return np.concatenate([np.ravel(p) * 1.0 for p in parts])


@pytest.mark.parametrize(("f", "x"), CASES, ids=lambda x: getattr(x, "__name__", None))
def test_comprehensions(f, x):
    for backend in ("numpy", "native"):
        np.testing.assert_allclose(flat(bs.jit(f, backend=backend)(x)), flat(f(x)), rtol=1e-12)
    y = bs.jit(f)(x)
    assert type(y) is type(f(x)) or isinstance(y, float | np.ndarray | np.generic)
    both = bs.jit(bs.vmap(f))(np.stack([x, x * 0.5]))
    for k, part in enumerate((x, x * 0.5)):
        mine = [np.asarray(p)[k] for p in (both if isinstance(both, tuple | list) else [both])]
        np.testing.assert_allclose(flat(mine), flat(f(part)), rtol=1e-12)


def test_their_derivatives():
    def f(x):
        squares = np.array([np.sin(t) * t for t in x])
        return squares @ x + max(t * t for t in x) + sum([t**3 for t in x])

    direction = np.cos(np.arange(40.0))
    numeric = (f(V + 1e-6 * direction) - f(V - 1e-6 * direction)) / 2e-6
    assert bs.jit(bs.grad(f))(V) @ direction == pytest.approx(numeric, rel=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: np.array([np.sin(x * k) for k in range(n)]).sum(),
        lambda x, n: sum([x * k for k in range(n)]),
        lambda x, n: max(x * k for k in range(n)),
        lambda x, n: np.sum([[x * k + j for j in range(n)] for k in range(n)]),
        lambda x, n: any(x * k > 3 for k in range(n)),
    ],
)
def test_programs_do_not_grow_with_the_count(f):
    g = bs.jit(f, static_argnums=1)
    few, many = (g.lower(0.1, n).stages["program"].count("\n") for n in (20, 200))
    assert few == many < 40


def test_a_list_is_taken_whole():
    def f(x, n):
        entries = [np.sin(x[0] * k) for k in range(n)]
        return np.array(entries).sum() + np.stack(entries).max() + sum(entries)

    lines = bs.jit(f, static_argnums=1, backend="numpy").lower(V, 500).stages["rewritten"]
    assert lines.count("\n") < 40


def test_a_bare_number_stays_one():
    def f(x, n):
        entries = [x * k for k in range(n)]
        return np.ones(2, np.float32) * entries[1]

    assert bs.jit(f, static_argnums=1)(0.1, 20).dtype == np.float32


def test_a_count_that_is_traced():
    assert bs.jit(lambda x, n: sum(x * k for k in range(n)))(0.5, 7) == pytest.approx(0.5 * 21)
    with pytest.raises(errors.ControlFlowError, match="traced length"):
        bs.jit(lambda x, n: np.array([x * k for k in range(n)]))(0.5, 7)


def test_what_is_assigned_and_captured_in_a_loop_that_may_not_run():
    def f(x, end):
        t = 0.0
        while t < end:
            slopes = []
            slopes.append(2 * x)
            slopes.append(x + t)
            x = x + 0.1 * sum(s * s for s in slopes)
            last = x
            t = t + (lambda: last)() * 0.1
        return x

    assert bs.jit(f)(1.0, 0.5) == pytest.approx(f(1.0, 0.5))
    assert bs.jit(f)(1.0, -0.5) == 1.0
    slope = (f(1.0 + 1e-6, 0.5) - f(1.0 - 1e-6, 0.5)) / 2e-6
    assert bs.jit(bs.grad(f))(1.0, 0.5) == pytest.approx(slope)
