"""The entry of long programs on arrays: one function for all of them, which finds what differs in its table.

It does what entry.py does, where arguments and results are arrays (or results of rank 0), no memory is
donated and nothing can fail; a program that runs for long does not mind the loops. So such a program has no
entry of its own to be emitted and built, which is a sixth of the time for a single loop.

    table: how many calls, the words of HEADER, functions of Python and NumPy, then from `tail` on
           (dtype, rank, place of its shape) of each argument,
           (number in NumPy's list, rank, place of its shape, dtype) of each result,
           constants, shapes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from . import library, objects
from .builtin import CINT, INT, NULL, POINTER, SIGNATURE, Builtin
from .emission import FUNCTION
from .entry import Frame, take_arena
from .functions import keep_apart

HEADER = ("run", "inputs", "outputs", "constants", "arena", "bytes", "arena is taken", "tail")
GIVEN, MADE = 3, 4  # words of an argument, of a result
BOX = 16  # bytes of a result of rank 0
NAME = "entry_of_arrays"


def suits(frame: Frame) -> bool:
    differs = frame.donors or frame.failures.known
    weak = any(t.weak for t in (*frame.inputs, *frame.outputs))
    return frame.releases_gil and not differs and not weak and bool(frame.outputs)


def entry_table(frame: Frame) -> objects.Table:
    """What `self` must be; the address of `run` is put in when that is known."""
    library.shared(ir.Module(), NAME, SIGNATURE, _emit)
    table = objects.Table()
    table.words, table.places = [*_fixed().words], {**_fixed().places}
    n, m = len(frame.inputs), len(frame.outputs)
    tail = len(table.words)
    constants = [c.ctypes.data for c in frame.constants]
    shapes: list[int] = []
    start = tail + GIVEN * n + MADE * m + len(constants)

    def shape_of(t: Any) -> tuple[int, int]:
        shapes.extend(t.shape)
        return t.ndim, start + len(shapes) - t.ndim

    given = [word for t in frame.inputs for word in (id(t.dtype), *shape_of(t))]
    made = [word for t in frame.outputs for word in (t.dtype.num, *shape_of(t), id(t.dtype))]
    header = (0, n, m, len(constants), frame.arena, frame.arena_bytes, 0, tail)
    for name, word in zip(HEADER, header, strict=True):
        table.words[table.places[name]] = word
    table.words += [*given, *made, *constants, *shapes]
    return table


def make_entry(engine: Any, table: objects.Table, keep: list[Any]) -> Callable[..., Any]:
    """A built-in around the `run` of an engine."""
    library.build_wanted()
    table.words[table.places["run"]] = engine.get_function_address("run")
    return objects.make_builtin(library.address(NAME), table, keep)


@cache
def _fixed() -> objects.Table:
    """The words that all programs have."""
    return _Entry(ir.Function(ir.Module(), SIGNATURE, NAME)).emit()


def _emit(function: ir.Function) -> None:
    keep_apart(function, as_it_is=True)
    _Entry(function).emit()


class _Entry(Builtin):
    def __init__(self, function: ir.Function):
        super().__init__(function)
        self.header = {name: self.word(name, 0) for name in HEADER}
        b, word = self.b, self.header
        self.n, self.m = word["inputs"], word["outputs"]
        self.given = b.gep(self.words, [word["tail"]])
        self.made = b.gep(self.given, [b.mul(self.n, INT(GIVEN))])
        self.constants = b.gep(self.made, [b.mul(self.m, INT(MADE))])

    def emit(self) -> objects.Table:
        b, word = self.b, self.header
        arrays = b.add(self.n, self.m)
        pointers = b.alloca(POINTER, size=b.add(b.add(arrays, word["constants"]), INT(1)))
        self.begin_results(self.m)
        boxes = b.alloca(ir.IntType(8), size=b.mul(self.m, INT(BOX)))
        boxes.align = BOX
        self.require_equal(self.function.args[2], self.n)
        self.repeat(self.n, lambda k: self._look(k, b.gep(pointers, [k])))
        places = b.gep(pointers, [self.n])
        box = lambda k: b.gep(boxes, [b.mul(k, INT(BOX))])
        self.repeat(self.m, lambda k: self._make(k, b.gep(places, [k]), box(k)))
        target = b.bitcast(b.gep(pointers, [arrays]), INT.as_pointer())
        copy = lambda k: b.store(b.load(b.gep(self.constants, [k])), b.gep(target, [k]))
        self.repeat(word["constants"], copy)
        arena, give_back = take_arena(self, b.inttoptr(word["arena"], POINTER), word["bytes"])
        self.count_call()
        state = self.call("PyEval_SaveThread", POINTER, [])
        b.call(b.inttoptr(word["run"], FUNCTION.as_pointer()), [pointers, arena])
        self.call("PyEval_RestoreThread", ir.VoidType(), [state])
        give_back()
        self.repeat(self.m, lambda k: self._box(k, box(k)))
        with b.if_then(b.icmp_signed("==", self.m, INT(1))):
            b.ret(b.load(self.results))
        return self.finish(self.in_tuple(self.m))

    def _row(self, start: ir.Value, k: ir.Value, length: int) -> list[ir.Value]:
        first = self.b.mul(k, INT(length))
        places = [self.b.add(first, INT(j)) for j in range(length)]
        return [self.b.load(self.b.gep(start, [place])) for place in places]

    def _look(self, k: ir.Value, place: ir.Value) -> None:
        """Argument k must be an array as it was compiled for."""
        b, obj = self.b, self.argument(k)
        dtype, ndim, first = self._row(self.given, k, GIVEN)
        kind = self.word("ndarray", id(np.ndarray))
        self.require_equal(self.read(obj, objects.TYPE, INT), kind)
        self.require_equal(self.read(obj, objects.DESCR, INT), dtype)
        flags = CINT(objects.CONTIGUOUS | objects.ALIGNED)
        self.require_equal(b.and_(self.read(obj, objects.FLAGS, CINT), flags), flags)
        self.require_equal(b.sext(self.read(obj, objects.NDIM, CINT), INT), ndim)
        shape = b.bitcast(self.read(obj, objects.DIMENSIONS, POINTER), INT.as_pointer())
        wanted = lambda axis: self.word_at(b.add(first, axis))
        same = lambda axis: self.require_equal(b.load(b.gep(shape, [axis])), wanted(axis))
        self.repeat(ndim, same)
        b.store(self.read(obj, objects.DATA, POINTER), place)

    def _make(self, k: ir.Value, place: ir.Value, box: ir.Value) -> None:
        b = self.b
        number, ndim, first, _ = self._row(self.made, k, MADE)
        with b.if_else(b.icmp_signed(">", ndim, INT(0))) as (array, scalar):
            with array:
                shape = b.gep(self.words, [first])  # NumPy copies it
                made = self.new_array(b.trunc(number, CINT), b.trunc(ndim, CINT), shape)
                b.store(made, b.gep(self.results, [k]))
                b.store(self.read(made, objects.DATA, POINTER), place)
            with scalar:
                b.store(box, place)

    def _box(self, k: ir.Value, box: ir.Value) -> None:
        """A result of rank 0 as an object."""
        b = self.b
        _, ndim, _, dtype = self._row(self.made, k, MADE)
        with b.if_then(b.icmp_signed("==", ndim, INT(0))):
            made = self.call("PyArray_Scalar", POINTER, [box, b.inttoptr(dtype, POINTER), NULL])
            self.fail_if_null(made)
            b.store(made, b.gep(self.results, [k]))
