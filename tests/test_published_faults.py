"""Faults that others have reported of their tools, as cases for ours: docs/design/faults.md has the table."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.ir import Type
from backsolve.rewrite import rewrite
from backsolve.trace import stage

BACKENDS = ["numpy", "native"]


def slope(f, x, h=1e-6):
    """By central differences, of a number or along each entry of an array."""
    if np.ndim(x) == 0:
        return (f(x + h) - f(x - h)) / (2 * h)
    rows = np.eye(len(x)) * h
    return np.array([(f(x + row) - f(x - row)) / (2 * h) for row in rows])


# ---- Warp: arrays that are written into


def reads_then_overwrites(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * x[i]
        x[i] = 3.0 * y[i]
    return np.sum(x * y)


def adds_to_an_entry(x):
    """Warp counted write k of n writes 2 ** (n - k) times."""
    v = np.zeros(3)
    for i in range(len(x)):
        v[i % 3] = v[i % 3] + x[i]
        v[i % 3] = v[i % 3] + np.sin(x[i])
    return np.sum(v * v)


def overwrites_every_round(x):
    y = x * 1.0
    for _ in range(12):
        for j in range(len(x) - 1):
            y[j] = y[j] * 0.9 + y[j + 1] * y[j]
        y[-1] = y[0]
    return np.sum(y)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [4, 13])  # unrolled, and a loop
@pytest.mark.parametrize("f", [reads_then_overwrites, adds_to_an_entry, overwrites_every_round])
def test_an_array_that_was_read_is_overwritten(f, n, backend):
    x = np.linspace(-0.6, 0.7, n)
    on_copies = lambda x: f(x.copy())
    expected = slope(on_copies, x)
    np.testing.assert_allclose(bs.jit(f, backend=backend)(x.copy()), on_copies(x), rtol=1e-12)
    gradient = bs.jit(bs.grad(f), backend=backend)
    np.testing.assert_allclose(gradient(x.copy()), expected, rtol=1e-6, atol=1e-8)
    pushed = bs.jit(lambda x, v: bs.jvp(f, (x,), (v,))[1], backend=backend)
    np.testing.assert_allclose(pushed(x.copy(), np.ones(n)), expected.sum(), rtol=1e-6)


def test_two_spellings_of_one_update_are_one():
    def longhand(x):
        v = np.zeros(2)
        for i in range(20):
            v[i % 2] = v[i % 2] + x * i * v[1 - i % 2] + x
        return v[0] * v[1]

    def shorthand(x):
        v = np.zeros(2)
        for i in range(20):
            v[i % 2] += x * i * v[1 - i % 2] + x
        return v[0] * v[1]

    a, b = (bs.jit(bs.grad(f))(0.1) for f in (longhand, shorthand))
    assert a == pytest.approx(b, rel=1e-12)
    assert a == pytest.approx(slope(longhand, 0.1), rel=1e-6)


# ---- ForwardDiff.jl: which variation is whose


def forward(f):
    return lambda x: bs.jvp(f, (x,), (1.0,))[1]


DERIVATIVES = {"forward": forward, "reverse": bs.grad}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("outer", DERIVATIVES)
@pytest.mark.parametrize("inner", DERIVATIVES)
def test_nested_derivatives_are_not_confused(inner, outer, compiled):
    D, E = DERIVATIVES[inner], DERIVATIVES[outer]
    wrap = bs.jit if compiled else lambda f: f
    assert wrap(E(lambda x: x * D(lambda y: x + y)(1.0)))(1.0) == pytest.approx(1.0)
    assert wrap(E(lambda x: x * D(lambda y: x * y)(1.0)))(4.0) == pytest.approx(8.0)

    def in_a_loop(x):
        return x * D(lambda y: bs.fori_loop(0, 9, lambda i, s: s * y + x, x))(0.5)

    # s = x (1 + y + … + y⁹), so the function is x² Σ k yᵏ⁻¹.
    total = sum(k * 0.5 ** (k - 1) for k in range(1, 10))
    assert wrap(E(in_a_loop))(1.5) == pytest.approx(2 * 1.5 * total)


@pytest.mark.parametrize("outer", DERIVATIVES)
@pytest.mark.parametrize("inner", DERIVATIVES)
def test_a_variation_that_is_kept_is_not_taken_for_the_next(inner, outer):
    """The inner function changes what it closes over: the second time it must not vary as it did the first."""
    D, E = DERIVATIVES[inner], DERIVATIVES[outer]

    def f(x):
        def g(y):
            nonlocal x
            x = x * y
            return x

        D(g)(1.0)
        return D(g)(1.0)

    assert E(f)(1.0) == pytest.approx(1.0)


# ---- JAX: loops


@pytest.mark.parametrize("backend", BACKENDS)
def test_reverse_mode_through_while(backend):
    def root(a):
        x = a
        while abs(x * x - a) > 1e-12:
            x = 0.5 * (x + a / x)
        return x

    f = bs.jit(bs.grad(root), backend=backend)
    for a in (0.3, 4.0, 50.0):
        assert f(a) == pytest.approx(0.5 / np.sqrt(a), rel=1e-9)
    twice = bs.jit(bs.grad(bs.grad(root)), backend=backend)
    assert twice(4.0) == pytest.approx(-0.25 * 4.0**-1.5, rel=1e-6)


def nest(depth, kind):
    """Loops inside each other."""
    if depth == 0:
        return lambda x: np.sin(x) * x
    inner = nest(depth - 1, kind)
    if kind == "for":
        return lambda x: bs.fori_loop(0, 2, lambda i, s: inner(s) * 0.9 + x, x)
    body = lambda s: (inner(s[0]) * 0.9 + x_of(s), s[1] + 1, s[2])
    x_of = lambda s: s[2]
    return lambda x: bs.while_loop(lambda s: s[1] < 2, body, (x, 0, x))[0]


def size(program):
    """Equations, with those of all regions in it."""
    regions = [e.params["region"] for e in program.equations if e.primitive.holds_regions]
    return len(program.equations) + sum(size(p) for r in regions for p in r.programs())


def size_of(f):
    return size(rewrite(stage(f, [Type((), np.dtype(float))])[0]))


MODES = {
    "value": lambda f: f,
    "gradient": bs.grad,
    "second": lambda f: bs.grad(bs.grad(f)),
    "forward over reverse": lambda f: forward(bs.grad(f)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["for", "while"])
def test_a_program_grows_with_the_depth_of_its_loops_and_no_faster(kind, mode):
    sizes = [size_of(MODES[mode](nest(depth, kind))) for depth in range(1, 6)]
    steps = np.diff(sizes)
    assert steps.max() <= steps.min() + 2, sizes


def test_what_is_printed_of_nested_loops_does_not_grow_faster_either():
    lengths = [len(bs.jit(bs.grad(nest(d, "for"))).lower(0.7).stages["rewritten"]) for d in (2, 4)]
    assert lengths[1] < 4 * lengths[0]


@pytest.mark.parametrize("mode", MODES)
def test_a_program_grows_with_the_calls_it_unrolls_and_no_faster(mode):
    """The report: a compiled function called n times in a row took time exponential in n."""

    @bs.jit
    def step(p, q, g):
        return 0.5 * (p + g * p + (1 - g) * q), 0.5 * (q + g * p + (1 - g) * q)

    def chain(n):
        def f(x):
            p, q = x, 1.0 - x
            for k in range(n):
                p, q = step(p, q, np.sin(x + k))
            return p * q

        return f

    sizes = [size_of(MODES[mode](chain(n))) for n in range(2, 8)]
    steps = np.diff(sizes)
    assert steps.max() <= steps.min() + 4, sizes


# ---- JAX: where


@pytest.mark.parametrize("compiled", [False, True])
def test_what_where_does_not_choose_has_no_derivative(compiled):
    wrap = bs.jit if compiled else lambda f: f
    safe_root = lambda x: np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 0.0)), 0.0))
    plain_root = lambda x: np.sum(np.where(x > 0, np.sqrt(x * x * x), 0.0))
    norm = lambda x: np.where(np.sum(x * x) > 0, np.sqrt(np.sum(x * x)), 0.0)
    angle = lambda x: np.sum(np.where(np.array([False, True, False]), 0.0, np.arctan2(x, 2 * x)))
    np.testing.assert_allclose(wrap(bs.grad(angle))(np.array([3.0, 0.0, -5.0])), np.zeros(3))
    x = np.array([0.0, 4.0])
    np.testing.assert_allclose(wrap(bs.grad(safe_root))(x), [0.0, 0.25])
    np.testing.assert_allclose(wrap(bs.grad(plain_root))(x), [0.0, 3.0])
    np.testing.assert_array_equal(wrap(bs.grad(norm))(np.zeros(2)), [0.0, 0.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_not_taken_has_no_derivative(backend):
    def f(x):
        total = 0.0
        for v in x:
            if v > 0:
                total += np.sqrt(v) * np.log(v)
            else:
                total += v
        return total

    x = np.array([0.0, 4.0, 0.0, 1.0, 2.0, 0.0, 3.0, 5.0, 0.0, 9.0])
    expected = np.where(x > 0, (np.log(np.maximum(x, 1)) / 2 + 1) / np.sqrt(np.maximum(x, 1)), 1.0)
    np.testing.assert_allclose(bs.jit(bs.grad(f), backend=backend)(x), expected, rtol=1e-12)
