"""Curvature where outputs or parameters are complex: beside dense matrices over the reals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import DTypeError, UnsupportedError

RNG = np.random.default_rng(0)
A = RNG.normal(size=(5, 3)) + 1j * RNG.normal(size=(5, 3))
REAL, COMPLEX = RNG.normal(size=3), RNG.normal(size=3) + 1j * RNG.normal(size=3)
V = {"real": RNG.normal(size=3), "complex": RNG.normal(size=3) + 1j * RNG.normal(size=3)}


def waves(p: Any) -> Any:
    return np.tanh(A @ p)


def squares(z: Any) -> Any:
    return np.sum(np.abs(z) ** 2)


def bent(z: Any) -> Any:
    return np.sum(np.exp(np.real(z)) + np.imag(z) ** 2 + 0.3 * np.real(z) * np.imag(z))


def apart(z: Any) -> Any:
    return np.concatenate([np.real(z), np.imag(z)]) if np.iscomplexobj(z) else z


def dense(loss: Any, at: Any) -> Any:
    """Jᵀ H J, real and imaginary parts as numbers of their own."""
    whole = (lambda q: q[:3] + 1j * q[3:]) if np.iscomplexobj(at) else (lambda q: q)

    def outputs(q: Any) -> Any:
        z = waves(whole(q))
        return np.concatenate([np.real(z), np.imag(z)])

    J = bs.jacobian(outputs)(apart(at))
    H = bs.hessian(lambda y: loss(y[:5] + 1j * y[5:]))(outputs(apart(at)))
    return J.T @ H @ J


@pytest.mark.parametrize("loss", [squares, bent])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_products_and_solutions(loss: Any, kind: str) -> None:
    at, v = (REAL if kind == "real" else COMPLEX), V[kind]
    D, G = dense(loss, at), bs.gauss_newton(waves, loss)(at)
    np.testing.assert_allclose(apart(G @ v), D @ apart(v), rtol=1e-10)
    expected = np.linalg.solve(D + 0.5 * np.eye(len(D)), apart(v))
    np.testing.assert_allclose(apart(G.solve(v, damping=0.5)), expected, rtol=1e-7)
    inside = bs.jit(lambda p, v: bs.gauss_newton(waves, loss)(p).solve(v, damping=0.5))
    np.testing.assert_allclose(apart(inside(at, v)), expected, rtol=1e-7)
    F = bs.fisher(waves, loss)(at)
    np.testing.assert_allclose(apart(F @ v), D @ apart(v), rtol=1e-10)


@pytest.mark.parametrize("loss", [squares, bent])
def test_diagonals_of_complex_outputs(loss: Any) -> None:
    G, D = bs.gauss_newton(waves, loss)(REAL), dense(loss, REAL)
    np.testing.assert_allclose(G.diagonal(), np.diagonal(D), rtol=1e-10)
    np.testing.assert_allclose(G.trace(), np.trace(D), rtol=1e-10)
    np.testing.assert_allclose(G.dense(), D, rtol=1e-10)


def test_some_outputs_are_complex() -> None:
    model = lambda p: {"z": A @ p["w"], "n": np.sum(p["w"] ** 2)}
    loss = lambda out: np.sum(np.abs(out["z"]) ** 2) * out["n"]
    G = bs.gauss_newton(model, loss)({"w": REAL})
    D = G.dense()
    np.testing.assert_allclose(D, D.T, rtol=1e-10)
    np.testing.assert_allclose(G.diagonal()["w"], np.diagonal(D), rtol=1e-10)


def test_what_is_of_real_numbers_alone() -> None:
    G = bs.gauss_newton(lambda p: A[:3] @ p, squares)(
        COMPLEX
    )  # holomorphic: no Jacobian would complain
    for ask in (G.diagonal, G.trace, G.kfac):
        with pytest.raises(UnsupportedError, match="real and imaginary part"):
            ask()
    with pytest.raises(UnsupportedError, match="real outputs"):
        bs.gauss_newton(waves, squares)(REAL).kfac()
    with pytest.raises(DTypeError, match="must be real where its parameter is"):
        bs.gauss_newton(waves, squares)(REAL).solve(COMPLEX)


def test_kfac_of_layers_that_are_complex_inside() -> None:
    X = RNG.normal(size=(6, 3)) + 1j * RNG.normal(size=(6, 3))
    model = lambda p: np.abs(X @ p["w"].T + p["b"]) ** 2
    p = {"w": RNG.normal(size=(2, 3)), "b": RNG.normal(size=2)}
    G = bs.gauss_newton(model, lambda z: np.sum(z**3))(p)
    K, D = G.kfac().dense(), G.dense()
    np.testing.assert_allclose(K[:6, :6], D[:6, :6], rtol=1e-10)
    np.testing.assert_allclose(K[6:, 6:], D[6:, 6:], rtol=1e-10)


def test_derivatives_of_complex_solutions() -> None:
    H = bs.hessian_operator(lambda z: np.sum(np.abs(z) ** 4))(COMPLEX)
    b = V["complex"]
    found = bs.grad(lambda b: np.sum(np.abs(H.solve(b, tolerance=1e-14)) ** 2))(b)
    np.testing.assert_allclose(
        found, 2 * H.solve(H.solve(b, tolerance=1e-14), tolerance=1e-14), rtol=1e-6
    )
    real = V["real"]
    np.testing.assert_allclose(H @ H.solve(real), real, atol=1e-9)


def test_one_complex_number() -> None:
    G = bs.gauss_newton(lambda p: p * (1 + 2j), squares)(2.0 + 1j)
    assert G @ (1 + 1j) == 10 + 10j
    np.testing.assert_allclose(G.solve(1 + 1j), 0.1 + 0.1j)
