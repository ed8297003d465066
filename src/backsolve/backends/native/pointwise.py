"""A Program of element-wise equations as one loop over whole arrays, of whatever length: for eager mode.

loop = compile_loop(program)      # of arrays of one shape
y = loop(x, t)                    # contiguous arrays; t may be a single number, of rank 0
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from ...ir import Program, Var
from .elementwise import emit
from .mathematics.kernels import INDEX, _host, _loop, address, optimise
from .numbers.registers import load, memory_type, number, store
from .support import compute_dtype, is_native_elementwise


def compile_loop(program: Program) -> Callable[..., Any] | None:
    """None if the Program has anything else in it. All inputs but the first may be single numbers."""
    if not all(e.primitive.elementwise and is_native_elementwise(e) for e in program.equations):
        return None
    if any(np.ndim(value) for _, value in program.constants):
        return None
    dtype = program.outputs[0].dtype
    machine = _host()
    engine = llvm.create_mcjit_compiler(optimise(_emitted(program), machine), machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(
        None, *[ctypes.c_void_p] * (len(program.inputs) + 1), ctypes.c_int64
    )
    of_arrays, of_numbers = (signature(engine.get_function_address(f)) for f in _FORMS)

    def call(*arrays: Any, out: Any = None) -> Any:
        if out is None:
            out = np.empty(arrays[0].shape, dtype)
        run = of_arrays if arrays[-1].ndim or not arrays[0].ndim else of_numbers
        run(*[address(a) for a in arrays], address(out), out.size)
        return out

    vars(call)["engine"] = engine  # the code lives as long as it does
    return call


_FORMS = ("of_arrays", "of_numbers")


def _emitted(program: Program) -> ir.Module:
    module = ir.Module("pointwise")
    target = program.outputs[0]
    kinds = [memory_type(v.dtype).as_pointer() for v in (*program.inputs, target)]
    for form in _FORMS:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*kinds, INDEX]), form)
        *sources, out, n = function.args
        for array in (*sources, out):
            array.add_attribute("noalias")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        numbers = {
            v: load(b, source, v.dtype)
            for v, source in zip(program.inputs[1:], sources[1:], strict=True)
            if form == "of_numbers"
        }
        i, close = _loop(b, INDEX(0), n, 1)
        entries = {
            v: numbers[v] if v in numbers else load(b, b.gep(source, [i]), v.dtype)
            for v, source in zip(program.inputs, sources, strict=True)
        }
        store(b, _result(b, program, entries), b.gep(out, [i]), target.dtype)
        close()
        b.ret_void()
    return module


def _result(b: ir.IRBuilder, program: Program, entries: dict[Var, Any]) -> Any:
    """One entry of the output."""
    known = {v: np.asarray(value)[()] for v, value in program.constants}

    def inputs(atoms: Sequence[Any], like: np.dtype[Any]) -> list[tuple[Any, np.dtype[Any]]]:
        found = []
        for a in atoms:
            if type(a) is Var and a in entries:
                found.append((entries[a], a.dtype))
            elif type(a) is Var:
                found.append((number(known[a], a.dtype), a.dtype))
            else:
                found.append((number(a, like), like))
        return found

    for e in program.equations:
        entries[e.outputs[0]] = emit(b, e, inputs(e.inputs, compute_dtype(e)))
    return inputs(program.outputs, program.outputs[0].dtype)[0][0]
