"""Derivatives of recursive functions of unknown depth: values and all orders against eager Python."""

import threading
import tracemalloc

import numpy as np
import pytest

import backsolve as bs
from backsolve.control import bind
from backsolve.primitives.control import CALL
from backsolve.trace import evaluate

N = np.int64


def chain(x, n):
    return x if n == 0 else np.sin(chain(x, n - 1)) * 1.01


def down(x, n):
    """It changes its argument on the way down."""
    return x * x if n == 0 else down(np.sin(x) + 0.1 * n, n - 1) * 1.1


def tree(x, n):
    return np.exp(0.1 * x) if n < 2 else tree(np.cos(x), n - 1) * tree(x * 0.9, n - 2) + x


def three(x, n):
    return x if n == 0 else sum_of(three(x * 0.5, n - 1), three(np.sin(x), n - 1), three(x, n - 1))


def sum_of(a, b, c):
    return a * b + c


def even(x, n):
    return x if n == 0 else odd(np.sin(x), n - 1) * x


def odd(x, n):
    return x * x if n == 0 else even(np.exp(-x), n - 1) + x


def without_an_end_of_its_own(x, n):
    def first(x, n):
        return second(np.sin(x), n) * x

    def second(x, n):
        return third(x * 0.9, n) + first(x, n - 1) if n > 1 else x

    def third(x, n):
        return second(x * x, n - 2) + x

    return first(x, n)


def several(x, n):
    def both(a, b, n):
        if n == 0:
            return a, b
        c, d = both(b * 0.9, np.sin(a), n - 1)
        return c * d, d + a

    p, q = both(x, x * x, n)
    return p * q


def in_a_loop(x, n):
    total = 0.0 * x
    for k in range(n):
        total = total + chain(x + total, k)
    return total


def with_a_loop(x, n):
    """Each call has a loop of unknown length, which it stores on a stack."""
    if n == 0:
        return x
    y = with_a_loop(x * 0.8, n - 1)
    for _ in range(n):
        y = np.sin(y) + 0.1 * x
    return y * x


def calls_in_a_loop(x, n):
    """Stacks of boxes in boxes."""
    if n == 0:
        return np.sin(x)
    y = x
    for k in range(n):
        y = y + 0.1 * calls_in_a_loop(y * 0.9, k)
    return y


def while_inside(x, n):
    if n == 0:
        return x
    y = while_inside(x, n - 1)
    while y < 2.0:
        y = y * 1.3 + 0.01 * x
    return np.log(y)


def branches(x, n):
    if n == 0:
        return x
    y = branches(x * 0.9, n - 1)
    if y > 0.5:
        y = np.sin(branches(y * 0.3, n - 2 if n > 2 else 0))
    return y * 1.1 + x


def array_state(x, n):
    def walk(v, n):
        if n == 0:
            return v
        return np.sin(walk(v * 0.5 + x, n - 1)) * v

    return walk(np.arange(0.1, 0.4, 0.1) * x, n).sum()


def large_state(x, n):
    def walk(v, n):
        if n == 0:
            return np.tanh(v)
        return np.sin(walk(np.roll(v, 1) * 0.9 + x, n - 1)) * v

    return walk(np.linspace(0.1, 1.0, 50) * x, n).sum()


def large_while(x, n):
    """Calls between the entries of a stack that still grows."""

    def walk(v, n):
        if n == 0:
            return np.sin(v)
        y = v
        while y.sum() < 40.0:
            y = y * 1.1 + 0.5 * np.cos(walk(y * 0.3, n - 1))
        return np.tanh(y)

    return walk(np.linspace(0.1, 1.0, 50) * x, n).sum()


def reads_an_array(x, n):
    a = np.linspace(0.5, 1.5, 40) * x

    def walk(y, n):
        return y if n == 0 else np.sin(walk(y * a[n], n - 1)) + a[2 * n]

    return walk(x, n)


def splits(x, n):
    """Twice itself on halves of an array, as quicksort would."""
    a = np.sin(np.arange(32.0) * x)

    def best(low, high):
        if high - low == 1:
            return a[low] * a[low]
        middle = (low + high) // 2
        return np.log(1.0 + np.exp(best(low, middle))) * best(middle, high) + 0.1

    return best(0 * n, n + 3)


def bisect(x, n):
    """The depth rests on a value that varies."""

    def root(low, high, n):
        m = (low + high) / 2
        if n == 0:
            return m
        if m * m * m > x:
            return root(low, m, n - 1) * 0.99
        return root(m, high, n - 1) * 1.01

    return root(0.5 * x, 1.0 + x, n)


CASES = [
    chain, down, tree, three, even, without_an_end_of_its_own, several, in_a_loop, with_a_loop, calls_in_a_loop,
    while_inside, branches, array_state, large_state, large_while, reads_an_array, splits,
    bisect,
]  # fmt: skip
EACH = pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)


def derivative(f, x, n, order=1, h=1e-4):
    """By central differences of eager Python."""
    if order == 0:
        return float(f(x, n))
    return (derivative(f, x + h, n, order - 1) - derivative(f, x - h, n, order - 1)) / (2 * h)


@EACH
def test_values_and_gradients(f):
    value, both, forward = bs.jit(f), bs.jit(bs.value_and_grad(f)), bs.jit(pushed(f))
    for n in (0, 1, 2, 3 if f is large_while else 5):
        expected, slope = f(0.7, n), bs.grad(f)(0.7, n)
        assert value(0.7, N(n)) == pytest.approx(expected, rel=1e-12)
        assert both(0.7, N(n)) == (
            pytest.approx(expected, rel=1e-12), pytest.approx(slope, rel=1e-10)
        )  # fmt: skip
        assert forward(0.7, N(n)) == pytest.approx(slope, rel=1e-10)
        assert slope == pytest.approx(derivative(f, 0.7, n), rel=1e-5, abs=1e-6)
    assert made(both)["native"], made(both)["reason"]


def made(f):
    (found,) = f.stats()["specialisations"]
    return found


def pushed(f):
    return lambda x, n: bs.jvp(lambda x: f(x, n), (x,), (1.0,))[1]


@EACH
def test_second_order(f):
    for first, second in ((bs.grad, bs.grad), (pushed, bs.grad)):
        g = bs.jit(first(second(f)))
        for n in (1, 3):
            expected = bs.grad(bs.grad(f))(0.7, n)
            assert g(0.7, N(n)) == pytest.approx(expected, rel=1e-9)
            assert expected == pytest.approx(derivative(f, 0.7, n, 2), rel=1e-4, abs=1e-4)
        assert made(g)["native"], made(g)["reason"]


@pytest.mark.parametrize("f", [tree, even, calls_in_a_loop], ids=lambda f: f.__name__)
def test_reverse_over_forward_and_third_order(f):
    g = bs.jit(bs.grad(pushed(f)))
    assert g(0.7, N(3)) == pytest.approx(bs.grad(bs.grad(f))(0.7, 3), rel=1e-9)
    g = bs.jit(bs.grad(bs.grad(bs.grad(f))))
    assert g(0.7, N(2)) == pytest.approx(bs.grad(bs.grad(bs.grad(f)))(0.7, 2), rel=1e-8)


@EACH
def test_gradients_of_batches(f):
    """Each example has its own depth."""
    xs, each = np.linspace(0.3, 1.2, 4), np.array([3, 1, 4, 2])

    def total(xs, n):
        return bs.vmap(f)(xs, n).sum()

    expected = [bs.grad(f)(x, n) for x, n in zip(xs, each.tolist(), strict=True)]
    np.testing.assert_allclose(bs.jit(bs.grad(total))(xs, each), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [chain, even, with_a_loop, large_state], ids=lambda f: f.__name__)
def test_batches_of_gradients(f):
    xs, each = np.linspace(0.3, 1.2, 5), np.array([3, 0, 1, 4, 2])
    g = bs.grad(f)
    expected = [g(x, n) for x, n in zip(xs, each.tolist(), strict=True)]
    np.testing.assert_allclose(bs.jit(bs.vmap(g))(xs, each), expected, rtol=1e-9, atol=1e-12)
    expected = [g(x, 3) for x in xs]
    got = bs.jit(bs.vmap(g, in_axes=(0, None)))(xs, N(3))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_second_order_of_batches():
    xs = np.linspace(0.3, 1.2, 5)
    g = bs.grad(bs.grad(tree))
    got = bs.jit(bs.vmap(g, in_axes=(0, None)))(xs, N(4))
    np.testing.assert_allclose(got, [g(x, 4) for x in xs], rtol=1e-9)


def test_checkpoint_computes_again():
    def again(x, n):
        return x if n == 0 else np.sin(bs.checkpoint(again)(x, n - 1)) * 1.01

    def little(x, n):
        return bs.checkpoint(chain, memory=1000)(x, n)

    def once_more(x, n):
        return bs.checkpoint(tree)(x, n) * x

    for f, plain in ((again, chain), (little, chain), (once_more, lambda x, n: tree(x, n) * x)):
        g = bs.jit(bs.grad(f))
        for n in (0, 1, 4):
            assert g(0.7, N(n)) == pytest.approx(bs.grad(plain)(0.7, n), rel=1e-12)


# ---- what a gradient costs


@pytest.mark.parametrize("g", [bs.grad(chain), bs.grad(bs.grad(chain))], ids=["first", "second"])
def test_calls_grow_with_depth_and_not_with_its_square(g, monkeypatch):
    compiled = bs.jit(g)
    compiled(0.7, N(3))
    (special,) = compiled._known.values()
    calls = []
    run = bind._RUN[CALL]
    monkeypatch.setitem(bind._RUN, CALL, lambda c, args: (calls.append(c), run(c, args))[1])
    counts = []
    for n in (5, 10, 15):
        calls.clear()
        evaluate(special.program, [0.7, N(n)])
        counts.append(len(calls))
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0


def test_deep():
    n, y, slope = 10_000, 0.7, 1.0
    for _ in range(n):
        slope *= np.cos(y) * 1.01
        y = np.sin(y) * 1.01
    found = bs.jit(bs.value_and_grad(chain))(0.7, N(n))
    assert found == (pytest.approx(y), pytest.approx(slope, rel=1e-9, abs=0))


@pytest.mark.parametrize("f", [chain, even, large_state], ids=lambda f: f.__name__)
def test_without_end(f):
    """An error with the user's line, in threads with little room, too."""
    compiled = bs.jit(bs.grad(f))
    compiled(0.7, N(2))
    found = []

    def run():
        with pytest.raises(
            RecursionError, match=r"calls itself too many times\n    at .*n - 1"
        ) as e:
            compiled(0.7, N(-1))
        found.append(e)

    run()
    before = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("f", "many"), [(chain, 30_000), (large_state, 600)], ids=["chain", "large_state"]
)
def test_a_round_gives_back_what_it_stores(f, many):
    """A loop of gradients, each of which needs its tape for one round; all of them, more than is ever kept."""

    def descend(x, n, rounds):
        for _ in range(rounds):
            x = x - 0.01 * bs.grad(f)(x, n)
        return x

    compiled = bs.jit(descend)
    assert compiled(0.7, N(3), N(2)) == pytest.approx(descend(0.7, 3, 2), rel=1e-12)
    tracemalloc.start()
    try:
        compiled(0.7, N(300), N(many))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6


def test_known_numpy_numbers_that_differ_at_each_level():
    def f(u, x, depth):
        if depth <= 0:
            return x
        return 0.5 * np.tanh(f(np.sin(u), x, depth - 1)) + u

    compiled = bs.jit(lambda x, depth: f(1.2, x, depth))
    for depth in (0, 3, 30):
        assert compiled(0.4, depth) == pytest.approx(f(1.2, 0.4, depth), rel=1e-12)


def test_recursion_in_a_comprehension_to_second_order():
    def scaled(x, depth):
        return x if depth <= 0 else scaled(x * 0.5, depth - 1)

    def f(x, k):
        y = np.array([scaled(x[1:], k % 4) + x[0] for _ in range(20)])
        return np.sum(y**3)

    x, v = np.array([0.3, 0.5, -0.2]), np.ones(3)
    got = bs.jit(lambda x, k: bs.grad(lambda z: bs.grad(f)(z, k) @ v)(x))(x, 6)
    np.testing.assert_allclose(got, bs.hvp(lambda z: f(z, 6))(x, v), rtol=1e-10)


def summed(a, b):
    return lambda x, a=a, b=b: a(x) + b(x)


def multiplied(a, b):
    def f(x, *, a=a, b=b):
        return a(x) * b(x)

    return f


@pytest.mark.parametrize("of", [summed, multiplied])
@pytest.mark.parametrize("around", [lambda f: f, bs.checkpoint])
def test_functions_of_one_code_are_told_apart_by_their_defaults(of, around):
    """A call within a call of the same code was taken for one that had been recorded: (sin + cos) twice."""
    f = of(around(of(np.sin, np.cos)), around(of(np.exp, np.tanh)))
    assert bs.jit(f)(1.0) == pytest.approx(f(1.0))
    assert bs.jit(bs.grad(f))(1.0) == pytest.approx(bs.numeric.derivative(f, 1.0).value, rel=1e-6)
    assert bs.grad(bs.jit(f))(1.0) == pytest.approx(bs.grad(f)(1.0))


def test_functions_within_functions_of_their_own_code():
    """They do not call themselves: each has another one for its default."""
    f = lambda x: bs.scan(lambda c, v: (c + v, c), x, np.ones(20))[0]
    for _ in range(4):
        f = lambda x, f=f: bs.checkpoint(f)(x) + bs.checkpoint(f)(2 * x)
    assert bs.jit(f)(1.0) == pytest.approx(f(1.0))
    assert bs.jit(bs.grad(f))(1.0) == pytest.approx(81.0)
