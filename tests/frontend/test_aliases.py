"""Several names of one object: as Python has it, or an error at the user's line; never other numbers."""

import dataclasses

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors


@dataclasses.dataclass
class State:
    a: float
    b: object = None


RIGHT, REFUSED = [], []


def right(f):
    RIGHT.append(f)
    return f


def refused(line):
    def note(f):
        REFUSED.append((f, line))
        return f

    return note


@right
def two_names_at_once(x):
    a = b = np.zeros(3)
    a[0] = x
    for i in range(12):
        a[i % 3] += x
        b[0] += 1
    return b.sum() + 2 * a[0]


@right
def bound_to_the_same_array_either_way(x):
    a = np.zeros(3)
    if x > 0:  # noqa: SIM108
        c = a
    else:
        c = a
    c[0] = 5.0
    return a.sum() * x


@right
def swapped_in_a_loop(x):
    a, b = np.zeros(3), np.ones(3)
    for _ in range(12):
        a, b = b, a
        a[0] += x
    return a.sum() * 10 + b.sum()


@right
def lists_and_dicts_with_two_names(x):
    p = q = {"a": x, "b": [x, 2.0]}
    inner = q["b"]
    n = x
    while n < 5:
        p["a"] = p["a"] + n
        q["b"][0] = q["a"] * 0.5
        n = n + 1
    return p["a"] + inner[0]


@right
def a_dict_in_a_dict_is_replaced(x):
    d = {"a": x, "b": {"c": x}}
    e = d["b"]
    for _ in range(12):
        d["b"] = {"c": d["b"]["c"] + 1}
    return e["c"] * 100 + d["b"]["c"]


@right
def keys_that_both_branches_add(x):
    d = {"a": x}
    if x > 0:
        d["b"] = x
        d["c"] = np.zeros(2)
    else:
        d["b"] = -x
        d["c"] = np.ones(2) * x
    d["c"][0] = 7.0
    return d["a"] + d["b"] + d["c"].sum()


@right
def a_copy_of_a_dict(x):
    p = {"a": x}
    q = p
    n = x
    while n < 5:
        p = dict(p)
        p["a"] = p["a"] + n
        n = n + 1
    return p["a"] + 10 * q["a"]


@right
def an_object_with_two_names(x):
    s = State(x, np.zeros(3))
    t = s
    for i in range(12):
        s.b[i % 3] = s.a
        t.a = t.a + 1
    return s.a + t.b.sum()


@right
def a_view_is_read_before_the_write(x):
    y = np.zeros(4) + x
    v = y[1:3]
    if x > 0:
        s = v.sum()
        y[1] = 10.0
    else:
        s = v.sum() * 2
    for i in range(12):
        w = y[i % 3 : i % 3 + 2]
        s += w.sum()
        y[0] = s * 0.1
    return s + y.sum()


@right
def a_view_is_copied(x):
    y = np.zeros((4, 3)) + x
    for i in range(3):
        row = y[i].copy()
        y[i] = y[i + 1] * i
        y[i + 1] = row
    return y.sum() + y[1, 1]


@right
def an_array_is_chosen_and_bound_anew(x):
    y, z = np.zeros(3), np.ones(3)
    y, z = (y, z) if x > 0 else (z, y)
    y[0] = 7.0
    return (y.sum() + 10 * z.sum()) * x


@right
def a_list_of_one_list_twice(x):
    m = [[0.0, x]] * 2
    n = x
    while n < 5:
        m[0][0] += n
        n = n + 1
    return m[0][0] + 10 * m[1][0]


@right
def functions_that_write(x):
    y = np.zeros(3) + x
    z = y
    np.copyto(y, 3.0)
    np.add(y, x, out=y)
    np.multiply(z, 2.0, z)
    return z.sum() + y[0]


@right
def methods_that_write(x):
    y = np.array([3.0, 1.0, 2.0]) * x
    z = y
    if x > 0:
        y.sort()
        y.fill(x)
    return z[0]


@refused("c[0] = 5.0")
def one_of_two_arrays(x):
    a, b = np.zeros(3), np.ones(3)
    if x > 0:  # noqa: SIM108
        c = a
    else:
        c = b
    c[0] = 5.0
    return a.sum() * 10 + b.sum()


@refused("c[0] = 5.0")
def one_of_two_arrays_by_an_expression(x):
    a, b = np.zeros(3), np.ones(3)
    c = a if x > 0 else b
    c[0] = 5.0
    return a.sum() * 10 + b.sum()


@refused("b[0] = x")
def copied_in_one_branch(x):
    a = np.zeros(3)
    b = a
    if x > 0:
        b = a.copy()
    b[0] = x
    return a.sum() * 10 + b.sum()


@refused("b[1] = 100")
def bound_to_another_array_in_a_loop(x):
    a, b = np.zeros(3), np.zeros(3)
    while x < 5:
        b = a
        a[0] = x
        x = x + 1
    b[1] = 100
    return a.sum()


@refused("a[0] += x")
def another_array_in_the_second_round(x):
    a, b = np.zeros(3), np.ones(3)
    n = x
    while n < 5:
        a[0] += x
        a = b
        n = n + 1
    return b.sum()


@refused("c[0] = 7.0")
def one_of_two_lists(x):
    a, b = [x, x], [0.0, 0.0]
    if x > 0:  # noqa: SIM108
        c = a
    else:
        c = b
    c[0] = 7.0
    return a[0] * 10 + b[0]


@refused("u.a = 10.0")
def one_of_two_objects(x):
    s, t = State(x), State(-x)
    if x > 0:  # noqa: SIM108
        u = s
    else:
        u = t
    u.a = 10.0
    return s.a * 100 + t.a


@refused("s.a = s.a + x")
def an_object_that_is_bound_anew(x):
    s = State(x)
    t = s
    while x < 5:
        s.a = s.a + x
        s = State(s.a)
        x = x + 1
    return s.a + t.a * 10


@refused("y[1] = 10.0")
def a_view_is_read_after_the_write(x):
    y = np.zeros(4) + x
    v = y[1:3]
    y[1] = 10.0
    return v.sum()


@refused("y[1] = 10.0")
def a_reshaped_view(x):
    y = np.zeros(4) + x
    v, w = y.reshape(2, 2), y.reshape(2, 2).T
    y[1] = 10.0
    return v.sum() + w.sum()


@refused("w[1] = 7.0")
def other_words_for_the_same_array(x):
    y = np.zeros(4) + x
    w = y.real.astype(float, copy=False)
    w[1] = 7.0
    return y.sum()


@refused("y[1] = i")
def a_view_is_read_in_the_next_round(x):
    y = np.zeros(4) + x
    v = y[1:3]
    s = 0.0
    n = x
    while n < 5:
        s += v[0]
        y[1] = i = n + 1
        n = i
    return s


@refused("y[1] = 10.0")
def a_view_behind_a_branch_that_writes(x):
    y = np.zeros(4) + x
    v = y[1:3]
    if x > 0:
        y[1] = 10.0
    return v.sum()


@refused("row += x")
def rows_of_a_loop(x):
    y = np.zeros((12, 3))
    for row in y:
        row += x
    return y.sum()


@refused("best[0] = 0.0")
def a_row_bound_in_a_loop(x):
    y = np.arange(12.0).reshape(4, 3) * x
    best = y[0]
    for i in range(4):
        if y[i].sum() > 10 * x:
            best = y[i]
    best[0] = 0.0
    return y.sum()


@refused("l[0][0] = 7.0")
def an_entry_that_gets_another_array(x):
    a = np.zeros(2)
    l = [np.ones(2), x]
    for i in range(12):
        l[0] = a
        l[1] = l[1] + i
    l[0][0] = 7.0
    return a.sum() + l[1]


@refused("l[1][0] = 7.0")
def an_entry_that_is_replaced_or_not(x):
    a = np.zeros(2)
    l = [a, a]
    n = 0
    while n < x:
        l[0] = l[0] + 1.0
        n += 1
    l[1][0] = 7.0
    return l[0].sum() + 10 * a.sum()


@refused("a[0] = 7.0")
def left_as_it_was_by_some_rounds(x):
    p = np.zeros(3) + x
    a = p
    for i in range(12):
        if x > i:
            a = a + 1.0
    a[0] = 7.0
    return p.sum()


@refused("y[0] = 5.0")
def bound_together_in_a_nest(x):
    y, z = np.zeros(3) + x, np.ones(3)
    for _ in range(12):
        for _ in range(12):
            y = z = np.sin(y) + z
    y[0] = 5.0
    return z.sum()


@refused("a[0] = 7.0")
def handed_on_from_one_to_the_other(x):
    w, a, b = np.zeros(3) + x, np.ones(3), np.ones(3)
    for _ in range(12):
        a, b = b, w
    a[0] = 7.0
    return w.sum()


@pytest.mark.parametrize("f", RIGHT, ids=lambda f: f.__name__)
def test_names_of_one_object(f):
    for x in (2.1, -1.2):
        for backend in ("numpy", "native"):
            assert bs.jit(f, backend=backend)(x) == pytest.approx(f(x))
        slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
        assert bs.jit(bs.grad(f))(x) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(("f", "line"), REFUSED, ids=lambda x: getattr(x, "__name__", None))
def test_what_would_be_wrong_is_refused(f, line):
    with pytest.raises(errors.InPlaceError) as caught:
        bs.jit(f)(2.1)
    assert line in str(caught.value)
    assert "test_aliases.py:" in str(caught.value)


def test_the_shape_of_a_tensor_is_not_set():
    def f(x):
        y = np.zeros((3, 2)) + x
        y.shape = (2, 3)
        return y[1, 2]

    with pytest.raises(errors.InPlaceError, match="reshape"):
        bs.jit(f)(2.0)


def test_eager_functions_that_write_are_no_exception():
    def f(x):
        y = np.zeros(4)
        v = y[1:3]
        y[1] = x
        return v.sum() * x

    with pytest.raises(errors.InPlaceError, match="other names"):
        bs.grad(f)(2.0)
