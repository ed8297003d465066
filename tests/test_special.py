"""Special functions: derivatives against mpmath where formulas would cancel; SciPy's on Tensors."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special as sp

import backsolve as bs
from backsolve.errors import NotDifferentiableError, UnsupportedError
from backsolve.numpy import special
from backsolve.testing import check_grads


def nth(f: Any, n: int) -> Any:
    for _ in range(n):
        f = bs.grad(f)
    return f


# name -> (ours, mpmath's, places); the rows' own tests cover the ordinary ones
TWO = mp.mpf("2.5")
CASES: dict[str, Any] = {
    "erfcx": (sp.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), [-2, 0, 0.99, 1.01, 10, 1e4]),
    "dawsn": (
        sp.dawsn,
        lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
        [-9, 0, 2, 6.9, 7.1, 1e3],
    ),
    "rgamma": (sp.rgamma, mp.rgamma, [-3, -2.5, 0, 0.5, 3.5]),
    "log_ndtr": (sp.log_ndtr, lambda x: mp.log(mp.ncdf(x)), [-100, -5, 0, 8]),
    "exprel": (sp.exprel, lambda x: mp.expm1(x) / x, [-50, -1e-3, 1e-8, 2, 30]),
    "boxcox, λ": (lambda t: sp.boxcox(2.5, t), lambda t: (TWO**t - 1) / t, [-2, 1e-6, 3]),
    "inv_boxcox, λ": (
        lambda t: sp.inv_boxcox(0.5, t),
        lambda t: (1 + t / 2) ** (1 / t),
        [-0.5, 1e-2, 3],
    ),
    "spence": (sp.spence, lambda z: mp.polylog(2, 1 - z), [0.1, 0.999, 1.0001, 1.6, 10]),
    "ellipk": (sp.ellipk, mp.ellipk, [-20, -0.6, 1e-5, 0.45, 0.55, 0.999]),
    "ellipe": (sp.ellipe, mp.ellipe, [-20, -0.6, 1e-5, 0.45, 0.55, 0.999]),
    "expn(0, x)": (lambda x: sp.expn(0, x), lambda x: mp.expint(0, x), [0.5, 4]),
    "expn(2, x)": (lambda x: sp.expn(2, x), lambda x: mp.expint(2, x), [0.5, 4]),
    "i0": (sp.i0, lambda x: mp.besseli(0, x), [-2, 0, 30]),
    "i1": (sp.i1, lambda x: mp.besseli(1, x), [-2, 0, 30]),
    "j1": (sp.j1, lambda x: mp.besselj(1, x), [-2, 0, 30]),
    "jv(3.5, x)": (lambda x: sp.jv(3.5, x), lambda x: mp.besselj(3.5, x), [0.1, 30]),
    "y1": (sp.y1, lambda x: mp.bessely(1, x), [0.1, 30]),
    "k1": (sp.k1, lambda x: mp.besselk(1, x), [0.1, 100]),
    "i0e": (sp.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), [-3, 0.5, 24.9, 25.1, 1e6]),
    "ive(2.5, x)": (
        lambda x: sp.ive(2.5, x),
        lambda x: mp.exp(-x) * mp.besseli(2.5, x),
        [0.5, 31, 32, 1e6],
    ),
    "k1e": (sp.k1e, lambda x: mp.exp(x) * mp.besselk(1, x), [0.01, 24.9, 26.1, 1e6]),
    "pseudo_huber, δ": (
        lambda d: sp.pseudo_huber(d, 0.5),
        lambda d: d * d * (mp.sqrt(1 + (1 / (2 * d)) ** 2) - 1),
        [0.01, 1, 100],
    ),
    "betainc, x": (
        lambda x: sp.betainc(2.5, 0.75, x),
        lambda x: mp.betainc(2.5, 0.75, 0, x, regularized=True),
        [0.001, 0.99],
    ),
    "stdtr, t": (
        lambda t: sp.stdtr(3.0, t),
        lambda t: 1 - mp.betainc(1.5, 0.5, 0, 3 / (3 + t * t), regularized=True) / 2,
        [0.5, 50],
    ),
    "zeta, q": (lambda q: special.zeta(3.0, q), lambda q: mp.zeta(3, q), [0.5, 100]),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_to_the_third(name: str) -> None:
    f, exact, places = CASES[name]
    with mp.workdps(40):
        for x in map(float, places):
            for n in (1, 2, 3):
                want = mp.diff(exact, mp.mpf(x), n)
                got = float(nth(f, n)(x))
                error = abs(got - want) / (abs(want) or 1)
                assert error < (1e-13, 2e-12, 2e-10)[n - 1], (x, n, got, float(want))


@pytest.mark.parametrize("x", [1e-12, 1e-3, 0.2, 0.31, 1.5, 8.0, 45.0])
def test_gammainc_in_its_shape(x: float) -> None:
    for a in (1e-3, 0.3, 2.0, 8.0, 50.0):
        with mp.workdps(60):
            h = mp.mpf(a) * mp.mpf(10) ** -20
            upper = x > a  # the smaller tail: the larger one is all ones

            def exact(s: Any, upper: bool = upper) -> Any:
                ends = (mp.mpf(x), mp.inf) if upper else (0, mp.mpf(x))
                return mp.gammainc(s, *ends, regularized=True)

            below, here, above = (exact(mp.mpf(a) + k * h) for k in (-1, 0, 1))
            first, second = (above - below) / (2 * h), (above - 2 * here + below) / h**2
        f = lambda s, upper=upper: (sp.gammaincc if upper else sp.gammainc)(s, x)
        if abs(first) > 1e-290:
            np.testing.assert_allclose(nth(f, 1)(a), float(first), rtol=2e-12)
            scale = abs(float(first)) * max(1.0, 1 / a)
            np.testing.assert_allclose(nth(f, 2)(a), float(second), rtol=1e-9, atol=1e-11 * scale)


def test_gammainc_in_both_at_zero() -> None:
    assert bs.grad(sp.gammainc)(2.0, 0.0) == 0
    check_grads(sp.gammainc, (np.array([0.5, 2.0, 30.0]), np.array([0.1, 3.0, 20.0])), order=2)


@pytest.mark.parametrize(
    ("f", "argument"),
    [
        (lambda v: sp.jv(v, 1.0), "v"),
        (lambda v: sp.kve(v, 1.0), "v"),
        (lambda n: sp.expn(n, 1.0), "n"),
        (lambda a: sp.betainc(a, 1.0, 0.5), "a"),
        (lambda b: sp.betainc(1.0, b, 0.5), "b"),
        (lambda s: special.zeta(s, 2.0), "x"),
        (lambda s: sp.zeta(s), "x"),
        (lambda s: bs.numpy.zeta(s), "x"),
        (lambda df: sp.stdtr(df, 2.0), "df"),
        (lambda n: special.polygamma(n, 2.0), "n"),
    ],
)
def test_an_argument_without_derivative_is_named(f: Any, argument: str) -> None:
    with pytest.raises(NotDifferentiableError, match=f"with respect to `{argument}`"):
        bs.grad(f)(2.0)


@pytest.mark.parametrize(
    "zeta", [sp.zeta, special.zeta, bs.numpy.zeta], ids=["scipy", "special", "numpy"]
)
def test_zeta_of_one_argument_is_riemanns(zeta: Any) -> None:
    x = np.array([-1.0, 0.5, 2.0, 3.0])
    np.testing.assert_allclose(zeta(bs.tensor(x)).value, [float(mp.zeta(v)) for v in x], rtol=1e-13)
    np.testing.assert_array_equal(zeta(x), sp.zeta(x))
    np.testing.assert_allclose(bs.jit(lambda x: zeta(x))(x[2:]), sp.zeta(x[2:]), rtol=1e-13)
    by_q = bs.grad(lambda q: zeta(3.0, q))
    np.testing.assert_allclose([by_q(2.0), bs.jit(by_q)(2.0)], -3 * sp.zeta(4.0, 2.0), rtol=1e-13)


def test_scaled_bessel_functions_of_complex_numbers_are_not_analytic() -> None:
    with pytest.raises(NotDifferentiableError, match="analytic"):
        bs.jvp(lambda z: sp.ive(1, z), (1 + 1j,), (1 + 0j,))


def test_kinks() -> None:
    """e^−|x| I_v at 0: the mean of both sides."""
    assert bs.grad(sp.i0e)(0.0) == 0
    np.testing.assert_allclose(bs.grad(sp.i1e)(0.0), 0.5)
    with np.errstate(divide="ignore"):
        assert bs.grad(sp.entr)(0.0) == np.inf


# ---- functions that are no ufuncs

X = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("logsumexp", (X,), {}),
        ("logsumexp", (X,), {"axis": 1, "keepdims": True}),
        ("logsumexp", (X,), {"axis": 0, "b": np.array([1.0, 2.0, 0.5])}),
        ("logsumexp", (X,), {"axis": -1, "b": np.array([1.0, -2.0, 0.5]), "return_sign": True}),
        ("softmax", (X,), {}),
        ("softmax", (X,), {"axis": 0}),
        ("log_softmax", (X,), {"axis": 1}),
        ("multigammaln", (X + 3.0,), {"d": 3}),
        ("sinc", (X,), {}),
        ("zeta", (3.0, X + 2.0), {}),
        ("polygamma", (2, X + 2.0), {}),
    ],
)
def test_functions_of_scipys(name: str, args: Any, options: Any) -> None:
    expected = getattr(sp, name)(*args, **options)
    *orders, x = args
    f = lambda x: getattr(special, name)(*orders, x, **options)
    assert type(f(x)) is type(expected)  # on arrays SciPy itself
    for got, want in zip(_list(f(bs.tensor(x))), _list(expected), strict=True):
        np.testing.assert_allclose(got.value, want, rtol=1e-13)
    for got, want in zip(_list(bs.jit(f)(x)), _list(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    check_grads(lambda x: _list(f(x))[0], (x,), order=2)


def _list(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


def test_logsumexp_of_large_numbers() -> None:
    b = np.array([1.0, 3.0])
    y, g = bs.value_and_grad(lambda x: special.logsumexp(x, b=b))(np.array([1e4, 1e4]))
    np.testing.assert_allclose(y, 1e4 + np.log(4))
    np.testing.assert_allclose(g, [0.25, 0.75])


def test_polygamma_takes_one_order() -> None:
    with pytest.raises(UnsupportedError, match="one order"):
        special.polygamma([1, 2], bs.tensor([1.0, 2.0]))


@pytest.mark.parametrize("name", ["cbrt", "exp2", "exp10", "expm1", "log1p", "jn", "psi", "expit"])
def test_ufuncs_of_scipys_that_are_rows_of_ours(name: str) -> None:
    f = getattr(sp, name)
    g = (lambda x: f(2, x)) if name == "jn" else f
    x = np.array([0.3, 1.7])
    np.testing.assert_allclose(g(bs.tensor(x)).value, g(x), rtol=1e-15)
    assert getattr(special, name) is f
    check_grads(g, (x,), order=2)


# ---- compiled: by the pointers that SciPy exports, or called back


@pytest.mark.parametrize(
    "f",
    [
        lambda x: sp.erfcx(x) * sp.log_ndtr(-x),
        lambda x: sp.jv(1.5, x) + sp.kv(2, x),
        lambda x: sp.betainc(2.0, 3.0, x / 4),
        lambda x: sp.hyp2f1(1.0, 2.0, 3.5, x / 4),
        lambda x: sp.gammainc(x, 2.0),
        lambda x: sp.i0e(x) * sp.exp10(x),
    ],
)
def test_compiled_gradients(f: Any) -> None:
    x = np.array([0.2, 1.1, 3.0])
    g = bs.grad(lambda x: np.sum(f(x)))
    np.testing.assert_allclose(bs.jit(f)(x), f(x), rtol=1e-13)
    np.testing.assert_allclose(bs.jit(g)(x), g(x), rtol=1e-12)
    rows = bs.jit(bs.vmap(bs.grad(f)))(x)
    np.testing.assert_allclose(rows, g(x), rtol=1e-12)
