"""What the steps of decompositions are made of (eigenvalues.py, decompositions.py).

LAPACK is given the matrix as NumPy gives it, column by column, so that the signs and phases of vectors are
NumPy's. A row has one array for all its results, one below the other (primitives/eigen.py); in memory it
stands transposed, for LAPACK then writes vectors where they stay. Where only values are read, only they are
computed.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, type_of
from ...operators.slice import key_of
from .failure import fail_if
from .matrices import CINT, INT, Stacked, append, refuse, swapped
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

C = np.dtype(np.int32)


class Columns:
    """What a step of one equation is made of: the result, column by column, and arrays to work in.

    NumPy computes with single precision as with double. So it is done here where other digits could mean
    other signs of vectors, or another order of values: `doubled`.
    """

    def __init__(self, schedule: Schedule, e: Equation, doubled: bool = False):
        self.schedule, self.e, self.out = schedule, e, e.outputs[0]
        self.a = type_of(e.inputs[0])
        dtypes = self.a.dtype, self.out.dtype
        if doubled:
            dtypes = np.result_type(dtypes[0], "f8"), np.result_type(dtypes[1], "f8")
        self.dtype, self.made = dtypes  # of the matrix, and of what becomes of it
        self.count = prod(self.a.shape[:-2])

    def result(self) -> tuple[View, View]:
        """The result, and its memory (…, columns, rows)."""
        shape = self.out.shape
        memory = self.schedule.new_buffer((*shape[:-2], shape[-1], shape[-2]), self.made)
        return swapped(memory), memory

    def done(self, view: View) -> View:
        """The result in its own dtype."""
        if self.made == self.out.dtype:
            return view
        narrow = self.schedule.new_buffer(view.shape, self.out.dtype)
        self.schedule.copy(view, narrow)
        return narrow

    def put_matrix(self, target: View | None = None) -> View:
        """The matrices, column by column, to be overwritten."""
        source = swapped(self.schedule.view_of(self.e.inputs[0]))
        if target is None:
            target = self.schedule.new_buffer(source.shape, self.dtype)
        self.schedule.copy(source, target)
        return stack_of_columns(target)

    def scratch(self, size: int, dtype: Any) -> View:
        """Memory for one matrix after the other."""
        view = self.schedule.new_buffer((1, 1, size), np.dtype(dtype))
        return view.broadcast((self.count, 1, size))

    def append(
        self, name: str, views: list[View], steps: int, written: list[View], body: Any
    ) -> None:
        """`body(b, *pointers)` for every matrix; `written` besides scratch memory."""
        step = Stacked(name, views, steps, lambda b, pointers: body(b, *pointers))
        append(self.schedule, step, *written)

    def refuse(self, message: str) -> int:
        """The code of a matrix that LAPACK cannot cope with; asked for before anything is emitted."""
        return refuse(self.schedule, message, self.e)


def fail_on(b: ir.IRBuilder, info: ir.Value, code: int) -> None:
    fail_if(b, b.icmp_signed("!=", b.load(info), CINT(0)), code)


def only_reads(schedule: Schedule, e: Equation, first: int, last: int) -> bool:
    """Whether these rows are all that anybody reads of the result."""
    (out,) = e.outputs
    return out not in schedule.program.outputs and all(
        reader.primitive.name == "slice" and _is_within(reader, first, last)
        for reader in schedule.readers.get(out, [])
    )


def _is_within(e: Equation, first: int, last: int) -> bool:
    shape = type_of(e.inputs[0]).shape
    rows = np.broadcast_to(np.arange(shape[-2])[:, None], shape)[key_of(e.params["spec"])]
    return not rows.size or bool(first <= rows.min() and rows.max() < last)


def stack_of_columns(view: View) -> View:
    """(count, columns, rows); a part of columns stays strided."""
    lead = view.imaginary.shape[:-2]
    return view.with_(np.reshape(view.imaginary, (prod(lead), *view.shape[-2:]), copy=False))


def part_of(view: View, first: int, last: int) -> View:
    """Some rows of columns (…, columns, rows)."""
    return view.with_(view.imaginary[..., first:last])


def at_place(b: ir.IRBuilder, base: ir.Value, *terms: tuple[Any, int]) -> ir.Value:
    """The place Σ index · step."""
    return b.gep(base, [reduce(b.add, [b.mul(i, INT(step)) for i, step in terms])])


def lines_of(view: View) -> View:
    """(count, 1, n) of (…, n)"""
    flat = view.reshape((prod(view.shape[:-1]), 1, view.shape[-1]))
    assert flat is not None
    return flat
