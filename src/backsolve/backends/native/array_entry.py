"""A built-in around a loop (in*, out*, n): a contiguous array of any shape in, a fresh one out.

What entry.py is to a whole Program, this is to one element-wise function: it looks at the array where
NumPy keeps its data, in a fraction of a microsecond. Anything but a contiguous array of the loop's dtype
is answered by NotImplemented.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from . import objects
from .builtin import CINT, INT, POINTER, SIGNATURE, Builtin


def emit_array_entry(module: ir.Module, loop: ir.Function, dtype: np.dtype[Any]) -> objects.Table:
    """`entry(self, args, nargs)` around `loop`; the table that `self` must be."""
    f = Builtin(ir.Function(module, SIGNATURE, "entry"))
    b, source = f.b, f.argument(INT(0))
    behaved = CINT(objects.CONTIGUOUS | objects.ALIGNED)
    f.require_equal(f.read(source, objects.TYPE, INT), f.word("ndarray", id(np.ndarray)))
    f.require_equal(f.read(source, objects.DESCR, INT), f.word("dtype", id(dtype)))
    f.require_equal(b.and_(f.read(source, objects.FLAGS, CINT), behaved), behaved)
    rank, shape = f.read(source, objects.NDIM, CINT), f.read(source, objects.DIMENSIONS, POINTER)
    f.require(b.icmp_signed(">", rank, CINT(0)))
    size = _product(b, b.bitcast(shape, INT.as_pointer()), b.sext(rank, INT))
    result = f.new_array(CINT(dtype.num), rank, shape)
    data = [f.read(x, objects.DATA, POINTER) for x in (source, result)]
    b.call(loop, [*[b.bitcast(p, loop.args[0].type) for p in data], size])
    return f.finish(result)


def _product(b: ir.IRBuilder, numbers: ir.Value, count: ir.Value) -> ir.Value:
    """numbers[0] · … · numbers[count - 1], of at least one."""
    before = b.block
    body, after = b.append_basic_block("sizes"), b.append_basic_block("sized")
    b.branch(body)
    b.position_at_end(body)
    k, total = b.phi(INT), b.phi(INT)
    k.add_incoming(INT(0), before)
    total.add_incoming(INT(1), before)
    grown = b.mul(total, b.load(b.gep(numbers, [k])))
    following = b.add(k, INT(1))
    k.add_incoming(following, body)
    total.add_incoming(grown, body)
    b.cbranch(b.icmp_signed("<", following, count), body, after)
    b.position_at_end(after)
    return grown
