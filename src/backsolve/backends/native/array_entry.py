"""A built-in around a loop (in*, out*, n): a contiguous array of any shape in, a fresh one out.

What entry.py is to a whole Program, this is to one element-wise function: it looks at the array where
NumPy keeps its data, in a fraction of a microsecond. Anything but a contiguous array of the loop's dtype
is answered by NotImplemented.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .entry import _BEHAVED, _NEW, CINT, INT, POINTER, _call, _numpy_api, _python_api


def emit_array_entry(module: ir.Module, loop: ir.Function, dtype: np.dtype[Any]) -> None:
    """`entry(self, args, nargs)` around `loop`."""
    signature = ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), INT])
    function = ir.Function(module, signature, "entry")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused = function.append_basic_block("refused")

    def require(condition: ir.Value) -> None:
        following = function.append_basic_block()
        b.cbranch(condition, following, refused)
        b.position_at_end(following)

    def read(obj: ir.Value, offset: int, t: ir.Type) -> ir.Value:
        return b.load(b.bitcast(b.gep(obj, [INT(offset)]), t.as_pointer()))

    def address(obj: Any) -> ir.Value:
        return INT(id(obj))

    source = b.load(function.args[1])
    require(b.icmp_unsigned("==", read(source, 8, INT), address(np.ndarray)))
    require(b.icmp_unsigned("==", read(source, 56, INT), address(dtype)))
    flags = b.and_(read(source, 64, CINT), CINT(_BEHAVED))
    require(b.icmp_unsigned("==", flags, CINT(_BEHAVED)))
    rank, shape = read(source, 24, CINT), read(source, 32, POINTER)
    require(b.icmp_signed(">", rank, CINT(0)))
    size = _product(b, b.bitcast(shape, INT.as_pointer()), b.sext(rank, INT))
    null, zero = INT(0).inttoptr(POINTER), CINT(0)
    kind = address(np.ndarray).inttoptr(POINTER)
    arguments = [kind, rank, shape, CINT(dtype.num), null, null, zero, zero, null]
    result = _call(b, _numpy_api(_NEW), POINTER, arguments)
    made, failed = function.append_basic_block(), function.append_basic_block()
    b.cbranch(b.icmp_unsigned("==", b.ptrtoint(result, INT), INT(0)), failed, made)
    b.position_at_end(failed)  # no memory: NumPy has set the error
    b.ret(null)
    b.position_at_end(made)
    pointer = loop.args[0].type
    b.call(loop, [b.bitcast(read(x, 16, POINTER), pointer) for x in (source, result)] + [size])
    b.ret(result)
    b.position_at_end(refused)
    refusal = INT(id(NotImplemented)).inttoptr(POINTER)
    _call(b, _python_api("Py_IncRef"), ir.VoidType(), [refusal])
    b.ret(refusal)


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
