"""Loops, branches, calls and implicit functions through XLA: values, gradients and second derivatives."""

import re

import numpy as np
import pytest

import backsolve as bs

jax = pytest.importorskip("jax")

X = np.array([0.3, 0.7, -1.1])


def along(f):
    """Value, gradient, and the gradient of a function of the gradient, at once: XLA compiles slowly."""

    def all_of(*args):
        gradient = bs.grad(f)
        second = bs.grad(lambda *q: np.sum(np.sin(gradient(*q))))
        return f(*args), gradient(*args), second(*args)

    return all_of


def check(f, *args, unit=1e-9):
    expected = bs.jit(f, backend="numpy")(*args)
    compiled = bs.jit(f, backend="xla")
    got = compiled(*args)
    leaves, form = bs.tree.flatten(expected)
    found, got_form = bs.tree.flatten(got)
    assert form == got_form
    for x, y in zip(found, leaves, strict=True):
        np.testing.assert_allclose(x, y, rtol=unit, atol=unit)
    return compiled


def grows(x):
    s = x
    while np.sum(s * s) < 1000.0:
        s = s * 1.3 + 0.1 * np.sin(s)
    return np.sum(s * x)


def grows_slowly(x):
    s = x
    while np.sum(s * s) < 1000.0:
        s = s * 1.01 + 0.001 * np.sin(s)
    return np.sum(s * x)


def nested(x):
    s, total, k = x, 0.0, 0
    while k < 4:
        t = s
        while np.sum(t * t) < 50.0 + k:
            t = t * 1.2 + 0.05 * np.cos(t)
        total = total + np.sum(t * x)
        s = s + 0.01 * t
        k = k + 1
    return total


def inside_scan(x):
    def step(c, t):
        s = c + t
        while np.sum(s * s) < 20.0:
            s = s * 1.4 + x
        return np.tanh(s), np.sum(s)

    c, ys = bs.scan(step, x, np.linspace(0.1, 0.5, 5))
    return np.sum(c) + np.sum(ys**2)


def known_bounds(x):
    y = np.zeros(3)
    for i in range(3):
        for j in range(i + 1):
            y[i] = y[i] + x[j] * x[2 - i]
    return np.sum(np.sin(y))


def traced_bounds(x):
    s = 0.0
    for i in range(np.sum(x > 0), -1, -1):
        s = s + x[i] ** 2 * np.exp(s * 0.1)
    return s


def leaves_early(x):
    s = 0.0
    for i in range(3):
        if x[i] < 0:
            break
        if x[i] > 0.5:
            continue
        s = s + np.exp(x[i]) * x[i]
    return s * x[1]


def branches(x):
    if x[0] > 0.5:
        y = np.sin(x)
    elif x[1] > 0.5:
        y = np.cos(x) * x
    else:
        y = x
    return np.sum(y * x)


def scans(x):
    def step(c, t):
        c = np.tanh(c * x + t)
        return c, np.sum(c)

    c, ys = bs.scan(step, x, np.arange(6.0))
    back, zs = bs.scan(step, c, ys, reverse=True)
    return np.sum(back) + np.sum(zs**2)


def halves(x):
    s = x
    while np.max(np.abs(s)) > 0.01:
        s = s * 0.5 if np.sum(s) > 0 else s * 0.7 + 0.001 * np.cos(x)
    return np.sum(s * s * x)


LOOPS = [
    grows,
    grows_slowly,
    nested,
    inside_scan,
    known_bounds,
    traced_bounds,
    leaves_early,
    branches,
]
LOOPS += [scans, halves]


@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_derivatives_of_loops(f):
    check(along(f), X)


def table(x, y):
    """Each entry of three before it; entries are read after they are written, and twice in a round."""
    t = np.zeros((14, 13))
    for i in range(1, 14):
        for j in range(1, 13):
            t[i, j] = np.tanh(t[i - 1, j] + t[i, j - 1] * t[i - 1, j - 1]) + x[i - 1] * y[j - 1]
            t[i - 1, j] = t[i - 1, j] * 0.5 + t[i, j] * 0.1
    return np.sum(t[:, -1] ** 2)


def test_tables_filled_entry_by_entry():
    x, y = np.linspace(-1.0, 1.0, 13), np.linspace(0.2, 0.9, 12)
    check(along(table), x, y)


def test_a_table_is_not_copied_in_each_round():
    x, y = np.linspace(-1.0, 1.0, 13), np.linspace(0.2, 0.9, 12)
    inside = bs.interop.jax.function(lambda x, y: bs.grad(table)(x, y), backend="xla")
    with jax.enable_x64(True):
        text = jax.jit(inside).lower(x, y).compile().as_text()
    bodies = text[: text.index("\nENTRY")]
    assert "f64[14,13]" in bodies
    assert not re.findall(r"f64\[14,13\]\S* copy\(", bodies)


def test_stacks_grow_by_compiling_again_once():
    compiled = check(bs.grad(grows_slowly), X)
    (special,) = compiled._known.values()
    first = special.code._code
    assert first.capacity > 128
    compiled(X * 0.9)
    assert special.code._code is first


def test_loops_of_many_examples():
    many = np.stack([X, X * 0.5, X * 2.0])

    def all_of(xs):
        outputs = [bs.vmap(f)(xs) for f in (branches, leaves_early, traced_bounds)]
        return outputs, [bs.vmap(bs.grad(f))(xs) for f in (grows, nested, inside_scan)]

    check(all_of, many)


def test_checkpoints_and_budgets():
    def rounds(x):
        s = x
        for _ in range(40):
            s = np.sin(s) + 0.1 * x
        return np.sum(s * x)

    def all_of(x):
        again = bs.grad(bs.checkpoint(grows))
        tight = bs.grad(bs.checkpoint(rounds, memory=400))
        return again(x), tight(x), bs.grad(rounds)(x)

    check(all_of, X)


A = np.eye(3) * 4 + np.arange(9.0).reshape(3, 3) / 10
S = A + A.T


def test_implicit_functions():
    def root(p):
        return np.sum(bs.root(lambda z, p: z**3 + z - p, np.ones(3), p) * p)

    def fixed_point(p):
        return np.sum(bs.fixed_point(lambda z, p: 0.3 * np.cos(z) + p, np.ones(3), p) ** 2)

    def argmin(p):
        return np.sum(bs.argmin(lambda z, p: np.sum((z - p) ** 2 + z**4), np.zeros(3), p) * p)

    def cg(p):
        return np.sum(bs.linear_solve(lambda v: S @ v + p**2 * v, p, method="cg") * p)

    def gmres(p):
        return np.sum(bs.linear_solve(lambda v: A @ v + p**2 * v, p, method="gmres") * p)

    def all_of(p):
        return [along(f)(p) for f in (root, cg, gmres)] + [
            bs.value_and_grad(f)(p) for f in (fixed_point, argmin)
        ]

    check(all_of, X, unit=1e-7)


def test_recurrences():
    inputs = np.linspace(-1.0, 1.0, 12)

    def by(method, step):
        states = lambda x: bs.recurrence(lambda h, t: step(h, t, x), x, inputs, method=method)
        return bs.grad(lambda x: np.sum(states(x) ** 2))

    def all_of(x):
        linear = lambda h, t, x: 0.5 * h * x[0] + t
        curved = lambda h, t, x: np.tanh(h * x + t)
        ways = [("sequential", curved), ("scan", linear), ("newton", curved)]
        return [by(method, step)(x) for method, step in ways]

    check(all_of, X)


# ---- failures


def test_an_index_out_of_range_inside_a_loop():
    @bs.jit(backend="xla")
    def f(x, n):
        s = 0.0
        k = 0
        while k < n:
            s = s + x[k]
            k = k + 1
        return s

    assert float(f(X, 3)) == pytest.approx(np.sum(X))
    with pytest.raises(IndexError, match=r"out of bounds for axis 0 with size 3.*test_control"):
        f(X, 4)
    assert float(f(X, 2)) == pytest.approx(np.sum(X[:2]))


def test_an_assertion_inside_loops_and_branches():
    @bs.jit(backend="xla")
    def f(x):
        s = x
        for _ in range(5):
            if s[0] > 1.0:
                assert s[1] < 1.0, "too large"
            s = s * 2.0
        return s

    np.testing.assert_allclose(f(X * 0.1), X * 3.2)
    with pytest.raises(AssertionError, match="too large"):
        f(X)


def test_the_first_failure_counts():
    @bs.jit(backend="xla")
    def f(a, x, k):
        y = np.linalg.inv(a)
        return y, x[k]

    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        f(np.zeros((2, 2)), X, 7)
    with pytest.raises(IndexError):
        f(np.eye(2), X, 7)


def test_an_endless_failure_stops_the_loop():
    @bs.jit(backend="xla")
    def f(x):
        s = x
        while s < 10.0:
            assert s > 0.0, "does not grow"
            s = s * 2.0
        return s

    with pytest.raises(AssertionError, match="does not grow"):
        f(-1.0)
    assert float(f(1.0)) == 16.0


def test_recursion_is_an_error_that_says_what_to_do():
    def falls(x, n):
        return x if n <= 0 else np.sin(falls(x * 1.1, n - 1))

    with pytest.raises(
        bs.errors.BackendError, match='as a loop, or compile it with backend="native"'
    ):
        bs.jit(lambda x: np.sum(falls(x, np.sum(x > 0))), backend="xla")(X)
