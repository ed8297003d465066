"""Copies between arrays: a few entries one by one, many in a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ....ir import Shape
from ..elementwise import combine
from ..nests import merge_axes, nest, offset
from ..numbers.registers import Register, load, store
from .values import Array, Memory, Small, read, write

FEW = 8  # entries that are moved without a loop


def copy(b: ir.IRBuilder, source: Array, target: Memory) -> None:
    """Entry for entry; `source` broadcasts."""
    if isinstance(source, Small):
        spread = np.broadcast_to(source.entries, target.shape)
        if spread.size <= max(FEW, source.entries.size):
            write(b, Small(spread, source.dtype), target)
        else:
            value = source.entries.flat[0]
            assert source.entries.size == 1
            _each(b, target.shape, [target], lambda b, at: store(b, value, at[0], target.dtype))
        return
    source = source.part(np.broadcast_to(source.view.imaginary, target.shape))
    if target.view.imaginary.size <= FEW:
        write(b, read(b, source), target)
        return

    def one(b: ir.IRBuilder, at: list[ir.Value]) -> None:
        store(b, load(b, at[1], target.dtype), at[0], target.dtype)

    _each(b, target.shape, [target, source], one)


def combine_into(b: ir.IRBuilder, how: str, t: Array, target: Memory) -> None:
    """target += t, entry for entry."""
    dtype = target.dtype

    def put(b: ir.IRBuilder, x: Register, address: ir.Value) -> None:
        store(b, combine(b, how, load(b, address, dtype), x, dtype), address, dtype)

    if isinstance(t, Small) and t.entries.size != 1:
        spread = np.broadcast_to(t.entries, target.shape)
        for place in np.ndindex(target.shape):
            put(b, spread[place], target.address(b, place))
    elif isinstance(t, Small):
        x = t.entries.flat[0]
        _each(b, target.shape, [target], lambda b, at: put(b, x, at[0]))
    else:
        source = t.part(np.broadcast_to(t.view.imaginary, target.shape))
        _each(
            b,
            target.shape,
            [target, source],
            lambda b, at: put(b, load(b, at[1], dtype), at[0]),
        )


def _each(
    b: ir.IRBuilder,
    shape: Shape,
    arrays: Sequence[Memory],
    body: Callable[[ir.IRBuilder, list[ir.Value]], Any],
) -> None:
    """`body` with the addresses of the entries at every place."""
    merged, strides = merge_axes(shape, [m.view.strides for m in arrays])

    def one(b: ir.IRBuilder, place: list[ir.Value]) -> None:
        at = [
            b.gep(m.pointer, [offset(b, m.view.offset, s, place)], inbounds=True)
            for m, s in zip(arrays, strides, strict=True)
        ]
        body(b, at)

    nest(b, merged, one)
