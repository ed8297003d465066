"""SciPy's functions by their pointers: complex numbers, which conventions of C hand over in two ways."""

from __future__ import annotations

import ctypes
from typing import Any

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
