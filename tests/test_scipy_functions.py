"""bs.scipy.signal and bs.scipy.integrate: SciPy's values, derivatives in both modes, compiled, batched."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.special
import scipy.stats

import backsolve as bs
from backsolve.testing import check_grads

RNG = np.random.default_rng(3)
S, odeint = bs.scipy.signal, bs.scipy.integrate.odeint
MODES = ("full", "same", "valid")


def normal(*shape):
    return RNG.normal(size=shape)


PAIRS = [
    (normal(6), normal(3)),
    (normal(3), normal(6)),
    (normal(5, 4), normal(3, 2)),
    (normal(6), normal(4) + 1j * normal(4)),
    (np.arange(5), np.array([1, 0, 2])),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["auto", "direct", "fft"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_convolutions_are_scipys(name, a, b, mode, method):
    f, expected = getattr(S, name), getattr(scipy.signal, name)(a, b, mode, method)
    for got in (
        f(bs.tensor(a), b, mode, method),
        bs.jit(lambda a, b: f(a, b, mode, method))(a, b),
    ):
        got = np.asarray(got)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["direct", "fft"])
@pytest.mark.parametrize(("a", "b"), PAIRS[:4])
def test_convolutions_are_differentiable(a, b, mode, method):
    check_grads(lambda a, b: S.convolve(a, b, mode, method), (a, b))
    check_grads(lambda a, b: S.correlate(a, b, mode, method), (a, b), order=1)


def test_long_signals_go_by_fourier_transforms():
    a, b = normal(900), normal(700)
    assert "rfft" in bs.jit(lambda a: S.convolve(a, b)).lower(a).stages["program"]
    np.testing.assert_allclose(
        S.convolve(bs.tensor(a), b).value, scipy.signal.convolve(a, b), atol=1e-9
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_some_axes_are_convolved_and_some_summed(mode, method):
    a, b = normal(2, 5, 4, 3), normal(2, 4, 2, 3, 2)

    def f(a, b):
        return S.convolve(a, b, mode, method, axes=([1, 2], [2, 4]), dot_axes=([0, 3], [0, 3]))

    expected = sum(
        scipy.signal.convolve(a[i, :, :, j], b[i, 2, :, j, :], mode)
        for i in range(2)
        for j in range(3)
    )
    np.testing.assert_allclose(f(a, b)[2], expected, atol=1e-12)
    check_grads(f, (a, b), order=1)
    none = S.convolve(a, b, mode, method, axes=((), ()), dot_axes=([0], [0]))
    np.testing.assert_allclose(none, np.tensordot(a, b, ([0], [0])))


@pytest.mark.parametrize("mode", MODES)
def test_fftconvolve_broadcasts_other_axes(mode):
    a, b = normal(3, 7), normal(1, 4)
    expected = scipy.signal.fftconvolve(a, b, mode, axes=1)
    np.testing.assert_allclose(S.fftconvolve(bs.tensor(a), b, mode, axes=1).value, expected)
    check_grads(lambda a, b: S.fftconvolve(a, b, mode, axes=1), (a, b), order=1)


def test_convolutions_in_batches():
    a, b = normal(3, 6), normal(4)
    got = bs.vmap(bs.grad(lambda a: np.sin(S.convolve(a, b, "same")).sum()))(a)
    each = [bs.grad(lambda a: np.sin(S.convolve(a, b, "same")).sum())(x) for x in a]
    np.testing.assert_allclose(got, each)


def test_what_cannot_be_convolved():
    for call in (
        lambda: S.convolve(bs.tensor(normal(3)), normal(3, 3)),
        lambda: S.convolve(bs.tensor(normal(3)), normal(0)),
        lambda: S.convolve(bs.tensor(normal(3, 3)), normal(3, 3), axes=([0], [0, 1])),
        lambda: S.convolve(
            bs.tensor(normal(3, 2)), normal(3, 3), axes=([0], [0]), dot_axes=([1], [1])
        ),
        lambda: S.convolve(bs.tensor(normal(3)), normal(3), "half"),
        lambda: S.convolve(bs.tensor(normal(3)), normal(3), method="guess"),
        lambda: S.convolve(bs.tensor(normal(3, 2)), normal(2, 3), "valid"),
    ):
        with pytest.raises(ValueError, match=r"`convolve`|valid"):
            call()
    assert S.medfilt is scipy.signal.medfilt


# ---- differential equations


def pendulum(y, t, a, b):
    return np.stack([y[1], -a * np.sin(y[0]) - b * y[1] + 0.1 * t])


Y0, TIMES = np.array([1.0, 0.3]), np.array([0.0, 0.4, 1.1, 1.5])
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def swing(y0, t, a, b):
    return odeint(pendulum, y0, t, (a, b), **EXACT)


def test_odeint_is_scipys():
    expected = scipy.integrate.odeint(pendulum, Y0, TIMES, (1.3, 0.2), **EXACT)
    np.testing.assert_array_equal(swing(bs.tensor(Y0), TIMES, 1.3, 0.2).value, expected)
    np.testing.assert_array_equal(bs.jit(swing)(Y0, TIMES, 1.3, 0.2), expected)
    backwards = scipy.integrate.odeint(pendulum, Y0, TIMES[::-1], (1.3, 0.2), **EXACT)
    np.testing.assert_array_equal(swing(bs.tensor(Y0), TIMES[::-1], 1.3, 0.2).value, backwards)


def test_odeint_in_start_times_and_arguments():
    check_grads(swing, (Y0, TIMES, 1.3, 0.2), order=1, rtol=1e-6)


@pytest.mark.parametrize("modes", [("forward",), ("reverse",), ("forward", "reverse")])
def test_odeint_to_the_second_order(modes):
    check_grads(lambda y0, a: swing(y0, TIMES[:3], a, 0.2), (Y0, 1.3), modes=modes, rtol=1e-5)


def test_odeint_compiled_and_batched():
    def loss(y0, t, a, b):
        return np.sin(swing(y0, t, a, b)).sum()

    args = (Y0, TIMES, 1.3, 0.2)
    expected = bs.grad(loss, (0, 1, 2, 3))(*args)
    for got in (
        bs.jit(bs.grad(loss, (0, 1, 2, 3)))(*args),
        bs.grad(bs.jit(loss), (0, 1, 2, 3))(*args),
    ):
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-6)
    lengths = np.array([1.3, 1.4])
    batched = bs.vmap(bs.grad(lambda a: loss(Y0, TIMES, a, 0.2)))(lengths)
    each = [bs.grad(loss, 2)(Y0, TIMES, a, 0.2) for a in lengths]
    np.testing.assert_allclose(batched, each, rtol=1e-6)
    second = bs.hessian(loss, 2)(*args)
    assert isinstance(second, float)
    np.testing.assert_allclose(second, bs.jit(bs.hessian(loss, 2))(*args), rtol=1e-5)


def test_odeint_takes_trees_lists_and_tfirst():
    def slope(t, y, p):
        return [p["rate"] * y[0], -y[1]]

    def final(p):
        return odeint(slope, [1.0, 2.0], np.array([0.0, 1.0]), (p,), tfirst=True, **EXACT)[-1].sum()

    got = bs.grad(final)({"rate": 0.5, "unused": np.ones(2)})
    np.testing.assert_allclose(got["rate"], np.exp(0.5), rtol=1e-7)
    np.testing.assert_array_equal(got["unused"], 0)


def test_stiff_equations():
    """Robertson's reactions, which no explicit method gets through."""

    def slope(y, t, k):
        first, second, third = k[0] * y[0], k[1] * y[1] * y[2], k[2] * y[1] * y[1]
        return np.stack([second - first, first - second - third, third])

    def left(k):
        t = np.array([0.0, 40.0])
        return odeint(slope, np.array([1.0, 0, 0]), t, (k,), rtol=1e-9, atol=1e-12)[-1, 0]

    k = np.array([0.04, 1e4, 3e7])
    numeric = [(left(k + s) - left(k - s)) / (2e-3 * k[j]) for j, s in enumerate(np.diag(1e-3 * k))]
    np.testing.assert_allclose(
        bs.jvp(left, (k,), (k,))[1], np.dot(numeric, k), rtol=1e-4, atol=1e-7
    )


def test_repeated_times_are_where_one_already_is():
    got = odeint(pendulum, bs.tensor(Y0), np.array([0.5, 0.5]), (1.0, 0.1))
    np.testing.assert_array_equal(got.value, [Y0, Y0])


def test_slopes_may_close_over_tensors():
    def by_argument(a, b):
        slope = lambda y, t, a, b: -a * y * (1 + 0.1 * np.sin(b * t))
        return odeint(slope, Y0, TIMES, (a, b), rtol=1e-9, atol=1e-9).sum()

    def by_closure(a, b):
        def slope(y, t):
            return -a * y * (1 + 0.1 * np.sin(b * t))

        return odeint(slope, Y0, TIMES, rtol=1e-9, atol=1e-9).sum()

    def by_both(a, b):
        def slope(t, y, b):
            if t < 100:  # in a staged function a choice between two ways
                y = -a * y
            return y * (1 + 0.1 * np.sin(b * t))

        return odeint(slope, bs.tensor(Y0), TIMES, (b,), tfirst=True, rtol=1e-9, atol=1e-9).sum()

    expected = bs.grad(by_argument, (0, 1))(1.2, 0.7)
    for f in (by_closure, by_both):
        np.testing.assert_allclose(f(1.2, 0.7), by_argument(1.2, 0.7), rtol=1e-6)
        np.testing.assert_allclose(bs.grad(f, (0, 1))(1.2, 0.7), expected, rtol=1e-6)
        np.testing.assert_allclose(bs.jit(bs.grad(f, (0, 1)))(1.2, 0.7), expected, rtol=1e-6)
        along = bs.jvp(f, (1.2, 0.7), (1.0, 0.5))[1]
        np.testing.assert_allclose(along, np.dot(expected, (1.0, 0.5)), rtol=1e-6)
    grads = bs.vmap(bs.grad(by_closure), (0, None))(np.array([1.2, 1.3]), 0.7)
    np.testing.assert_allclose(grads[0], expected[0], rtol=1e-6)
    again = bs.grad(lambda a: bs.grad(by_closure)(a, 0.7))(1.2)
    by_hand = bs.grad(lambda a: bs.grad(by_argument)(a, 0.7))(1.2)
    np.testing.assert_allclose(again, by_hand, rtol=1e-5)


def test_what_odeint_refuses():
    with pytest.raises(TypeError, match="takes the options"):
        odeint(pendulum, bs.tensor(Y0), TIMES, (1.0, 0.1), full_output=True)
    with pytest.raises(TypeError, match="real numbers"):
        odeint(pendulum, bs.tensor(Y0 + 0j), TIMES, (1.0, 0.1))
    with pytest.raises(ValueError, match="vector t"):
        odeint(pendulum, bs.tensor(Y0), 1.0, (1.0, 0.1))
    with pytest.raises(ArithmeticError, match="did not arrive"):
        odeint(lambda y, t: y * y, bs.tensor(np.ones(1)), np.array([0.0, 2.0]))
    assert bs.scipy.integrate.quad is scipy.integrate.quad


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("special.logsumexp", lambda x: scipy.special.logsumexp(x)),
        ("linalg.sqrtm", lambda x: scipy.linalg.sqrtm(np.diag(x))),
        ("signal.convolve", lambda x: scipy.signal.convolve(x, x)),
    ],
)
def test_a_function_of_scipys_own_names_ours(name, f):
    for differentiate in (bs.jacobian, bs.jit):
        with pytest.raises(
            bs.errors.BacksolveError, match=rf"plain arrays: write bs\.scipy\.{name}\n"
        ):
            differentiate(f)(np.ones(3))
    assert callable(operator.attrgetter(name)(bs.scipy))


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda x: scipy.integrate.quad(lambda s: x[0] * s, 0, 1)[0], "scipy.integrate.quad takes plain"),
        (lambda x: scipy.linalg.qz(np.diag(x), np.eye(3))[0], "see whether bs.scipy has it"),
        (lambda x: scipy.stats.norm.logpdf(x), "scipy.stats takes plain arrays: write it in"),
        (lambda x: scipy.sparse.eye_array(3) * x, "A @ x and x @ A"),
        (lambda x: x * scipy.sparse.eye_array(3), "csr_array|dia_array is a sparse matrix"),
        (lambda x: scipy.optimize.newton_krylov(lambda s: s - x, np.zeros(3)), "bs.root"),
    ],
)  # fmt: skip
def test_a_function_of_scipys_that_we_lack_says_what_to_do(f, says):
    with pytest.raises(bs.errors.BacksolveError, match=says) as caught:
        bs.jacobian(f)(np.ones(3))
    assert "write bs.scipy" not in str(caught.value)


@pytest.mark.parametrize("name", ["bisect", "brenth", "brentq", "ridder", "toms748"])
def test_roots_between_ends_say_what_has_a_derivative(name):
    """Their loops are C code, where an exception that float(f(x)) raises is lost."""
    find = getattr(scipy.optimize, name)
    message = rf"scipy\.optimize\.{name} takes plain arrays: bs\.root"
    with pytest.raises(bs.errors.DroppedDerivativeError, match=message):
        bs.grad(lambda a: find(lambda x: x**3 - a, 0.0, 5.0))(8.0)
    a = bs.tensor(8.0, requires_grad=True)
    with pytest.raises(bs.errors.DroppedDerivativeError, match=message):
        find(lambda x, a: x**3 - a, 0.0, 5.0, args=(a,))
    assert bs.grad(lambda a: bs.root(lambda x: x**3 - a, 1.0))(8.0) == pytest.approx(1 / 12)


SOLVED = {
    "fsolve": lambda a: scipy.optimize.fsolve(lambda x: x**3 - a, 1.0)[0],
    "root": lambda a: scipy.optimize.root(lambda x, a: x**3 - a, 1.0, args=(a,)).x[0],
    "leastsq": lambda a: scipy.optimize.leastsq(lambda x: np.stack([x[0] - a]), [1.0])[0][0],
    "curve_fit": lambda a: scipy.optimize.curve_fit(
        lambda t, b: a * b * t, np.arange(4.0), np.ones(4)
    )[0][0],
}


@pytest.mark.parametrize("name", SOLVED)
def test_what_minpack_solves_says_what_has_a_derivative(name, capfd):
    """It is C code: an exception that asking f(x) for an array raises is printed and lost."""
    message = rf"scipy\.optimize\.{name} takes plain arrays: bs\.root"
    with pytest.raises(bs.errors.DroppedDerivativeError, match=message):
        bs.grad(SOLVED[name])(8.0)
    with pytest.raises(bs.errors.TracedValueError, match=message):
        bs.jit(SOLVED[name])(8.0)
    assert capfd.readouterr().err == ""
    x = scipy.optimize.fsolve(lambda x: np.atleast_1d(bs.tensor(x) ** 3 - 8), 1.0)
    np.testing.assert_allclose(x, [2.0])  # nothing to lose


@pytest.mark.parametrize("name", ["bisect", "brenth", "brentq", "ridder"])
def test_roots_do_not_move_with_the_ends_of_the_search(name):
    find = getattr(scipy.optimize, name)
    value, slope = bs.value_and_grad(lambda b: b * find(lambda x: x**3 - 8, b - 5, b))(5.0)
    np.testing.assert_allclose([value, slope], [10, 2])


def test_odeint_at_its_beginning_alone():
    """SciPy gives y0 there, with a warning."""
    run = lambda y0: bs.scipy.integrate.odeint(lambda y, t: -y, y0, np.array([0.5]))
    np.testing.assert_array_equal(bs.jacobian(run)(np.ones(2)), np.eye(2)[None])
