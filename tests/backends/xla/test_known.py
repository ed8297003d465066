"""Constants that regions are given from outside: looked at while translating, not by every run."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.xla.constants import Brought
from backsolve.backends.xla.known import known_inside
from backsolve.ir import Equation, Program, Type, Var
from backsolve.primitive import P
from backsolve.primitives.control import CALL
from backsolve.regions import Callee

pytest.importorskip("jax")

N = 3_000  # more than is written into the code
RNG = np.random.default_rng(0)
X = RNG.normal(size=50)
PLACES = RNG.integers(-50, 50, N)
OTHERS = RNG.integers(0, 50, N)


def compiled(f, *args):
    """The result, beside what NumPy's gives, and the code."""
    run = bs.jit(f, backend="xla")
    y = run(*args)
    np.testing.assert_allclose(y, f(*args), rtol=1e-12, atol=1e-12)
    return y, run.lower(*args).stages["stablehlo"]


def asks(text):
    """Whether a run looks if all places are there."""
    return "applies stablehlo.or" in text


def nested(x, places, depth):
    if depth == 0:
        return np.sum(x[places] ** 2)
    return np.sin(nested(x[::-1] * 0.9, places, depth - 1))


def test_places_are_known_in_calls():
    f = lambda x: nested(x, PLACES, 3)
    _, text = compiled(f, X)
    assert not asks(text)
    g, text = compiled(bs.grad(f), X)
    assert not asks(text)
    np.testing.assert_allclose(g, bs.grad(f)(X), rtol=1e-10)


def test_calls_with_other_places_each_read_their_own():
    compiled(lambda x: nested(x, PLACES, 2) * 3 + nested(x, OTHERS, 2), X)


def test_what_two_calls_give_is_known_if_it_is_the_same():
    """Of one callee, however deep, with constants and with what is not known."""
    a, b, c = (Var(Type((3,), np.dtype(np.int64))) for _ in range(3))
    inner = Callee("inner", [a.type], Program((a,), (), (), (a,)))
    call = lambda callee, x: Equation((Var(a.type),), CALL, (x,), {"region": callee}, "")
    outer = Callee("outer", [a.type], Program((b,), (), (call(inner, b),), (b,)))
    one, other = (Var(a.type) for _ in range(2))
    constants = ((one, np.arange(3)), (other, np.arange(3)))
    for given, known in (
        ([one, one], True),
        ([one], True),
        ([one, other], False),
        ([one, c], False),
        ([c, one], False),
        ([c], False),
    ):
        calls = tuple([call(outer, x) for x in given])
        found = known_inside(Program((c,), constants, calls, (c,)))
        assert (b in found) == (a in found) == known
        assert not known or found[a] is constants[0][1]


def test_places_are_known_in_rounds_and_branches():
    def rounds(x):
        for _ in range(12):
            x = x + 0.01 * np.sum(x[PLACES])
        return x

    def sides(x):
        if x[0] > 0:
            return np.sum(x[PLACES])
        return np.sum(x[OTHERS])

    for f in (rounds, sides):
        _, text = compiled(bs.jit(f), X)
        assert not asks(text)
    compiled(bs.jit(sides), -X)


def test_places_that_change_from_round_to_round_are_looked_at():
    def f(x, end):
        places, total = PLACES, 0.0
        while np.abs(total) < end:
            total = total + np.mean(x[places] ** 2)
            places = places + 1
        return total

    run = bs.jit(f, backend="xla")
    positive = np.abs(X) + 1
    assert run(positive, 1e-3) == pytest.approx(f(positive, 1e-3))
    with pytest.raises(IndexError):
        run(positive, 1e9)


def test_places_that_are_given_are_looked_at():
    run = bs.jit(lambda x, i: np.sum(x[i]), backend="xla")
    assert run(X, PLACES) == pytest.approx(np.sum(X[PLACES]))
    with pytest.raises(IndexError):
        run(X, np.where(np.arange(N) == 17, 50, PLACES))
    with pytest.raises(IndexError):
        run(X, np.where(np.arange(N) == 17, -51, PLACES))


@pytest.mark.parametrize("shape", [(0,), (0, 4), (5, 0)])
def test_places_of_nothing_are_no_places(shape):
    for run in (
        bs.jit(lambda x: x[..., PLACES], backend="xla"),
        bs.jit(lambda x, i=PLACES: x[..., i], backend="xla"),
        bs.jit(bs.grad(lambda x: np.sum(x[PLACES])), backend="xla"),
    ):
        with pytest.raises(IndexError, match="out of bounds"):
            run(np.ones(shape))
    y = bs.jit(lambda x, i: x[i], backend="xla")(np.ones(shape), np.array([], int))
    assert y.shape == (0, *shape[1:])


def test_large_integers_are_computed_with_all_their_bits():
    low, high = RNG.integers(-1_000, 1_000, N), np.arange(N) + (1 << 40)
    for c in (low, high, (low + 2_000).astype(np.uint64)):
        y, _ = compiled(lambda k, c=c: c * k, np.asarray(1 << 20, c.dtype))
        assert y.dtype == c.dtype
        np.testing.assert_array_equal(y, c << np.asarray(20, c.dtype))
    brought = Brought.of(low, low.shape)
    assert brought.array.dtype == np.int32
    assert brought.whole(brought.array).dtype == low.dtype
    assert Brought.of(high, high.shape).array.dtype == high.dtype


def test_the_last_of_several_writes_counts_and_others_stand_alone():
    once = RNG.permutation(2 * N)[:N] - N

    def f(x, places):
        y = np.zeros(2 * N)
        y[places] = np.sin(x)
        return y

    x = RNG.normal(size=N)
    _, text = compiled(lambda x: f(x, once), x)
    assert text.count('"stablehlo.scatter"(') == 1
    _, text = compiled(lambda x: f(x, once % 100), x)
    assert text.count('"stablehlo.scatter"(') == 2


def test_one_entry_a_line_is_found_by_comparing_though_its_place_is_known():
    labels, lines = RNG.integers(0, 5, 1_000), np.arange(1_000)
    t = RNG.normal(size=1_000)
    for places, shape, compares in (
        ((lines, labels), (1_000, 5), True),
        ((labels, lines), (5, 1_000), True),
        ((lines[::-1].copy(), labels), (1_000, 5), False),
    ):
        f = lambda t, places=places, shape=shape: P.scatter_add(t, *places, shape=shape)
        _, text = compiled(f, t)
        assert ("stablehlo.scatter" not in text) == compares


# ---- many entries for few places, on a device played by the CPU


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64, np.uint8])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (128,), (129,), (64, 3)])
def test_many_entries_for_few_places(dtype, shape, on_gpu):
    n = 1 << 16
    t = (RNG.normal(size=n) * 9).astype(np.int64).astype(dtype)
    given = [RNG.integers(-s, s, n) for s in shape]
    f = lambda t, *given: P.scatter_add(t, *given, shape=shape)
    run = bs.jit(f, backend="xla")
    y = run(t, *given)
    assert y.dtype == t.dtype
    np.testing.assert_array_equal(y, f(t, *given))
    text = run.lower(t, *given).stages["stablehlo"]
    assert ("stablehlo.scatter" in text) == (np.prod(shape) > 128)


def test_infinities_stay_in_their_places(on_gpu):
    places, t = RNG.integers(0, 5, 1 << 16), RNG.normal(size=1 << 16)
    t[places == 2], t[places == 3] = np.inf, np.nan
    y = np.asarray(bs.jit(lambda t: P.scatter_add(t, places, shape=(6,)), backend="xla")(t))
    assert np.isfinite(y).tolist() == [True, True, False, False, True, True]
    assert y[5] == 0


def test_places_out_of_range_fail_among_many(on_gpu):
    run = bs.jit(lambda t, i: P.scatter_add(t, i, shape=(6,)), backend="xla")
    places = RNG.integers(0, 6, 1 << 16)
    run(np.ones(1 << 16), places)
    run(np.ones(1 << 16), np.where(np.arange(1 << 16) == 77, 6, places))
    with pytest.raises(IndexError, match="size 6"):
        bs.settle()
