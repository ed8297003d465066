"""Compiled code that XLA calls by itself, by its foreign function interface: no Python is run, no GIL is taken.

One handler serves all programs. XLA hands it a call frame (xla/ffi/api/c_api.h), with the places of arguments
and results and one number, the address of a program's words:

    words: run, count of constants, their addresses, arena, its bytes, whether it is taken,
           malloc, free, messages of failures, number of the latest failure
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Program
from . import library
from .builtin import CINT, INT, NULL, POINTER
from .compile import compile_run
from .emission import FUNCTION
from .entry import ALIGNMENT, Frame
from .failure import FINE
from .objects import function_address
from .repeat import loop_between

NAME = "xla_handler"
WORDS = (
    *("run", "count", "constants", "arena", "bytes", "taken"),
    *("malloc", "free", "messages", "failure"),
)
_PLACES = {name: k for k, name in enumerate(WORDS)}

# Where things lie in XLA's structs, in bytes.
_EXTENSION, _API, _ARGS, _RESULTS, _ATTRIBUTES = 8, 16, 56, 96, 160
_COUNT, _ITEMS = 0, 16  # of arguments or results, from there on
_DATA = 24  # of a buffer
_VALUE = 8  # of a scalar attribute
_METADATA, _VERSION, _TRAITS = 24, 24, 32
_CREATE_ERROR = 48
_MAJOR, _MINOR = 0, 1  # of the interface that this is written for
_INVALID_ARGUMENT, _RESOURCE_EXHAUSTED = 3, 8


@dataclass(eq=False)
class Foreign:
    """A program for XLA to call: `address` is the number that its handler takes."""

    frame: Frame
    calls_python: bool  # rows that have no native form: XLA's threads must not wait for the GIL
    words: np.ndarray[Any, Any]
    keep: list[Any] = field(default_factory=list)

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    def failure(self) -> Exception | None:
        """What the latest run failed with, told once."""
        code = int(self.words[_PLACES["failure"]])
        self.words[_PLACES["failure"]] = 0
        return self.frame.failures.exception(code) if code > 0 else None


def compile_foreign(program: Program, unsafe: bool = False) -> Foreign:
    """Raises schedule.Unsupported if an equation has no native form."""
    engine, frame, called = compile_run(program, unsafe)
    constants = _addresses([c.ctypes.data for c in frame.constants])
    texts = [ctypes.create_string_buffer(said.encode()) for _, said in frame.failures.known]
    messages = _addresses([ctypes.addressof(text) for text in texts])
    words = np.array(
        [
            engine.get_function_address("run"),
            len(frame.constants),
            constants.ctypes.data,
            frame.arena,
            frame.arena_bytes,
            0,
            function_address("PyMem_RawMalloc"),
            function_address("PyMem_RawFree"),
            messages.ctypes.data,
            0,
        ],
        np.int64,
    )
    return Foreign(frame, bool(called), words, [engine, constants, messages, texts, called])


def handler_address() -> int:
    library.shared(ir.Module(), NAME, ir.FunctionType(POINTER, [POINTER]), _emit)
    library.build_wanted()
    return library.address(NAME)


def _addresses(values: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.array([*values, 0], np.int64)


def _emit(function: ir.Function) -> None:
    _Handler(function).emit()


class _Handler:
    def __init__(self, function: ir.Function):
        self.frame = function.args[0]
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    def read(self, start: ir.Value, offset: int, t: ir.Type = POINTER) -> ir.Value:
        return self.b.load(self.b.bitcast(self.b.gep(start, [INT(offset)]), t.as_pointer()))

    def write(self, value: ir.Value, start: ir.Value, offset: int) -> None:
        place = self.b.gep(start, [INT(offset)])
        self.b.store(value, self.b.bitcast(place, value.type.as_pointer()))

    def word(self, name: str, t: ir.Type = INT) -> ir.Value:
        return self.read(self.words, 8 * _PLACES[name], t)

    def call(self, name: str, t: ir.Type, arg: ir.Value) -> ir.Value:
        kind = ir.FunctionType(t, [arg.type])
        return self.b.call(self.word(name, kind.as_pointer()), [arg])

    def emit(self) -> None:
        b = self.b
        extension = self.read(self.frame, _EXTENSION)
        with b.if_then(b.icmp_unsigned("!=", extension, NULL), likely=False):
            self.describe(extension)
        attributes = self.read(self.frame, _ATTRIBUTES)
        number = self.read(self.read(attributes, 0), _VALUE)
        self.words = self.read(number, 0)
        n, m = (self.read(self.frame, start + _COUNT, INT) for start in (_ARGS, _RESULTS))
        arrays, constants = b.add(n, m), self.word("count")
        pointers = b.alloca(POINTER, size=b.add(b.add(arrays, constants), INT(1)))
        self.collect(_ARGS, n, pointers)
        self.collect(_RESULTS, m, b.gep(pointers, [n]))
        given = self.word("constants", POINTER.as_pointer())
        behind = b.gep(pointers, [arrays])
        copy = lambda b, k: b.store(b.load(b.gep(given, [k])), b.gep(behind, [k]))
        loop_between(b, INT(0), constants, copy)
        code = self.run(pointers)
        with b.if_then(b.icmp_unsigned("!=", code, FINE), likely=False):
            self.write(b.sext(code, INT), self.words, 8 * _PLACES["failure"])
            texts = self.word("messages", POINTER.as_pointer())
            self.fail(b.load(b.gep(texts, [b.sub(code, CINT(1))])), _INVALID_ARGUMENT)
        b.ret(NULL)

    def describe(self, extension: ir.Value) -> None:
        """XLA asks, before all calls, which version of its interface this is."""
        metadata = self.read(extension, _METADATA)
        self.write(CINT(_MAJOR), metadata, _VERSION)
        self.write(CINT(_MINOR), metadata, _VERSION + 4)
        self.write(CINT(0), metadata, _TRAITS)
        self.b.ret(NULL)

    def collect(self, start: int, count: ir.Value, pointers: ir.Value) -> None:
        items = self.read(self.frame, start + _ITEMS, POINTER.as_pointer())

        def one(b: ir.IRBuilder, k: ir.Value) -> None:
            b.store(self.read(b.load(b.gep(items, [k])), _DATA), b.gep(pointers, [k]))

        loop_between(self.b, INT(0), count, one)

    def run(self, pointers: ir.Value) -> ir.Value:
        """In the arena, or in fresh memory while another thread is in it."""
        b = self.b
        flag = b.bitcast(b.gep(self.words, [INT(8 * _PLACES["taken"])]), INT.as_pointer())
        own = self.word("arena", POINTER)
        run = self.word("run", FUNCTION.as_pointer())
        result = b.alloca(CINT)
        free = b.icmp_unsigned("==", b.atomic_rmw("xchg", flag, INT(1), "acquire"), INT(0))
        with b.if_else(free, likely=True) as (here, elsewhere):
            with here:
                b.store(b.call(run, [pointers, own]), result)
                b.store_atomic(INT(0), flag, "release", 8)
            with elsewhere:
                fresh = self.call("malloc", POINTER, b.add(self.word("bytes"), INT(ALIGNMENT)))
                with b.if_then(b.icmp_unsigned("==", fresh, NULL), likely=False):
                    self.fail(self.text("no memory for intermediate results"), _RESOURCE_EXHAUSTED)
                up = b.and_(b.add(b.ptrtoint(fresh, INT), INT(ALIGNMENT - 1)), INT(-ALIGNMENT))
                b.store(b.call(run, [pointers, b.inttoptr(up, POINTER)]), result)
                self.call("free", ir.VoidType(), fresh)
        return b.load(result)

    def text(self, said: str) -> ir.Value:
        raw = bytearray(said.encode() + b"\0")
        made = ir.GlobalVariable(self.b.module, ir.ArrayType(ir.IntType(8), len(raw)), "said")
        made.initializer, made.global_constant = ir.Constant(made.value_type, raw), True
        made.linkage = "internal"
        return self.b.bitcast(made, POINTER)

    def fail(self, message: ir.Value, kind: int) -> None:
        """Return an error of XLA's."""
        b = self.b
        with b.goto_entry_block():
            given = b.bitcast(b.alloca(INT, size=4), POINTER)
        self.write(INT(28), given, 0)
        self.write(NULL, given, 8)
        self.write(message, given, 16)
        self.write(CINT(kind), given, 24)
        create = ir.FunctionType(POINTER, [POINTER]).as_pointer()
        api = self.read(self.frame, _API)
        b.ret(b.call(self.read(api, _CREATE_ERROR, create), [given]))
