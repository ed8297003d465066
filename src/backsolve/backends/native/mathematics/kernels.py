"""One function over a whole array: compiled loops of the emitters, called on NumPy arrays.

    kernel = kernels.unary("sin", np.float64)
    y = kernel(x)              # or kernel(x, out=y), which may be x itself

The call releases the GIL (ctypes does), so that several threads can share an array. `kernel.quick`, where
there is one, keeps it, and costs a tenth of a microsecond instead of ten: for small arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from ..array_entry import emit_array_entry
from ..objects import Table, knows_layout, make_builtin
from . import BINARY, EMITTERS, NARROW, RANGE_LIMIT, Emitter
from .lanes import FORMATS, Format, Real

INDEX = ir.IntType(64)
INTERLEAVE = 4  # vectors side by side
BLOCK = 1024  # elements whose range is looked at together; they stay in the first cache


@dataclass(frozen=True)
class Loop:
    """A compiled function (in*, …, out*, n); what LLVM made of it; and what keeps its code alive."""

    address: int
    optimised: str
    engine: Any = field(repr=False)
    table: Table | None = field(repr=False)  # for its built-in, where it has one


@dataclass(frozen=True)
class Kernel:
    """A loop over contiguous arrays of one dtype."""

    name: str
    dtype: np.dtype[Any]
    loop: Loop
    call: Callable[..., None] = field(repr=False)
    quick: Callable[[Any], Any] | None = field(repr=False)  # NotImplemented to all it does not know

    def __call__(self, *inputs: Any, out: np.ndarray | None = None) -> np.ndarray:
        arrays = inputs
        if not all(self._plain(a) and a.shape == arrays[0].shape for a in arrays):
            arrays = np.broadcast_arrays(*(np.asarray(a, self.dtype) for a in inputs))
            arrays = tuple(np.array(a, order="C") for a in arrays)
        shape = arrays[0].shape
        if out is None:
            out = np.empty(shape, self.dtype)
        elif not self._plain(out) or out.shape != shape:
            raise ValueError(
                f"`{self.name}` needs `out` to be a contiguous {self.dtype} array of shape {shape} "
                f"(got {out.dtype} of shape {out.shape})"
            )
        target = address(out)
        sources = [address(a) for a in arrays]
        # An input may be `out` itself: an element is read before it is written. Not shifted to it.
        if any(0 < abs(s - target) < out.nbytes for s in sources):
            return self(*(a.copy() for a in arrays), out=out)
        self.call(*sources, target, out.size)
        return out

    def _plain(self, a: Any) -> bool:
        return type(a) is np.ndarray and a.dtype == self.dtype and a.flags.c_contiguous


def address(a: np.ndarray) -> int:
    return int(a.__array_interface__["data"][0])


def unary(name: str, dtype: Any) -> Kernel:
    return _kernel(name, np.dtype(dtype), 1)


def binary(name: str, dtype: Any) -> Kernel:
    return _kernel(name, np.dtype(dtype), 2)


@cache
def _kernel(name: str, dtype: np.dtype[Any], inputs: int) -> Kernel:
    loop = (compile_unary if inputs == 1 else compile_binary)(name, dtype)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (inputs + 1), ctypes.c_int64)
    quick = None
    if loop.table is not None:
        quick = make_builtin(loop.engine.get_function_address("entry"), loop.table, [loop])
    return Kernel(name, dtype, loop, signature(loop.address), quick)


def compile_unary(name: str, dtype: Any) -> Loop:
    """The loop (in*, out*, n)."""
    return _compile(name, np.dtype(dtype).name, 1)


def compile_binary(name: str, dtype: Any) -> Loop:
    """The loop (in*, in*, out*, n)."""
    return _compile(name, np.dtype(dtype).name, 2)


@cache
def _compile(name: str, dtype: str, inputs: int) -> Loop:
    if name not in EMITTERS or dtype not in FORMATS or (name in BINARY) != (inputs == 2):
        raise ValueError(
            f"there is no native loop of `{name}` with {inputs} inputs of {dtype}; "
            f"there are float32 and float64 loops of {', '.join(sorted(EMITTERS))}, "
            f"of which {', '.join(sorted(BINARY))} take two"
        )
    machine = _host()
    emitted = emit_loop(name, dtype)
    table = None
    if inputs == 1 and knows_layout():
        loop = emitted.get_global(f"backsolve_{name}_{dtype}")
        table = emit_array_entry(emitted, loop, np.dtype(dtype))
    module = optimise(emitted, machine)
    optimised = str(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return Loop(engine.get_function_address(f"backsolve_{name}_{dtype}"), optimised, engine, table)


def emit_loop(name: str, dtype: str) -> ir.Module:
    """A module of one function, (in*, …, out*, n), as it is before LLVM has seen it."""
    format = FORMATS[dtype]
    module = ir.Module(f"{name}_{dtype}")
    pointers = [format.real.as_pointer()] * (3 if name in BINARY else 2)
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [*pointers, INDEX]), f"backsolve_{name}_{dtype}"
    )
    *arrays, n = function.args
    for array in arrays:
        array.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    if name in NARROW:
        _emit_blocks(b, format, name, arrays, n)
    else:
        _emit_loop(b, EMITTERS[name], arrays, INDEX(0), n)
    b.ret_void()
    return module


def _loop(b: ir.IRBuilder, start: ir.Value, stop: ir.Value, step: int) -> tuple[ir.Value, Any]:
    """Opens `for i in range(start, stop, step)`: i, and the function that closes the loop."""
    entry = b.basic_block
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", start, stop), body, after)
    b.position_at_end(body)
    i = b.phi(INDEX)
    i.add_incoming(start, entry)

    def close() -> None:
        following = b.add(i, INDEX(step), flags=["nsw"])
        i.add_incoming(following, b.basic_block)
        branch = b.cbranch(b.icmp_signed("<", following, stop), body, after)
        if step == 1:
            branch.set_metadata("llvm.loop", interleaved(b.module, INTERLEAVE))
        b.position_at_end(after)

    return i, close


def interleaved(module: ir.Module, count: int) -> ir.MDValue:
    """A loop's metadata that asks for `count` vectors side by side: a formula is one long chain of
    dependent operations, and a core's queues are too short to find the next element's by themselves.
    (Left alone, LLVM counts the formula's constants as registers and takes one vector at a time.)"""
    return _hinted(module, "llvm.loop.interleave.count", ir.IntType(32)(count))


def entry_by_entry(module: ir.Module) -> ir.MDValue:
    """A loop's metadata that forbids vectors. LLVM (20, x86-64) moves a load of one arm of a branch, made a
    masked one, behind a store of the same entry in that arm."""
    return _hinted(module, "llvm.loop.vectorize.enable", ir.IntType(1)(0))


def _hinted(module: ir.Module, name: str, value: ir.Constant) -> ir.MDValue:
    hint = module.add_metadata([name, value])
    loop = module.add_metadata([hint, ir.IntType(32)(len(module.metadata))])
    loop.operands = (
        loop,
        hint,
    )  # a loop's node is its own first operand, and so unlike any other's
    return loop


def _emit_loop(
    b: ir.IRBuilder, emit: Emitter, arrays: list[ir.Value], start: ir.Value, stop: ir.Value
) -> None:
    *sources, target = arrays
    i, close = _loop(b, start, stop, 1)
    b.store(emit(b, *(b.load(b.gep(s, [i])) for s in sources)), b.gep(target, [i]))
    close()


def _emit_blocks(
    b: ir.IRBuilder, format: Format, name: str, arrays: list[ir.Value], n: ir.Value
) -> None:
    """A block at a time: the narrow loop where every |x| is within its range, else the wide one."""
    start, close = _loop(b, INDEX(0), n, BLOCK)
    end = b.add(start, INDEX(BLOCK), flags=["nsw"])
    stop = b.select(b.icmp_signed("<", end, n), end, n)
    outside = _emit_any_outside(b, format, arrays[0], start, stop)
    with b.if_else(outside, likely=False) as (then, otherwise):
        with then:
            _emit_loop(b, EMITTERS[name], arrays, start, stop)
        with otherwise:
            _emit_loop(b, NARROW[name], arrays, start, stop)
    close()


def _emit_any_outside(
    b: ir.IRBuilder, format: Format, source: ir.Value, start: ir.Value, stop: ir.Value
) -> ir.Value:
    """Whether some |x| is beyond the limit: the bits of |x| are ordered as |x| is, NaN last."""
    before = b.basic_block
    i, close = _loop(b, start, stop, 1)
    found = b.phi(format.bits)
    found.add_incoming(format.bits(0), before)
    x = Real(b, b.load(b.gep(source, [i])), format)
    limit = x.constant(RANGE_LIMIT[format.name]).bits()
    beyond = (limit - x.fabs().bits()) >> (format.width - 1)  # 1 where the difference is negative
    collected = b.or_(found, beyond.value)
    found.add_incoming(collected, b.basic_block)
    body = b.basic_block
    close()
    result = b.phi(format.bits)
    result.add_incoming(format.bits(0), before)
    result.add_incoming(collected, body)
    return b.icmp_signed("!=", result, format.bits(0))


def _host() -> Any:
    """A machine for the processor at hand."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        opt=3,
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        jit=True,
    )


def optimise(module: ir.Module, machine: Any) -> Any:
    """LLVM's own module, its loops vectorised for that machine."""
    module.triple = machine.triple
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.loop_interleaving = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed
