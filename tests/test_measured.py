"""What is timed, by "auto" inside `jit` and by "measured"; what is taken then, and where prices decide."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.pricing import ROUNDS
from backsolve.compiled import timed
from backsolve.compiled.timed import seconds_timed
from backsolve.hooks import hooks
from backsolve.ir import Program, Type
from backsolve.operators import Diagonal
from backsolve.primitive import primitive
from backsolve.regions import Callee
from backsolve.rewrite import rewrite
from backsolve.solve import auto, many, ways
from backsolve.solve.in_turns import seconds_in_turns
from backsolve.solve.tariff import Price
from backsolve.trace import evaluate, stage

W = np.random.default_rng(0).normal(size=(8, 8))
X = np.linspace(0.1, 1, 8)
FLOATS = Type((8,), np.dtype(float))
TURNS = {"reverse": (1.0, 2.0), "forward": (2.0, 1.0), "as quick": (1.0, 0.995)}


def square(x: Any) -> Any:
    return np.sin(np.tanh(W @ x)) * x


def lines(J: Any, *args: Any) -> Counter[str]:
    """What is computed, in whatever order, and whatever the values are called."""
    text: str = bs.jit(J).lower(*args).stages["rewritten"]
    return Counter(re.sub(r"\b[vc]\d+", "·", line) for line in text.splitlines())


@pytest.mark.parametrize("quick", TURNS)
@pytest.mark.parametrize("is_batched", [False, True])
def test_the_quickest_program_is_taken(
    quick: str, is_batched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def timed(programs: Sequence[Program]) -> list[float]:
        asked.append(len(programs))
        return [*TURNS[quick], *[9.0] * (len(programs) - 2)]

    monkeypatch.setattr(hooks, "seconds_of", lambda program: 1.0)  # all are in doubt
    monkeypatch.setattr(hooks, "timed", timed)
    wrap: Callable[[Any], Any] = bs.vmap if is_batched else lambda J: J
    x = np.stack([X, X + 1, X - 1]) if is_batched else X
    found = lines(wrap(bs.jacobian(square, method="measured")), x)
    assert len(asked) == 1
    way = "reverse" if quick == "as quick" else quick
    assert found == lines(wrap(bs.jacobian(square, method=way)), x)
    other = "forward" if way == "reverse" else "reverse"
    assert found != lines(wrap(bs.jacobian(square, method=other)), x)


def test_other_ways_are_taken_if_they_are_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "seconds_of", lambda program: 1.0)
    monkeypatch.setattr(hooks, "timed", lambda programs: [9.0, 9.0, *[1.0] * (len(programs) - 2)])
    f = lambda x: W[:3] @ np.tanh(W @ np.sin(x))
    taken: list[str] = []
    chosen = auto._by_steps
    monkeypatch.setattr(
        auto, "_by_steps", lambda *a: (price := chosen(*a), taken.append(price.way))[0]
    )
    J = bs.jit(bs.jacobian(f, method="measured"))
    np.testing.assert_allclose(J(X), bs.jacobian(f, method="reverse")(X), rtol=1e-12)
    assert taken == ["eliminate"]


def test_nothing_is_timed_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by an eager "auto", nor where prices leave no doubt."""
    monkeypatch.setattr(hooks, "timed", None)
    monkeypatch.setattr(auto, "seconds_in_turns", None)
    monkeypatch.setattr(auto, "_decided", {})
    bs.jacobian(square)(X)
    for method, prices in (("auto", [2.1, 1.0, 0.9, 0.9]), ("measured", [2.1, 1.0, 2.1, 2.1])):
        told = iter(prices)
        monkeypatch.setattr(hooks, "seconds_of", lambda program, told=told: next(told))
        bs.jit(bs.jacobian(square, method=method))(X)
        assert next(told, None) is None
    f = lambda x: np.log(np.exp(x).sum())
    x = np.linspace(0, 1, 400)
    np.testing.assert_allclose(bs.jacobian(f, method="measured")(x), bs.grad(f)(x), rtol=1e-12)


def test_a_doubt_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([1.9, 1.0, 2.1, 2.1])
    asked: list[int] = []
    monkeypatch.setattr(hooks, "seconds_of", lambda program: next(told))
    monkeypatch.setattr(hooks, "timed", lambda programs: asked.append(len(programs)))
    bs.jit(bs.jacobian(square, method="measured"))(X)
    assert asked == [2]


@pytest.mark.parametrize(
    ("prices", "count", "times", "way"),
    [  # of reverse, forward and elimination in two orders; how many are timed
        ((1.0, 1.3, 2.0, 2.0), 2, (1.1, 1.0), "forward"),
        ((1.0, 1.3, 2.0, 2.0), 2, (1.0, 1.1), "reverse"),
        ((1.3, 1.0, 2.0, 2.0), 2, (1.0, 1.01), "forward"),  # as quick as far as one can tell
        ((1.0, 1.3, 0.9, 0.9), 2, (1.1, 1.0), "forward"),  # elimination does not promise enough
        ((1.0, 1.1, 0.8, 2.0), 3, (1.0, 0.9, 1.1), "forward"),
        ((1.0, 1.1, 0.8, 2.0), 3, (1.0, 1.0, 0.9), "eliminate"),
        ((1.0, 1.2, 0.8, 2.0), 3, (0.9, 1.0, 1.0), "reverse"),
        # Prices of ways that are no plain ones are off by more.
        ((1.0, 2.1, 0.35, 2.0), 2, (1.0, 1.1), "reverse"),
        ((1.0, 1.2, 0.35, 2.0), 3, (1.0, 0.8, 0.9), "forward"),
        ((1.0, 2.1, 0.35, 2.0), 2, (1.0, 0.9), "eliminate"),
        ((1.0, 1.0, 0.3, 2.0), 0, (), "eliminate"),  # that promises enough
    ],
)
def test_what_auto_times(
    prices: tuple[float, ...],
    count: int,
    times: tuple[float, ...],
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plain ways, and the one that would be taken, if their prices are near each other."""
    told, taken, asked = iter(prices), [], []
    monkeypatch.setattr(hooks, "seconds_of", lambda program: next(told))
    monkeypatch.setattr(hooks, "timed", lambda programs: (asked.append(len(programs)), [*times])[1])
    chosen = auto._by_steps
    monkeypatch.setattr(
        auto, "_by_steps", lambda *a: (price := chosen(*a), taken.append(price.way))[0]
    )
    f = lambda x: W[:3] @ np.tanh(W @ np.sin(x))
    J = bs.jit(bs.jacobian(f))
    np.testing.assert_allclose(J(X), bs.jacobian(f, method="reverse")(X), rtol=1e-12)
    assert (taken, asked) == ([way], [count] if count else [])


def test_what_prices_would_take_is_measured_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elimination is a third of the price, but what that spares in nanoseconds cannot be told."""
    told = iter([12e-9, 13e-9, 4e-9, 4e-9])
    monkeypatch.setattr(hooks, "seconds_of", lambda program: next(told))
    monkeypatch.setattr(hooks, "timed", lambda programs: [2.0, 1.0, 3.0])
    f = lambda x: W[:3] @ np.tanh(W @ np.sin(x))
    J = bs.jit(bs.jacobian(f, method="measured"))
    np.testing.assert_allclose(J(X), bs.jacobian(f, method="reverse")(X), rtol=1e-12)
    assert next(told, None) is None


def test_a_run_of_seconds_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "seconds_of", lambda program: 2.5)
    monkeypatch.setattr(hooks, "timed", None)
    bs.jit(bs.jacobian(square))(X)


def looped(x: Any) -> Any:
    for _ in range(30):
        x = np.sin(W @ x) * x
    return x


def written_out(x: Any) -> Any:
    return reduce(lambda y, k: np.sin(W @ y) * y, range(30), x)


@pytest.mark.parametrize("f", [looped, written_out, square])
def test_loops_and_what_is_long_or_large_is_priced_by_steps_as_well(
    f: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls without blocks, rows that are too many to eliminate them, as many numbers as the Jacobian has."""
    monkeypatch.setattr(auto, "_RECORDED", 1)
    monkeypatch.setattr(auto, "_LONG", 40)
    monkeypatch.setattr(auto, "_TRIED", 0)
    for prices, way in (((1.0, 5.0), "reverse"), ((5.0, 1.0), "forward")):
        told = iter(prices)
        monkeypatch.setattr(hooks, "seconds_of", lambda program, told=told: next(told))
        assert lines(bs.jacobian(f), X) == lines(bs.jacobian(f, method=way), X)
        assert next(told, None) is None
    assert lines(bs.jacobian(f, method="forward"), X) != lines(bs.jacobian(f, method="reverse"), X)


def test_loops_are_timed_within_more_and_else_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their prices are less exact: of eight numbers back and ahead, ahead is taken unless back is quicker."""
    asked: list[int] = []
    for times, way in (([1.0, 2.0], "reverse"), ([2.0, 1.0], "forward"), (None, "forward")):
        told = iter([1.0, 3.5])
        monkeypatch.setattr(hooks, "seconds_of", lambda program, told=told: next(told))
        monkeypatch.setattr(
            hooks, "timed", lambda programs, times=times: (asked.append(len(programs)), times)[1]
        )
        assert lines(bs.jacobian(looped), X) == lines(bs.jacobian(looped, method=way), X)
    assert asked == [2, 2, 2]


def test_stacks_far_beyond_the_result_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "_RECORDED", 1)
    monkeypatch.setattr(auto, "_TRIED", 0)
    monkeypatch.setattr(auto, "_FAR", np.inf)
    priced: list[Program] = []
    monkeypatch.setattr(hooks, "seconds_of", lambda program: (priced.append(program), 1.0)[1])
    x = np.linspace(0, 1, 40)
    J = bs.jit(bs.jacobian(lambda x: np.sin(x).reshape(4, 10).sum(1)))  # forward takes 40 × 40
    np.testing.assert_allclose(J(x).sum(0), np.cos(x), rtol=1e-12)
    assert len(priced) == 1


@pytest.mark.parametrize(("n", "factor"), [(2, 19.0), (1, 21.0)])
def test_sums_over_rows_may_be_wrong_by_much(
    n: int, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of 7 rows and 525 columns takes ten times what they tell, what is done entry by entry less."""
    priced: list[Program] = []
    prices = (Price("reverse", seconds=1.0, passes=8), Price("forward", seconds=factor, passes=8))
    monkeypatch.setattr(auto, "_TRIED", 0)
    monkeypatch.setattr(auto, "plain_prices", lambda *a, **k: prices)
    monkeypatch.setattr(
        hooks, "seconds_of", lambda program: (priced.append(program), 3.0 - len(priced))[1]
    )
    found = lines(bs.jacobian(square), X)
    assert len(priced) == n
    assert found == lines(bs.jacobian(square, method="forward" if n == 2 else "reverse"), X)


@pytest.mark.parametrize("backend", ["numpy", "native", None])
def test_only_what_native_code_is_made_of_is_timed(
    backend: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what runs in NumPy: with that backend, or inside of an eager `vmap`."""
    ran: list[int] = []
    monkeypatch.setattr(hooks, "seconds_of", lambda program: 1.0)
    monkeypatch.setattr(timed, "_known", {})
    monkeypatch.setattr(
        timed, "seconds_in_turns", lambda calls, clock: (ran.append(len(calls)), [1.0] * 2)[1]
    )
    J = bs.vmap(bs.jacobian(square))
    (J if backend is None else bs.jit(J, backend=backend))(np.stack([X, -X]))
    assert ran == ([2] if backend == "native" else [])


# ---- what was timed once


def test_times_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """In memory and on disk, for constants of whatever values."""
    ran: list[int] = []

    def turns(calls: Sequence[Any], clock: Any) -> list[float]:
        ran.append(len(calls))
        return [2.0, 1.0]

    def asked(w: Any, x: Any = X) -> list[float] | None:
        t = Type(x.shape, np.dtype(float))
        return seconds_timed([program(lambda x: np.sin(w @ x), t), program(lambda x: w @ x, t)])

    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(timed, "seconds_in_turns", turns)
    monkeypatch.setattr(timed, "_known", {})
    assert asked(W) == [2.0, 1.0]
    assert asked(2 * W) == [2.0, 1.0]
    assert len(ran) == 1
    timed._known.clear()  # as in another process
    assert asked(W) == [2.0, 1.0]
    assert len(ran) == 1
    assert asked(W[:, :5], X[:5]) == [2.0, 1.0]  # another structure
    assert len(ran) == 2
    timed._known.clear()
    for path in tmp_path.glob("*.times"):
        path.write_bytes(b"[0.0, 9.0]")  # not by us
    assert asked(W) == [2.0, 1.0]
    assert len(ran) == 3


def test_they_are_kept_without_a_folder_and_not_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[int] = []
    monkeypatch.setattr(timed, "seconds_in_turns", lambda calls, clock: (ran.append(1), [1.0])[1])
    monkeypatch.setattr(timed, "_known", {})
    monkeypatch.setattr(timed, "_MANY", 2)
    made = [program(f, FLOATS) for f in (np.sin, np.cos, np.exp)]
    for p in made:
        assert seconds_timed([p]) == seconds_timed([p]) == [1.0]
    assert (len(ran), len(timed._known)) == (3, 2)


def test_that_nothing_is_told_is_kept_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    original = timed.native_code
    monkeypatch.setattr(timed, "native_code", lambda *a: (built.append(1), original(*a))[1])
    monkeypatch.setattr(timed, "_known", {})
    p = program(np.sin, Type((8,), np.dtype(np.longdouble)))
    assert seconds_timed([p]) is seconds_timed([p]) is None
    assert len(built) == 1


@pytest.mark.parametrize("quick", TURNS)
def test_eager_ways_are_timed_on_the_numbers_at_hand(
    quick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def watched(name: str, original: Any) -> Any:
        return lambda *a, **k: (ran.append(name), original(*a, **k))[1]

    def timed(calls: Sequence[Callable[[], Any]]) -> list[float]:
        for call in calls:
            call()
        assert ran == ["reverse", "forward"]
        ran.clear()
        return [*TURNS[quick]]

    monkeypatch.setattr(auto, "_decided", {})
    monkeypatch.setattr(auto, "seconds_in_turns", timed)
    for name in ("forward", "reverse"):
        original = getattr(many, f"{name}_jacobian")
        monkeypatch.setattr(many, f"{name}_jacobian", watched(name, original))
    way = "forward" if quick == "as quick" else quick
    J = bs.jacobian(square, method="measured")
    for x in (X, X + 1):  # decided once
        found = J(x)
        assert ran == [way]
        np.testing.assert_allclose(found, bs.jacobian(square, method=way)(x), rtol=0)
        ran.clear()
    bs.linearize(square)(X).jacobian("measured")
    assert ran == [way]


def test_what_auto_has_decided_is_measured_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(auto, "_decided", {})
    monkeypatch.setattr(
        auto, "seconds_in_turns", lambda calls: (asked.append(len(calls)), [1.0] * len(calls))[1]
    )
    bs.jacobian(square)(X)
    bs.jacobian(square, method="measured")(X)
    bs.jacobian(square)(X + 1)
    assert asked == [2]


def cases() -> Iterator[Any]:
    complex_x = X + 1j * X[::-1]
    yield pytest.param(lambda J: J(lambda x: np.exp(x) * x[::-1]), [complex_x], id="complex")
    yield pytest.param(lambda J: J(lambda x, s: np.sin(x) * s, (0, 1)), [X, 2.0], id="two")
    yield pytest.param(lambda J: J(lambda x: {"a": x * x[0], "b": 1.0}), [X], id="constant")
    yield pytest.param(lambda J: J(bs.grad(lambda x: np.sin(W @ x).prod())), [X], id="second order")
    yield pytest.param(lambda J: bs.vmap(J(square)), [np.stack([X, -X])], id="batched")
    yield pytest.param(lambda J: J(lambda x: np.linalg.solve(W + np.diag(x), x)), [X], id="solving")
    yield pytest.param(
        lambda J: J(lambda x: np.linalg.cholesky(np.outer(x, x) + 9 * np.eye(8))), [X], id="factor"
    )
    yield pytest.param(
        lambda J: J(lambda x: bs.checkpoint(lambda y: np.sin(W @ y))(x)), [X], id="opaque"
    )


@pytest.mark.parametrize(("make", "args"), [*cases()])
def test_it_is_the_same_jacobian(make: Any, args: list[Any]) -> None:
    def by(method: str) -> Any:
        return lambda f, argnums=0: bs.jacobian(f, argnums, method)

    expected = bs.tree.flatten(make(by("forward"))(*args))[0]
    for J in (make(by("measured")), bs.jit(make(by("measured")))):
        for a, b in zip(bs.tree.flatten(J(*args))[0], expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_second_derivatives_of_what_was_measured() -> None:
    f = lambda x: np.sin(W @ x).sum()
    expected = bs.hessian(f)(X)
    for H in (bs.hessian(f, method="measured"), bs.jit(bs.hessian(f, method="measured"))):
        np.testing.assert_allclose(H(X), expected, rtol=1e-11, atol=1e-13)
    total = lambda x: (bs.jacobian(square, method="measured")(x) ** 2).sum()
    plain = lambda x: (bs.jacobian(square, method="forward")(x) ** 2).sum()
    np.testing.assert_allclose(bs.jit(bs.grad(total))(X), bs.grad(plain)(X), rtol=1e-11)


# ---- what can be timed


def program(f: Callable[..., Any], *types: Type) -> Program:
    return stage(lambda *xs: [f(*xs)], list(types))[0]


def test_programs_of_any_floats_are_timed() -> None:
    number = Type((), np.dtype(float))
    both = [
        program(lambda x, s: np.sin(x) * s, FLOATS, number),
        program(lambda x, s: bs.fori_loop(0, 3, lambda k, y: y * s, x), FLOATS, number),
        program(np.exp, Type((3, 2), np.dtype(complex))),
        program(lambda m, x: np.where(m, x, 2 * x), Type((8,), np.dtype(bool)), FLOATS),
        program(lambda x: x * 2, Type((), np.dtype(float), weak=True)),
    ]
    for p in both:
        found = seconds_timed([p, p])
        assert found is not None
        assert len(found) == 2
        assert min(found) > 0


INTEGER = Type((), np.dtype(np.int64))
PLACES = Type((40,), np.dtype(np.int32))


@pytest.mark.parametrize("n", [1, 2, 5, 8, 40])
def test_integers_are_places_wherever_they_fit(n: int) -> None:
    x = Type((n,), np.dtype(float))
    found = seconds_timed(
        [program(lambda x, i: np.sin(x[i]), x, PLACES), program(lambda x, i: x[i], x, INTEGER)]
    )
    assert found is not None


def test_or_say_how_often_something_is_done() -> None:
    number = Type((), np.dtype(float))
    rounds = program(lambda x, n: bs.fori_loop(0, n, lambda k, y: y + 1, x), number, INTEGER)
    x, n = timed._made_up([v.type for v in rounds.inputs], timed._BELOW[-1])
    assert evaluate(rounds, [x, n])[0] == pytest.approx(x + 31)


@pytest.mark.parametrize("count", [lambda n: n**6, lambda n: 1 << (n + 20), lambda n: n])
def test_counts_that_are_computed_are_bounded(count: Any) -> None:
    """Of numbers up to 31, 2ⁿ would be hours."""
    f = lambda x, n: bs.fori_loop(0, count(n), lambda k, y: y + 1.0, x)
    counted = program(f, FLOATS, INTEGER)
    ended = timed._ending(counted)
    x = np.ones(FLOATS.shape)
    for n in (1, 31):
        (found,) = evaluate(ended, [x, n])
        rounds = min(count(n), ROUNDS)
        expected = bs.fori_loop(0, rounds, lambda k, y: y + 1.0, x)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert seconds_timed([counted]) is not None


def test_larger_numbers_are_made_up_while_a_run_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    made_up = timed._made_up
    monkeypatch.setattr(timed, "_known", {})
    monkeypatch.setattr(timed, "_made_up", lambda ts, n: (tried.append(n), made_up(ts, n))[1])

    def nested(x: Any, n: Any, depth: int = 6) -> Any:
        if depth == 0:
            return x + np.sin(x)
        return bs.fori_loop(0, n, lambda k, y: nested(y, n, depth - 1), x)

    assert seconds_timed([program(lambda x, n: nested(x, n), FLOATS, INTEGER)]) is not None
    assert tried == sorted(tried)
    assert tried[-1] < timed._BELOW[-1]


def halved(x: Any) -> Any:
    """Until it is small, which made-up numbers are not at once."""
    while np.sum(x * x) > 1e-30:
        x = np.sin(x) * 0.5
    return x


def never(x: Any) -> Any:
    """None of the numbers that are made up ends it."""
    while x[0] < 100:
        x = x - 1.0
    return x


def within(x: Any) -> Any:
    for _ in range(3):
        x = halved(x) + x if x[0] > 0 else never(x)
    return x


def loops(program: Program) -> int:
    return sum(e.primitive.name == "loop" for e in program.equations)


@pytest.mark.parametrize("f", [halved, never, within, lambda x: halved(x) ** 2])
def test_loops_until_something_holds_end(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[Program] = []
    monkeypatch.setattr(hooks, "timed", ways.extend)
    monkeypatch.setattr(hooks, "seconds_of", lambda program: 1.0)
    bs.jit(bs.jacobian(f)).lower(X)
    assert len(ways) == 2
    for p in ways:
        assert timed._waits(p)
        assert loops(timed._ending(p)) == loops(rewrite(p))
    found = seconds_timed(ways)
    assert found is not None
    assert min(found) > 0


@pytest.mark.parametrize(("most", "rounds"), [(1e6, ROUNDS), (20.0, 20), (-1.0, 4)])
def test_they_do_some_rounds_and_not_too_many(most: float, rounds: int) -> None:
    f = lambda x: bs.while_loop(lambda y: y < most, lambda y: y + 1.0, x)
    twice = lambda x: bs.while_loop(lambda y: y < 1e6, lambda y: y + f(0 * y), x)
    number = Type((), np.dtype(float))
    assert evaluate(timed._ending(program(f, number)), [0.0])[0] == rounds
    assert evaluate(timed._ending(program(twice, number)), [0.0])[0] == rounds * ROUNDS


def test_they_are_chosen_by_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "seconds_of", lambda program: 1.0)
    for times, way in (([1.0, 2.0], "reverse"), ([2.0, 1.0], "forward")):
        monkeypatch.setattr(timed, "_known", {})
        monkeypatch.setattr(timed, "seconds_in_turns", lambda calls, clock, times=times: times)
        assert lines(bs.jacobian(halved), X) == lines(bs.jacobian(halved, method=way), X)
        J = bs.jit(bs.jacobian(halved))
        np.testing.assert_allclose(J(X), bs.jacobian(halved, method="forward")(X), rtol=1e-9)
    assert lines(bs.jacobian(halved, method="forward"), X) != lines(
        bs.jacobian(halved, method="reverse"), X
    )


def nested_sines(x: Any, n: int = 4) -> Any:
    """Calls itself while it is recorded, not when it runs."""
    return x if n == 0 else np.sin(nested_sines(x, n - 1)) * x


@pytest.mark.parametrize("f", [nested_sines, bs.checkpoint(lambda x: np.sin(np.exp(x)) * x)])
def test_calls_are_timed(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[Program] = []
    monkeypatch.setattr(hooks, "timed", ways.extend)
    monkeypatch.setattr(hooks, "seconds_of", lambda program: 1.0)
    bs.jit(bs.jacobian(f)).lower(X)
    assert any(isinstance(r, Callee) for p in ways for r in timed._regions(p))
    assert seconds_timed(ways) is not None


def test_loops_that_are_called_keep_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[Program] = []
    monkeypatch.setattr(hooks, "timed", ways.extend)
    monkeypatch.setattr(hooks, "seconds_of", lambda program: 1.0)
    f = bs.checkpoint(halved)
    J = bs.jit(bs.jacobian(f))
    J.lower(X)
    assert all(map(timed._waits, ways))
    assert seconds_timed(ways) is None
    assert all(map(timed._waits, ways))
    np.testing.assert_allclose(J(X), bs.jacobian(halved, method="forward")(X), rtol=1e-9)


@bs.jit
def factorial(x: Any) -> Any:
    return x * factorial(x - 1) if x[0] > 1 else x


@pytest.mark.parametrize(
    "made",
    [
        lambda: program(factorial, FLOATS),
        lambda: program(
            lambda x: np.linalg.cholesky(x - 2 * np.eye(8)), Type((8, 8), np.dtype(float))
        ),
        lambda: program(lambda: np.sin(np.ones(3))),
        lambda: program(lambda x: x[0], Type((1 << 24, 2), np.dtype(float))),
        lambda: program(np.sin, Type((8,), np.dtype(np.longdouble))),
    ],
    ids=[
        "calls itself",
        "not defined",
        "known",
        "too large",
        "no native form",
    ],
)
def test_others_are_not(made: Any) -> None:
    fine = program(np.sin, FLOATS)
    assert seconds_timed([fine, made()]) is None


def test_assertions_are_about_the_numbers_of_the_user() -> None:
    def f(x: Any) -> Any:
        assert np.sum(x) > 100, "too small"
        return np.sin(W @ x) * x

    J = bs.jit(bs.jacobian(f, method="measured"))
    x = 50 + X
    np.testing.assert_allclose(J(x), bs.jacobian(f, method="forward")(x), rtol=1e-9, atol=1e-12)
    with pytest.raises(AssertionError, match="too small"):
        J(X)


def test_nothing_is_told_from_code_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        timed, "_made_up", lambda types, below: [np.ones(t.shape, np.int8) for t in types]
    )
    assert seconds_timed([program(np.sin, FLOATS)]) is None


def test_no_function_of_the_user_is_called_for_it() -> None:
    seen: list[Any] = []
    squares = primitive(
        "squares_that_look_around",
        lambda a: (seen.append(a), np.square(a))[1],
        blocks=(lambda a: Diagonal(2 * a),),
    )
    made = program(lambda x: np.sin(squares(x)), FLOATS)
    seen.clear()
    assert seconds_timed([made, made]) is None
    assert not np.any(seen)  # zeros tell types


def test_then_prices_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "timed", lambda programs: None)
    assert lines(bs.jacobian(square, method="measured"), X) == lines(bs.jacobian(square), X)


# ---- turns


class Clock:
    """Time goes on only in what is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def call(self, seconds: Sequence[float]) -> tuple[Callable[[], None], list[int]]:
        """A call that takes these one after the other, and then the last one; how often it was called."""
        calls = [0]

        def run() -> None:
            self.now += seconds[min(calls[0], len(seconds) - 1)]
            calls[0] += 1

        return run, calls


def test_the_best_turn_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    disturbed, calls = clock.call([5.0, 5e-3, 9e-3, 7e-3, 1e-3, 8e-3])
    steady, _ = clock.call([2e-3])
    assert seconds_in_turns([disturbed, steady]) == pytest.approx([1e-3, 2e-3])
    assert calls[0] > 5


def test_short_calls_are_repeated_and_long_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    short, many_calls = clock.call([1e-6])
    long, few_calls = clock.call([3.0])
    assert seconds_in_turns([short, long]) == pytest.approx([1e-6, 3.0])
    assert many_calls[0] > 50 * few_calls[0]
    assert few_calls[0] == 3  # the first one, and two turns
    one, calls = clock.call([0.6, 0.5])
    two, _ = clock.call([0.7, 0.5])
    assert seconds_in_turns([one, two]) == pytest.approx([0.6, 0.7])
    assert calls[0] == 1


def test_another_clock() -> None:
    ticks = iter(range(10**6))
    assert seconds_in_turns([lambda: None], lambda: float(next(ticks))) == [1.0]


def test_a_method_that_is_none() -> None:
    with pytest.raises(ValueError, match='"measured"'):
        bs.jacobian(square, method="timed")
    with pytest.raises(ValueError, match="order is for"):
        bs.jacobian(square, method="measured", order="forward")
    assert "measured" in ways.METHODS
