"""Matrix products by the BLAS that SciPy ships, through the function pointers it exports."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
from llvmlite import binding, ir

from .steps import Site, Step
from .views import Buffer, View

INT, CINT = ir.IntType(64), ir.IntType(32)


@dataclass(eq=False)
class Product(Step):
    """C = A B, a stack of them: views of shape (…, m, k), (…, k, n), (…, m, n)."""

    a: View
    b: View
    c: View

    def buffers(self) -> list[Buffer]:
        return [self.a.buffer, self.b.buffer, self.c.buffer]

    @property
    def flops(self) -> int:  # type: ignore[override]
        return 2 * prod(self.c.shape) * self.a.shape[-1]

    def emit(self, site: Site) -> None:
        emit_product(site.b, self, site.address)

    def describe(self) -> str:
        return f"product {self.a.shape} × {self.b.shape}"


@cache
def pointer(name: str) -> int:
    """The address of a BLAS routine, e.g. dgemm."""
    from scipy.linalg import cython_blas

    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = dict(cython_blas.__pyx_capi__)[name]
    found = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    assert found is not None
    return int(found)


def emit_product(b: ir.IRBuilder, step: Product, address: Any) -> None:
    """C = A B for every matrix of the stack. `address(view, offset)` gives a typed pointer.

    BLAS counts columns first; in its eyes our row-major C = A B is Cᵀ = Bᵀ Aᵀ.
    """
    real = ir.DoubleType() if step.c.dtype == np.float64 else ir.FloatType()
    letter = "d" if step.c.dtype == np.float64 else "s"
    symbol = f"backsolve_{letter}gemm"
    binding.add_symbol(symbol, pointer(f"{letter}gemm"))
    text, number, entry = ir.IntType(8).as_pointer(), CINT.as_pointer(), real.as_pointer()
    signature = ir.FunctionType(
        ir.VoidType(),
        [
            text,
            text,
            number,
            number,
            number,
            entry,
            entry,
            number,
            entry,
            number,
            entry,
            entry,
            number,
        ],
    )
    gemm = b.module.globals.get(symbol) or ir.Function(b.module, signature, symbol)
    m, k = step.a.shape[-2:]
    n = step.b.shape[-1]

    def constant(t: ir.Type, value: Any) -> ir.Value:
        with b.goto_entry_block():
            slot = b.alloca(t)
        b.store(ir.Constant(t, value), slot)
        return slot

    flip_a, lda = _layout(step.a)
    flip_b, ldb = _layout(step.b)
    ldc = max(n, 1)
    letters = [constant(ir.IntType(8), ord("T" if flip else "N")) for flip in (flip_b, flip_a)]
    sizes = [constant(CINT, x) for x in (n, m, k)]
    one, zero = constant(real, 1.0), constant(real, 0.0)
    leading = [constant(CINT, x) for x in (ldb, lda, ldc)]
    for place in np.ndindex(*step.c.shape[:-2]):
        a, x, y = (
            address(v, int(np.dot(place, v.strides[:-2])) if place else 0)
            for v in (step.a, step.b, step.c)
        )
        b.call(gemm, [*letters, *sizes, one, x, leading[0], a, leading[1], zero, y, leading[2]])


def _layout(view: View) -> tuple[bool, int]:
    """Whether a matrix is stored by columns, and the distance of its rows (or columns)."""
    m, n = view.shape[-2:]
    rows, columns = view.strides[-2:]
    if (columns == 1 or n == 1) and (rows >= n or m == 1):
        return False, max(rows, n, 1)
    return True, max(columns, m, 1)
