"""cond, while_loop, fori_loop, scan, map and calls: staged against plain Python, in every mode."""

import re

import numpy as np
import pytest

import backsolve as bs
from backsolve.control import call
from backsolve.errors import BudgetError, CarriedTypeError, StructureError


def power_sum(x):
    return bs.fori_loop(0, 5, lambda i, s: s * np.sin(x) + i, x)


def either(x):
    return bs.cond(x > 0, lambda t: t**3, lambda t: -np.exp(t), x)


def grows(x):
    return bs.while_loop(
        lambda s: s[0] * s[0] < 50, lambda s: (s[0] * x * s[1], s[1] + 1), (x, 1.0)
    )[0]


def fills(x):
    def body(i, y):
        y = y.copy()
        y[i] = np.sin(x) * y[i - 1] + x * i
        return y

    return bs.fori_loop(1, 6, body, bs.tensor(np.zeros(6)) + x)[5]


def scanned(x):
    last, squares = bs.scan(lambda c, a: (c * a + x, c * c), x, np.arange(1.0, 5.0) / 3)
    return squares.sum() + last


def backwards(x):
    return bs.scan(lambda c, a: (c * a + 1, c * x), x, np.arange(1.0, 5.0) / 3, reverse=True)[
        1
    ].sum()


def mapped(x):
    return bs.map(lambda a: np.sin(a * x), np.arange(4.0)).sum()


def loop_in_loop(x):
    def outer(i, s):
        return bs.while_loop(
            lambda t: t < 10.0, lambda t: t * (1 + np.abs(x)) + s * 0.1 + 0.5, s * 0.5
        )

    return bs.fori_loop(0, 4, outer, x)


def loop_in_branch(x):
    def outer(i, s):
        return bs.cond(
            s > 2.0,
            lambda: bs.while_loop(lambda t: t > 1.0, lambda t: t * 0.5 * np.cos(x) ** 2, s),
            lambda: s * x,
        )

    return bs.fori_loop(0, 6, outer, x)


def known_rounds_given_up(x):
    return bs.fori_loop(0, 20, lambda i, s: s * x + 0.1, x, goes_on=lambda s: s < 4.0)


def never_runs(x):
    return bs.while_loop(lambda s: s < 0, lambda s: s * x, x) + bs.fori_loop(
        0, 0, lambda i, s: s * x, x
    )


def arrays(x):
    A = np.linspace(-1, 1, 9).reshape(3, 3)
    v = bs.fori_loop(0, 6, lambda i, v: np.tanh(A @ v + x), np.ones(3) * x)
    return (v * v).sum()


def factorial(x, n):
    again = lambda: n * x * call(factorial, x, n - 1) + np.sin(x)
    return bs.cond(n <= 1, lambda: x, again)


def recursive(x):
    return call(factorial, x, np.floor(x) + 3)


def minors(A):
    n = A.shape[0]
    if n == 1:
        return A[0, 0]
    total = 0.0
    for j in range(n):
        rest = [k for k in range(n) if k != j]
        total = total + (-1) ** j * A[0, j] * call(minors, A[1:, rest])
    return total


def determinant(x):
    A = np.array([[2.0, 0.3, -1], [0.2, 1, 0.7], [1, -0.5, 0.9]])
    return call(minors, A * x + np.sin(x))


class Rounded(bs.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x)
        return np.round(x * s) / s

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * np.cos(x), None


def own_rule(x):
    return bs.fori_loop(0, 9, lambda i, s: Rounded.apply(s * 1.3 + x, 8.0) * 0.5, x)


def stopped(x):
    return bs.fori_loop(0, 9, lambda i, s: s * np.cos(x) * bs.stop_gradient(np.sin(s)) + x, x)


FUNCTIONS = [
    power_sum, either, grows, fills, scanned, backwards, mapped, loop_in_loop, loop_in_branch,
    known_rounds_given_up, never_runs, arrays, recursive, determinant, own_rule, stopped,
]  # fmt: skip


def pushed(f):
    return lambda x: bs.jvp(f, (x,), (1.0,))[1]


MODES = {
    "value": lambda f: f,
    "grad": bs.grad,
    "jvp": pushed,
    "reverse over reverse": lambda f: bs.grad(bs.grad(f)),
    "forward over reverse": lambda f: pushed(bs.grad(f)),
    "reverse over forward": lambda f: bs.grad(pushed(f)),
    "forward over forward": lambda f: pushed(pushed(f)),
}


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_staged_control_flow_equals_plain_python(f, mode, backend):
    derived = MODES[mode](f)
    staged = bs.jit(derived, backend=backend)
    for x in (1.3, 0.4):
        np.testing.assert_allclose(staged(x), derived(x), rtol=1e-10, err_msg=f"at {x}")


BATCHED = [f for f in FUNCTIONS if f is not own_rule]


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("mode", ["value", "grad", "jvp", "reverse over reverse"])
@pytest.mark.parametrize("f", BATCHED, ids=lambda f: f.__name__)
def test_a_batch_is_every_example(f, mode, backend):
    derived = MODES[mode](f)
    xs = np.array([1.3, 0.4, 2.1])
    each = [derived(float(x)) for x in xs]
    np.testing.assert_allclose(bs.jit(bs.vmap(derived), backend=backend)(xs), each, rtol=1e-10)


@pytest.mark.parametrize("f", BATCHED, ids=lambda f: f.__name__)
def test_the_gradient_of_a_batch(f):
    xs = np.array([1.3, 0.4, 2.1])
    whole = bs.jit(bs.grad(lambda xs: bs.vmap(f)(xs).sum()), backend="numpy")
    np.testing.assert_allclose(whole(xs), [bs.grad(f)(float(x)) for x in xs], rtol=1e-10)


def test_a_rule_of_ones_own_is_not_lost_in_a_batch():
    assert np.allclose(bs.vmap(bs.grad(own_rule))(np.array([1.3])), bs.grad(own_rule)(1.3))
    xs, outside = np.array([1.3, 0.4]), bs.grad(lambda xs: bs.vmap(own_rule)(xs).sum())
    expected = [bs.grad(own_rule)(float(x)) for x in xs]
    np.testing.assert_allclose(outside(xs), expected)
    np.testing.assert_allclose(bs.jit(outside, backend="numpy")(xs), expected)


def test_a_loop_is_one_equation_whatever_its_length():
    def program(n):
        f = bs.jit(bs.grad(lambda x: bs.fori_loop(0, n, lambda i, s: np.sin(s) * x, x)))
        return f.lower(1.1).stages["rewritten"]

    assert len(program(10).splitlines()) == len(program(1_000_000).splitlines())


def test_the_first_run_is_not_done_twice():
    def both(x):
        return bs.value_and_grad(lambda x: bs.fori_loop(0, 9, lambda i, s: np.sin(s) * x, x))(x)

    text = bs.jit(both).lower(1.1).stages["rewritten"]
    assert text.count("= loop(") == 2, text


def test_an_array_written_entry_by_entry_needs_one_stored_number_an_entry():
    n = 50

    def f(x):
        def body(i, y):
            y = y.copy()
            y[i] = np.sin(y[i - 1]) * x[i]
            return y

        return bs.fori_loop(1, n, body, x * 1.0).sum()

    program = bs.jit(bs.grad(f), backend="numpy")
    x = np.linspace(0.1, 1, n)
    np.testing.assert_allclose(program(x), bs.grad(f)(x), rtol=1e-12)
    text = program.lower(x).stages["rewritten"]
    first = next(line for line in text.splitlines() if "= loop(" in line)
    assert f"[{n - 1},{n}]" not in first, first  # nothing of n × n


def test_only_the_branch_taken_runs():
    def f(i, x):
        return bs.cond(i < 3, lambda: x[i], lambda: 0.0)

    for backend in ("numpy", "native"):
        assert bs.jit(f, backend=backend)(7, np.arange(3.0)) == 0.0


def test_numbers_take_the_type_that_they_become():
    x = np.float32(1.5)
    f = bs.jit(lambda x: bs.fori_loop(0, 3, lambda i, s: s + x * i, 0))
    assert f(x) == np.float32(4.5)
    assert f(x).dtype == np.float32
    g = bs.jit(lambda x: bs.cond(x > 0, lambda: 1, lambda: x))
    assert g(2.5) == 1.0
    assert g(-2.5) == -2.5


def test_types_that_change_are_refused():
    with pytest.raises(CarriedTypeError, match=r"float64\[3\]"):
        bs.jit(lambda x: bs.fori_loop(0, 3, lambda i, s: s + x, x[0]))(np.ones(3))
    with pytest.raises(CarriedTypeError):
        bs.jit(lambda x: bs.cond(x[0] > 0, lambda: x, lambda: x[0]))(np.ones(3))
    with pytest.raises(StructureError):
        bs.jit(lambda x: bs.fori_loop(0, 3, lambda i, s: (s, s), x))(1.0)


def test_state_may_be_any_tree():
    def f(x):
        state = {"a": x, "b": (x * 2, None), "name": "kept"}
        body = lambda i, s: {"a": s["a"] + s["b"][0], "b": (s["a"] * x, None), "name": s["name"]}
        return bs.fori_loop(0, 4, body, state)["a"]

    assert bs.jit(bs.grad(f))(1.3) == pytest.approx(bs.grad(f)(1.3))


def test_a_branch_does_not_run_ahead_of_its_condition():
    f = bs.jit(lambda n, d: bs.cond(d != 0, lambda: n // d, lambda: 0))
    assert f(np.int64(7), np.int64(0)) == 0
    assert f(np.int64(7), np.int64(2)) == 3


def long_loop(x):
    y = np.zeros(3) + x
    body = lambda i, s: (np.sin(s[0]) * 1.5 + 0.1 * s[1][1], s[1] * 0.99 + s[0] * 0.01)
    s, y = bs.fori_loop(0, 300, body, (x, y))
    return s + y.sum()


def long_while(x):
    return bs.while_loop(lambda s: s < 20.0, lambda s: s + np.sin(s * x) ** 2 + 0.1, x)


def long_scan(x):
    steps = np.linspace(0.5, 1.5, 100)
    return (bs.scan(lambda c, a: (np.sin(c) * a, c * x), x, steps)[1] ** 2).sum()


@pytest.mark.parametrize("memory", [3400, 5000, None])
@pytest.mark.parametrize("mode", ["grad", "jvp", "reverse over reverse", "forward over reverse"])
@pytest.mark.parametrize("f", [long_loop, long_while, long_scan], ids=lambda f: f.__name__)
def test_derivatives_within_a_budget(f, mode, memory):
    within = bs.checkpoint(f, memory=memory) if memory else bs.checkpoint(f)
    expected = MODES[mode](f)(1.2)
    np.testing.assert_allclose(bs.jit(MODES[mode](within))(1.2), expected, rtol=1e-9)


def test_a_budget_is_kept_to():
    def stored(memory):
        f = bs.jit(bs.grad(bs.checkpoint(long_loop, memory=memory)))
        f(1.2)
        return f.stats()["specialisations"][0]["arena_bytes"]

    assert stored(600) < stored(10**6) / 2


def test_a_small_budget_takes_pieces_of_pieces():
    step = lambda i, s: np.sin(s * 1.01) + 0.3 * np.cos(s[::-1])
    plain = lambda x: bs.fori_loop(0, 5_003, step, x).sum()
    early = lambda x: bs.fori_loop(0, 9_000, lambda i, s: s * 1.001, x, lambda s: s[0] < 50.0).sum()
    x = np.linspace(0.1, 1.0, 8)
    for f in (plain, early):
        expected = bs.jit(bs.grad(f))(x)
        for memory in (2_600, 5_200):  # two pieces of √n would need about 9,000
            g = bs.jit(bs.grad(bs.checkpoint(f, memory=memory)))
            np.testing.assert_allclose(g(x), expected, rtol=1e-9)
            if f is plain:
                assert g.stats()["specialisations"][0]["arena_bytes"] < memory + 1_000


def entry_by_entry(x):
    s = 0.0
    for k in range(len(x)):
        s = np.sin(s * x[k]) + 1
    return s


def each_value(x):
    s = 0.0
    for v in x:
        s = np.sin(s * v) + 1
    return s


def network(x):
    h, total = np.zeros(4), 0.0
    for k in range(len(x) // 4):
        h = np.tanh(STEP @ h + x[4 * k : 4 * k + 4])
        total += h @ h
    return total


def parallel(x):
    total = 0.0
    for k in range(len(x)):
        total += np.sin(np.exp(x[k]))
    return total


STEP = np.array(
    [[0.1, 0.4, 0.0, 0.0], [0.0, 0.2, -0.5, 0.0], [0.3, 0.0, 0.0, 0.1], [0.0, 0.2, 0.2, 0.3]]
)


@pytest.mark.parametrize("f", [entry_by_entry, each_value, network, parallel])
def test_loops_over_the_entries_of_an_array_keep_to_a_budget(f):
    """What would be done for all rounds at once is done round by round there."""
    x = np.linspace(0.1, 1.0, 4_000)
    expected = bs.jit(bs.grad(f))(x)
    for derive in (lambda g: bs.jit(bs.grad(g)), lambda g: bs.jit(bs.grad(bs.jit(g)))):
        within = bs.checkpoint(f, memory=4_000)
        g = derive(within)
        np.testing.assert_allclose(g(x), expected, rtol=1e-9, atol=1e-12)
        assert 0 < within.report.peak_bytes <= 4_000
        assert g.stats()["specialisations"][0]["arena_bytes"] < 6_000
    with pytest.raises(BudgetError, match="the least that can be met"):
        bs.jit(bs.grad(bs.checkpoint(f, memory=20)))(x)


def nested(x):
    s = x * 1.0
    for _ in range(40):
        for _ in range(300):
            s = np.sin(s * x) + 0.5
    return s.sum()


def nested_in_branches(x):
    s = x * 1.0
    for _ in range(40):
        if s[0] > 0.6:
            for _ in range(60):
                s = np.sin(s * x) + 0.5
        else:
            s = np.cos(s)
    return s.sum()


@pytest.mark.parametrize("f", [nested, nested_in_branches])
def test_loops_within_loops_share_a_budget(f):
    """What fits fits with more, too: the inner ones took all that there was, and the tape of a round twice."""
    x = np.array([1.05, 1.0, 0.9, 0.8, 0.7])
    expected = bs.jit(bs.grad(f))(x)
    with pytest.raises(BudgetError, match="at least") as refused:
        bs.jit(bs.grad(bs.checkpoint(f, memory=900)))(x)
    (least,) = re.findall(r"at least ([\d.]+) kB", str(refused.value))
    for memory in (int(1000 * float(least)), 6_000, 12_000, 23_500, 24_000, 25_000, 60_000):
        g = bs.jit(bs.grad(bs.checkpoint(f, memory=memory)))
        np.testing.assert_allclose(g(x), expected, rtol=1e-9)
        assert g.stats()["specialisations"][0]["arena_bytes"] < 1.25 * memory + 1_000


def test_the_smaller_of_two_budgets_holds():
    x = np.array([1.05, 1.0, 0.9])
    f = lambda x: bs.fori_loop(0, 1000, lambda i, c: np.sin(c * x) + 0.5, x * 1.0).sum()
    expected = bs.jit(bs.grad(f))(x)
    for outer, inner in ((4_000, 10**6), (10**6, 4_000)):
        g = bs.checkpoint(lambda x, inner=inner: bs.checkpoint(f, memory=inner)(x), memory=outer)
        compiled = bs.jit(bs.grad(g))
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-9)
        assert compiled.stats()["specialisations"][0]["arena_bytes"] < 5_000
        within = bs.checkpoint(f, memory=inner)
        around = bs.checkpoint(lambda x, within=within: within(x), memory=outer)
        np.testing.assert_allclose(bs.grad(around)(x), expected, rtol=1e-9)
        assert 0 < within.report.peak_bytes <= 4_000


@pytest.mark.parametrize("memory", [60_000, 10**7])
def test_jacobians_of_loops_inside_a_budget(memory):
    """Their own derivative was refused: what varies outside of the solve was looked for in the wrong place."""
    loop = lambda u: bs.fori_loop(0, 200, lambda i, c: np.sin(c * u) + 0.5, u)
    f = lambda x: np.trace(bs.jacobian(loop)(x))
    x = np.array([1.05, 1.0, 0.9])
    g = bs.jit(bs.grad(bs.checkpoint(f, memory=memory)))
    np.testing.assert_allclose(g(x), bs.jit(bs.grad(f))(x), rtol=1e-9)


def test_results_of_a_scan_are_there_once_within_a_budget():
    """Pieces of pieces carried them along, and stored them for each."""
    x, us = np.array([1.05, 1.0, 0.9, 0.8, 0.7]), np.linspace(0.5, 1.0, 1000)
    f = lambda x: bs.scan(lambda c, u: (np.sin(c * x * u) + 0.5, c), x * 1.0, us)[1].sum()
    for memory in (1_500, 2_000, 3_000, 4_000):
        g = bs.jit(bs.grad(bs.checkpoint(f, memory=memory)))
        np.testing.assert_allclose(g(x), bs.jit(bs.grad(f))(x), rtol=1e-10)
        assert g.stats()["specialisations"][0]["arena_bytes"] < 1000 * x.nbytes + memory + 1_000


def test_a_budget_that_a_compiled_loop_cannot_meet_is_refused():
    with pytest.raises(BudgetError, match="the least that can be met is 456 bytes"):
        bs.jit(bs.grad(bs.checkpoint(long_loop, memory=400)))(1.2)
    least = bs.checkpoint(long_loop, memory=456)
    assert bs.jit(bs.grad(least))(1.2) == pytest.approx(bs.grad(long_loop)(1.2))
    (told,) = least.report.chains
    assert told.peak_bytes == 456
    assert (told.steps, told.recorded_steps) == (300, 300)
    assert told.forward_steps == 900
    assert bs.jit(bs.checkpoint(long_loop, memory=1))(1.2) == pytest.approx(long_loop(1.2))
    made = lambda x, n: bs.fori_loop(0, n, lambda i, s: np.sin(s) * x, x)
    roomy = bs.jit(bs.grad(bs.checkpoint(made, memory=2000)))  # the number of rounds is traced
    assert roomy(1.2, 3_000) == pytest.approx(bs.grad(made)(1.2, 3_000), rel=1e-10)


ALONG = np.cos(np.arange(8.0))
SECOND = {
    "grad of grad": lambda f: bs.grad(lambda x: (bs.grad(f)(x) ** 2).sum()),
    "jvp of grad": lambda f: lambda x: bs.jvp(bs.grad(f), (x,), (np.cos(x),))[1],
    "grad of jvp": lambda f: bs.grad(lambda x: bs.jvp(f, (x,), (ALONG,))[1]),
}


@pytest.mark.parametrize("order", SECOND)
def test_compiled_second_derivatives_of_a_loop_keep_to_the_budget(order):
    second = SECOND[order]
    plain = lambda x: bs.fori_loop(0, 10_000, lambda i, s: s + 0.001 * np.sin(s), x).sum()
    x = np.linspace(0.1, 1.0, 8)
    expected, whole = bs.jit(second(plain))(x), arena(bs.jit(second(plain)), x)
    for memory in (5_000, 20_000):
        within = bs.checkpoint(plain, memory=memory)
        f = bs.jit(second(within))
        np.testing.assert_allclose(f(x), expected, rtol=1e-9)
        assert arena(f, x) < memory + 500 < whole / 10
        told = within.report.chains[-1]  # of the values with their tangents
        assert told.peak_bytes <= memory
        assert told.forward_steps == (40_000 if memory == 5_000 else 20_000)
    with pytest.raises(BudgetError, match=r"the least that can be met is 4\.768 kB"):
        bs.jit(second(bs.checkpoint(plain, memory=4_000)))(x)


def test_a_compiled_third_derivative_keeps_to_the_budget():
    plain = lambda x: bs.fori_loop(0, 2_000, lambda i, s: s + 0.001 * np.sin(s), x).sum()
    third = lambda f: bs.grad(lambda x: (SECOND["grad of grad"](f)(x) ** 2).sum())
    x = np.linspace(0.1, 1.0, 8)
    f = bs.jit(third(bs.checkpoint(plain, memory=10_000)))
    np.testing.assert_allclose(f(x), bs.jit(third(plain))(x), rtol=1e-9)
    assert arena(f, x) < 10_500


def test_a_reversed_scan_in_pieces():
    xs = np.linspace(0.5, 1.5, 400)

    def f(x):
        last, ys = bs.scan(lambda c, a: (np.sin(c) * a, c * x), x, xs, reverse=True)
        return last + (ys * np.arange(400)).sum()

    within = bs.checkpoint(f, memory=5_000)  # of which 3,200 are the sequence that is made
    assert bs.jit(bs.grad(within))(1.2) == pytest.approx(bs.grad(f)(1.2), rel=1e-10)
    assert within.report.forward_steps >= 400


def arena(f, *args):
    f(*args)
    return f.stats()["specialisations"][0]["arena_bytes"]


def straight(x):
    turn = lambda x: np.sin(x @ (np.eye(64) + 0.01))
    a = turn(turn(turn(turn(turn(turn(turn(turn(x))))))))
    b = turn(turn(turn(turn(turn(turn(turn(turn(a))))))))
    return turn(turn(turn(turn(turn(turn(turn(turn(b)))))))).sum()


def test_compiled_operations_without_loops_keep_to_a_budget():
    x = np.linspace(0.1, 1.0, 4_096).reshape(64, 64)  # 32 kB
    expected = bs.grad(straight)(x)
    plain = arena(bs.jit(bs.grad(straight)), x)
    within = bs.checkpoint(straight, memory=8 * x.nbytes)
    g = bs.jit(bs.grad(within))
    np.testing.assert_allclose(g(x), expected, rtol=1e-12)
    (told,) = within.report.chains
    assert told.name == "segments"
    assert told.recorded_steps == told.steps
    assert told.forward_steps >= told.steps / 2
    assert told.peak_bytes <= 8 * x.nbytes
    assert arena(g, x) < 18 * x.nbytes < plain  # what is kept, adjoints and the step at work
    np.testing.assert_allclose(bs.grad(bs.jit(within))(x), expected, rtol=1e-12)
    small = bs.checkpoint(straight, memory=2 * x.nbytes)
    with pytest.raises(BudgetError, match="the least that can be met is about"):
        bs.jit(bs.grad(small))(x)
    assert bs.jit(small)(x) == pytest.approx(straight(x))


@pytest.mark.parametrize("order", ["grad of grad", "jvp of grad"])
def test_compiled_second_derivatives_without_loops_keep_to_a_budget(order):
    second = SECOND[order]
    x = np.linspace(0.1, 1.0, 4_096).reshape(64, 64)
    plain = bs.jit(second(straight))
    for n in (8, 24):
        within = bs.checkpoint(straight, memory=n * x.nbytes)
        f = bs.jit(second(within))
        np.testing.assert_allclose(f(x), plain(x), rtol=1e-9)
        told = within.report.chains[-1]
        assert told.peak_bytes <= n * x.nbytes
        assert told.forward_steps > told.steps * (4 if n == 8 else 0.5)
        # what is kept; two adjoints of a pair, what enters and leaves, and the step at work
        assert arena(f, x) < (n + 9) * x.nbytes < arena(plain, x) / 2
    with pytest.raises(BudgetError, match="the least that can be met is about"):
        bs.jit(second(bs.checkpoint(straight, memory=5 * x.nbytes)))(x)


def mixed(x):
    turn = lambda x: np.sin(x @ (np.eye(32) + 0.01))
    a = turn(turn(turn(turn(turn(turn(turn(turn(x))))))))
    a = bs.fori_loop(0, 200, lambda i, s: s + 0.01 * np.sin(s), a)
    b = turn(turn(turn(turn(turn(turn(turn(turn(a))))))))
    return bs.fori_loop(0, 90, lambda i, s: s + 0.01 * np.cos(s), turn(turn(b))).sum()


@pytest.mark.parametrize("order", ["grad", "jvp of grad"])
def test_loops_and_operations_between_them_share_a_budget(order):
    n, derivative = (20, bs.grad) if order == "grad" else (45, SECOND[order])
    x = np.linspace(0.1, 1.0, 1_024).reshape(32, 32)
    plain = bs.jit(derivative(mixed))
    within = bs.checkpoint(mixed, memory=n * x.nbytes)
    f = bs.jit(derivative(within))
    np.testing.assert_allclose(f(x), plain(x), rtol=1e-9)
    segments, *loops = within.report.chains[-3:]
    assert (segments.name, [c.steps for c in loops]) == ("segments", [90, 200])
    assert segments.forward_steps > 0
    assert all(c.forward_steps >= c.steps for c in loops)
    assert max(c.peak_bytes for c in [segments, *loops]) <= n * x.nbytes
    # what is kept; adjoints, what loops carry, what enters and leaves, and the step at work
    assert arena(f, x) < (n + (10 if order == "grad" else 18)) * x.nbytes < arena(plain, x) / 4
    np.testing.assert_allclose(bs.grad(bs.jit(within))(x), bs.grad(mixed)(x), rtol=1e-9)
    with pytest.raises(BudgetError, match="the least that can be met is about"):
        bs.jit(derivative(bs.checkpoint(mixed, memory=10 * x.nbytes)))(x)


def test_a_batch_of_operations_keeps_to_a_budget():
    xs = np.linspace(0.1, 1.0, 2 * 4_096).reshape(2, 64, 64)
    plain = lambda f: bs.jit(bs.grad(lambda xs: bs.vmap(f)(xs).sum()))
    within = bs.checkpoint(straight, memory=8 * xs.nbytes)
    f = plain(within)
    np.testing.assert_allclose(f(xs), plain(straight)(xs), rtol=1e-12)
    assert within.report.chains[-1].forward_steps > 0
    assert arena(f, xs) < 14 * xs.nbytes < arena(plain(straight), xs)


def test_second_derivatives_of_compiled_stretches():
    short = lambda x: np.sin(np.sin(x @ x) @ np.sin(x @ x)).sum()
    x = np.linspace(0.1, 1.0, 64).reshape(8, 8)
    within = bs.checkpoint(short, memory=10 * x.nbytes)
    second = SECOND["grad of grad"]
    np.testing.assert_allclose(bs.jit(second(within))(x), second(short)(x), rtol=1e-9)
    assert within.report.forward_steps
    both = np.stack([x, 2 * x])
    expected = bs.vmap(bs.grad(short))(both)
    np.testing.assert_allclose(bs.jit(bs.vmap(bs.grad(within)))(both), expected, rtol=1e-9)


def test_compiled_functions_with_slots_run_the_best_schedule():
    x = np.linspace(0.1, 1.0, 4_000)
    f = bs.checkpoint([np.sin, np.cos] * 15, slots=3)
    plain = lambda x: f(x).sum()
    g = bs.jit(bs.grad(plain))
    np.testing.assert_allclose(g(x), bs.grad(plain)(x), rtol=1e-12)
    g(x)
    f.report.chains.clear()
    bs.jit(bs.grad(lambda x: f(x).sum()))(x)
    (told,) = f.report.chains
    assert told.forward_steps == told.optimum
    assert told.recorded_steps == 30
    assert arena(g, x) < 14 * x.nbytes


def test_indices_are_looked_at_unless_one_says_otherwise():
    def total(x, n):
        return bs.while_loop(lambda s: s[1] < n, lambda s: (s[0] + x[s[1]], s[1] + 1), (0.0, 0))[0]

    x = np.arange(6.0)
    assert bs.jit(total)(x[:5], 5) == bs.jit(total, unsafe=True)(x[:5], 5) == 10.0
    with pytest.raises(IndexError, match=r"test_control.py"):
        bs.jit(total)(x[:5], 6)
    bs.jit(total, unsafe=True)(x[:5], 6)  # reads the entry behind


def test_a_loop_without_rounds_leaves_everything_as_it_came():
    def f(x):
        square = lambda i, s: bs.cond(x > 0, lambda: s * s, lambda: s)
        return bs.fori_loop(0, 0, square, x * x, goes_on=lambda s: s > 0)

    assert bs.jit(bs.grad(f))(1.5) == 3.0


def test_what_a_batch_stores_keeps_its_type():
    def relax(w):  # examples may leave at different rounds; the tape holds booleans
        near = np.full(4, 5.0)
        near[0] = 0.0
        for k in range(12):
            if w[k % 4, k % 4] < 0.2:
                break
            for v in range(4):
                if near[k % 4] + w[k % 4, v] < near[v]:
                    near[v] = near[k % 4] + w[k % 4, v]
        return np.sum(near * np.arange(4.0))

    w = np.abs(np.random.default_rng(0).normal(size=(5, 4, 4))) + 0.1
    expected = np.stack([bs.jit(bs.grad(relax))(x) for x in w])
    assert np.any(expected)
    np.testing.assert_allclose(bs.jit(bs.vmap(bs.grad(relax)))(w), expected)


def test_complex_numbers_in_calls():
    def transform(z):
        if len(z) == 1:
            return z
        a, b = transform(z[::2]), transform(z[1::2])
        b = np.exp(-2j * np.pi * np.arange(len(b)) / len(z)) * b
        return np.concatenate([a + b, a - b])

    x = np.arange(8.0)
    np.testing.assert_allclose(bs.jit(lambda x: transform(x + 0j))(x), np.fft.fft(x), atol=1e-12)


def test_a_loop_that_reads_what_the_one_around_writes_stores_entries():
    def factor(a):  # the innermost loop reads two rows of an array that the middle one fills
        n = len(a)
        low = np.zeros((n, n))
        for j in range(n):
            for i in range(j, n):
                s = 0.0
                for k in range(j):
                    s += low[i, k] * low[j, k]
                low[i, j] = np.sqrt(a[j, j] - s) if i == j else (a[i, j] - s) / low[j, j]
        return np.sum(np.log(np.diag(low)))

    m = np.random.default_rng(0).normal(size=(12, 12))
    a = m @ m.T + 12 * np.eye(12)
    compiled = bs.jit(bs.grad(factor))
    np.testing.assert_allclose(np.diag(compiled(a)), np.diag(np.linalg.inv(a)) / 2)
    shown = str(compiled.lower(a).stages["rewritten"])
    assert "float64[?,?,?]" in shown
    assert "?,12,12]" not in shown


def test_the_derivative_of_a_row_is_one_of_that_row():
    def walk(w):  # which row is read is known only as it runs
        u, total = 0, 0.0
        for _ in range(20):
            best = 0
            for v in range(15):
                total += np.sin(w[u, v])
                if w[u, v] > w[u, best]:
                    best = v
            u = best
        return total

    w = np.random.default_rng(0).normal(size=(40, 15))
    compiled = bs.jit(bs.grad(walk))
    np.testing.assert_allclose(compiled(w), bs.grad(walk)(w))
    assert "float64[15,40]" not in str(compiled.lower(w).stages["rewritten"])


@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 3), (0,)])
@pytest.mark.parametrize("how", [np.multiply, np.add, np.subtract, np.maximum, np.minimum])
def test_a_state_and_one_number_a_round(how, shape):
    """Products are taken out of loops as one; a number times an array is none."""
    x, numbers = np.full(shape, 0.75), np.array([2.0, 0.5, 3.0])
    loops = {
        "fori": lambda s, c: bs.fori_loop(0, 3, lambda i, s: how(s, c[i]), s),
        "turned": lambda s, c: bs.fori_loop(0, 3, lambda i, s: how(c[i], s), s),
        "known": lambda s, c: bs.fori_loop(0, 3, lambda i, s: how(s, 2.0), s) * c[0],
        "scan": lambda s, c: bs.scan(lambda s, c: (how(s, c), s), s, c)[0],
    }
    for name, loop in loops.items():
        expected = loop(x, numbers)
        found = bs.jit(loop)(x, numbers)
        assert np.shape(found) == shape, name
        np.testing.assert_allclose(found, expected, err_msg=name)
        total = lambda s, c, loop=loop: np.sum(np.sin(loop(s, c)))
        for a, b in zip(
            bs.grad(total, (0, 1))(x, numbers),
            bs.jit(bs.grad(total, (0, 1)))(x, numbers),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, err_msg=name)


def test_a_scan_of_no_rounds_stacks_empty_arrays():
    def f(x):
        step = lambda c, a: (c + a[0], {"s": c * a, "n": 3, "none": None, "k": np.ones(2, "f")})
        return bs.scan(step, x, np.zeros((0, 2)))

    for run in (f, bs.jit(f), bs.checkpoint(f, memory="1kB")):
        last, found = run(1.5)
        assert last == 1.5
        assert found["none"] is None
        kinds = {k: (v.shape, v.dtype.str[1:]) for k, v in found.items() if v is not None}
        assert kinds == {"s": ((0, 2), "f8"), "n": ((0,), "i8"), "k": ((0, 2), "f4")}
    assert bs.map(lambda a: a * 1j, np.zeros((0, 3))).dtype == complex
    assert (
        bs.grad(lambda x: bs.scan(lambda c, a: (c, c * x), x, np.zeros(0))[1].sum() + x)(2.0) == 1
    )


def test_lists_are_not_taken_for_sequences():
    for go in (lambda xs: bs.scan(lambda c, x: (c + x, c), 0.0, xs), lambda xs: bs.map(np.sin, xs)):
        with pytest.raises(ValueError, match=r"of a list make np\.array"):
            go([1.0, 2.0])
