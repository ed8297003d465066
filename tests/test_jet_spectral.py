"""Series of spectra, their vectors and determinants: against nested forward mode, and mpmath."""

from __future__ import annotations

from math import factorial
from typing import Any

import mpmath
import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import NotDifferentiableError
from backsolve.ir import Type
from backsolve.trace import stage

RNG = np.random.default_rng(5)
REAL = RNG.normal(size=(3, 4, 4))
COMPLEX = REAL + 1j * RNG.normal(size=(3, 4, 4))


def curve(t: Any, kind: str, shape: tuple[int, int] = (4, 4)) -> Any:
    """A matrix that is no polynomial of t."""
    a, b, c = (REAL if kind == "real" else COMPLEX)[:, : shape[0], : shape[1]]
    return a + np.sin(t) * b + np.exp(0.5 * t) * c * 0.5 + 2 * np.eye(*shape)


def eigh(t: Any, kind: str, UPLO: str) -> Any:
    w, v = np.linalg.eigh(curve(t, kind), UPLO)
    return np.concatenate([w[None], v])


def svd(t: Any, kind: str, shape: tuple[int, int]) -> Any:
    u, s, vh = np.linalg.svd(curve(t, kind, shape), full_matrices=False)
    return np.concatenate([u, s[None], np.conjugate(vh.T)])


CASES = {
    **{
        f"eigh {kind} {side}": lambda t, k=kind, s=side: eigh(t, k, s)
        for kind in ("real", "complex")
        for side in "LU"
    },
    **{
        f"svd {kind} {shape}": lambda t, k=kind, s=shape: svd(t, k, s)
        for kind in ("real", "complex")
        for shape in ((3, 3), (4, 2), (2, 4))
    },
    "eigvalsh": lambda t: np.linalg.eigvalsh(curve(t, "complex")),
    "eigvals": lambda t: np.linalg.eigvals(curve(t, "real")),
    "svdvals": lambda t: np.linalg.svd(curve(t, "complex", (4, 3)), compute_uv=False),
    "det": lambda t: np.linalg.det(curve(t, "real")),
    "det complex": lambda t: np.linalg.det(curve(t, "complex")),
    "det 1": lambda t: np.linalg.det(curve(t, "real", (1, 1))),
    "stack": lambda t: np.linalg.eigvalsh(np.stack([curve(t, "real"), curve(2 * t, "real")])),
    "dets": lambda t: np.linalg.det(np.stack([curve(t, "real"), curve(2 * t, "real")])),
}


def slopes(f: Any, t: float, order: int) -> list[Any]:
    found = []
    for _ in range(order):
        f = lambda t, g=f: bs.jvp(g, (t,), (1.0,))[1]
        found.append(f(t))
    return found


def along(f: Any, order: int) -> Any:
    return lambda t: bs.jet(f, (t,), [[1.0, *[0.0] * (order - 1)]])[1]


@pytest.mark.parametrize("name", sorted(CASES))
def test_against_nested_forward_mode(name: str) -> None:
    f = CASES[name]
    expected = slopes(f, 0.3, 4)
    for found in (along(f, 4)(0.3), bs.jit(along(f, 4))(0.3)):
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8 * np.max(np.abs(want)))


@pytest.mark.parametrize("name", ["eigh real L", "eigh complex U", "svd complex (4, 2)", "det"])
def test_order_eight(name: str) -> None:
    """The eighth from the fourth along the curve, by nesting half of it: slope of slope of a jet of six."""
    f = CASES[name]
    sixth = lambda t: along(f, 6)(t)[-1]
    expected = slopes(sixth, 0.3, 2)
    found = along(f, 8)(0.3)
    for got, want in zip(found[6:], expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7 * np.max(np.abs(want)))


def test_order_eight_against_mpmath() -> None:
    """By Cauchy's integral, in fifty digits."""
    with mpmath.workdps(50):
        expected = _determinant_along_a_circle()
    found = along(lambda t: np.linalg.det(curve(t, "real", (3, 3))), 8)(0.25)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def _determinant_along_a_circle() -> list[float]:
    a, b, c = (mpmath.matrix(x.tolist()) for x in REAL[:, :3, :3])

    def exact(t: Any) -> Any:
        m = a + mpmath.sin(t) * b + mpmath.exp(t / 2) * c / 2 + 2 * mpmath.eye(3)
        return mpmath.det(m)

    n, r = 64, mpmath.mpf("0.5")
    points = [r * mpmath.expjpi(mpmath.mpf(2 * k) / n) for k in range(n)]
    values = [exact(mpmath.mpf("0.25") + z) for z in points]
    return [
        float(mpmath.re(sum(v * z ** (-k) for v, z in zip(values, points, strict=True)) / n))
        * factorial(k)
        for k in range(1, 9)
    ]


@pytest.mark.parametrize("name", ["eigh real L", "eigvalsh", "svd real (4, 2)", "svdvals", "det"])
def test_the_program_grows_like_a_power_of_the_order(name: str) -> None:
    f = CASES[name]
    sizes = [
        len(stage(lambda t, k=k: tuple(along(f, k)(t)), [Type((), np.dtype(float))])[0].equations)
        for k in (4, 8, 16)
    ]
    assert sizes[1] < 4 * sizes[0]
    assert sizes[2] < 4.2 * sizes[1]


@pytest.mark.parametrize("name", ["eigh complex L", "svd real (4, 2)", "det"])
def test_gradients_of_series(name: str) -> None:
    f = lambda t: np.sum(np.real(CASES[name](t)) ** 3)
    expected = slopes(f, 0.3, 4)[-1]
    third = lambda t: along(f, 3)(t)[-1]
    np.testing.assert_allclose(bs.grad(third)(0.3), expected, rtol=1e-7)
    np.testing.assert_allclose(bs.jit(bs.grad(third))(0.3), expected, rtol=1e-7)


@pytest.mark.parametrize("rank", [3, 2])
def test_determinants_of_singular_matrices(rank: int) -> None:
    """Of A + t B, a polynomial of t whose coefficients are known by interpolation."""
    a, b, _ = REAL
    u, s, vh = np.linalg.svd(a)
    s[rank:] = 0
    a = (u * s) @ vh
    f = lambda t: np.linalg.det(a + t * b)
    ts = np.cos(np.pi * (np.arange(5) + 0.5) / 5)
    coefficients = np.polynomial.polynomial.polyfit(ts, [f(t) for t in ts], 4)
    if rank == 3:
        for g in (along(f, 5), bs.jit(along(f, 5))):
            expected = [c * factorial(k + 1) for k, c in enumerate([*coefficients[1:], 0.0])]
            np.testing.assert_allclose(g(0.0), expected, rtol=1e-8, atol=1e-8)
        return
    expected = [c * factorial(k + 1) for k, c in enumerate(coefficients[1:3])]
    np.testing.assert_allclose(along(f, 2)(0.0), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(bs.jit(along(f, 2))(0.0), expected, rtol=1e-8, atol=1e-8)
    with pytest.raises(np.linalg.LinAlgError, match="det"):
        bs.jit(along(f, 3))(0.0)


def test_repeated_values_have_no_vectors() -> None:
    f = lambda t: np.linalg.eigh(np.eye(3) + t * REAL[0, :3, :3])[1]
    with pytest.raises(NotDifferentiableError, match="repeated"):
        along(f, 2)(0.0)
    values = lambda t: np.linalg.eigvalsh(np.diag([1.0, 1.0, 2.0]) + t * np.diag([3.0, 3.0, 1.0]))
    np.testing.assert_allclose(along(values, 3)(0.0), [[3, 3, 1], [0, 0, 0], [0, 0, 0]], atol=1e-12)
