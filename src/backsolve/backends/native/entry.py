"""The entry point: a built-in function that reads arrays where CPython and NumPy keep them.

Called by CPython's vectorcall convention (METH_FASTCALL), it checks every argument in a handful of
instructions, runs the program, and returns fresh arrays. If an argument is not what was compiled for,
it returns NotImplemented, and Python code takes over. An interpreter whose objects are laid out otherwise
(free-threaded builds) gets a slower entry through ctypes (slow_entry.py).

A program that takes longer than a few microseconds runs without the GIL. Then two threads may be in it at
once: the first takes the arena by a flag, another one gets memory of its own for that call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Type
from . import objects
from .builtin import BYTE, CINT, INT, NULL, POINTER, Builtin
from .failure import FINE, Failures
from .loops import loop_with

ALIGNMENT = 64


@dataclass(eq=False)
class Frame:
    """What stands around `run(table, arena)`."""

    inputs: list[Type]
    outputs: list[Type]
    constants: list[np.ndarray[Any, Any]]
    arena_bytes: int
    failures: Failures
    donors: dict[int, int]  # output -> the input whose memory it takes
    releases_gil: bool

    def __post_init__(self) -> None:
        self.memory = new_arena(self.arena_bytes)

    @property
    def arena(self) -> int:
        return aligned(self.memory)


def new_arena(nbytes: int) -> np.ndarray[Any, Any]:
    return np.empty(nbytes + ALIGNMENT, np.uint8)


def aligned(memory: np.ndarray[Any, Any]) -> int:
    return -(-memory.ctypes.data // ALIGNMENT) * ALIGNMENT


def emit_entry(module: ir.Module, frame: Frame) -> objects.Table:
    """`entry(self, args, nargs)` around `run(table, arena)`; the table that `self` must be."""
    return _Entry(module, frame).emit(module.globals["run"])


class _Entry(Builtin):
    def __init__(self, module: ir.Module, frame: Frame):
        super().__init__(module, "entry")
        self.frame = frame

    def emit(self, run: ir.Function) -> objects.Table:
        b, frame = self.b, self.frame
        size = len(frame.inputs) + len(frame.outputs) + len(frame.constants)
        pointers = b.alloca(POINTER, size=max(size, 1))
        self.require_equal(self.function.args[2], INT(len(frame.inputs)))
        for k in range(len(frame.inputs)):
            b.store(self.checked(k), b.gep(pointers, [INT(k)]))
        if frame.donors:
            self.require_apart(pointers)
        results = [self.new_output(k) for k in range(len(frame.outputs))]
        data = [place for _, place in results]
        for k, c in enumerate(frame.constants):
            data.append(self.pointer(f"constant {k}", c.ctypes.data))
        for k, place in enumerate(data):
            b.store(place, b.gep(pointers, [INT(len(frame.inputs) + k)]))
        code = self.run_program(run, pointers)
        if frame.failures.known:
            with b.if_then(b.icmp_unsigned("!=", code, FINE), likely=False):
                self.raise_failure(code)
        boxed = [self.boxed(t, r) for t, r in zip(frame.outputs, results, strict=True)]
        return self.finish(self.packed(boxed))

    def checked(self, k: int) -> ir.Value:
        """The data of an argument, after all that it must be was looked at."""
        obj, t = self.argument(k), self.frame.inputs[k]
        if t.weak:
            self.require_equal(self.read(obj, objects.TYPE, INT), self.word("float", id(float)))
            return self.b.gep(obj, [INT(objects.FLOAT_VALUE)])
        writeable = objects.WRITEABLE if k in self.frame.donors.values() else 0
        self.require_array(obj, t.dtype, objects.CONTIGUOUS | objects.ALIGNED | writeable)
        self.require_equal(self.read(obj, objects.NDIM, CINT), CINT(t.ndim))
        shape = self.read(obj, objects.DIMENSIONS, POINTER)
        for axis, n in enumerate(t.shape):
            self.require_equal(self.read(shape, 8 * axis, INT), INT(n))
        return self.read(obj, objects.DATA, POINTER)

    def require_apart(self, pointers: ir.Value) -> None:
        """Refuse inputs of which one is to be written and shares memory with another."""
        b, inputs = self.b, self.frame.inputs
        givers = self.numbers("givers", sorted(self.frame.donors.values()))
        sizes = self.numbers("sizes", [0 if t.weak else t.size * t.dtype.itemsize for t in inputs])

        def span(k: ir.Value) -> tuple[ir.Value, ir.Value]:
            start = b.ptrtoint(b.load(b.gep(pointers, [k])), INT)
            return start, b.add(start, b.load(b.gep(sizes, [INT(0), k])))

        def with_others(b: ir.IRBuilder, n: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            i = b.load(b.gep(givers, [INT(0), n]))
            start, end = span(i)

            def with_one(b: ir.IRBuilder, k: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
                other, other_end = span(k)
                crossing = b.and_(
                    b.icmp_unsigned("<", start, other_end), b.icmp_unsigned("<", other, end)
                )
                return [b.or_(found[0], b.and_(crossing, b.icmp_unsigned("!=", i, k)))]

            return loop_with(b, len(inputs), found, with_one)

        (found,) = loop_with(b, len(self.frame.donors), [ir.IntType(1)(0)], with_others)
        self.require(b.not_(found))

    def numbers(self, name: str, values: list[int]) -> ir.Value:
        t = ir.ArrayType(INT, len(values))
        made = ir.GlobalVariable(self.b.module, t, name)
        made.initializer, made.global_constant = ir.Constant(t, values), True
        made.linkage = "internal"
        return made

    # ---- the run

    def run_program(self, run: ir.Function, pointers: ir.Value) -> ir.Value:
        b, frame = self.b, self.frame
        if not frame.releases_gil:
            return b.call(run, [pointers, self.pointer("arena", frame.arena)])
        arena, give_back = self.take_arena()
        state = self.call("PyEval_SaveThread", POINTER, [])
        code = b.call(run, [pointers, arena])
        self.call("PyEval_RestoreThread", ir.VoidType(), [state])
        give_back()
        return code

    def take_arena(self) -> tuple[ir.Value, Any]:
        """The arena, or fresh memory while another thread is in it; and how to give it back."""
        b, frame = self.b, self.frame
        own = self.pointer("arena", frame.arena)
        if not frame.arena_bytes:
            return own, lambda: None
        flag = b.gep(self.words, [INT(self.table.place("arena is taken", 0))])
        before = b.block
        free = b.icmp_unsigned("==", b.atomic_rmw("xchg", flag, INT(1), "acquire"), INT(0))
        with b.if_then(b.not_(free), likely=False):
            fresh = self.call("PyMem_RawMalloc", POINTER, [INT(frame.arena_bytes + ALIGNMENT)])
            with b.if_then(b.icmp_unsigned("==", fresh, NULL), likely=False):
                self.release()
                b.ret(self.call("PyErr_NoMemory", POINTER, []))
            up = b.and_(b.add(b.ptrtoint(fresh, INT), INT(ALIGNMENT - 1)), INT(-ALIGNMENT))
            start, behind = b.inttoptr(up, POINTER), b.block
        arena, memory = b.phi(POINTER), b.phi(POINTER)
        for phi, ours, others in ((arena, own, start), (memory, NULL, fresh)):
            phi.add_incoming(ours, before)
            phi.add_incoming(others, behind)

        def give_back() -> None:
            with b.if_else(b.icmp_unsigned("==", memory, NULL), likely=True) as (then, otherwise):
                with then:
                    b.store_atomic(INT(0), flag, "release", 8)
                with otherwise:
                    self.call("PyMem_RawFree", ir.VoidType(), [memory])

        return arena, give_back

    def raise_failure(self, code: ir.Value) -> None:
        """Release the outputs, set the exception of a code, and return NULL."""
        b = self.b
        self.release()
        leave = b.append_basic_block("leave")
        choice = b.switch(code, leave)
        for k, (kind, message) in enumerate(self.frame.failures.known):
            case = b.append_basic_block("failed")
            choice.add_case(k + 1, case)
            b.position_at_end(case)
            raw = bytearray(message.encode() + b"\0")
            text = ir.GlobalVariable(b.module, ir.ArrayType(BYTE, len(raw)), f"message{k}")
            text.initializer, text.global_constant = ir.Constant(text.value_type, raw), True
            text.linkage = "internal"
            arguments = [self.object(f"exception {k}", kind), b.bitcast(text, POINTER)]
            self.call("PyErr_SetString", ir.VoidType(), arguments)
            b.branch(leave)
        b.position_at_end(leave)
        b.ret(NULL)

    # ---- results

    def new_output(self, k: int) -> tuple[ir.Value | None, ir.Value]:
        """(array, its data), or for a rank-0 result (None, a place on the stack), boxed afterwards."""
        b, t = self.b, self.frame.outputs[k]
        if k in self.frame.donors:
            array = self.argument(self.frame.donors[k])
            self.call("Py_IncRef", ir.VoidType(), [array])
            self.made.append(array)
            return array, NULL  # the program writes it as an input
        if not t.shape:
            return None, b.bitcast(b.alloca(INT), POINTER)
        shape = b.alloca(INT, size=t.ndim)
        for axis, n in enumerate(t.shape):
            b.store(INT(n), b.gep(shape, [INT(axis)]))
        array = self.new_array(t.dtype, CINT(t.ndim), shape)
        return array, self.read(array, objects.DATA, POINTER)

    def boxed(self, t: Type, result: tuple[ir.Value | None, ir.Value]) -> ir.Value:
        array, data = result
        if array is not None:
            return array
        if t.weak:
            value = self.b.load(self.b.bitcast(data, ir.DoubleType().as_pointer()))
            return self.call("PyFloat_FromDouble", POINTER, [value])
        descr = self.object(f"dtype {t.dtype.str}", t.dtype)
        return self.call("PyArray_Scalar", POINTER, [data, descr, NULL])

    def packed(self, values: list[ir.Value]) -> ir.Value:
        """One object, or a tuple of them."""
        if len(values) == 1:
            return values[0]
        made = self.call("PyTuple_New", POINTER, [INT(len(values))])
        for k, obj in enumerate(values):
            self.call("PyTuple_SetItem", CINT, [made, INT(k), obj])
        return made
