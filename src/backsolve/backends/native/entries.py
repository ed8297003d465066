"""All that a kernel computes at one place of its loops, and where its arrays have that place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Var
from .elementwise import combine, emit
from .narrowing import Narrow
from .nests import address as address_of
from .nests import offset
from .numbers.integer import OUTGROWS
from .numbers.refusals import refusal
from .numbers.registers import BOOL, convert, load, number, register_type, store
from .views import Buffer, View

if TYPE_CHECKING:
    from .indexing import Place, Write
    from .kernel import Kernel

INT = ir.IntType(64)


class Entries:
    def __init__(self, kernel: Kernel, numbers: dict[Var, Any], pointers: dict[Buffer, Any]):
        self.kernel, self.numbers, self.pointers = kernel, numbers, pointers
        self.flags: dict[int, ir.Value] = {}  # by failure: whether it happened
        self.strides: dict[int, tuple[Any, ...]] = {}  # by the identity of a view

    def combine_in_memory(
        self, b: ir.IRBuilder, how: str, view: View, place: Any, v: Any, dtype: np.dtype[Any]
    ) -> None:
        """Of what stands there and v, in the wider of their dtypes."""
        address = self.address(b, view, place)
        wider = max(dtype, view.dtype, key=lambda t: t.itemsize)
        old = convert(b, load(b, address, view.dtype), view.dtype, wider)
        new = combine(b, how, old, convert(b, v, dtype, wider), wider)
        store(b, convert(b, new, wider, view.dtype), address, view.dtype)

    def entries(
        self, b: ir.IRBuilder, place: list[ir.Value], narrow: Narrow | None = None
    ) -> dict[Var, Any]:
        """All that is computed at one place, what is to be stored stored there."""
        values = self._statements(b, place, narrow)
        for a, view in self.kernel.stores:
            v = convert(b, *self.value(b, a, values, view.dtype), view.dtype)
            store(b, v, self.address(b, view, place), view.dtype)
        return values

    def _statements(
        self, b: ir.IRBuilder, place: list[ir.Value], narrow: Narrow | None
    ) -> dict[Var, Any]:
        values: dict[Var, Any] = {}
        for var, view in self.kernel.loads.items():
            values[var] = self._read(b, view, place)
        for e in self.kernel.statements:
            found = self.kernel.reads.get(e.outputs[0])
            if found is not None:
                values[e.outputs[0]] = found.read(self, b, values, place)
                continue
            inputs = [self.value(b, a, values, e.outputs[0].dtype) for a in e.inputs]
            if narrow is not None and narrow.takes(e):
                values[e.outputs[0]] = narrow.emit(b, e, inputs)
            else:
                values[e.outputs[0]] = emit(b, e, inputs, inline=bool(place))
            if e.outputs[0] in self.kernel.refusals:
                self._refuse(b, e, inputs)
        return values

    def write(self, b: ir.IRBuilder, w: Write, values: dict[Var, Any], place: Any) -> None:
        dtype = w.place.view.dtype
        v = convert(b, *self.value(b, w.value, values, dtype), dtype)
        address = b.gep(
            self.pointers[w.place.view.buffer], [self.indexed(b, w.place, values, place)]
        )
        if w.how != "set":
            v = combine(b, w.how, load(b, address, dtype), v, dtype)
        store(b, v, address, dtype)

    def indexed(
        self, b: ir.IRBuilder, target: Place, values: dict[Var, Any], place: list[ir.Value]
    ) -> ir.Value:
        at, integer = self.offset(b, target.view, place), np.dtype(np.int64)
        for axis in target.axes:
            i = convert(b, *self.value(b, axis.index, values, integer), integer)
            at = b.add(at, axis.position(b, i, lambda code: self.flag(b, code)))
        return at

    def _refuse(self, b: ir.IRBuilder, e: Equation, inputs: list[tuple[Any, Any]]) -> None:
        out = e.outputs[0]
        args = [convert(b, v, t, out.dtype) for v, t in inputs]
        slot = self.flag(b, self.kernel.refusals[out])
        name = e.primitive.name
        refused = refusal(e)
        test = refused[2] if refused is not None else OUTGROWS[name]
        b.store(b.or_(b.load(slot), test(b, *args)), slot)

    def flag(self, b: ir.IRBuilder, code: int) -> ir.Value:
        if code not in self.flags:
            with b.goto_entry_block():
                self.flags[code] = b.alloca(BOOL)
                b.store(BOOL(0), self.flags[code])
        return self.flags[code]

    def value(self, b: ir.IRBuilder, a: Any, values: dict[Var, Any], like: Any) -> tuple[Any, Any]:
        """The register and dtype of an atom; a bare Python number takes the dtype of its company."""
        if type(a) is Var:
            if a in values:
                dtype = self.kernel.loads[a].dtype if a in self.kernel.loads else a.dtype
                return values[a], dtype
            known = self.numbers[a]
            return number(known, np.dtype(known.dtype)), np.dtype(known.dtype)
        dtype = np.dtype(like)
        if "biufc".index(dtype.kind) < "biufc".index(np.dtype(type(a)).kind):
            dtype = np.dtype(type(a))
        return number(a, dtype), dtype

    def entry(self, b: ir.IRBuilder, buffer: Buffer, at: ir.Value) -> ir.Value:
        if buffer.kind == "ramp":
            t = register_type(buffer.dtype)
            return at if t == INT else b.trunc(at, t)
        return load(b, b.gep(self.pointers[buffer], [at]), buffer.dtype)

    def _read(self, b: ir.IRBuilder, view: View, place: list[ir.Value]) -> ir.Value:
        if view.buffer.kind == "ramp":
            return self.entry(b, view.buffer, self.offset(b, view, place))
        return load(b, self.address(b, view, place), view.dtype)

    def address(self, b: ir.IRBuilder, view: View, place: list[ir.Value]) -> ir.Value:
        strides = self.strides[id(view)]
        return address_of(b, self.pointers[view.buffer], view.offset, strides, place)

    def offset(self, b: ir.IRBuilder, view: View, place: list[ir.Value]) -> ir.Value:
        return offset(b, view.offset, self.strides[id(view)], place)
