"""Checkpointing under a budget: the schedules themselves, and what really runs and is really kept."""

import tracemalloc
from functools import cache

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import BudgetError, RecomputeError
from backsolve.solve.revolve import (
    Planned,
    Step,
    bytes_in,
    fewest_steps,
    least_memory,
    stride,
    thinned,
)

# ---- the schedules


@cache
def by_search(steps, slots):
    if steps <= 1:
        return 0
    if slots == 1:
        return steps * (steps - 1) // 2
    return min(m + by_search(m, slots) + by_search(steps - m, slots - 1) for m in range(1, steps))


@cache
def by_strides(steps, slots):
    if steps <= 1:
        return 0
    if slots == 1:
        return steps * (steps - 1) // 2
    m = stride(steps, slots)
    return m + by_strides(m, slots) + by_strides(steps - m, slots - 1)


def test_published_counts():
    cases = [(1_000, 10), (10_000, 20), (100_000, 50)]
    assert [fewest_steps(*c) for c in cases] == [3_636, 37_976, 375_196]
    assert by_strides(1_000, 10) == 3_636


def test_no_schedule_is_better():
    for steps in range(1, 60):
        for slots in range(1, 8):
            best = by_search(steps, slots)
            assert best == fewest_steps(steps, slots) == by_strides(steps, slots)


def test_a_plan_for_steps_that_differ():
    steps = [Step(10, 20, 1.0)] * 12
    assert Planned(steps, 1600).cost == 12  # everything is recorded: each step runs once
    costs = [Planned(steps, m).cost for m in (60, 90, 130, 180)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1] > 12
    # a dear step that stores little is not run again
    uneven = [Step(10, 100, 1.0)] * 4 + [Step(10, 10, 1000.0)] + [Step(10, 100, 1.0)] * 4
    assert Planned(uneven, 260).cost < 2000


def test_a_step_that_can_be_recorded_in_several_ways():
    loop = Step(10, 400, 50.0, ((100, 50.0), (60, 100.0)))
    steps = [Step(10, 20, 1.0), loop, Step(10, 20, 1.0)]
    assert Planned(steps, 500).cost == 52
    assert Planned(steps, 200).cost == 102
    assert Planned(steps, 120).cost < 160
    assert np.isfinite(Planned(steps, least_memory(steps)).cost)
    assert least_memory(steps) < 80


def test_the_least_budget_of_a_plan():
    steps = [Step(10, 20), Step(30, 50), Step(20, 25)]
    least = least_memory(steps)
    assert np.isfinite(Planned(steps, least).cost)
    with pytest.raises(BudgetError, match="the least that can be met is about"):
        Planned(steps, 60)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("200MB", 200 * 10**6),
        ("1.5GiB", 3 << 29),
        ("4 kB", 4000),
        ("12", 12),
        (77, 77),
        ("8B", 8),
        (2e6, 2_000_000),
    ],
)
def test_budgets_are_read(given, expected):
    assert bytes_in(given) == expected


@pytest.mark.parametrize("bad", ["lots", "-3MB", 0, -1, 1.5, np.inf, np.nan, True, "3iB", "", [1]])
def test_bad_budgets(bad):
    with pytest.raises(BudgetError, match="a budget is a number of bytes"):
        bs.checkpoint(np.sin, memory=bad)


# ---- loops on numbers


class Counted:
    """A step that tells how often it ran."""

    def __init__(self):
        self.calls = 0

    def __call__(self, i, s):
        self.calls += 1
        return np.sin(s) * 1.1 + 0.01 * i


@pytest.mark.parametrize(("steps", "slots"), [(1, 1), (2, 1), (30, 3), (100, 4), (1_000, 10)])
def test_a_loop_runs_as_often_as_the_best_schedule(steps, slots):
    step = Counted()
    f = bs.checkpoint(lambda x: bs.fori_loop(0, steps, step, x), slots=slots)
    g = bs.grad(f)(0.7)
    assert g == pytest.approx(bs.grad(lambda x: bs.fori_loop(0, steps, Counted(), x))(0.7))
    report = f.report
    assert report.forward_steps == report.optimum == fewest_steps(steps, slots)
    assert report.recorded_steps == steps
    assert step.calls == report.forward_steps + report.recorded_steps


def in_scan(x, w):
    xs = np.linspace(0.1, 1.0, 40) * w
    last, ys = bs.scan(lambda c, a: (np.sin(c + a), {"y": c * w}), x, xs)
    return last + (ys["y"] ** 2).sum()


def in_reverse_scan(x, w):
    xs = np.linspace(0.1, 1.0, 40) * w
    last, ys = bs.scan(lambda c, a: (np.sin(c + a), c * a), x, xs, reverse=True)
    return last + (ys * np.arange(40)).sum()


def in_while(x, w):
    return bs.while_loop(
        lambda s: s[1] < 47, lambda s: (np.cos(s[0] * w) + 0.1 * x, s[1] + 1), (x, 0)
    )[0]


def in_for(x, w):
    body = lambda i, s: {"a": s["b"] * w, "b": np.sin(s["a"]) + x, "n": s["n"] + 1}
    s = bs.fori_loop(3, 50, body, {"a": x, "b": 0.0, "n": 0})
    return s["a"] * s["n"] + s["b"]


def stops_early(x, w):
    return bs.fori_loop(0, 500, lambda i, s: s * w + 0.1, x, goes_on=lambda s: s < 20.0)


LOOPS = [in_scan, in_reverse_scan, in_while, in_for, stops_early]


@pytest.mark.parametrize("budget", [{"slots": 3}, {"memory": 144}, {"memory": "1MB"}], ids=str)
@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_derivatives_of_loops(f, budget):
    g = bs.checkpoint(f, **budget)
    x, w = 0.4, 1.1
    assert g(x, w) == pytest.approx(f(x, w))
    np.testing.assert_allclose(bs.grad(g, (0, 1))(x, w), bs.grad(f, (0, 1))(x, w), rtol=1e-12)
    np.testing.assert_allclose(
        bs.jvp(g, (x, w), (0.3, -0.2))[1], bs.jvp(f, (x, w), (0.3, -0.2))[1], rtol=1e-12
    )
    second = lambda h: bs.grad(lambda x: bs.grad(h, 1)(x, w))(x)
    assert second(g) == pytest.approx(second(f), rel=1e-10)
    over = lambda h: bs.jvp(lambda x: bs.grad(h, 1)(x, w), (x,), (1.0,))[1]
    assert over(g) == pytest.approx(over(f), rel=1e-10)


def test_what_a_loop_keeps_stays_below_the_budget():
    x = np.linspace(0.1, 1.0, 10_000)  # 80 kB a state, two of them recorded in a round
    memory = 1_000_000
    f = bs.checkpoint(
        lambda x: bs.fori_loop(0, 200, lambda i, s: np.sin(s) * 1.01, x).sum(), memory=memory
    )
    plain = bs.grad(lambda x: bs.fori_loop(0, 200, lambda i, s: np.sin(s) * 1.01, x).sum())(x)
    tracemalloc.start()
    try:
        g = bs.grad(f)(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(g, plain)
    assert 200_000 < f.report.peak_bytes <= memory
    assert peak < memory + 5 * x.nbytes  # beside what is kept: adjoints and the step at work
    assert f.report.forward_steps == f.report.optimum


def test_a_loop_that_cannot_be_kept_in_the_budget():
    plain = lambda x: bs.fori_loop(0, 50, lambda i, s: np.sin(s), x).sum()
    x = np.ones(1000)
    with pytest.raises(BudgetError, match=r"the least that can be met is 24 kB"):
        bs.grad(bs.checkpoint(plain, memory=10_000))(x)
    least = bs.checkpoint(plain, memory="24kB")
    np.testing.assert_allclose(bs.grad(least)(x), bs.grad(plain)(x))
    assert least.report.forward_steps == 50 * 49 // 2
    assert least.report.peak_bytes <= 24_000


def test_a_step_that_changes_is_noticed():
    rng = np.random.default_rng(0)
    f = bs.checkpoint(
        lambda x: bs.fori_loop(0, 30, lambda i, s: np.sin(s) + rng.normal(), x), slots=3
    )
    with pytest.raises(RecomputeError, match="gave another result"):
        bs.grad(f)(1.0)


def test_another_order_is_noticed():
    rng, weights = np.random.default_rng(0), np.arange(1.0, 7.0)
    shuffled = lambda s: np.sin(s)[rng.permutation(6)]
    once = bs.checkpoint(shuffled)
    chain = bs.checkpoint(lambda x: bs.fori_loop(0, 9, lambda i, s: shuffled(s), x), slots=2)
    for f in (once, chain):
        with pytest.raises(RecomputeError, match="gave another result"):
            bs.grad(lambda x, f=f: np.sum(weights * f(x)))(weights)


def test_what_a_step_makes_is_compared_too():
    rng = np.random.default_rng(0)

    def f(x):
        return bs.scan(lambda c, t: (c * 1.0, c * t * rng.normal()), x, np.ones(30))[1].sum()

    with pytest.raises(RecomputeError, match="gave another result"):
        bs.grad(bs.checkpoint(f, slots=3))(1.0)


def test_two_solves_of_one_chain():
    f = bs.checkpoint(
        lambda x: bs.fori_loop(0, 25, lambda i, s: np.sin(s) * np.arange(1, 4), x), slots=3
    )
    plain = lambda x: bs.fori_loop(0, 25, lambda i, s: np.sin(s) * np.arange(1, 4), x)
    x = np.array([0.1, 0.5, 0.9])
    _, pull = bs.vjp(f, x)
    _, expected = bs.vjp(plain, x)
    for seed in np.eye(3):
        np.testing.assert_allclose(pull(seed), expected(seed))


@pytest.mark.parametrize("memory", [400_000, 700_000, 1_000_000, 1_500_000])
def test_first_rounds_may_store_less_than_later_ones(memory):
    """A state that does not vary at first has fewer rows: that round says little of the others."""
    f = lambda x: bs.fori_loop(0, 50, lambda i, s: np.sin(np.cos(s)) * x, np.ones(1000)).sum()
    x = np.linspace(0.5, 1, 1000)
    c = bs.checkpoint(f, memory=memory)
    np.testing.assert_allclose(bs.grad(c)(x), bs.grad(f)(x), rtol=1e-12)
    assert 200_000 < c.report.peak_bytes <= memory


def rounds_of(lengths):
    """Rounds that are loops themselves, of these lengths."""
    step = lambda j, t: np.sin(t) * 1.01
    round_ = lambda i, s: bs.fori_loop(0, lengths[i], step, s)
    return lambda x: bs.fori_loop(0, len(lengths), round_, x).sum()


@pytest.mark.parametrize("memory", [4_000, 20_000])
@pytest.mark.parametrize("lengths", [range(1, 9), range(8, 0, -1), [1, 8, 8, 1, 1, 1, 1, 1]])
def test_rounds_that_grow_or_shrink_are_planned_for(memory, lengths):
    f, x = rounds_of(lengths), np.linspace(0.5, 1, 20)
    c = bs.checkpoint(f, memory=memory)
    np.testing.assert_allclose(bs.grad(c)(x), bs.grad(f)(x), rtol=1e-12)
    assert 0 < c.report.peak_bytes <= memory


@pytest.mark.parametrize("lengths", [range(1, 9), range(8, 0, -1)])
def test_rounds_that_grow_too_much(lengths):
    c = bs.checkpoint(rounds_of(lengths), memory=1_000)
    with pytest.raises(BudgetError, match="the least that can be met is"):
        bs.grad(c)(np.linspace(0.5, 1, 20))


def in_little_memory(run):
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("steps", "slots"), [(200, 5), (777, 7), (1_000, 10), (3_000, 40)])
def test_a_loop_whose_end_is_not_known_runs_little_more_often_than_the_best_schedule(steps, slots):
    calls = []

    def step(s):
        calls.append(1)
        return np.sin(s[0]) * 1.1 + 0.01, s[1] + 1

    run = lambda x: bs.while_loop(lambda s: s[1] < steps, step, (x, 0))[0]
    f = bs.checkpoint(run, slots=slots)
    assert bs.grad(f)(0.7) == pytest.approx(bs.grad(run)(0.7))
    report = f.report
    assert len(calls) == report.forward_steps + report.recorded_steps + steps
    assert report.recorded_steps == steps
    assert report.optimum <= report.forward_steps <= 1.12 * report.optimum


def test_giving_up_states_is_never_worse():
    for steps, apart, slots in [(100, 8, 16), (1_000, 128, 8), (500, 16, 40)]:
        kept = list(range(0, steps, apart))[:slots]
        held = thinned(kept, steps, slots)
        total = lambda places, steps=steps, slots=slots: sum(
            fewest_steps(b - a, slots - n)
            for n, (a, b) in enumerate(zip(places, [*places[1:], steps], strict=True))
        )
        assert held[0] == 0
        assert set(held) <= set(kept)
        assert total(held) <= total(kept)
    assert thinned([0, 128, 256, 384, 512, 640, 768, 896], 1_000, 8) != list(range(0, 1_000, 128))


def over_reverse(f):
    return bs.grad(lambda x: (bs.grad(f)(x) ** 2).sum())


def over_forward(f):
    return lambda x: bs.jvp(bs.grad(f), (x,), (np.ones_like(x),))[1]


@pytest.mark.parametrize("second", [over_reverse, over_forward])
@pytest.mark.parametrize("kind", ["loop", "functions"])
def test_a_budget_holds_for_the_second_derivative(kind, second):
    x = np.linspace(0.1, 1.0, 10_000)  # 80 kB
    step = lambda s: np.sin(s) * 1.01
    if kind == "loop":
        run = lambda x: bs.fori_loop(0, 100, lambda i, s: step(s), x).sum()
        f = bs.checkpoint(run, memory=1_000_000)
    else:
        chain = bs.checkpoint([step] * 30, memory=1_000_000)
        run, f = (
            lambda x: bs.fori_loop(0, 30, lambda i, s: step(s), x).sum(),
            lambda x: chain(x).sum(),
        )
    expected, at_large = in_little_memory(lambda: second(run)(x))
    second(f)(x)  # the first call plans
    found, peak = in_little_memory(lambda: second(f)(x))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    pairs = [c for c in (f if kind == "loop" else chain).report.chains if "tangents" in c.name]
    assert pairs
    assert all(0 < c.peak_bytes <= 1_000_000 for c in pairs)
    assert all(c.recorded_steps == c.steps for c in pairs)
    assert all(c.forward_steps > c.steps / 2 for c in pairs)
    assert peak < 1_000_000 + 16 * x.nbytes < at_large / 3


def test_a_third_derivative_within_a_budget():
    third = lambda f: bs.grad(lambda x: bs.grad(lambda x: bs.grad(f)(x))(x))(0.4)
    run = lambda x: bs.fori_loop(0, 30, lambda i, s: np.sin(s * x) + 0.1, x)
    f = bs.checkpoint(run, slots=4)
    assert third(f) == pytest.approx(third(run), rel=1e-10)
    assert any(c.name.endswith("with tangents with tangents") for c in f.report.chains)


def test_a_budget_too_small_for_the_second_derivative():
    run = lambda x: bs.fori_loop(0, 50, lambda i, s: np.sin(s), x).sum()
    f = bs.checkpoint(run, memory="30kB")
    x = np.ones(1000)
    np.testing.assert_allclose(bs.grad(f)(x), bs.grad(run)(x))
    with pytest.raises(BudgetError, match=r"fori_loop with tangents in: the least .* 56 kB"):
        over_reverse(f)(x)
    roomy = bs.checkpoint(run, memory="56kB")
    np.testing.assert_allclose(over_reverse(roomy)(x), over_reverse(run)(x))


@pytest.mark.parametrize("method", ["reverse", "forward"])
def test_a_dense_jacobian_of_a_chain_keeps_to_its_schedule(method):
    calls = 0

    def step(i, s):
        nonlocal calls
        calls += 1
        return s + 0.01 * np.sin(s) * s[::-1]

    plain = lambda x: bs.fori_loop(0, 100, step, x)[:40]
    within = bs.checkpoint(plain, slots=5)
    x = np.linspace(0.1, 1.0, 2_000)
    expected = [bs.vjp(plain, x)[1](c) for c in np.eye(40)[[0, 39]]]
    calls = 0
    if method == "reverse":
        tracemalloc.start()
        found = bs.jacobian(within, method="reverse")(x)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_allclose(found[[0, 39]], np.reshape(expected, (2, -1)), rtol=1e-12)
        assert calls == fewest_steps(100, 5) + 100  # for all seeds together
        (told,) = within.report.chains
        assert told.recorded_steps == 100
        assert held < 25 * 40 * x.nbytes  # some stacks of seeds, not eleven for each step
    else:
        along = lambda a: within(x * a)
        found = bs.jacobian(along, method="forward")(1.0)
        assert calls == 200  # the first sweep, and one that tangents go along with
        np.testing.assert_allclose(found[[0, 39]], [c @ x for (c,) in expected], rtol=1e-12)


def test_a_jacobian_through_sequences():
    x = np.array([0.1, 0.5, 0.9])
    ys = lambda w: bs.scan(lambda c, a: (np.sin(c + a), c * w), x, np.outer(np.arange(8.0), w))[1]
    f = bs.checkpoint(ys, slots=3)
    np.testing.assert_allclose(bs.jacobian(f)(x), bs.jacobian(ys)(x), rtol=1e-12)
    inner = lambda f: bs.jacobian(bs.grad(lambda w: (f(w) ** 2).sum()))(x)
    np.testing.assert_allclose(inner(f), inner(ys), rtol=1e-10)


# ---- functions and straight lines


def layers(calls, n=12):
    weights = [np.random.default_rng(k).normal(size=(30, 30)) / 6 for k in range(n)]

    def layer(k):
        def run(x):
            calls[k] += 1
            return np.tanh(x @ weights[k]) + 0.1 * np.sin(x)

        return run

    return [layer(k) for k in range(n)]


@pytest.mark.parametrize("budget", [{"slots": 3}, {"memory": "60kB"}, {"memory": "1MB"}], ids=str)
def test_a_sequence_of_functions(budget):
    calls = [0] * 12
    functions = layers(calls)
    f = bs.checkpoint(functions, **budget)
    x = np.random.default_rng(1).normal(size=(30, 30))

    def plain(x):
        for g in functions:
            x = g(x)
        return (x * x).sum()

    loss = lambda x: (f(x) ** 2).sum()
    expected = bs.grad(plain)(x)
    before = sum(calls)
    np.testing.assert_allclose(bs.grad(loss)(x), expected, rtol=1e-10)
    report = f.report.chains[0]
    ran = report.forward_steps + report.recorded_steps + report.measured_steps
    assert sum(calls) - before == ran
    if "slots" in budget:
        assert report.forward_steps == fewest_steps(12, 3)
    elif budget["memory"] == "60kB":
        assert report.peak_bytes <= 60_000
        assert report.forward_steps > 12
    else:
        assert report.forward_steps == 0
    t = np.ones_like(x)
    np.testing.assert_allclose(
        bs.jvp(loss, (x,), (t,))[1], bs.jvp(plain, (x,), (t,))[1], rtol=1e-10
    )
    np.testing.assert_allclose(bs.jit(bs.grad(loss))(x), expected, rtol=1e-10)


def graph(x, w):
    early = np.cos(x)  # read again at the end: it crosses every cut
    for k in range(20):
        x = np.sin(x @ w) * 1.2 + 0.05 * k * np.tanh(x)
    return (x * early).sum()


def test_a_straight_line_program_keeps_to_a_budget():
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(100, 100)), rng.normal(size=(100, 100)) / 10
    f = bs.checkpoint(graph, memory="1.2MB")
    expected = bs.grad(graph, (0, 1))(x, w)
    np.testing.assert_allclose(bs.grad(f, (0, 1))(x, w), expected, rtol=1e-9, atol=1e-12)
    report = f.report.chains[0]
    assert report.name == "segments"
    assert 400_000 < report.peak_bytes <= 1_200_000
    assert report.forward_steps > report.steps / 2
    assert report.recorded_steps == report.steps
    roomy = bs.checkpoint(graph, memory="1GB")
    bs.grad(roomy)(x, w)
    assert roomy.report.forward_steps == 0
    assert roomy.report.peak_bytes > 3_000_000
    with pytest.raises(BudgetError, match="the least that can be met is about"):
        bs.grad(bs.checkpoint(graph, memory="100kB"))(x, w)


def test_second_derivatives_of_a_straight_line_program():
    x = np.array([0.3, 0.7])
    f = lambda x: graph(x[None, :], np.eye(2))
    g = bs.checkpoint(f, memory=1500)
    np.testing.assert_allclose(bs.hessian(g)(x), bs.hessian(f)(x), rtol=1e-10)


@pytest.mark.parametrize("bad", [[], [np.sin, 3], 5])
def test_what_is_no_function(bad):
    with pytest.raises(TypeError, match="a function or a sequence of functions"):
        bs.checkpoint(bad, memory="1MB")


def test_a_sequence_needs_a_budget():
    with pytest.raises(BudgetError, match="needs a budget"):
        bs.checkpoint([np.sin, np.cos])
    with pytest.raises(BudgetError, match="either `memory` or"):
        bs.checkpoint(np.sin, memory=10, slots=3)


def test_a_budget_decorates():
    @bs.checkpoint(memory="1MB")
    def f(x):
        return np.sum(np.tanh(np.sin(x)))

    x = np.linspace(0, 1, 5)
    np.testing.assert_allclose(bs.grad(f)(x), bs.grad(lambda x: np.sum(np.tanh(np.sin(x))))(x))
