"""where(mask, a, b) over whole arrays: NumPy takes one entry at a time, several times as long as copying them.

Bits are moved as they are, so the result is NumPy's. Each of a and b may be a single number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from .kernels import INDEX, _host, _loop, address, optimise

_FORMS = ("arrays", "number_first", "number_second", "numbers")


def choose(dtype: Any) -> Callable[[Any, Any, Any], Any]:
    """(mask, a, b) ↦ array, for a contiguous mask and contiguous arrays of that dtype and the mask's shape,
    or rank-0 arrays."""
    dtype = np.dtype(dtype)
    loops = _loops(8 * dtype.itemsize)

    def call(mask: Any, a: Any, b: Any) -> Any:
        out = np.empty(mask.shape, dtype)
        loops[(not a.ndim) + 2 * (not b.ndim)](
            address(mask), address(a), address(b), address(out), out.size
        )
        return out

    return call


@cache
def _loops(width: int) -> list[Callable[..., None]]:
    module = ir.Module(f"choose_{width}")
    for form in _FORMS:
        _emit(module, width, form)
    machine = _host()
    engine = llvm.create_mcjit_compiler(optimise(module, machine), machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    calls: list[Any] = [signature(engine.get_function_address(f"choose_{form}")) for form in _FORMS]
    calls[0].engine = engine  # the code lives as long as it does
    return calls


def _emit(module: ir.Module, width: int, form: str) -> None:
    bits, byte = ir.IntType(width), ir.IntType(8)
    kinds = [byte.as_pointer(), *[bits.as_pointer()] * 3, INDEX]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), f"choose_{form}")
    mask, a, b, out, n = function.args
    for array in (mask, a, b, out):
        array.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    numbers = {
        array: builder.load(array)
        for array, forms in ((a, _FORMS[1::2]), (b, _FORMS[2:]))
        if form in forms
    }
    i, close = _loop(builder, INDEX(0), n, 1)

    def entry(array: ir.Value) -> ir.Value:
        number = numbers.get(array)
        return builder.load(builder.gep(array, [i])) if number is None else number

    taken = builder.icmp_unsigned("!=", builder.load(builder.gep(mask, [i])), byte(0))
    chosen = builder.select(taken, entry(a), entry(b))
    builder.store(chosen, builder.gep(out, [i]))
    close()
    builder.ret_void()
