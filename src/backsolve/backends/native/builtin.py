"""A built-in function while it is emitted: its arguments, and the words that it finds through `self`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from . import objects

INT, CINT, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
POINTER = BYTE.as_pointer()
NULL = ir.Constant(POINTER, None)


SIGNATURE = ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), INT])


class Builtin:
    """`function(self, args, nargs)`; an argument that is refused makes it return NotImplemented."""

    def __init__(self, function: ir.Function):
        self.function = function
        self.table = objects.Table()
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.refused = self.function.append_basic_block("refused")
        self.failed = self.function.append_basic_block("failed")  # an error is set
        words = self.read(self.function.args[0], objects.DATA, POINTER)
        self.words = self.b.bitcast(words, INT.as_pointer())

    def finish(self, result: ir.Value) -> objects.Table:
        """Return `result`; the table that `self` must be."""
        self.b.ret(result)
        self.b.position_at_end(self.refused)
        refusal = self.object("NotImplemented", NotImplemented)
        self.call("Py_IncRef", ir.VoidType(), [refusal])
        self.b.ret(refusal)
        self.b.position_at_end(self.failed)
        self.release()
        self.b.ret(NULL)
        return self.table

    # ---- results, if there may be several

    results: ir.Value | None = None  # where they are kept
    count: ir.Value

    def begin_results(self, count: ir.Value) -> None:
        b = self.b
        self.results, self.count = b.alloca(POINTER, size=count), count
        self.repeat(count, lambda k: b.store(NULL, b.gep(self.results, [k])))

    def in_tuple(self, count: ir.Value) -> ir.Value:
        b = self.b
        made = self.call("PyTuple_New", POINTER, [count])
        self.fail_if_null(made)

        def put(k: ir.Value) -> None:
            self.call("PyTuple_SetItem", CINT, [made, k, b.load(b.gep(self.results, [k]))])

        self.repeat(count, put)
        return made

    def release(self) -> None:
        """Give up the objects made so far; they will not be returned."""
        if self.results is None:
            return

        def drop(k: ir.Value) -> None:
            arguments = [self.b.load(self.b.gep(self.results, [k]))]
            self.call("Py_DecRef", ir.VoidType(), arguments)  # which lets NULL be

        self.repeat(self.count, drop)

    def count_call(self) -> None:
        counter = self.b.gep(self.words, [INT(objects.CALLS)])
        self.b.store(self.b.add(self.b.load(counter), INT(1)), counter)

    # ---- words of the table

    def word(self, name: str, value: int) -> ir.Value:
        return self.word_at(INT(self.table.place(name, value)))

    def word_at(self, place: ir.Value) -> ir.Value:
        return self.b.load(self.b.gep(self.words, [place]))

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

    def argument(self, k: ir.Value) -> ir.Value:
        return self.b.load(self.b.gep(self.function.args[1], [k]))

    def require(self, condition: ir.Value) -> None:
        following = self.function.append_basic_block()
        self.b.cbranch(condition, following, self.refused)
        self.b.position_at_end(following)

    def require_equal(self, x: ir.Value, y: ir.Value) -> None:
        self.require(self.b.icmp_unsigned("==", x, y))

    def fail_if_null(self, obj: ir.Value) -> None:
        following = self.function.append_basic_block()
        null = self.b.icmp_unsigned("==", obj, NULL)
        self.b.cbranch(null, self.failed, following).set_weights([1, 99])
        self.b.position_at_end(following)

    def new_array(self, number: ir.Value, ndim: ir.Value, shape: ir.Value) -> ir.Value:
        """An array of the dtype with that number in NumPy's list."""
        zero, kind = CINT(0), self.object("ndarray", np.ndarray)
        arguments = [kind, ndim, self.b.bitcast(shape, POINTER), number, NULL, NULL, zero, zero]
        array = self.call("PyArray_New", POINTER, [*arguments, NULL])
        self.fail_if_null(array)
        return array

    def numbers(self, name: str, values: Sequence[int]) -> ir.Value:
        """A constant array of the code, as a pointer to its first entry."""
        t = ir.ArrayType(INT, max(len(values), 1))
        made = ir.GlobalVariable(self.b.module, t, name)
        made.initializer, made.global_constant = ir.Constant(t, list(values) or [0]), True
        made.linkage = "internal"
        return self.b.gep(made, [INT(0), INT(0)])

    def repeat(self, count: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """for k in range(count): body(k)"""
        b, before = self.b, self.b.block
        head, inside, after = (self.function.append_basic_block() for _ in range(3))
        b.branch(head)
        b.position_at_end(head)
        k = b.phi(INT)
        k.add_incoming(INT(0), before)
        b.cbranch(b.icmp_unsigned("<", k, count), inside, after)
        b.position_at_end(inside)
        body(k)
        k.add_incoming(b.add(k, INT(1)), b.block)
        b.branch(head)
        b.position_at_end(after)
