"""A built-in function while it is emitted: its arguments, and the words that it finds through `self`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from . import objects

INT, CINT, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
POINTER = BYTE.as_pointer()
NULL = ir.Constant(POINTER, None)


class Builtin:
    """`name(self, args, nargs)`; an argument that is refused makes it return NotImplemented."""

    def __init__(self, module: ir.Module, name: str):
        signature = ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), INT])
        self.function = ir.Function(module, signature, name)
        self.table = objects.Table()
        self.made: list[ir.Value] = []  # objects to be released if something fails
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.refused = self.function.append_basic_block("refused")
        words = self.read(self.function.args[0], objects.DATA, POINTER)
        self.words = self.b.bitcast(words, INT.as_pointer())

    def finish(self, result: ir.Value) -> objects.Table:
        """Return `result`; the table that `self` must be."""
        self.b.ret(result)
        self.b.position_at_end(self.refused)
        refusal = self.object("NotImplemented", NotImplemented)
        self.call("Py_IncRef", ir.VoidType(), [refusal])
        self.b.ret(refusal)
        return self.table

    # ---- words of the table

    def word(self, name: str, value: int) -> ir.Value:
        return self.b.load(self.b.gep(self.words, [INT(self.table.place(name, value))]))

    def pointer(self, name: str, address: int) -> ir.Value:
        return self.b.inttoptr(self.word(name, address), POINTER)

    def object(self, name: str, obj: Any) -> ir.Value:
        return self.pointer(name, id(obj))

    def call(self, name: str, result: ir.Type, args: Sequence[ir.Value]) -> ir.Value:
        """A function of Python's or NumPy's C interface."""
        signature = ir.FunctionType(result, [a.type for a in args])
        address = self.word(name, objects.function_address(name))
        return self.b.call(self.b.inttoptr(address, signature.as_pointer()), args)

    # ---- objects

    def read(self, obj: ir.Value, offset: int, t: ir.Type) -> ir.Value:
        return self.b.load(self.b.bitcast(self.b.gep(obj, [INT(offset)]), t.as_pointer()))

    def argument(self, k: int) -> ir.Value:
        return self.b.load(self.b.gep(self.function.args[1], [INT(k)]))

    def require(self, condition: ir.Value) -> None:
        following = self.function.append_basic_block()
        self.b.cbranch(condition, following, self.refused)
        self.b.position_at_end(following)

    def require_equal(self, x: ir.Value, y: ir.Value) -> None:
        self.require(self.b.icmp_unsigned("==", x, y))

    def require_array(self, obj: ir.Value, dtype: np.dtype[Any], flags: int) -> None:
        self.require_equal(self.read(obj, objects.TYPE, INT), self.word("ndarray", id(np.ndarray)))
        descr = self.word(f"dtype {dtype.str}", id(dtype))
        self.require_equal(self.read(obj, objects.DESCR, INT), descr)
        found = self.b.and_(self.read(obj, objects.FLAGS, CINT), CINT(flags))
        self.require_equal(found, CINT(flags))

    def new_array(self, dtype: np.dtype[Any], ndim: ir.Value, shape: ir.Value) -> ir.Value:
        b, zero = self.b, CINT(0)
        kind, number = self.object("ndarray", np.ndarray), CINT(dtype.num)
        arguments = [kind, ndim, b.bitcast(shape, POINTER), number, NULL, NULL, zero, zero, NULL]
        array = self.call("PyArray_New", POINTER, arguments)
        with b.if_then(b.icmp_unsigned("==", array, NULL), likely=False):
            self.release()  # no memory: NumPy has set the error
            b.ret(NULL)
        self.made.append(array)
        return array

    def release(self) -> None:
        for array in self.made:
            self.call("Py_DecRef", ir.VoidType(), [array])
