"""Recurrences by a scan and by Newton's method, beside the loop over their steps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import ConvergenceError, ShapeError, StructureError, UnsupportedError
from backsolve.primitive import PRIMITIVES, P
from backsolve.primitives import chains
from backsolve.testing import check_operator

T = 300
rng = np.random.default_rng(3)
W = 0.4 * rng.normal(size=(3, 3))
U = rng.normal(size=(3, 3))
ROWS = 0.3 * rng.normal(size=(3, 3))


def decay(h, x):
    return 0.9 * h + np.sin(x)


def gated(h, x):
    return np.exp(-(x**2)) * h + x


def mixed(h, x):
    return W @ h + x


def rotated(h, x):
    """A matrix that varies from step to step."""
    return 0.5 * np.outer(np.cos(x), np.sin(x)) @ h + x


def pair(h, x):
    p, q = h
    return 0.8 * p + x[0], 0.7 * q - 0.1 * p * x[1]


def rnn(h, x):
    return np.tanh(W @ h + x)


def gru(h, x):
    z = 1 / (1 + np.exp(-(W @ h + x)))
    return z * h + (1 - z) * np.tanh(ROWS @ (z * h) + U @ x)


def pendulum(state, force):
    angle, speed = state
    speed = speed + 0.02 * (force - np.sin(angle) - 0.3 * speed)
    return angle + 0.02 * speed, speed


def logistic(h, r):
    return r * h * (1 - h)


def cubic(h, x):
    """Nonlinear, each entry for itself."""
    return np.cos(h) * 0.5 + x


XS = rng.normal(size=(T, 3))
CASES = {
    "decay": (decay, np.zeros(3), XS, "scan"),
    "number": (decay, 0.5, XS[:, 0], "scan"),
    "gated": (gated, np.ones(3), XS, "scan"),
    "mixed": (mixed, np.ones(3), XS, "scan"),
    "rotated": (rotated, np.ones(3), XS, "scan"),
    "pair": (pair, (np.ones(2), np.zeros(2)), XS[:, :2], "scan"),
    "rnn": (rnn, np.zeros(3), XS, "newton"),
    "gru": (gru, np.zeros(3), XS, "newton"),
    "pendulum": (pendulum, (1.0, 0.0), XS[:, 0], "newton"),
    "logistic": (logistic, 0.3, 2.5 + 0.4 * np.abs(np.sin(XS[:, 0])), "newton"),
    "cubic": (cubic, np.zeros((3,)), XS, "newton"),
}


def total(step, h0, xs, method):
    states = bs.tree.flatten(bs.recurrence(step, h0, xs, method))[0]
    return sum(
        (np.sin(s) ** 2 * np.cos(np.arange(s.shape[0]))[(...,) + (None,) * (s.ndim - 1)]).sum()
        for s in states
    )


def close(a, b):
    for x, y in zip(bs.tree.flatten(a)[0], bs.tree.flatten(b)[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)


def counted(monkeypatch):
    """How often each primitive runs from here on."""
    runs = Counter()
    for name, prim in PRIMITIVES.items():

        def run(*args, _run=prim.run, _name=name, **params):
            runs[_name] += 1
            return _run(*args, **params)

        monkeypatch.setattr(prim, "run", run)
    return runs


@pytest.mark.parametrize("name", CASES)
class TestAgainstTheLoop:
    def test_values(self, name):
        step, h0, xs, method = CASES[name]
        expected = bs.recurrence(step, h0, xs, "sequential")
        for way in (method, "newton", "auto"):
            close(bs.recurrence(step, h0, xs, way), expected)
        close(bs.jit(lambda x: bs.recurrence(step, h0, x, method))(xs), expected)

    def test_gradients(self, name):
        step, h0, xs, method = CASES[name]
        f = lambda h, x, way: total(step, h, x, way)
        expected = bs.grad(f, (0, 1))(h0, xs, "sequential")
        for way in (method, "newton"):
            close(bs.grad(f, (0, 1))(h0, xs, way), expected)
        for way in (method, "newton"):
            close(bs.jit(bs.grad(f, (0, 1)))(h0, xs, way), expected)
        g = lambda x: total(step, h0, x, method)
        close(bs.jit(bs.grad(g))(xs), expected[1])
        close(bs.grad(bs.jit(g))(xs), expected[1])

    def test_forward_and_second_order(self, name):
        step, h0, xs, method = CASES[name]
        v = np.cos(xs)
        f = lambda way: lambda x: total(step, h0, x, way)
        close(bs.jvp(f(method), [xs], [v]), bs.jvp(f("sequential"), [xs], [v]))
        close(bs.hvp(f(method))(xs, v), bs.hvp(f("sequential"))(xs, v))

    def test_runs_no_loop_over_steps(self, name, monkeypatch):
        step, h0, xs, method = CASES[name]
        calls = []

        def watched(h, x):
            calls.append(1)
            return step(h, x)

        runs = counted(monkeypatch)
        bs.grad(lambda x: total(watched, h0, x, method))(xs)
        assert len(calls) <= 2
        assert runs["recurrence"] + runs["block_recurrence"] >= 2  # one ahead, one back
        once = sum(runs.values())
        runs.clear()
        bs.grad(lambda x: total(watched, h0, x, method))(np.concatenate([xs, xs]))
        twice = sum(
            runs.values()
        )  # a loop runs twice as many; Newton's method may take a round more
        assert twice == once if method == "scan" else twice < 1.6 * once


def test_newton_from_a_start_and_a_guess_that_are_traced():
    h0, guess = np.array([0.1, 0.2, 0.3]), np.zeros_like(XS)
    f = lambda h, guess: bs.recurrence(rnn, h, XS, "newton", guess=guess)
    expected = bs.recurrence(rnn, h0, XS, "sequential")
    close(bs.jit(f)(h0, guess), expected)
    close(bs.jit(lambda guess: f(h0, guess))(guess), expected)
    close(bs.vmap(lambda h: f(h, None))(np.stack([h0, h0]))[1], expected)
    close(bs.vmap(f, (None, 0))(h0, np.stack([guess, guess]))[1], expected)


def test_third_order():
    xs = np.linspace(0.1, 0.9, 70)
    f = lambda way: lambda a: bs.recurrence(lambda h, x: np.sin(a * h) + x * a, 0.2, xs, way).sum()
    third = lambda g: bs.grad(bs.grad(bs.grad(g)))(0.7)
    close(third(f("newton")), third(f("sequential")))
    linear = lambda way: lambda a: bs.recurrence(lambda h, x: a * h + x * a, 0.2, xs, way).sum()
    close(third(linear("scan")), third(linear("sequential")))


@pytest.mark.parametrize(("step", "method"), [(mixed, "scan"), (rnn, "newton")])
def test_weights_that_a_step_closes_over(step, method):
    def loss(w, way):
        inner = (lambda h, x: w @ h + x) if step is mixed else (lambda h, x: np.tanh(w @ h + x))
        return (bs.recurrence(inner, np.zeros(3), XS, way) ** 2).sum()

    close(bs.grad(loss)(W, method), bs.grad(loss)(W, "sequential"))
    close(bs.jit(bs.grad(lambda w: loss(w, method)))(W), bs.grad(loss)(W, "sequential"))
    v = np.eye(3)
    f = lambda way: lambda w: loss(w, way)
    close(bs.hvp(f(method))(W, v), bs.hvp(f("sequential"))(W, v))


@pytest.mark.parametrize("method", ["scan", "newton"])
def test_under_vmap(method):
    xs = rng.normal(size=(2, 80, 3))
    one = lambda x: bs.recurrence(mixed, np.ones(3), x, method)
    close(bs.vmap(one)(xs), np.stack([one(x) for x in xs]))


def test_newton_tells_its_rounds():
    history = []
    bs.recurrence(rnn, np.zeros(3), XS, "newton", history=history)
    assert 3 <= len(history) <= 10
    assert history[-1] < 1e-10
    good = bs.recurrence(rnn, np.zeros(3), XS, "sequential")
    again = []
    bs.recurrence(rnn, np.zeros(3), XS, "newton", guess=good, history=again)
    assert len(again) == 2


def test_chaos_is_an_error_or_left_to_the_loop():
    r = np.full(2000, 3.99)
    with pytest.raises(
        ConvergenceError, match=r"did not converge in 8 rounds.*sequential"
    ) as found:
        bs.recurrence(logistic, 0.3, r, "newton", rounds=8)
    assert len(found.value.history) >= 2
    expected = bs.recurrence(logistic, 0.3, r, "sequential")
    np.testing.assert_array_equal(bs.recurrence(logistic, 0.3, r), expected)
    staged = bs.jit(lambda r: bs.recurrence(logistic, 0.3, r, "newton", rounds=8))(r)
    assert staged.shape == expected.shape
    close(staged[:30], expected[:30])
    assert np.isfinite(staged).all()


def test_auto_takes_the_loop_where_it_pays(monkeypatch):
    runs = counted(monkeypatch)
    short = XS[:10]
    bs.grad(lambda x: total(mixed, np.ones(3), x, "auto"))(short)
    assert runs["block_recurrence"] == 0
    wide = 0.1 * rng.normal(size=(100, 100))
    bs.recurrence(lambda h, x: wide @ h + x, np.zeros(100), np.ones((T, 100)))
    assert runs["block_recurrence"] == 0
    bs.recurrence(mixed, np.ones(3), XS)
    assert runs["block_recurrence"] == 1


def test_what_cannot_be_staged_runs_in_the_loop():
    def step(h, x):
        return h * 0.5 + (1.0 if float(x) > 0 else x)

    close(bs.recurrence(step, 0.0, XS[:, 0]), bs.recurrence(step, 0.0, XS[:, 0], "sequential"))


JUMPS = {
    "floor": lambda h, x: 0.5 * np.floor(h) + x,
    "where": lambda h, x: np.where(h > 0.3, x, -x),
    "greater": lambda h, x: (h > 0) * 1.0 + x,
    "sign": lambda h, x: 0.5 * np.sign(h) + x,
    "argmax": lambda h, x: 0.5 * h + np.argmax(np.stack([h, x])),
    "remainder": lambda h, x: (h + x) % 1.0,
    "cast": lambda h, x: 0.5 * h.astype(int) + x,
}


@pytest.mark.parametrize("name", JUMPS)
def test_constant_blocks_do_not_make_a_step_linear(name):
    step, xs = JUMPS[name], rng.normal(size=3000)
    close(
        bs.recurrence(step, np.float64(0.2), xs),
        bs.recurrence(step, np.float64(0.2), xs, "sequential"),
    )
    with pytest.raises(StructureError, match="linear in h"):
        bs.recurrence(step, np.float64(0.2), xs, "scan")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: bs.recurrence(rnn, np.zeros(3), XS, "scan"), StructureError, "linear in h"),
        (lambda: bs.recurrence(rnn, np.zeros(3), XS, "fast"), ValueError, "'sequential'"),
        (lambda: bs.recurrence(rnn, np.zeros(3), 2.0), ShapeError, "first axis"),
        (lambda: bs.recurrence(rnn, np.zeros(3), (XS, XS[:3])), ShapeError, "first axis"),
        (
            lambda: bs.recurrence(lambda h, x: x[:2], np.zeros(3), XS, "scan"),
            StructureError,
            "form and shapes",
        ),
        (
            lambda: bs.recurrence(lambda h, x: h + 1, 0, np.arange(9), "scan"),
            UnsupportedError,
            "int64",
        ),
        (lambda: bs.recurrence(rnn, np.zeros(3), XS, "newton", guess=XS[:4]), ShapeError, "guess"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()


# ---- the rows


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("steps", [64, 65, 127, 301])
def test_halves_give_what_the_order_gives(steps, n, reverse):
    a, t = 0.5 * rng.normal(size=(steps, n, n)), rng.normal(size=(steps, n))
    assert chains.pays_for_blocks(steps, n)
    way = slice(None, None, -1 if reverse else 1)
    expected = chains.in_order(a[way], t[way], chains.onto_vectors)[way]
    np.testing.assert_allclose(
        P.block_recurrence(a, t, reverse=reverse), expected, rtol=1e-10, atol=1e-12
    )
    d, u = rng.normal(size=(4 * steps, n)), rng.normal(size=(4 * steps, n))
    expected = chains.in_order(d[way], u[way], np.multiply)[way]
    found = P.recurrence(d, u, axis=0, reverse=reverse)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_products_that_overflow_go_in_order():
    a = np.full((800, 2), 1e3)
    a[::3] = 0.0
    t = np.ones((800, 2))
    blocks = a[:, :, None] * np.eye(2)
    expected = chains.in_order(a, t, np.multiply)
    np.testing.assert_allclose(P.recurrence(a, t, axis=0, reverse=False), expected)
    np.testing.assert_allclose(P.block_recurrence(blocks, t, reverse=False), expected)
    a = np.full((800, 2), 1e3)
    a[400:] = 0.5  # the product before is infinite, its image is not
    t[:400] = 0.0
    found = P.recurrence(a, t, axis=0, reverse=False)
    np.testing.assert_allclose(found, chains.in_order(a, t, np.multiply))


TINY = {  # factors that are applied to 1e300
    "down and up": np.tile([1e-100] * 4 + [1e70] * 4, 100),
    "few digits": np.tile([1e-157, 3.3e-157, 1e70, 1e70], 200),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("case", TINY)
def test_products_that_vanish_go_in_order(case, reverse):
    way = slice(None, None, -1 if reverse else 1)
    a, t = np.stack([TINY[case], TINY[case] / 3], axis=1)[way], np.zeros((800, 2))
    t[way][0] = 1e300
    expected = chains.in_order(a[way], t[way], np.multiply)[way]
    rough = chains.by_halves(a[way], t[way], np.multiply, np.multiply)[way]
    assert not np.allclose(rough, expected, rtol=1e-12, atol=0.0)
    found = P.recurrence(a, t, axis=0, reverse=reverse)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0.0)
    blocks = a[:, :, None] * np.eye(2)
    found = P.block_recurrence(blocks, t, reverse=reverse)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_that_vanish_without_harm_stay_in_log_depth(dtype):
    a, t = np.full((20_000, 2), 0.9, dtype), rng.normal(size=(20_000, 2)).astype(dtype)
    expected = chains.in_order(a, t, np.multiply)
    calls = []
    times = lambda b, a: calls.append(1) or b * a
    found = chains.in_log_depth(a, t, times, np.multiply)
    np.testing.assert_allclose(found, expected, atol=100 * np.finfo(dtype).eps)
    assert len(calls) <= (20_000).bit_length()
    blocks = a[:, :, None] * np.eye(2, dtype=dtype)
    assert chains.in_log_depth(blocks, t, chains.times_matrices, chains.onto_vectors) is not None


@pytest.mark.parametrize("reverse", [False, True])
def test_operator(reverse):
    check_operator(bs.operators.BlockRecurrence(rng.normal(size=(4, 2, 2)), reverse))


@pytest.mark.parametrize("method", ["auto", "sequential", "scan", "newton"])
def test_no_steps_have_no_states(method):
    step = lambda h, x: (h[0] * x, h[1] + x)
    h0 = (np.ones(2, np.float32), 1.0)
    for f in (bs.recurrence, bs.jit(bs.recurrence, static_argnums=(0, 3))):
        a, b = f(step, h0, np.zeros(0), method)
        assert a.shape == (0, 2)
        assert a.dtype == np.float32
        assert b.shape == (0,)


@pytest.mark.parametrize("method", ["auto", "sequential", "scan", "newton"])
def test_a_step_returns_its_dict_in_another_order(method: str) -> None:
    step = lambda h, x: {"a": h["b"], "b": h["a"] + x}
    h0 = {"b": 1.0, "a": 2.0}
    for way in (lambda f: f, bs.jit):
        found = way(lambda x: bs.recurrence(step, h0, x, method))(np.ones(3))
        np.testing.assert_allclose(found["a"], [1, 3, 2])
        np.testing.assert_allclose(found["b"], [3, 2, 4])
    with pytest.raises(bs.errors.StructureError, match="of another form"):
        bs.recurrence(lambda h, x: (h[1], h[0]), [1.0, 2.0], np.ones(3), method)


def turned(h, x):
    """Linear over the reals alone."""
    return 0.5 * np.conj(h) + 0.2 * np.real(h) + 1j * x


def kerr(h, x):
    """Light in a fibre: its phase turns with its power."""
    return 0.9 * h * np.exp(1j * x * np.abs(h) ** 2) + 0.1


def stirred(h, x):
    """Its block is found by substitution, for a loop has no entries."""
    return bs.fori_loop(0, 12, lambda k, s: (0.9 + 0.1j) * s + 0.01 * x, h)


COMPLEX_STEPS = [
    (lambda h, x: 0.8j * h + x, "scan"),
    (lambda h, x: 0.4j * h @ W + x, "scan"),
    (turned, "scan"),
    (turned, "newton"),
    (kerr, "auto"),
    (kerr, "newton"),
    (stirred, "newton"),
]


@pytest.mark.parametrize(("step", "method"), COMPLEX_STEPS)
@pytest.mark.parametrize("wrap", [lambda f: f, bs.jit])
def test_complex_states(step, method, wrap):
    """Holomorphic steps as they are, others by real and imaginary parts."""
    h0 = np.array([0.5 + 1j, -0.3j, 0.2])

    def run(a, method):
        return bs.recurrence(step, a * h0, a * np.linspace(0.2, 1, T)[:, None] * np.ones(3), method)

    loss = lambda a, method: np.sum(np.abs(run(a, method)) ** 2)
    found, expected = run(0.7, method), run(0.7, "sequential")
    assert type(found) is np.ndarray
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    for order in (lambda f: bs.grad(f), lambda f: bs.grad(bs.grad(f))):
        slope = wrap(order(lambda a: loss(a, method)))(0.7)
        np.testing.assert_allclose(slope, order(lambda a: loss(a, "sequential"))(0.7), rtol=1e-8)


def test_complex_diagonals_stay_diagonal():
    rates = np.exp(1j * np.arange(40.0)) * 0.9
    columns = [np.ones((T, 40), complex)]
    structure = bs.tree.flatten(columns[0])[1]
    chain = bs.recurrences.Chain(
        lambda h, x: rates * h + x, np.zeros(40, complex), columns, structure
    )
    assert chain.step.is_diagonal
    assert chain.size == 40


def test_a_guess_of_complex_states():
    x = np.linspace(0.2, 1, T)
    expected = bs.recurrence(kerr, 0.5 + 1j, x, "sequential")
    found = bs.recurrence(kerr, 0.5 + 1j, x, "newton", guess=expected, history=(history := []))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert len(history) <= 2


def test_states_that_are_partly_complex_are_left_to_the_loop():
    def step(h, x):
        z, r = h
        return 0.9 * z * np.exp(1j * r), 0.9 * r + 0.1 * np.abs(z) * x

    h0, x = (0.5 + 1j, 0.3), np.ones(T)
    z, r = bs.recurrence(step, h0, x)
    assert (z.dtype, r.dtype) == (np.complex128, np.float64)
    with pytest.raises(UnsupportedError, match="partly complex"):
        bs.recurrence(step, h0, x, "newton")


@pytest.mark.parametrize("method", ["scan", "newton"])
def test_complex_states_in_single_precision_stay_there(method):
    h0, x = np.complex64(0.5 + 1j), np.linspace(0.2, 1, T, dtype=np.float32)
    for step in (
        lambda h, x: np.float32(0.5) * np.conj(h) + x,
        lambda h, x: np.float32(0.5) * h + x,
    ):
        found = bs.recurrence(step, h0, x, method)
        assert found.dtype == np.complex64
        expected = bs.recurrence(step, h0, x, "sequential")
        np.testing.assert_allclose(found, expected, rtol=1e-5)
