"""What workers have summed up by themselves, put together in the order of the workers.

The loops are functions of their own, one for all sums of a kind: they would make of `run`, which else only
calls, a function that LLVM takes longer over than over all kernels together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .elementwise import combine
from .functions import keep_apart
from .numbers.registers import convert, load, memory_type, store
from .repeat import loop_between, loop_with
from .views import Buffer

INT, POINTER, VOID = ir.IntType(64), ir.IntType(8).as_pointer(), ir.VoidType()


def copy_first(
    b: ir.IRBuilder, target: ir.Value, whole: Buffer, source: ir.Value, own: Any
) -> None:
    """target = source, of another dtype perhaps."""
    if whole.size:
        name = f"copy.{own.name}.{whole.dtype.name}"
        function = _shared(b.module, name, None, own, whole.dtype)
        b.call(function, [target, source, INT(whole.size)])


def add_others(
    b: ir.IRBuilder,
    how: str,
    target: ir.Value,
    whole: Buffer,
    sources: tuple[ir.Value, int, ir.Value],
    own: Any,
) -> None:
    """On top of the target all `sources`: the first one, their distance in bytes, and how many there are."""
    if whole.size:
        first, distance, count = sources
        name = f"gather.{how}.{own.name}.{whole.dtype.name}"
        function = _shared(b.module, name, how, own, whole.dtype)
        b.call(function, [target, first, INT(whole.size), INT(distance), count])


def _shared(
    module: ir.Module, name: str, how: str | None, own: np.dtype[Any], dtype: np.dtype[Any]
) -> ir.Function:
    known = module.globals.get(name)
    if known is not None:
        return known
    more = [] if how is None else [INT, INT]
    kind = ir.FunctionType(VOID, [memory_type(dtype).as_pointer(), POINTER, INT, *more])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    keep_apart(function)
    target, first, size = function.args[:3]
    for pointer in (target, first):
        pointer.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def entries(b: ir.IRBuilder, raw: ir.Value) -> None:
        source = b.bitcast(raw, memory_type(own).as_pointer())

        def entry(b: ir.IRBuilder, i: ir.Value, _: Any) -> list[ir.Value]:
            v = convert(b, load(b, b.gep(source, [i]), own), own, dtype)
            place = b.gep(target, [i])
            if how is not None:
                v = combine(b, how, load(b, place, dtype), v, dtype)
            store(b, v, place, dtype)
            return []

        loop_with(b, size, [], entry)

    if how is None:
        entries(b, first)
    else:
        distance, count = function.args[3:]
        loop_between(b, INT(0), count, lambda b, k: entries(b, b.gep(first, [b.mul(k, distance)])))
    b.ret_void()
    return function
