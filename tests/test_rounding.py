"""Bounds of rounding errors through softmax, norms, linear systems and factors, beside mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.special

import backsolve as bs
from backsolve.errors import UnsupportedError
from backsolve.nn import functional as F  # noqa: N812

_rng = np.random.default_rng(0)
N = 5
HILBERT = scipy.linalg.hilbert(N)  # condition number 5e5
TURN = _rng.normal(size=(N, N)) * 1e-3
TURN = TURN + TURN.T
W = _rng.normal(size=(N, N))
B, C = _rng.normal(size=(2, N))
LARGE = np.array([700.0, 690.0, 650.0, -20.0, 699.0])  # far apart: shifts lose digits


def exact(a: Any) -> Any:
    return mpmath.matrix(a.tolist())


def weighed(w: Any, m: Any) -> Any:
    """Σ w m."""
    rows, columns = np.atleast_2d(w).shape
    return sum(
        mpmath.mpf(float(np.atleast_2d(w)[i, j])) * (m[i, j] if np.ndim(w) == 2 else m[j])
        for i in range(rows)
        for j in range(columns)
    )


def matrix(x: Any) -> Any:
    return exact(HILBERT) + x * exact(TURN)


def shares(x: Any) -> Any:
    e = [mpmath.exp(mpmath.mpf(float(a)) * x) for a in LARGE]
    return [t / sum(e) for t in e]


def products(x: Any) -> Any:
    factors = [mpmath.mpf(float(b)) + x for b in B]
    return [mpmath.fprod(factors[: j + 1]) for j in range(N)]


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    # in NumPy, in mpmath, how many times the error the bound may be
    "softmax": (
        lambda x: C @ F.softmax(LARGE * x, 0),
        lambda x: weighed(C, shares(x)),
        50,  # all entries may move together without effect
    ),
    "log_softmax": (
        lambda x: C @ F.log_softmax(LARGE * x, 0),
        lambda x: weighed(C, [mpmath.log(s) for s in shares(x)]),
        60,
    ),
    "logsumexp": (
        lambda x: bs.numpy.logsumexp(LARGE * x),
        lambda x: mpmath.log(sum(mpmath.exp(mpmath.mpf(float(a)) * x) for a in LARGE)),
        20,
    ),
    "prod": (lambda x: np.prod(B + x), lambda x: products(x)[-1], 60),
    "cumprod": (
        lambda x: C @ np.sin(np.cumprod(B + x)),
        lambda x: weighed(C, [mpmath.sin(p) for p in products(x)]),
        60,
    ),
    "norm": (
        lambda x: np.linalg.norm(LARGE * x - 3.0) - 1e3 * x,
        lambda x: (
            mpmath.sqrt(sum((mpmath.mpf(float(a)) * x - 3) ** 2 for a in LARGE)) - 1000 * x
        ),
        60,
    ),
    "solve": (
        lambda x: C @ np.linalg.solve(HILBERT + x * TURN, B),
        lambda x: weighed(C, mpmath.lu_solve(matrix(x), exact(B))),
        1000,
    ),
    "triangular_solve": (
        lambda x: C @ bs.numpy.linalg.solve_triangular(np.triu(HILBERT + x * TURN), B),
        lambda x: weighed(
            C,
            mpmath.lu_solve(
                mpmath.matrix(N, N) + _upper(matrix(x)), exact(B)
            ),
        ),
        200,
    ),
    "inv": (
        lambda x: np.sum(W * np.linalg.inv(HILBERT + x * TURN)),
        lambda x: weighed(W, mpmath.inverse(matrix(x))),
        10_000,
    ),
    "cholesky": (
        lambda x: np.sum(W * np.linalg.cholesky(HILBERT + 1e-3 * x * TURN)),
        lambda x: weighed(W, mpmath.cholesky(exact(HILBERT) + x * exact(1e-3 * TURN))),
        200,
    ),
    "log det": (
        lambda x: np.linalg.slogdet(HILBERT + x * TURN)[1],
        lambda x: mpmath.log(abs(mpmath.det(matrix(x)))),
        1500,
    ),
}  # fmt: skip


def _upper(m: Any) -> Any:
    return mpmath.matrix([[m[i, j] if j >= i else 0 for j in range(N)] for i in range(N)])


@pytest.mark.parametrize("name", CASES)
def test_the_bound_holds_and_is_not_absurd(name: str) -> None:
    g, of_mpmath, slack = CASES[name]
    errors, bounds = [], []
    with mpmath.workdps(60):
        for x in np.linspace(0.1, 0.2, 12):
            found = bs.rounding(g, float(x))
            np.testing.assert_allclose(found.gradient, bs.grad(g)(float(x)), rtol=1e-6)
            true = mpmath.diff(of_mpmath, mpmath.mpf(float(x)))
            errors.append(float(abs(mpmath.mpf(float(found.gradient)) - true)))
            bounds.append(float(found.bound))
    assert all(e <= b for e, b in zip(errors, bounds, strict=True))
    assert max(bounds) < slack * max(errors)


def test_the_bound_of_a_system_grows_with_its_condition() -> None:
    def bound(n: int) -> float:
        A = scipy.linalg.hilbert(n)
        found = bs.rounding(lambda b: np.sum(np.linalg.solve(A, b)), np.ones(n))
        return float(np.max(found.bound / np.abs(found.gradient)))

    sizes = [bound(n) / np.linalg.cond(scipy.linalg.hilbert(n)) for n in (3, 6, 9)]
    assert all(1e-17 < s < 1e-14 for s in sizes)


def test_a_network_with_cross_entropy() -> None:
    """A bound for every weight; the gradient in single precision stays inside of its own."""
    x, w = _rng.normal(size=(6, 4)), _rng.normal(size=(4, 3))

    def loss(w: Any, x: Any) -> Any:
        return -np.mean(F.log_softmax(np.tanh(x @ w), 1)[:, 0])

    single = bs.rounding(loss, w.astype(np.float32), x.astype(np.float32))
    exact = bs.grad(loss)(w.astype(np.float32).astype(float), x.astype(np.float32).astype(float))
    assert np.all(np.abs(single.gradient - exact) <= single.bound)
    assert np.all(single.bound < 1e-4)


@pytest.mark.parametrize("shape", [(5,), (3, 40), (3, 300), (1000,)])  # some in log depth
def test_running_products_in_single_precision(shape: tuple[int, ...]) -> None:
    a = 1 + 0.3 * _rng.normal(size=shape) / np.sqrt(shape[-1])
    b = _rng.normal(size=shape)
    f = lambda a, b: np.sum(b * np.cumprod(a, axis=-1))
    single = bs.rounding(f, a.astype(np.float32), b.astype(np.float32))
    exact = bs.grad(f)(a.astype(np.float32).astype(float), b.astype(np.float32).astype(float))
    assert np.all(np.abs(single.gradient - exact) <= single.bound)


def test_running_products_that_are_0_are_exact() -> None:
    found = bs.rounding(lambda x: np.sum(np.cumprod(x)), np.array([3.0, 0.0, 0.3, 0.7]))
    assert found.gradient.tolist() == [1, 3 * (1 + 0.3 + 0.3 * 0.7), 0, 0]
    assert found.bound[0] < 1e-15 < found.bound[1] < 1e-14
    assert found.bound[2:].tolist() == [0, 0]


def test_calls_without_blocks_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="an implicit, checkpointed or hand-written call"):
        bs.rounding(lambda p: bs.root(lambda x, p: x**3 - p, 1.0, p), 8.0)


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "a product's imaginary part": lambda z: np.imag(np.sum(z * z)),
    "moduli": lambda z: np.sum(np.abs(z * z) ** 3),
    "a running product": lambda z: np.sum(np.abs(np.cumprod(z))),
    "a quotient": lambda z: np.real(np.sum(1j * z / (z + 2))),
    "exp and conjugate": lambda z: np.sum(np.real(np.exp(z) * np.conj(z)[::-1])),
    "a matrix": lambda z: np.imag(z @ ((1 + 2j) * W.astype(z.dtype)) @ z),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_rows_are_bounded_by_moduli(name: str) -> None:
    """In single precision, beside double: of imaginary adjoints nothing is lost."""
    f = COMPLEX[name]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = (rng.normal(size=N) + 1j * rng.normal(size=N)).astype(np.complex64)
        found = bs.rounding(f, z)
        error = np.abs(found.gradient - bs.grad(f)(z.astype(np.complex128)))
        assert found.gradient.dtype == np.complex64
        assert (error <= found.bound).all()
        assert (found.bound <= 300 * np.finfo(np.float32).eps * np.abs(found.gradient).max()).all()
        assert (found.bound > 0).all()


NEAR_ROOTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "logaddexp": (
        lambda x: np.logaddexp(x, -1.0),
        lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(-1)),
        -0.45867514538708193,
    ),
    "gammaln": (scipy.special.gammaln, mpmath.loggamma, 1.0000000000000002),
    "digamma": (scipy.special.digamma, mpmath.digamma, 1.4616321449683623),
    "j0": (scipy.special.j0, mpmath.j0, 14.930917708487787),
    "y1": (scipy.special.y1, lambda x: mpmath.bessely(1, x), 2.197141326031017),
    "expi": (scipy.special.expi, mpmath.ei, 0.3725074107813666),
    "rel_entr": (
        lambda x: scipy.special.rel_entr(x, 0.75),
        lambda x: x * mpmath.log(x / 0.75),
        0.7500000000000002,
    ),
    "erfc": (scipy.special.erfc, mpmath.erfc, 8.7052031948319),
    "log_ndtr": (
        scipy.special.log_ndtr,
        lambda x: mpmath.log(mpmath.ncdf(x)),
        8.01048943049205,
    ),
    "airy": (lambda x: scipy.special.airy(x)[0], mpmath.airyai, 2.0891952312845437),
}


@pytest.mark.parametrize("name", NEAR_ROOTS)
def test_functions_that_lose_digits_near_roots_and_far_out(name: str) -> None:
    """The derivative by p of p f(x) is f(x), as it was computed."""
    f, exact, x = NEAR_ROOTS[name]
    found = bs.rounding(lambda p, x: p * f(x), 1.0, x, argnums=(0, 1))
    with mpmath.workdps(50):
        error = abs(mpmath.mpf(float(found.gradient[0])) - exact(mpmath.mpf(x)))
    assert error <= found.bound[0] <= 1e-12 * max(1, abs(found.gradient[0]))


@pytest.mark.parametrize(
    "f", [lambda x: scipy.special.kl_div(x, 0.7), lambda x: scipy.special.pseudo_huber(1.5, x)]
)
def test_formulas_that_cancel_inside_are_refused(f: Any) -> None:
    with pytest.raises(UnsupportedError, match="is not known"):
        bs.rounding(lambda p, x: p * f(x), 1.0, 0.6, argnums=(0, 1))


def test_errors_do_not_vanish_in_a_stop_gradient() -> None:
    with pytest.raises(UnsupportedError, match="stop_gradient has none"):
        bs.rounding(lambda x: x * bs.stop_gradient((1 - np.cos(x)) / x**2), 1e-4)
    found = bs.rounding(lambda x: x * bs.stop_gradient(x), 0.1)
    assert (found.gradient, found.bound < 1e-16) == (0.1, True)
