"""Control flow on traced values: values as Python's, derivatives as central differences."""

from __future__ import annotations

import copy
import math
import random

import cases
import numpy as np
import pytest

import backsolve as bs
from backsolve import errors


def static(arguments):
    return [k for k, a in enumerate(arguments) if isinstance(a, int)]


@pytest.mark.parametrize(("f", "arguments"), cases.CASES)
def test_values(f, arguments):
    got = bs.jit(f, static_argnums=static(arguments))(*copy.deepcopy(arguments))
    np.testing.assert_allclose(got, f(*copy.deepcopy(arguments)), rtol=1e-12)


def first_of_each():
    seen = {}
    for f, arguments in cases.CASES:
        seen.setdefault(f.__name__, (f, arguments))
    return list(seen.values())


@pytest.mark.parametrize(("f", "arguments"), first_of_each())
def test_derivatives(f, arguments):
    # Away from the kinks, which all lie at round numbers.
    x = np.asarray(arguments[0]) + 0.0137
    rest = arguments[1:]

    def g(x, *rest):
        y = f(x, *rest)
        return y.sum() if np.ndim(y) else y

    direction = np.cos(np.arange(x.size)).reshape(x.shape)
    a, b = (g((x + s * direction)[()], *copy.deepcopy(rest)) for s in (1e-6, -1e-6))
    numeric = (a - b) / 2e-6
    known = [k for k, _ in enumerate(arguments) if k in static(arguments)]
    gradient = bs.jit(bs.grad(g), static_argnums=known)(x[()], *copy.deepcopy(rest))
    np.testing.assert_allclose(np.sum(gradient * direction), numeric, rtol=1e-5, atol=1e-7)

    def along(x, *rest):
        return bs.jvp(lambda t: g(t, *rest), (x,), (direction[()],))[1]

    pushed = bs.jit(along, static_argnums=known)(x[()], *copy.deepcopy(rest))
    np.testing.assert_allclose(pushed, numeric, rtol=1e-5, atol=1e-7)


def test_loops_stay_loops():
    def power(x, n):
        y = 1.0
        for _ in range(n):
            y = y * x
        return y

    f = bs.jit(power, static_argnums=1)
    short, long = (str(f.lower(1.01, n).stages["program"]) for n in (10, 1_000_000))
    assert len(short.splitlines()) == len(long.splitlines())
    assert f(1.0000001, 1_000_000) == pytest.approx(1.0000001**1_000_000)
    assert f(2.0, 5) == 32.0  # few rounds: unrolled


def test_a_traced_count():
    def total(x, n):
        s = 0.0
        for i in range(1, n, 2):
            s = s + x * i
        return s

    f = bs.jit(total)
    for n in (0, 1, 2, 7, 8, 101):
        assert f(0.5, n) == pytest.approx(total(0.5, n))


def test_print_shows_types(capsys):
    bs.jit(lambda x: (print(x), x)[1])(2.0)
    assert "staged float64" in capsys.readouterr().out


def test_transformations_inside_and_outside():
    def f(x):
        s = 0.0
        while s < x:
            s = s + x * x
        return s

    def slope(x):
        return bs.grad(f)(x) + bs.jvp(f, (x,), (1.0,))[1] + bs.vjp(f, x)[1](1.0)[0]

    x = 0.3
    once = bs.grad(f)(x)
    assert bs.jit(bs.grad(f))(x) == pytest.approx(once)
    assert bs.jit(slope)(x) == pytest.approx(3 * once)
    assert bs.jit(lambda v: bs.vmap(f)(v))(np.array([0.3, 2.0])) == pytest.approx([f(0.3), f(2.0)])
    inner = bs.jit(f)
    assert bs.jit(lambda x: inner(x) * 2)(x) == pytest.approx(2 * f(x))


def test_functions_given_to_combinators_are_rewritten():
    def step(s, x):
        if x > 2:
            s = s + x
        return s, s

    f = bs.jit(lambda v: bs.scan(step, 0.0, v)[0])
    assert f(np.arange(5.0)) == 7.0
    y = bs.tensor(np.zeros(3))

    def writes(s, x):
        y[0] = x
        return s, s

    with pytest.raises(errors.ControlFlowError, match="`writes` changes something"):
        bs.jit(lambda v: bs.scan(writes, 0.0, v)[0])(np.arange(5.0))


# ---- what one object sees of a write through another


def test_names_of_one_array_see_each_other():
    def f(x):
        y = np.zeros(12)
        z = y
        for i in range(1, 12):
            y[i] = z[i - 1] + x
        return z.sum()

    assert bs.jit(f)(2.0) == f(2.0)


def test_containers_keep_their_identity():
    def f(x):
        state = {"a": x, "b": [x, 2 * x]}
        same = state
        inner = state["b"]
        if x > 1:
            state["a"] = x * 5
            state["b"][0] = x * 7
        return same["a"] + inner[0]

    assert bs.jit(f)(2.0) == f(2.0)
    assert bs.jit(f)(0.5) == f(0.5)


def test_arrays_in_containers_keep_their_identity_or_not():
    def f(x):
        d = {"y": np.zeros(12), "w": np.ones(2) * x}
        y, w = d["y"], d["w"]
        for i in range(12):
            d["y"][i] = x * i  # y sees this
            d["w"] = d["w"] * 0.9 + w  # w does not
        d["w"][0] = 7.0
        return y.sum() + d["y"].sum() + w.sum() + d["w"].sum()

    assert bs.jit(f)(2.0) == pytest.approx(f(2.0))


def test_an_array_in_a_list_with_another_name():
    def f(x):
        y = np.arange(12.0)
        pair = [y, x]
        for i in range(12):
            pair[0][i] = x
        return y.sum()

    with pytest.raises(errors.InPlaceError, match="other names"):
        bs.jit(f)(2.0)


def test_an_array_with_other_names_is_refused():
    def f(x):
        y = np.arange(3.0)
        z = y
        y[0] = x
        return z.sum()

    with pytest.raises(errors.InPlaceError, match="other names"):
        bs.jit(f)(2.0)


KNOWN = np.arange(3.0)


def test_an_array_from_outside_is_written_into_in_a_loop():
    def into(table):
        def f(s):
            y = table()
            while s < 10.0:
                y[0] = y[0] + s
                s = s * 2.0
            return (y * y).sum()

        return f

    with pytest.raises(errors.InPlaceError, match=r"y = y\.copy\(\)"):
        bs.jit(into(lambda: KNOWN))(1.0)
    advised = into(lambda: KNOWN.copy())
    assert bs.jit(advised)(1.0) == advised(1.0) == 15.0**2 + 1 + 4
    assert bs.jit(bs.grad(advised))(1.0) == bs.grad(advised)(1.0) == 2 * 15.0 * 15
    np.testing.assert_array_equal(KNOWN, [0, 1, 2])


def test_an_array_that_is_written_into_and_bound_anew():
    def f(x, n=12):
        y = np.zeros(3)
        z = y
        for i in range(n):
            y[0] = x + i  # the first time, z sees it
            y = y + 1
        return y.sum() + z.sum()

    def g(x):
        y = np.zeros(3)
        z = y
        for i in range(12):
            y = y + 1
            y[0] = x + i  # z never sees it
            y += 1
        return y.sum() + z.sum()

    with pytest.raises(errors.InPlaceError, match=r"y = y\.copy\(\) before the loop"):
        bs.jit(f)(2.0, 12)
    assert bs.jit(f)(2.0) == f(2.0)  # a known count: it runs in Python
    assert bs.jit(g)(2.0) == g(2.0)


def test_a_slice_is_not_written_through():
    def f(x):
        y = np.zeros((3, 2))
        row = y[1]
        row[0] = x
        return y.sum()

    with pytest.raises(errors.InPlaceError, match="slice of a tensor"):
        bs.jit(f)(2.0)


def test_nested_places():
    def f(x):
        grid = np.zeros((3, 4))
        grid[1][2] = x
        grid[0][1:3] += x
        pair = [np.arange(3.0), {"k": np.ones(2)}]
        pair[0][1] = x
        pair[1]["k"][0] *= x
        return grid.sum() + pair[0].sum() + pair[1]["k"].sum()

    assert bs.jit(f)(2.0) == f(2.0)


def test_writes_of_a_called_function_in_a_branch():
    def fill(y, v):
        y[0] = v
        y += 1.0

    def f(x):
        y = np.zeros(3)
        if x > 1:
            fill(y, x)
        return y.sum()

    assert bs.jit(f)(2.0) == f(2.0)
    assert bs.jit(f)(0.5) == f(0.5)


def test_arrays_made_in_a_loop_are_its_own():
    def f(x):
        s = 0.0
        for i in range(12):
            t = np.zeros(3)
            t[i % 3] = x
            u = bs.tensor([1.0, 2.0])
            u[0] = x * i
            rows = []
            for k in range(3):
                rows.append(t[k] * u[0])
            s = s + sum(rows)
        return s

    assert bs.jit(f)(2.0) == f(2.0)
    assert bs.jit(bs.grad(f))(2.0) == pytest.approx((f(2.001) - f(1.999)) / 0.002)


def test_random_numbers_are_drawn_in_python():
    def f(x, seed):
        s = 0.0
        rng = np.random.default_rng(seed)
        for _ in range(12):
            s = s + x * rng.normal()
        return s

    assert bs.jit(f, static_argnums=1)(2.0, 7) == pytest.approx(f(2.0, 7))


numbers = np.random.default_rng(0)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.normal(),
        lambda: random.random(),
        lambda: np.random.default_rng().normal(),
        lambda: numbers.normal(),
    ],
)
def test_random_numbers_that_would_be_the_same_at_every_call(draw):
    with pytest.raises(errors.ControlFlowError, match="every call would get the same"):
        bs.jit(lambda x: x + draw())(1.0)
    bs.grad(lambda x: x + draw())(1.0)
    bs.vmap(lambda x: x + draw())(np.ones(2))


def test_members_and_keys():
    def f(x):
        s = 0.0
        names = {0: 1.0, 3: 5.0}
        for i in range(12):
            if i in (1, 2) or i in {5, 6}:
                s = s + x
            if i not in names:
                continue
            s = s + names.get(i, 0.0) * x
        return s

    assert bs.jit(f)(2.0) == f(2.0)


# ---- what cannot be staged


def grows(x):
    kept = []
    while x > 1:
        kept.append(x)
        x = x / 2
    return x


def changes_type(x):
    s = 0.0
    while x > 1:
        s = s + x * np.ones(3)
        x = x / 2
    return s


def none_or_number(x):
    best = None
    while x > 1:
        best = x
        x = x / 2
    return best


def two_shapes(x):
    if x > 1:  # noqa: SIM108
        y = x
    else:
        y = x * np.ones(2)
    return y


def raises(x):
    if x > 1:
        raise ValueError("too large")
    return x


def tries(x):
    try:
        if x > 1:
            x = x - 1
    except ValueError:
        pass
    return x


def range_in_comprehension(n):
    return np.array([i * 2.0 for i in range(n)]).sum()


def ambiguous(x):
    return x if x * np.ones(2) > 1 else -x


def draws(x):
    while x > 1:
        x = x * np.random.default_rng(0).random()
    return x


GLOBAL = 0


def writes_global(x):
    global GLOBAL
    while x > 1:
        GLOBAL = x
        x = x / 2
    return x


def sorts_itself(v, n):
    if n < 1:
        return v
    v[0] = n
    return sorts_itself(v, n - 1)


@pytest.mark.parametrize(
    ("f", "arguments", "message"),
    [
        (grows, (9.0,), "changes a list from outside"),
        (changes_type, (9.0,), r"`s` is float64\[\] before the loop and float64\[3\] after one"),
        (none_or_number, (9.0,), "`best` is None before the loop"),
        (two_shapes, (9.0,), r"`y` is float64\[\] in one branch of this `if` and float64\[2\]"),
        (raises, (0.5,), "too large.*compiled code cannot raise"),
        (tries, (0.5,), "inside `try`"),
        (range_in_comprehension, (3,), "traced length"),
        (ambiguous, (3.0,), "ambiguous"),
        (draws, (3.0,), "random"),
        (writes_global, (3.0,), "global name `GLOBAL`"),
        (sorts_itself, (np.zeros(3), 3), "recursive function `sorts_itself` changes"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_cannot_be_staged_says_so(f, arguments, message):
    with pytest.raises(errors.ControlFlowError, match=message) as caught:
        bs.jit(f)(*arguments)
    assert "test_staged.py:" in str(caught.value)


def test_a_recursive_function_may_write_into_its_own_arrays():
    def f(v, n):
        if n < 1:
            return v
        v = v * 1.5
        v[0] = n
        t = np.zeros(3)
        t[1] = v[0]
        return f(v + t, n - 1)

    v = np.ones(3)
    np.testing.assert_allclose(bs.jit(f)(v, 3), f(v, 3))


def test_no_source_is_said():
    names = {}
    exec("def f(x):\n    while x > 1: x = x / 2\n    return x", names)
    with pytest.raises(errors.TracedValueError, match="made by exec"):
        bs.jit(names["f"])(3.0)


# ---- loops whose first round differs, and nests of unknown length


def becomes_an_array(x, n):
    total, last = 0.0, None
    for i in range(n):
        change = x if last is None else x - last
        total = total + np.sin(change * i + x)
        last = total * 0.1
        if total[0] > 1e6:
            break
    return np.sum(total**2)


def interval_products(x, n):
    cost = np.zeros((n, n))
    for length in range(1, n):
        for i in range(n - length):
            best = 1e9
            for k in range(i, i + length):
                t = cost[i, k] + cost[k + 1, i + length] + x[k] * x[i] + 1.0
                if t < best:
                    best = t
            cost[i, i + length] = best
    return cost[0, n - 1]


@pytest.mark.parametrize(
    ("f", "few", "many"), [(becomes_an_array, 12, 400), (interval_products, 8, 40)]
)
def test_programs_do_not_grow(f, few, many):
    x = np.linspace(0.1, 1, 40)[: many if f is interval_products else 3]
    compiled = bs.jit(f, static_argnums=1)
    sizes = [len(str(compiled.lower(x, n).stages["program"])) for n in (few, many)]
    assert sizes[1] < 1.2 * sizes[0]
    assert compiled(x, few) == pytest.approx(f(x, few))
    direction = np.cos(np.arange(x.size))
    slope = (f(x + 1e-6 * direction, few) - f(x - 1e-6 * direction, few)) / 2e-6
    gradient = bs.jit(bs.grad(f), static_argnums=1)(x, few)
    assert gradient @ direction == pytest.approx(slope, rel=1e-5)


def to_another_base(x):
    return math.log(x, 10) + math.log(8.0, x) + math.log(x)


def far_in_space(x):
    return math.hypot(x, 2 * x, 3.0) + math.hypot(x) + math.hypot(x, 1.0)


@pytest.mark.parametrize("f", [to_another_base, far_in_space])
def test_functions_of_math_with_more_arguments_than_numpys(f):
    assert bs.jit(f)(2.3) == pytest.approx(f(2.3), rel=1e-14)
    slope = (f(2.3 + 1e-6) - f(2.3 - 1e-6)) / 2e-6
    assert bs.jit(bs.grad(f))(2.3) == pytest.approx(slope, rel=1e-8)
