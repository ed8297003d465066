"""Recursion on known arguments that never repeat: it goes as deep as compiled programs can, or says why not."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors
from backsolve.frontend.scope import Staging
from backsolve.hooks import hooks
from backsolve.ir import Type
from backsolve.regions import Callee
from backsolve.trace import stage


def chain(x, n):
    if n == 0:
        return x
    return chain(x * 1.001, n - 1) + x


def looped(x, n):
    if n == 0:
        return x
    parts = [x]
    for _ in range(n):
        parts.append(parts[-1] * 1.001)
    return sum(reversed(parts[:-1]), parts[-1])


def closed_over(x, n):
    def down(k):
        if k == 0:
            return x
        return down(k - 1) * 0.99 + np.sin(x)

    return down(n)


def halved(x, h):
    if h < 1e-30:
        return x
    return halved(x + h * np.sin(x), h * 0.5)


@pytest.mark.parametrize("n", [3, 40, 2000])
def test_known_numbers_that_change_at_each_level(n):
    f = bs.jit(chain, static_argnums=1)
    assert f(2.0, n) == pytest.approx(looped(2.0, n), rel=1e-12)
    slope = bs.jit(bs.grad(chain), static_argnums=1)(2.0, n)
    assert slope == pytest.approx(looped(1.0, n), rel=1e-12)
    xs = np.array([1.0, 2.0])
    both = bs.jit(bs.vmap(lambda x: chain(x, n)))(xs)
    assert both == pytest.approx([looped(1.0, n), looped(2.0, n)], rel=1e-12)


def test_the_program_does_not_grow():
    f = bs.jit(chain, static_argnums=1)
    few, many = (len(str(f.lower(2.0, n).stages["program"])) for n in (60, 2000))
    assert many < 1.1 * few


def test_traced_values_may_be_closed_over():
    expected = 0.7
    for _ in range(1500):
        expected = expected * 0.99 + np.sin(0.7)
    assert bs.jit(closed_over, static_argnums=1)(0.7, 1500) == pytest.approx(expected, rel=1e-12)


def test_floats_that_change():
    assert bs.jit(halved, static_argnums=1)(2.0, 1.0) == pytest.approx(halved(2.0, 1.0))


def test_numbers_that_must_be_known_stay_known():
    def f(x, n):
        if n == 0:
            return x.sum()
        y = np.zeros(n)
        y[n - 1] = x[0] * n
        return f(x, n - 1) + y.sum()

    x = np.ones(3)
    assert bs.jit(f, static_argnums=1, backend="numpy")(x, 40) == f(x, 40)
    with pytest.raises(errors.RecursionDepthError, match="`f` calls itself more often") as caught:
        bs.jit(f, static_argnums=1, backend="numpy")(x, 400)
    assert "test_recursion.py:" in str(caught.value)


def test_what_has_nothing_traced_is_pythons():
    def factorial(n):
        return 1 if n <= 1 else n * factorial(n - 1)

    f = bs.jit(lambda x, n: x * (factorial(n) % 11), static_argnums=1)
    assert f(2.0, 8) == 2.0 * (40320 % 11)
    with pytest.raises(errors.RecursionDepthError, match="`factorial`"):
        f(2.0, 5000)


def test_known_arrays_that_are_made_at_each_level():
    def g(u, depth):
        if depth <= 0:
            return u
        y = np.zeros(5)
        return u + 0.5 * np.tanh(g(y[3], depth - 1))

    assert bs.jit(g)(0.7, 3) == pytest.approx(g(0.7, 3))
    assert bs.jit(bs.grad(g))(0.7, 3) == pytest.approx(1.0)


def test_without_end():
    def f(x, n):
        return f(x, n + 1) + x

    with pytest.raises(errors.RecursionTypeError, match="`f` calls itself before any branch"):
        bs.jit(f, static_argnums=1)(2.0, 0)


def test_the_numpy_backend_says_that_it_has_little_room():
    with pytest.raises(errors.RecursionDepthError, match="NumPy backend"):
        bs.jit(chain, backend="numpy")(2.0, 5000)


def test_functions_that_call_each_other_with_other_numbers_each_time():
    def even(v, n):
        if v < 0.1:
            return v * n
        return odd(v * 0.9, n + 1)

    def odd(v, n):
        if v < 0.1:
            return -v
        return even(v - 0.01, n + 2) + v

    f = lambda x: even(x, 0)
    assert bs.jit(f)(1.7) == pytest.approx(f(1.7))
    slope = (f(1.7 + 1e-6) - f(1.7 - 1e-6)) / 2e-6
    assert bs.jit(bs.grad(f))(1.7) == pytest.approx(slope, rel=1e-6)


def test_parts_without_entries_in_a_batch():
    def determinant(m):
        if len(m) == 2:
            return m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        total = 0.0
        for j in range(len(m)):
            minor = np.concatenate([m[1:, :j], m[1:, j + 1 :]], axis=1)
            total += (-1) ** j * m[0, j] * determinant(minor)
        return total

    m = np.random.default_rng(0).normal(size=(3, 4, 4))
    cofactors = np.stack([np.linalg.det(x) * np.linalg.inv(x).T for x in m])
    got = bs.jit(bs.vmap(bs.grad(lambda m: determinant(m))))(m)
    np.testing.assert_allclose(got, cofactors)


def test_a_tolerance_that_each_level_halves_is_one_program_for_all():
    def adaptive(a, b, w):
        def area(a, b):
            m = (a + b) / 2
            return (b - a) / 6 * (np.sin(w * a) + 4 * np.sin(w * m) + np.sin(w * b))

        def refined(a, b, whole, most):
            m = (a + b) / 2
            left, right = area(a, m), area(m, b)
            if abs(left + right - whole) < most:
                return left + right
            return refined(a, m, left, most / 2) + refined(m, b, right, most / 2)

        return refined(a, b, area(a, b), 1e-6)

    args = 0.0, 2.0, 3.0
    np.testing.assert_allclose(bs.jit(adaptive)(*args), adaptive(*args), rtol=1e-14)
    expected = bs.grad(adaptive, argnums=2)(*args)
    np.testing.assert_allclose(bs.jit(bs.grad(adaptive, argnums=2))(*args), expected, rtol=1e-12)
    types = [Type((), np.dtype(float))] * 3
    with Staging():
        waiting = [stage(hooks.users(adaptive), types)[0]]
    found = {}
    while waiting:
        for e in waiting.pop().equations:
            region = e.params.get("region")
            if region is None:
                continue
            inner = [region.program] if isinstance(region, Callee) else region.programs()
            waiting += [p for p in inner if id(p) not in found]
            found.update({id(p): p for p in inner})
    assert 1 <= len(found) <= 12


def test_a_recursion_that_changes_its_argument_is_told_what_to_write():
    def in_place(y, n):
        if n > 0:
            y[n] = y[n] * y[n - 1]
            in_place(y, n - 1)

    def returned(y, n):
        y = y.copy()
        if n > 0:
            y[n] = y[n] * y[n - 1]
            y = returned(y, n - 1)
        return y

    def changed(x, n):
        y = x.copy()
        in_place(y, n)
        return y.sum()

    x, n = np.linspace(1.0, 2.0, 5), 3
    with pytest.raises(errors.ControlFlowError, match="bind what it returns where it is called"):
        bs.jit(changed)(x, n)
    assert bs.jit(lambda x, n: returned(x, n).sum())(x, n) == pytest.approx(changed(x, n))


def test_a_number_that_no_argument_changes_stays_known() -> None:
    """A shape that is computed by functions which call each other, next to what is traced."""

    def levels(tree, x):
        return 1 + max((levels(branch, x) for branch in tree), default=0)

    def inside(f):
        return lambda x: f(x)

    columns = inside(inside(inside(lambda x: 2)))
    f = lambda x: np.sum(x.reshape(levels((((), ()), ()), x), columns(x), -1)[0] ** 2)
    x = np.arange(12.0)
    assert bs.jit(f)(x) == f(x)
    np.testing.assert_array_equal(bs.jit(bs.grad(f))(x), bs.grad(f)(x))


def test_a_number_that_a_branch_chooses_is_traced() -> None:
    def steps(x, n):
        if x < 1:
            return 0
        return 1 + steps(x / 2, n)

    assert [bs.jit(lambda x: steps(x, 3))(x) for x in (0.5, 5.0, 100.0)] == [0, 3, 7]
