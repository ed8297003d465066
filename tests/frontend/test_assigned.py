"""Names that only some ways through staged code assign: right where one did, an error where none did."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "native"])
X = np.linspace(0.1, 2.0, 20)


def in_one_branch(x, t):
    if x[0] < t:
        y = x[3]
    x = x + 1
    return y * x[1]


def in_a_loop(x, t):
    u = x[-1]
    while u > t:
        last = u
        u = u / 2
    return last * u


def found_in_a_for(x, t):
    for k in range(len(x)):
        if x[k] > t:
            found = k
            break
    return x[found] ** 2


def found_or_else(x, t):
    for k in range(len(x)):
        if x[k] > t:
            found, value = k, np.sqrt(x[k])
            break
    else:
        found, value = -1, 0.5 * x[0]
    return found * value


def found_without_end(x, t):
    k = 0
    while True:
        if x[k] > t:
            got = np.sin(x[k])
            break
        k += 1
        if k >= len(x):
            break
    return got


def read_in_later_rounds(x, t):
    for k in range(20):
        if x[k] > t:
            if k > 3:  # noqa: SIM108  (branches are what is tested)
                s = s + x[k]  # noqa: F821  (an earlier round has assigned it)
            else:
                s = x[k] * 1.0
    s += 1
    return s * s


def an_array_written_into(x, t):
    if x[0] < t:
        sums = np.zeros(3)
    for i in range(20):
        if x[i] > t:
            sums[i % 3] += x[i] ** 2
    return sums.sum()


def where_it_is_known_to_be_there(x, t):
    if x[0] < t:
        y = x[0]
    times = lambda z: z * y
    if x[0] < t and y > 0.0:
        return times(x[1])
    return x[2]


def backwards(x, t):
    """The way back through a table of best scores, as in aligning two sequences."""
    n = 10
    scores = np.zeros((n + 1, n + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            match = x[i] if i == j else -x[j]
            scores[i, j] = max(0.0, scores[i - 1, j - 1] + match, scores[i - 1, j] - t)
            if scores[i, j] > best:
                best = scores[i, j]
                bi, bj = i, j
    total = 0.0
    while bi > 0 and bj > 0 and scores[bi, bj] > 0:
        total = total + scores[bi, bj]
        bi, bj = bi - 1, bj - 1
    return total


FINE = [
    (in_one_branch, 1.0),
    (in_a_loop, 0.3),
    (found_in_a_for, 1.05),
    (found_or_else, 1.05),
    (found_or_else, 9.0),
    (found_without_end, 1.05),
    (read_in_later_rounds, 0.25),
    (an_array_written_into, 0.35),
    (where_it_is_known_to_be_there, 1.0),
    (where_it_is_known_to_be_there, 0.0),
    (backwards, 0.3),
]
NO_VALUE = [
    (in_one_branch, 0.0, "`y` .* return y"),
    (in_a_loop, 9.0, "`last` .* return last"),
    (found_in_a_for, 9.0, "`found` .* return x.found"),
    (found_without_end, 9.0, "`got` .* return got"),
    (read_in_later_rounds, 1.05, "`s` .* s = s"),
    (read_in_later_rounds, 9.0, "`s` .* s [+]= 1"),
    (an_array_written_into, 0.05, "`sums` .* sums.i % 3. [+]="),
    (an_array_written_into, -9.0, "`sums` .* sums.i % 3. [+]="),
]


@BACKENDS
@pytest.mark.parametrize(("f", "t"), FINE)
def test_one_way_assigns(f, t, backend):
    np.testing.assert_allclose(bs.jit(f, backend=backend)(X, t), f(X, t))
    expected = bs.numeric.grad(lambda x: f(x, t), X), bs.grad(f, argnums=1)(X, t)
    for d in (bs.grad(f, argnums=(0, 1)), bs.grad(bs.jit(f), argnums=(0, 1))):
        for got, should in zip(bs.jit(d, backend=backend)(X, t), expected, strict=True):
            np.testing.assert_allclose(got, should, rtol=1e-5, atol=1e-8)
    direction = np.cos(np.arange(20.0)), 0.0
    _, got = bs.jit(lambda x, t: bs.jvp(f, (x, t), direction), backend=backend)(X, t)
    np.testing.assert_allclose(got, expected[0] @ direction[0], rtol=1e-5, atol=1e-8)


@BACKENDS
@pytest.mark.parametrize(("f", "t", "match"), NO_VALUE)
def test_no_way_assigns(f, t, match, backend):
    with pytest.raises((UnboundLocalError, NameError)):
        f(X, t)
    with pytest.raises(UnboundLocalError, match=match):
        bs.jit(f, backend=backend)(X, t)
    with pytest.raises(UnboundLocalError, match=match):
        bs.jit(bs.grad(f), backend=backend)(X, t)


def test_of_a_batch():
    ts = np.array([0.5, 1.05, 1.5])
    g = bs.jit(bs.vmap(bs.grad(found_in_a_for), in_axes=(None, 0)))
    expected = [bs.grad(found_in_a_for)(X, t) for t in ts]
    np.testing.assert_allclose(g(X, ts), expected)
    with pytest.raises(UnboundLocalError, match="`found`"):
        g(X, np.array([0.5, 9.0]))


def test_a_name_that_may_be_another_of_an_array():
    def f(x, t):
        if x[0] < t:
            y = x
        if x[0] < t + 1:
            y[0] = 3.0
        return (x * x).sum()

    with pytest.raises(errors.InPlaceError, match=r"y.0. = 3.0"):
        bs.jit(f)(X.copy(), 1.0)


def test_types_that_differ_between_ways_have_no_value():
    def f(x, t):
        if x[0] < t:
            y = x[0]
        elif x[1] < t:
            y = x
        return y * 2

    with pytest.raises(errors.UndefinedNameError, match="`y` has other types") as caught:
        bs.jit(f)(X, 1.0)
    assert str(caught.value).splitlines()[-1].endswith("return y * 2")
