"""What compiled code calls: functions of the interpreter, and its own that are emitted when first needed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from llvmlite import binding, ir

INT, POINTER = ir.IntType(64), ir.IntType(8).as_pointer()
WORDS = INT.as_pointer()


def provide(name: str) -> str:
    """Have code find a function of the interpreter; its symbol there."""
    symbol = f"backsolve_{name}"
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    binding.add_symbol(symbol, address)
    return symbol


def foreign(b: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value]) -> ir.Value:
    """Call a function of the interpreter that needs no GIL."""
    symbol = provide(name)
    function = b.module.globals.get(symbol)
    if function is None:
        kind = ir.FunctionType(result, [a.type for a in args])
        function = ir.Function(b.module, kind, symbol)
    return b.call(function, args)


def once(b: ir.IRBuilder, name: str, result: ir.Type, kinds: Sequence[ir.Type], body: Any) -> Any:
    """A function of the module that is emitted when it is first called."""
    if name not in b.module.globals:
        function = ir.Function(b.module, ir.FunctionType(result, kinds), name)
        function.linkage = "internal"
        body(ir.IRBuilder(function.append_basic_block("entry")), function.args)
    return b.module.globals[name]


def is_null(b: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    return b.icmp_unsigned("==", pointer, ir.Constant(pointer.type, None))
