"""Running sums of an array, from either end: the loop that NumPy's `add.accumulate` runs through memory, in a
register. The additions are the same, in the same order, so the bits are, too.

    kernel = running_sum(np.float64, reverse=True)
    y = kernel(x)              # y[j] = x[j] + x[j + 1] + …
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from .kernels import INDEX, _host, address, optimise
from .lanes import FORMATS

SHORT = 1 << 12  # entries below which the call takes longer than NumPy's loop


@dataclass(frozen=True)
class RunningSum:
    """A loop over an array of rank 1 of one dtype."""

    dtype: np.dtype[Any]
    reverse: bool
    call: Callable[..., None] = field(repr=False)
    quick: None = None  # no way in that is faster for small arrays

    def __call__(self, a: Any) -> Any:
        if a.size < SHORT:
            along = a[::-1] if self.reverse else a
            return np.ascontiguousarray(np.add.accumulate(along)[:: -1 if self.reverse else 1])
        a = np.ascontiguousarray(a, self.dtype)
        out = np.empty(a.shape, self.dtype)
        last = (a.size - 1) * self.dtype.itemsize if self.reverse and a.size else 0
        self.call(address(a) + last, address(out) + last, a.size, -1 if self.reverse else 1)
        return out


@cache
def running_sum(dtype: Any, reverse: bool) -> RunningSum:
    dtype = np.dtype(dtype)
    location, _ = _compiled(dtype.name)
    signature = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    )
    return RunningSum(dtype, reverse, signature(location))


@cache
def _compiled(dtype: str) -> tuple[int, Any]:
    """The loop's address, and what keeps its code alive."""
    machine = _host()
    engine = llvm.create_mcjit_compiler(optimise(_emitted(dtype), machine), machine)
    engine.finalize_object()
    return engine.get_function_address("running_sum"), engine


def _emitted(dtype: str) -> ir.Module:
    """(in*, out*, n, step): n entries, each `step` further on."""
    real = FORMATS[dtype].real
    module = ir.Module(f"running_sum_{dtype}")
    pointer = real.as_pointer()
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [pointer, pointer, INDEX, INDEX]), "running_sum"
    )
    source, target, n, step = function.args
    for array in (source, target):
        array.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    entry, body, after = b.block, b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed(">", n, INDEX(0)), body, after)
    b.position_at_end(body)
    k, place, total = b.phi(INDEX), b.phi(INDEX), b.phi(real)
    added = b.fadd(total, b.load(b.gep(source, [place])))
    b.store(added, b.gep(target, [place]))
    following = b.add(k, INDEX(1), flags=["nsw"])
    for phi, first, then in (
        (k, INDEX(0), following),
        (place, INDEX(0), b.add(place, step, flags=["nsw"])),
        (total, real(-0.0), added),  # −0 + x is x, whatever its sign
    ):
        phi.add_incoming(first, entry)
        phi.add_incoming(then, body)
    b.cbranch(b.icmp_signed("<", following, n), body, after)
    b.position_at_end(after)
    b.ret_void()
    return module
