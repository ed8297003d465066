"""The entry point: a built-in function that reads arrays where CPython and NumPy keep them.

Called by CPython's vectorcall convention (METH_FASTCALL), it checks every argument in a handful of
instructions, runs the program, and returns fresh arrays. If an argument is not what was compiled for,
it returns NotImplemented, and Python code takes over. An interpreter whose objects are laid out otherwise
(free-threaded builds) gets a slower entry through ctypes (slow_entry.py).

A program that takes longer than a few microseconds runs without the GIL. Then two threads may be in it at
once: the first takes the arena by a flag, another one gets memory of its own for that call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Type
from . import objects
from .builtin import BYTE, CINT, INT, NULL, POINTER, SIGNATURE, Builtin
from .failure import FINE, Failures
from .functions import keep_apart
from .repeat import loop_with

ALIGNMENT = 64
_PYTHONS = {"b": bool, "i": int, "f": float, "c": complex}
_IN_PLACE, _AS_INTEGER = (
    -1,
    -2,
)  # instead of a rank: a number's value is read where it lies, or asked for


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
    run = module.globals["run"]
    run.linkage = "internal"
    keep_apart(run)
    return _Entry(module, frame).emit(run)


def take_arena(f: Builtin, own: ir.Value, nbytes: ir.Value) -> tuple[ir.Value, Callable[[], None]]:
    """The arena, or fresh memory while another thread is in it; and how to give it back."""
    b = f.b
    flag = b.gep(f.words, [INT(f.table.place("arena is taken", 0))])
    before = b.block
    free = b.icmp_unsigned("==", b.atomic_rmw("xchg", flag, INT(1), "acquire"), INT(0))
    with b.if_then(b.not_(free), likely=False):
        fresh = f.call("PyMem_RawMalloc", POINTER, [b.add(nbytes, INT(ALIGNMENT))])
        with b.if_then(b.icmp_unsigned("==", fresh, NULL), likely=False):
            f.call("PyErr_NoMemory", POINTER, [])
            b.branch(f.failed)
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
                f.call("PyMem_RawFree", ir.VoidType(), [memory])

    return arena, give_back


class _Entry(Builtin):
    def __init__(self, module: ir.Module, frame: Frame):
        super().__init__(ir.Function(module, SIGNATURE, "entry"))
        self.frame = frame
        if frame.releases_gil:
            keep_apart(self.function, as_it_is=True)

    def emit(self, run: ir.Function) -> objects.Table:
        """Arguments, results and constants are walked in loops: there may be hundreds of them."""
        b, frame = self.b, self.frame
        n, m = len(frame.inputs), len(frame.outputs)
        pointers = b.alloca(POINTER, size=n + m + len(frame.constants) + 1)
        self.begin_results(INT(m))
        self.require_equal(self.function.args[2], INT(n))
        self.check_inputs(pointers)
        if frame.donors:
            self.require_apart(pointers)
        self.make_outputs(b.gep(pointers, [INT(n)]))
        self.find_constants(b.gep(pointers, [INT(n + m)]))
        self.count_call()
        code = self.run_program(run, pointers)
        if frame.failures.known:
            with b.if_then(b.icmp_unsigned("!=", code, FINE), likely=False):
                self.raise_failure(code)
        for k, t in enumerate(frame.outputs):
            if not t.shape:
                boxed = self.boxed(t, b.load(b.gep(pointers, [INT(n + k)])))
                self.fail_if_null(boxed)
                b.store(boxed, b.gep(self.results, [INT(k)]))
        m = len(frame.outputs)
        return self.finish(b.load(self.results) if m == 1 else self.in_tuple(INT(m)))

    def check_inputs(self, pointers: ir.Value) -> None:
        """Look at all that the arguments must be, and collect where their data lie."""
        b, inputs, giving = self.b, self.frame.inputs, self.frame.donors.values()
        dims: list[int] = []
        rows = []
        for k, t in enumerate(inputs):
            kind = _PYTHONS[t.dtype.kind] if t.weak else np.ndarray
            flags = objects.CONTIGUOUS | objects.ALIGNED | (objects.WRITEABLE if k in giving else 0)
            place = self.table.place
            types = place(kind.__name__, id(kind)), place(f"dtype {t.dtype.str}", id(t.dtype))
            rows += [*types, flags, t.ndim, len(dims)]
            if t.weak:
                rows[-2] = _AS_INTEGER if t.dtype.kind in "bi" else _IN_PLACE
            dims += t.shape
        table, dimensions = self.numbers("inputs", rows), self.numbers("dimensions", dims)
        integral = any(t.weak and t.dtype.kind in "bi" for t in inputs)
        integers = b.alloca(INT, size=len(inputs)) if integral else None

        def look(k: ir.Value) -> None:
            obj = self.argument(k)
            row = [b.load(b.gep(table, [b.add(b.mul(k, INT(5)), INT(j))])) for j in range(5)]
            kind, dtype, flags, ndim, first = row
            self.require_equal(self.read(obj, objects.TYPE, INT), self.word_at(kind))
            place = b.gep(pointers, [k])

            def look_at_array() -> None:
                self.require_equal(self.read(obj, objects.DESCR, INT), self.word_at(dtype))
                found = b.zext(self.read(obj, objects.FLAGS, CINT), INT)
                self.require_equal(b.and_(found, flags), flags)
                self.require_equal(b.sext(self.read(obj, objects.NDIM, CINT), INT), ndim)
                shape = b.bitcast(self.read(obj, objects.DIMENSIONS, POINTER), INT.as_pointer())

                def look_at_axis(axis: ir.Value) -> None:
                    wanted = b.load(b.gep(dimensions, [b.add(first, axis)]))
                    self.require_equal(b.load(b.gep(shape, [axis])), wanted)

                self.repeat(ndim, look_at_axis)
                b.store(self.read(obj, objects.DATA, POINTER), place)

            if not any(t.weak for t in inputs):
                look_at_array()
                return
            with b.if_else(b.icmp_signed("<", ndim, INT(0))) as (number, array):
                with number:
                    b.store(b.gep(obj, [INT(objects.FLOAT_VALUE)]), place)
                    if integers is not None:
                        with b.if_then(b.icmp_signed("==", ndim, INT(_AS_INTEGER))):
                            self.read_integer(obj, b.gep(integers, [k]), place)
                with array:
                    look_at_array()

        self.repeat(INT(len(inputs)), look)

    def read_integer(self, obj: ir.Value, number: ir.Value, place: ir.Value) -> None:
        """The value of an int or a bool, as an int64; its first byte is that of a bool."""
        b = self.b
        value = self.call("PyLong_AsLongLong", INT, [obj])
        with b.if_then(b.icmp_signed("==", value, INT(-1)), likely=False):
            error = self.call("PyErr_Occurred", POINTER, [])  # of a number that is too large
            self.call("PyErr_Clear", ir.VoidType(), [])
            self.require_equal(error, NULL)
        self.require_equal(value, b.sext(b.trunc(value, CINT), INT))
        b.store(value, number)
        b.store(b.bitcast(number, POINTER), place)

    def require_apart(self, pointers: ir.Value) -> None:
        """Refuse inputs of which one is to be written and shares memory with another."""
        b, inputs = self.b, self.frame.inputs
        givers = self.numbers("givers", sorted(self.frame.donors.values()))
        sizes = self.numbers("sizes", [0 if t.weak else t.size * t.dtype.itemsize for t in inputs])

        def span(k: ir.Value) -> tuple[ir.Value, ir.Value]:
            start = b.ptrtoint(b.load(b.gep(pointers, [k])), INT)
            return start, b.add(start, b.load(b.gep(sizes, [k])))

        def with_others(b: ir.IRBuilder, n: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            i = b.load(b.gep(givers, [n]))
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

    # ---- the run

    def run_program(self, run: ir.Function, pointers: ir.Value) -> ir.Value:
        b, frame = self.b, self.frame
        if not frame.releases_gil:
            return b.call(run, [pointers, self.pointer("arena", frame.arena)])
        own = self.pointer("arena", frame.arena)
        arena, give_back = own, lambda: None
        if frame.arena_bytes:
            arena, give_back = take_arena(self, own, INT(frame.arena_bytes))
        state = self.call("PyEval_SaveThread", POINTER, [])
        code = b.call(run, [pointers, arena])
        self.call("PyEval_RestoreThread", ir.VoidType(), [state])
        give_back()
        return code

    def raise_failure(self, code: ir.Value) -> None:
        """Set the exception of a code, and leave."""
        b = self.b
        choice = b.switch(code, self.failed)
        for k, (kind, message) in enumerate(self.frame.failures.known):
            case = b.append_basic_block("raise")
            choice.add_case(k + 1, case)
            b.position_at_end(case)
            raw = bytearray(message.encode() + b"\0")
            text = ir.GlobalVariable(b.module, ir.ArrayType(BYTE, len(raw)), f"message{k}")
            text.initializer, text.global_constant = ir.Constant(text.value_type, raw), True
            text.linkage = "internal"
            arguments = [self.object(f"exception {k}", kind), b.bitcast(text, POINTER)]
            self.call("PyErr_SetString", ir.VoidType(), arguments)
            b.branch(self.failed)

    # ---- results

    def make_outputs(self, pointers: ir.Value) -> None:
        """New arrays, donated ones, and for rank 0 places on the stack that are boxed afterwards."""
        b, frame = self.b, self.frame
        fresh = [k for k, t in enumerate(frame.outputs) if t.shape and k not in frame.donors]
        dims: list[int] = []
        rows: list[int] = []
        for k in fresh:
            t = frame.outputs[k]
            rows += [k, t.dtype.num, t.ndim, len(dims)]
            dims += t.shape
        table, dimensions = self.numbers("outputs", rows), self.numbers("shapes", dims)

        def make(at: ir.Value) -> None:
            row = [b.load(b.gep(table, [b.add(b.mul(at, INT(4)), INT(j))])) for j in range(4)]
            k, number, ndim, first = row
            shape = b.gep(dimensions, [first])  # NumPy copies it
            array = self.new_array(b.trunc(number, CINT), b.trunc(ndim, CINT), shape)
            b.store(array, b.gep(self.results, [k]))
            b.store(self.read(array, objects.DATA, POINTER), b.gep(pointers, [k]))

        self.repeat(INT(len(fresh)), make)
        pairs = [x for pair in frame.donors.items() for x in pair]
        donors = self.numbers("donors", pairs)

        def take(at: ir.Value) -> None:
            place = b.mul(at, INT(2))
            k, i = (b.load(b.gep(donors, [b.add(place, INT(j))])) for j in range(2))
            array = self.argument(i)  # the program writes it as an input
            self.call("Py_IncRef", ir.VoidType(), [array])
            b.store(array, b.gep(self.results, [k]))

        if frame.donors:
            self.repeat(INT(len(frame.donors)), take)
        for k, t in enumerate(frame.outputs):
            if not t.shape:
                b.store(b.bitcast(b.alloca(INT, size=2), POINTER), b.gep(pointers, [INT(k)]))

    def find_constants(self, pointers: ir.Value) -> None:
        places = [
            self.table.place(f"constant {k}", c.ctypes.data)
            for k, c in enumerate(self.frame.constants)
        ]
        if places:
            words, b = self.b.gep(self.words, [INT(places[0])]), self.b
            target = b.bitcast(pointers, INT.as_pointer())
            self.repeat(
                INT(len(places)),
                lambda k: b.store(b.load(b.gep(words, [k])), b.gep(target, [k])),
            )

    def boxed(self, t: Type, data: ir.Value) -> ir.Value:
        if t.weak and t.dtype.kind in "bi":
            b = self.b
            if t.dtype.kind == "b":
                return self.call("PyBool_FromLong", POINTER, [b.zext(b.load(data), INT)])
            value = b.load(b.bitcast(data, INT.as_pointer()))
            return self.call("PyLong_FromLongLong", POINTER, [value])
        if t.weak:
            b, parts = self.b, self.b.bitcast(data, ir.DoubleType().as_pointer())
            if t.dtype.kind == "c":
                both = [b.load(b.gep(parts, [INT(k)])) for k in (0, 1)]
                return self.call("PyComplex_FromDoubles", POINTER, both)
            return self.call("PyFloat_FromDouble", POINTER, [b.load(parts)])
        descr = self.object(f"dtype {t.dtype.str}", t.dtype)
        return self.call("PyArray_Scalar", POINTER, [data, descr, NULL])
