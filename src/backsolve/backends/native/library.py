"""Functions that are the same in every program: built once a process, and called by name.

They are written as they shall run, in loops over vectors, and so are not optimised.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir

from . import build

_lock = threading.Lock()
_engines: dict[str, Any] = {}  # by the name of their one function
keys: dict[str, str] = {}  # of their code, by the same


def shared(
    module: ir.Module, name: str, kind: ir.FunctionType, emit: Callable[[ir.Function], None]
) -> ir.Function:
    """The function of that name, for calls from `module`; `emit` fills it if nobody has asked before."""
    symbol = f"backsolve_{name}"
    with _lock:
        if symbol not in _engines:
            alone = ir.Module(symbol)
            emit(ir.Function(alone, kind, symbol))
            text = str(alone)
            _engines[symbol], _ = build.load(text, in_vectors=True)
            keys[symbol] = build.key_of(text, in_vectors=True)
        binding.add_symbol(symbol, _engines[symbol].get_function_address(symbol))
    return module.globals.get(symbol) or ir.Function(module, kind, symbol)


def provide(symbol: str, key: str) -> None:
    """Have code find a function that another process has built under that key."""
    with _lock:
        if symbol not in _engines:
            found = build.find(key)
            if found is None:
                raise LookupError(f"{symbol} is not on disk any more")
            _engines[symbol], keys[symbol] = found[0], key
        binding.add_symbol(symbol, _engines[symbol].get_function_address(symbol))
