"""Special functions that are composed of others, have several results, or are polynomials."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special as sp

import backsolve as bs
from backsolve.errors import NotDifferentiableError
from backsolve.primitives.integrals import wofz
from backsolve.testing import check_grads

RNG = np.random.default_rng(6)
COUNTS, DEGREES = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0, 1, 2, 5])


def between(low: float, high: float) -> Any:
    return RNG.uniform(low, high, 4)


# name -> constant arguments, those that vary
CALLS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "fresnel": ((), (between(-2, 2),)),
    "sici": ((), (between(0.3, 3),)),
    "shichi": ((), (between(0.3, 3),)),
    "airy": ((), (between(-2, 2),)),
    "ellipj": ((), (between(-3, 6), between(0.1, 0.9))),
    "ellipkinc": ((), (between(-4, 4), between(-2, 0.9))),
    "ellipeinc": ((), (between(-4, 4), between(-2, 0.9))),
    "ellipkm1": ((), (between(0.01, 1.5),)),
    "agm": ((), (between(0.2, 3), between(0.2, 3))),
    "wofz": ((), (between(-3, 3) + 1j * between(-1, 2),)),
    "voigt_profile": ((), (between(-2, 2), between(0.3, 1), between(0.3, 1))),
    "owens_t": ((), (between(-2, 2), between(-2, 2))),
    "sindg": ((), (between(-900, 900),)),
    "cosdg": ((), (between(-900, 900),)),
    "tandg": ((), (between(-80, 80),)),
    "cotdg": ((), (between(10, 170),)),
    "radian": ((), (between(0, 90), between(0, 60), between(0, 60))),
    "nrdtrimn": ((), (between(0.1, 0.9), between(0.5, 2), between(-1, 1))),
    "nrdtrisd": ((), (between(-1, 0), between(0.6, 0.9), between(0.5, 2))),
    "chdtr": ((), (between(1, 4), between(0.5, 4))),
    "chdtrc": ((), (between(1, 4), between(0.5, 4))),
    "chdtri": ((), (between(1, 4), between(0.1, 0.9))),
    "gdtr": ((), (between(0.5, 2), between(0.5, 2), between(0.5, 3))),
    "gdtrc": ((), (between(0.5, 2), between(0.5, 2), between(0.5, 3))),
    "gdtrix": ((), (between(0.5, 2), between(0.5, 2), between(0.1, 0.9))),
    "pdtr": ((COUNTS,), (between(0.5, 4),)),
    "pdtrc": ((COUNTS,), (between(0.5, 4),)),
    "pdtri": ((COUNTS,), (between(0.1, 0.9),)),
    "bdtr": ((COUNTS, np.full(4, 5)), (between(0.1, 0.9),)),
    "bdtrc": ((COUNTS, np.full(4, 5)), (between(0.1, 0.9),)),
    "nbdtr": ((COUNTS, np.full(4, 5)), (between(0.1, 0.9),)),
    "nbdtrc": ((COUNTS, np.full(4, 5)), (between(0.1, 0.9),)),
    "fdtr": ((3.0, 4.0), (between(0.5, 3),)),
    "fdtrc": ((3.0, 4.0), (between(0.5, 3),)),
    "fdtri": ((3.0, 4.0), (between(0.1, 0.9),)),
    "betainccinv": ((2.0, 3.0), (between(0.1, 0.9),)),
    "jve": ((2.5,), (between(0.3, 4),)),
    "yve": ((2.5,), (between(0.3, 4),)),
    "hankel1": ((1.5,), (between(0.3, 4),)),
    "hankel2": ((1.5,), (between(0.3, 4),)),
    "struve": ((1.5,), (between(0.3, 4),)),
    "modstruve": ((1.5,), (between(0.3, 4),)),
    "hyp0f1": ((1.5,), (between(-2, 4),)),
    "hyperu": ((1.5, 1.2), (between(0.3, 4),)),
    "hankel1e": ((1.5,), (between(0.3, 4),)),
    "hankel2e": ((1.5,), (between(0.3, 4),)),
    "wright_bessel": ((0.5, 1.2), (between(0.3, 2),)),
    "itj0y0": ((), (between(0.3, 3),)),
    "iti0k0": ((), (between(0.3, 3),)),
    "itairy": ((), (between(0.3, 2),)),
    "itstruve0": ((), (between(0.3, 3),)),
    "itmodstruve0": ((), (between(0.3, 3),)),
    "kelvin": ((), (between(0.3, 3),)),
    **{name: ((), (between(0.3, 3),)) for name in ("ber", "bei", "berp", "beip")},
    **{name: ((), (between(0.3, 3),)) for name in ("ker", "kei", "kerp", "keip")},
    "gdtria": ((), (between(0.1, 0.9), between(0.5, 2), between(0.5, 3))),
    "bdtri": ((COUNTS, np.full(4, 5)), (between(0.1, 0.9),)),
    "nbdtri": ((COUNTS, np.full(4, 5)), (between(0.1, 0.9),)),
    "eval_jacobi": ((DEGREES, 0.5, 1.5), (between(-0.9, 0.9),)),
    "eval_sh_jacobi": ((DEGREES, 2.5, 1.5), (between(0.1, 0.9),)),
    "eval_gegenbauer": ((DEGREES, 0.7), (between(-0.9, 0.9),)),
    "eval_genlaguerre": ((DEGREES, 0.7), (between(0.1, 3),)),
}
PLAIN = ("legendre", "chebyt", "chebyu", "chebyc", "chebys", "laguerre", "hermite", "hermitenorm")
PLAIN += ("sh_legendre", "sh_chebyt", "sh_chebyu")
CALLS |= {f"eval_{name}": ((DEGREES,), (between(0.1, 0.9),)) for name in PLAIN}


def parts(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize("name", CALLS)
def test_scipys_values_and_two_orders(name: str) -> None:
    constant, args = CALLS[name]

    def f(*args: Any) -> Any:
        return getattr(sp, name)(*constant, *args)

    expected = parts(f(*args))
    eager, compiled = f(*[bs.tensor(a) for a in args]), bs.jit(f)(*args)
    for y, e, c in zip(expected, parts(eager), parts(compiled), strict=True):
        assert e.dtype == c.dtype == y.dtype
        np.testing.assert_allclose(e.value, y, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(c, y, rtol=1e-9, atol=1e-13)
    check_grads(f, args, rtol=1e-5)


@pytest.mark.parametrize("z", [30 + 0.1j, 5 + 5j, 7.1 + 0j, 6.9 + 0.01j, 2 - 1.5j, 1e4 + 3j])
def test_the_faddeeva_function_to_the_third_derivative(z: complex) -> None:
    def exact(z: Any) -> Any:
        return mp.exp(-z * z) * mp.erfc(-1j * z)

    with mp.workdps(60):
        expected = [complex(mp.diff(exact, mp.mpc(z), n, h=mp.mpf(10) ** -18)) for n in (1, 2, 3)]
    got = [wofz(np.asarray(z), n=n) for n in (1, 2, 3)]
    np.testing.assert_allclose(got, expected, rtol=2e-9)


@pytest.mark.parametrize(
    ("phi", "m"), [(1.5, 0.99), (1.57, 0.999999), (3.0, 0.3), (5.0, -4.0), (0.01, 0.9)]
)
def test_incomplete_elliptic_integrals_in_their_parameter(phi: float, m: float) -> None:
    for f, exact in ((sp.ellipkinc, mp.ellipf), (sp.ellipeinc, mp.ellipe)):
        with mp.workdps(40):
            expected = float(mp.diff(lambda m, exact=exact: exact(mp.mpf(phi), m), mp.mpf(m)))
        np.testing.assert_allclose(bs.grad(f, 1)(phi, m), expected, rtol=1e-12)


def test_a_pendulum_swings_by_elliptic_functions() -> None:
    """sn'' = −(1 + m) sn + 2 m sn³, from derivatives in time."""
    m, u = 0.7, 1.3
    sn = lambda u: sp.ellipj(u, m)[0]
    s = sn(u)
    np.testing.assert_allclose(bs.grad(bs.grad(sn))(u), -(1 + m) * s + 2 * m * s**3, rtol=1e-12)


def test_constants_and_kinds() -> None:
    x = np.array([0.5, -0.5, -1.5])
    np.testing.assert_array_equal(bs.jit(sp.gammasgn)(x), sp.gammasgn(x))
    np.testing.assert_array_equal(bs.grad(lambda x: (sp.gammasgn(x) * x).sum())(x), sp.gammasgn(x))
    assert sp.sindg(bs.tensor(180.0)) == 0
    assert bs.grad(lambda x: sp.eval_legendre(0, x))(0.3) == 0
    for f in (lambda n: sp.eval_legendre(n, 0.3), lambda z: sp.jve(1.5, z * (1 + 1j)).real):
        with pytest.raises(NotDifferentiableError):
            bs.grad(f)(2.0)


PLANE = [1.5 + 0.7j, 0.3 - 2j, -0.3 + 2j, -3 + 1e-5j, -7.5 - 0.2j, 40 + 3j, -900 + 0.4j, -5 + 400j]


def along_ones(f: Any) -> Any:
    return lambda z: bs.jvp(f, (z,), (np.ones_like(z),))[1]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_polygamma_of_complex_numbers(n: int) -> None:
    """Which SciPy does not have."""
    z = np.array(PLANE)
    with mp.workdps(40):
        expected = np.array([complex(mp.psi(n, mp.mpc(v))) for v in PLANE])
    f = sp.psi
    for _ in range(n):
        f = along_ones(f)
    np.testing.assert_allclose(f(z), expected, rtol=1e-13)
    np.testing.assert_allclose(bs.jit(f)(z), expected, rtol=1e-13)
    np.testing.assert_allclose(bs.vmap(f)(z), expected, rtol=1e-13)
    single = f(z.astype(np.complex64))
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single[[0, 1, 5]], expected[[0, 1, 5]], rtol=1e-5)


def test_second_derivatives_of_gamma_functions_of_complex_numbers() -> None:
    z, h = PLANE[0], 1e-5
    trigamma = complex(mp.psi(1, mp.mpc(z)))
    np.testing.assert_allclose(bs.jacobian(bs.jacobian(sp.loggamma))(z), trigamma, rtol=1e-14)
    np.testing.assert_allclose(bs.jacobian(sp.digamma)(z), trigamma, rtol=1e-14)
    slope = bs.jacobian(sp.gamma)
    by_differences = (slope(z + h) - slope(z - h)) / (2 * h)
    np.testing.assert_allclose(bs.jacobian(slope)(z), by_differences, rtol=1e-9)
