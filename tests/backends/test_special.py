"""SciPy's functions by their pointers: complex numbers, which conventions of C hand over in two ways."""

from __future__ import annotations

import ctypes
from typing import Any

import mpmath
import numpy as np
import pytest
from llvmlite import binding
from scipy import special as sp

import backsolve as bs
from backsolve.backends.native import special
from backsolve.primitive import P
from backsolve.testing.backends import check_compiled

rng = np.random.default_rng(0)
Z = rng.normal(size=(5, 20)) * 3 + 1j * rng.normal(size=(5, 20)) * 3
FUNCTIONS = ("erf", "erfc", "ndtr", "log_ndtr", "erfcx", "dawsn", "gamma", "psi", "loggamma")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_functions_of_complex_numbers(name: str, dtype: Any) -> None:
    f = getattr(sp, name)
    edges = [0, complex(np.inf, 0), complex(0, -np.inf), complex(np.nan, 1), -0.0 - 0.0j, 1e-300j]
    for z in (Z, np.array(edges)):
        assert check_compiled(lambda z: f(z), [z.astype(dtype)], name, ulps=4)


def test_orders_are_real() -> None:
    for order in (np.array([0.5, 2.0, -1.5]), np.array([0, 1, 2])):
        assert check_compiled(lambda v, z: sp.jv(v, z), [order, Z[:3, :3].copy()], ulps=4)
        assert check_compiled(lambda z, v=order: sp.kve(v, z), [Z[:3, :3].astype("c8")], ulps=4)


def test_derivatives() -> None:
    def total(z: Any) -> Any:
        y = sp.erf(z / 3) * sp.spence(z)
        return np.sum(y.real - 2 * y.imag)

    assert check_compiled(bs.grad(total), [Z])


class Pair(ctypes.Structure):
    _fields_ = (("re", ctypes.c_double), ("im", ctypes.c_double))


def test_complex_numbers_by_address(monkeypatch: Any) -> None:
    """As Windows has it on x86-64: the first argument is where the result goes."""
    kinds = [ctypes.POINTER(Pair), ctypes.c_double, ctypes.POINTER(Pair), ctypes.c_int]

    def call(out: Any, order: float, z: Any, flag: int) -> None:
        y = order * complex(z[0].re, z[0].im) + flag
        out[0] = Pair(y.real, y.imag)

    made = ctypes.CFUNCTYPE(None, *kinds)(call)
    address = ctypes.cast(made, ctypes.c_void_p).value
    monkeypatch.setattr(special, "_BY_ADDRESS", True)
    monkeypatch.setattr(special, "provide", lambda symbol: binding.add_symbol(symbol, address))
    try:
        f = bs.jit(lambda v, z: sp.jv(v, z))
        np.testing.assert_allclose(f(np.arange(20.0), Z), np.arange(20.0) * Z)
    finally:
        monkeypatch.undo()
        special.provide("backsolve_special_jv_complex_flagged")


X = np.concatenate([rng.normal(size=200) * 5, [0.0, 1.0, 7.0, -7.0, 30.0, 1e3, np.inf, np.nan]])
DERIVED: dict[str, Any] = {
    "erfcx": lambda x: sp.erfcx(x / 10),
    "dawsn": sp.dawsn,
    "ive": lambda x: sp.ive(2, x) + sp.i1e(x),
    "kve": lambda x: sp.kve(1.5, np.abs(x) + 0.1) + sp.k0e(np.abs(x) + 0.1),
    "gammainc": lambda x: sp.gammainc(np.abs(x) + 0.1, 2.5),
    "gammaincc": lambda x: sp.gammaincc(1.5, np.abs(x)) * x,
}


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_families_that_derivatives_lead_to(name: str, dtype: Any) -> None:
    f = DERIVED[name]
    first = bs.grad(lambda x: np.sum(f(x)))
    second = bs.grad(lambda x: np.sum(first(x)[:200]))
    x = X[:200] if name.startswith("gammainc") else X
    for derivative in (first, second):
        assert check_compiled(derivative, [x.astype(dtype)], name, ulps=1e3)


def test_zeta() -> None:
    s = np.concatenate([rng.uniform(1.001, 40, 400), [1, 1, 0.5, 3, 2.5, 3, 2.5, 2.5, 2, np.nan]])
    q = np.concatenate([rng.uniform(0.01, 50, 400), [2, -1, 2, -2.5, -2.5, -2, -2, 0, 1e20, 1]])
    for dtype in (np.float32, np.float64):
        assert check_compiled(lambda s, q: P.zeta(s, q), [s.astype(dtype), q.astype(dtype)])
    assert check_compiled(lambda q: P.zeta(np.arange(2, 5), q), [q[:3]])
    assert check_compiled(lambda q: P.zeta(1e3, q), [q[:400] + 1])


FAMILIES = {"airy": 4, "fresnel": 2, "itairy": 4, "iti0k0": 2, "itj0y0": 2, "shichi": 2, "sici": 2}
EDGES = [0.0, -0.0, 1e-300, 1e-8, -3.0, 20.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", FAMILIES)
def test_functions_with_several_results(name: str) -> None:
    row = getattr(P, f"{name}_part")
    f = lambda x: [row(x, k=k) for k in range(FAMILIES[name])]
    x = np.concatenate([rng.normal(size=60) * 4, EDGES])
    if name in ("iti0k0", "itj0y0"):
        x = np.abs(x[np.isfinite(x)])  # SciPy takes no notice of where these are defined
    if name == "itairy":
        x = x[np.isfinite(x)]
    for dtype in (np.float16, np.float32, np.float64):
        given = x.astype(dtype)
        assert check_compiled(f, [given], name, ulps=4)
        assert check_compiled(
            bs.grad(lambda x: sum(np.sum(y) for y in f(x))), [given[:50]], ulps=64
        )
    if name in ("airy", "fresnel", "shichi", "sici"):
        for kind in (np.complex64, np.complex128):
            assert check_compiled(f, [(Z / 2).astype(kind)], name, ulps=4)


def test_one_call_gives_all_results() -> None:
    f = bs.jit(lambda x: sum(sp.airy(x)))
    np.testing.assert_allclose(f(X[:50]), sum(sp.airy(X[:50])), rtol=1e-13)
    calls = [
        x for x in f.lower(X[:50]).stages["llvm"].splitlines() if "call" in x and "@all_of" in x
    ]
    assert len(calls) == 1


def test_several_complex_results_by_address(monkeypatch: Any) -> None:
    """As Windows has it on x86-64."""
    made = ctypes.CFUNCTYPE(None, *[ctypes.POINTER(Pair)] * 3)(_double_and_conjugate)
    address = ctypes.cast(made, ctypes.c_void_p).value
    monkeypatch.setattr(special, "_BY_ADDRESS", True)
    monkeypatch.setattr(special, "provide", lambda symbol: binding.add_symbol(symbol, address))
    try:
        first, second = bs.jit(lambda z: sp.sici(z))(Z)
        np.testing.assert_array_equal(first, 2 * Z)
        np.testing.assert_array_equal(second, Z.conj())
    finally:
        monkeypatch.undo()
        special.provide("backsolve_special_sici_several_complex")


def _double_and_conjugate(z: Any, first: Any, second: Any) -> None:
    first[0] = Pair(2 * z[0].re, 2 * z[0].im)
    second[0] = Pair(z[0].re, -z[0].im)


@pytest.mark.parametrize("name", ["eval_hermite", "eval_hermitenorm"])
def test_degrees_are_whole(name: str) -> None:
    f = getattr(sp, name)
    degrees, x = (
        np.array([0, 1, 2, 7, 30, -1])[:, None],
        np.array([0.0, 1.5, -2.0, 30.0, np.inf, np.nan]),
    )
    for dtype in (np.float32, np.float64):
        assert check_compiled(lambda n, x: f(n, x), [degrees, x.astype(dtype)], name)
    assert check_compiled(lambda x: f(np.arange(4)[:, None], x), [x], name)
    assert check_compiled(bs.grad(lambda x: np.sum(f(5, x))), [x[:4]], name)


def test_amplitudes() -> None:
    u, m = rng.normal(size=60) * 5, rng.uniform(0, 1, 60)
    edges = [0.0, 1.0, 1e-12, 1 - 1e-12, -0.5, 1.5, np.nan]
    for dtype in (np.float32, np.float64):
        assert check_compiled(lambda u, m: sp.ellipj(u, m), [u.astype(dtype), m.astype(dtype)])
        args = [np.ones(7, dtype), np.array(edges, dtype)]
        assert check_compiled(lambda u, m: P.jacobi_amplitude(u, m), args)


def test_elliptic_moments() -> None:
    phi = np.concatenate([rng.normal(size=40) * 4, [0.0, np.pi / 2, -np.pi / 2, 1.5, 100.0, 1.0]])
    m = np.concatenate([rng.uniform(-2, 0.99, 40), [0.5, 0.5, 0.9, 1 - 1e-9, 0.3, 1.0]])
    for p, q in ((1, 3), (1, 1), (2, 5), (2, 3), (0, -1), (1, 2)):
        call = lambda phi, m, p=p, q=q: P.elliptic_moment(phi, m, p=p, q=q)
        assert check_compiled(call, [phi, m], ulps=256)
        assert check_compiled(call, [phi.astype("f4"), m.astype("f4")])
    strange = [np.array([np.inf, np.nan, 1.0, 1.0, 2.0]), np.array([0.5, 0.5, np.nan, 3.0, 1.0])]
    assert check_compiled(lambda phi, m: P.elliptic_moment(phi, m, p=1, q=3), strange)


def test_elliptic_moments_are_the_integrals() -> None:
    f = bs.jit(lambda phi, m: P.elliptic_moment(phi, m, p=1, q=3))
    for phi, m in ((0.3, 0.5), (1.4, 0.9), (-1.0, -3.0), (7.0, 0.2)):
        integrand = lambda t, m=m: mpmath.sin(t) ** 2 * (1 - m * mpmath.sin(t) ** 2) ** -1.5
        exact = mpmath.quad(integrand, mpmath.linspace(0, phi, 9))
        np.testing.assert_allclose(f(phi, m), float(exact), rtol=1e-13)


def test_faddeeva_and_its_derivatives() -> None:
    far = np.array([8.0, -9j + 3, 40 + 1e-3j, -7.5 - 0.1j, 1e8, 7 + 0j, 6.9 - 1j])
    for n in range(4):
        call = lambda z, n=n: P.wofz(z, n=n)
        for dtype in (np.complex64, np.complex128, np.float32):
            given = np.concatenate([Z[0], far]).astype(dtype) if dtype != np.float32 else X[:50]
            assert check_compiled(call, [given.astype(dtype)], f"wofz {n}", ulps=512)
    edges = np.array([0, np.inf, -np.inf, np.nan, 1j * np.inf, complex(1, np.nan), 30j, -30j])
    assert check_compiled(lambda z: P.wofz(z, n=0), [edges], ulps=4)


def test_faddeeva_to_many_digits() -> None:
    f = bs.jit(lambda z: P.wofz(z, n=0))
    with mpmath.workdps(40):
        exact = [
            complex(mpmath.exp(-(z * z)) * mpmath.erfc(-1j * z)) for z in map(mpmath.mpc, Z[0])
        ]
    np.testing.assert_allclose(f(Z[0].copy()), exact, rtol=1e-13)
