"""Rewritten functions on concrete values do exactly what they did: results, errors, lines, closures."""

from __future__ import annotations

import copy
import functools
import traceback

import cases
import numpy as np
import pytest

from backsolve.frontend import rewritten
from backsolve.frontend.convert import convert_function, reason


@pytest.mark.parametrize(("f", "arguments"), cases.CASES)
def test_equals_python(f, arguments):
    want = f(*copy.deepcopy(arguments))
    got = rewritten(f)(*copy.deepcopy(arguments))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def of_itself(n):
    if n > 0:
        n = n + of_itself(n - 1)
    return n


def test_a_global_function_may_call_itself():
    assert rewritten(of_itself) is not of_itself
    assert rewritten(of_itself)(4) == of_itself(4) == 10


def test_every_case_is_rewritten():
    for f, _ in cases.CASES:
        assert convert_function(f) is not f, reason(f.__code__)


def test_nothing_to_do_is_nothing_done():
    def plain(x, y=2.0):
        z = np.sin(x) @ np.ones(3).T
        return np.sum(z * y) + x.sum(axis=0)[0]

    assert convert_function(plain) is plain


def test_signature_and_names_survive():
    def f(a, /, b=[1], *rest, c, d=4, **more):  # noqa: B006
        """Text."""
        if a:
            b.append(a)
        return a, b, rest, c, d, more

    g = convert_function(f)
    assert g is not f
    assert g(1, c=3, e=5) == (1, [1, 1], (), 3, 4, {"e": 5})
    assert f.__defaults__ is g.__defaults__  # one list, as before
    assert g(0, [2], 7, c=1, d=0) == (0, [2], (7,), 1, 0, {})
    assert (g.__name__, g.__qualname__, g.__doc__) == (f.__name__, f.__qualname__, "Text.")
    assert g.__globals__ is f.__globals__
    assert g.__code__.co_firstlineno == f.__code__.co_firstlineno
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'c'"):
        g(1)


def test_cells_are_shared():
    count = 0

    def bump(n):
        nonlocal count
        for _ in range(n):
            count += 1
        return count

    assert convert_function(bump)(3) == 3
    assert count == 3
    count = 10
    assert convert_function(bump)(1) == 11


def test_late_binding_of_loop_variables():
    def f():
        made = []
        for i in range(3):
            made.append(lambda: i)  # noqa: B023
        return [g() for g in made]

    assert convert_function(f)() == f() == [2, 2, 2]


def test_lines_of_errors():
    def f(x):
        for k in range(3):
            if k == 2:
                return 1 / (x - x)
        return 0

    def line_of(g):
        with pytest.raises(ZeroDivisionError) as caught:
            g(1)
        return traceback.extract_tb(caught.value.__traceback__)[-1].lineno

    assert line_of(convert_function(f)) == line_of(f) == f.__code__.co_firstlineno + 3


def test_unbound_names():
    def f(x):
        if x:
            y = 1
        return y

    assert convert_function(f)(True) == 1
    with pytest.raises(NameError, match="y"):
        convert_function(f)(False)


def test_jumps_through_try_and_with():
    def f(x, log):
        for k in range(5):
            try:
                if k == x:
                    continue
                if k == x + 2:
                    break
                if k == x + 7:
                    return "never"
                log.append(k)
            except ValueError:
                return "error"
            else:
                log.append("else")
            finally:
                log.append("end")
        else:
            return "all"
        with open(__file__) as text:
            if x == 1:
                return text.name == __file__
        return log

    for x in (-5, 0, 1, 4):
        a, b = [], []
        assert convert_function(f)(x, a) == f(x, b)
        assert a == b


def test_evaluation_order_and_short_circuit():
    def f(log):
        def say(v):
            log.append(v)
            return v

        a = (say(0) and say(1)) or (say(2) and not say(0))
        b = say(1) < say(3) < say(2) < say(9)
        c = say(5) if say(0) else say(6)
        x = {}
        x[say("k")] = say(3)
        x[say("k")] += say(4)
        p, x[say("q")] = say(7), say(8)
        return a, b, c, x, p

    a, b = [], []
    assert convert_function(f)(a) == f(b)
    assert a == b


def test_walrus_match_delete_and_annotations():
    def f(values):
        total: int = 0
        while (n := len(values)) > 1:
            total += values.pop() * n
        match values:
            case [x] if x > 1:
                kind: str = "big"
            case [x]:
                kind = "small"
            case _:
                return None
        del x
        return total, kind

    for values in ([1, 2, 3], [5], []):
        assert convert_function(f)(list(values)) == f(list(values))


def test_private_names_and_super():
    class Base:
        def __init__(self):
            self.__n = 3

        def total(self, k):
            s = 0
            for i in range(k):
                s += self.__n * i
            return s

    class Child(Base):
        def total(self, k):
            for _ in range(2):
                k = k + 1
                s = super().total(k)
            return s

    assert rewritten(Child().total)(4) == Child().total(4)
    assert rewritten(functools.partial(Child.total, Child()))(4) == Child().total(4)


def test_generators_and_comprehensions():
    def f(n):
        def some(k):
            for i in range(k):
                if i % 2:
                    yield i

        return sum(some(n)), [a if a else -1 for a in range(n) if a != 2], {*some(3)}

    assert convert_function(f)(6) == f(6)


def test_lambdas():
    pick = [lambda x: x if x > 0 else -x, lambda x: 2 * x if x > 1 else x]
    assert convert_function(pick[0]) is not pick[0]
    assert [convert_function(g)(-3) for g in pick] == [3, -3]
    assert convert_function(pick[1])(3) == 6


def test_without_source_the_reason_is_known():
    names = {}
    exec("def f(x):\n    if x: return 1\n    return 2", names)
    f = names["f"]
    assert convert_function(f) is f
    assert "exec" in reason(f.__code__)


def test_libraries_are_left_alone():
    assert rewritten(np.linalg.norm)([3.0, 4.0]) == 5.0
    assert convert_function(copy.deepcopy) is copy.deepcopy


def test_user_class_decorators_and_globals():
    @functools.lru_cache
    def cached(n):
        return n * 2 if n > 1 else n

    def f(n):
        s = 0
        for k in range(n):
            s += cached(k)
        return s

    assert rewritten(f)(5) == f(5)
