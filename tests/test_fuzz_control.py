"""Random structured programs: some here, as many as you like with `make fuzz`; and what they have found."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.rewrite.simplify import RULES
from backsolve.testing import fuzz_control
from backsolve.testing.fuzz_control_source import Written, written

CHUNK = 25
MOST_REFUSED = 6  # of a chunk: arrays of several names, mostly
WORDS = (
    "for", "while", "if", "elif", "else", "break", "continue", "return", "and", "or", "not", "zip(",
    "enumerate(", "reversed(", "np.zeros", "+= ", "*= ", "np.where", "@", "depth - 1", '["u"]', "[:, ",
    "assert ", '["p"][', "= True", "= not ", "np.array([", "sum([", "max([", " for p, q in zip(", "[-", ":-",
)  # fmt: skip


@pytest.mark.parametrize("first", range(0, 1000, CHUNK))
def test_random_programs(first):
    """A program may be refused by an error that has a name and the user's line; any other is a failure."""
    fuzz_control.refused.clear()
    for seed in range(first, first + CHUNK):
        found = fuzz_control.explain(seed, backend="numpy" if seed % 7 else "native")
        assert found is None, found
    assert sum(fuzz_control.refused.values()) <= MOST_REFUSED, fuzz_control.refused


def test_a_refusal_names_the_line_and_is_counted():
    lines = "    y = x[1:]\n    x[1] = a\n    return np.sum(y) * b"
    p = Written(0, f"def f(a, b, x, k, idx):\n{lines}\n", ARGS)
    fuzz_control.refused.clear()
    assert fuzz_control.failure(p, backend="numpy") is None
    assert fuzz_control.refused == {"InPlaceError": 1}
    with pytest.raises(fuzz_control.RefusedError) as caught:
        fuzz_control.check_function(p.function(), ARGS, backend="numpy")
    assert "return np.sum(y) * b" in str(caught.value.__cause__)


def test_a_seed_makes_one_program():
    assert written(7).source == written(7).source
    assert len({written(seed).source for seed in range(30)}) == 30


def test_programs_cover_the_language():
    text = "\n".join(written(seed, 10).source for seed in range(150))
    missing = [word for word in WORDS if word not in text]
    assert not missing


ARGS = (0.7, 0.2, np.array([0.3, -0.4, 0.5]), 2, np.array([0, 2]))
PLANTED = """\
def g(u):
    s = u
    return s + np.cos(u)

def f(a, b, x, k, idx):
    t = 0.0
    for i in range(12):
        if i > k:
            t = t + np.sin(x[i % 3]) * g(a)
        else:
            b = b * 0.5
    x[1] = t
    return t + np.sum(x) + b
"""


def test_a_failure_is_found_and_made_small(monkeypatch):
    """A wrong rule, planted: what is left of the program is the line that shows it."""
    monkeypatch.setitem(RULES, "sin", [lambda walk, e: e.inputs[0]])
    p = Written(0, PLANTED, ARGS)
    assert "value" in fuzz_control.failure(p, backend="numpy")
    small = fuzz_control.shrink(p, lambda q: fuzz_control.failure(q, False, "gradient"))
    assert "np.sin(" in small.source
    assert len(small.source.splitlines()) <= 4, small.source


@pytest.mark.parametrize(
    "lines",
    [
        "    while a < 5:\n        a = a * 1.0\n    return a",
        "    return abs(a - 0.7)",
        "    return 1.0 if a > 0.7 else a",
        "    return x[3]",
        "    return 1e6 * a",
    ],
)
def test_what_does_not_end_or_is_not_smooth_is_no_program(lines):
    p = Written(0, f"def f(a, b, x, k, idx):\n{lines}\n", ARGS)
    assert fuzz_control.failure(p) is None
    with pytest.raises(fuzz_control.CheckError, match="no program"):
        fuzz_control.check_function(p.function(), ARGS)


def test_main_counts():
    assert fuzz_control.main(1) == 0


# ---- found by random programs


def same(f, *args):
    """The compiled function is the plain one, and so is its derivative."""
    assert bs.jit(f)(*args) == pytest.approx(f(*args), rel=1e-12)
    x, rest = args[0], args[1:]
    numeric = (f(x + 1e-6, *rest) - f(x - 1e-6, *rest)) / 2e-6
    assert bs.jit(bs.grad(f))(*args) == pytest.approx(numeric, rel=1e-6)


TABLE = np.linspace(0.1, 2.0, 20)


def test_a_constant_array_is_read_at_a_traced_place():
    def walk(x):
        s = 0.0
        for i in range(20):
            s += TABLE[i] * x * s + x
        return s

    def pick(x, k):
        return TABLE[k] * x + TABLE[k : k + 2].sum() * x

    same(walk, 0.2)
    same(pick, 0.2, 3)
    lines = bs.jit(walk).lower(0.2).stages["program"].splitlines()
    assert len(lines) < 15  # a loop, not twenty rounds


def test_the_bounds_of_a_slice_may_be_computed_twice():
    def f(x, k):
        y = np.zeros(8)
        for i in range(12):
            y[(i * 3 + k) % 7 : (i * 3 + k) % 7 + 2] += x * i
            if x > 0:
                y[k : k + 2] = y[k + 1 : k + 3] * x
        return y @ np.arange(8.0)

    same(f, 0.3, 2)


def test_a_loop_in_a_branch_writes_into_what_the_other_branch_binds_anew():
    def f(x):
        y = np.zeros(3) + x
        if x > 1:
            n = 0
            while y[0] < 5 and n < 4:
                n += 1
                y[0] += x
        else:
            y = y * 2
        return y.sum()

    same(f, 1.3)
    same(f, 0.4)


def test_an_array_is_filled_with_a_traced_number():
    def f(x):
        y = np.full(3, x)
        y[1] = x * x
        z = np.full_like(np.ones(2), x)
        return y.sum() + (z * z).sum() if x > 0 else x

    same(f, 1.3)
    same(lambda x: np.full(3, x).sum(), 1.3)


def test_a_recursive_function_makes_arrays():
    def f(x, k):
        def g(u, depth):
            if depth <= 0:
                return u
            w = np.array([0.2, 0.4, 0.1])
            v, zeros = np.zeros(3), np.zeros(3)
            for i in range(1):
                v[i] -= u
            v[depth % 3] = u + zeros[depth % 3]
            return w[depth % 3] * g(u * u + v[depth % 3], depth - 1) + (w @ v) ** 2

        return g(x, k)

    same(f, 0.7, 3)


def test_what_a_way_that_returns_has_not_assigned():
    def f(x, y):
        if x > 0:
            if y > 0:
                return x * y
            s = x + y
        elif x > -1:
            s = x
        else:
            return y * x**3
        return s * s

    for x in (0.5, -0.5, -2.0):
        for y in (1.5, -1.5):
            same(f, x, y)


def test_an_array_of_no_other_name_is_written_into_in_a_region():
    def f(x):
        n = 0
        while x > 1 and n < 3:
            n += 1
            y = np.linspace(0.1, 0.9, 5) * 1.0
            y[1] -= y[2]
            y[2] = 0.5
            y *= 2
            x = x * 0.5 + y.sum() * x * 0.1
        return x

    same(f, 4.3)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_both_branches_have_tapes_in_a_batch(backend):
    def f(x, k):
        s = x
        if k > 1:
            while s < 5:
                s = s * 1.7 + np.sin(s) * x + 0.1
        else:
            while s < 9:
                s = s + np.exp(s * 0.1) * x * x + 0.2
        return s

    xs, ks = np.array([0.7, 0.3, 1.1, 2.0]), np.array([0, 2, 5, 1])
    each = [bs.grad(f)(float(x), int(k)) for x, k in zip(xs, ks, strict=True)]
    got = bs.jit(bs.vmap(bs.grad(f)), backend=backend)(xs, ks)
    np.testing.assert_allclose(got, each, rtol=1e-10)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_loop_ends_though_it_would_not_for_examples_of_the_other_branch(backend):
    def f(x, n):
        s = x
        if n >= 0:
            while n != 0:
                s = s * x
                n = n - 1
        return s

    xs, ns = np.array([0.7, 0.3, 1.1, 2.0]), np.array([3, -1, 2, 0])
    np.testing.assert_allclose(bs.jit(bs.vmap(f), backend=backend)(xs, ns), xs ** [4, 1, 3, 1])
    slopes = bs.jit(bs.vmap(bs.grad(f)), backend=backend)(xs, ns)
    np.testing.assert_allclose(slopes, [4 * 0.7**3, 1.0, 3 * 1.1**2, 1.0])


def test_a_weak_number_stays_one_where_a_branch_is_rewritten():
    def f(b, k):
        if k:
            pass
        elif k:
            return b * 2
        return np.sin(b)

    along = lambda b, k: bs.jvp(lambda b: bs.grad(f)(b, k), (b,), (1.0,))[1]
    for derived in (
        along,
        bs.grad(bs.grad(f)),
        bs.grad(lambda b, k: bs.jvp(lambda b: f(b, k), (b,), (1.0,))[1]),
    ):
        assert bs.jit(derived)(0.3, 0) == pytest.approx(-np.sin(0.3))


def test_a_dict_or_list_made_in_a_branch_is_changed_there():
    def f(x):
        if x > 1:
            s = x
        else:
            d = {"u": x, "v": np.zeros(2) + x}
            d["u"] *= x
            d["v"] += x
            rest = [x, x * x]
            rest[0] = d["u"]
            rest.append(x)
            s = sum(rest) + d["v"].sum()
        return s * s

    same(f, 0.4)
    same(f, 1.4)


def test_a_recursive_call_that_nothing_is_asked_of():
    def g(u, v, depth):
        if depth:
            return v
        return u + g(1.19 if u else v, 1.18, depth)

    same(lambda a, b, k: g(b, a, k), 1.162, 0.005, 1)
