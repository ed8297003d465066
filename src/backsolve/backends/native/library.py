"""Functions that are the same in every program: built once a process, and called by name.

They are written as they shall run, in loops over vectors, and so are not optimised. Those that a program is
the first to ask for are built together: a module by itself costs LLVM several milliseconds.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir

from . import build
from .disk import disk

_lock = threading.Lock()
_engines: dict[str, Any] = {}  # by the names of their functions
_wanted: dict[str, tuple[ir.FunctionType, Callable[[ir.Function], None]]] = {}
keys: dict[str, str] = {}  # of their code, by the same names
NOTE = ".function"  # a file that says in which code a function is


def shared(
    module: ir.Module, name: str, kind: ir.FunctionType, emit: Callable[[ir.Function], None]
) -> ir.Function:
    """The function of that name, for calls from `module`; `emit` fills it if nobody has asked before."""
    symbol = f"backsolve_{name}"
    with _lock:
        if symbol not in _engines:
            _wanted[symbol] = (kind, emit)
    return module.globals.get(symbol) or ir.Function(module, kind, symbol)


def build_wanted() -> None:
    """Have code find all functions that have been asked for."""
    with _lock:
        for symbol in list(_wanted):
            if _recall(symbol):
                del _wanted[symbol]
        if not _wanted:
            return
        module = ir.Module("backsolve")
        for symbol, (kind, emit) in _wanted.items():
            emit(ir.Function(module, kind, symbol))
        text = str(module)
        engine, _ = build.load(text, in_vectors=True)
        key, files = build.key_of(text, in_vectors=True), disk()
        for symbol in _wanted:
            _add(symbol, engine, key)
            if files is not None:
                files.write(_note(symbol), key.encode(), NOTE)
        _wanted.clear()


def address(name: str) -> int:
    """Where a function lies that has been built."""
    symbol = f"backsolve_{name}"
    return int(_engines[symbol].get_function_address(symbol))


def provide(symbol: str, key: str) -> None:
    """Have code find a function that another process has built under that key."""
    with _lock:
        if symbol not in _engines:
            found = build.find(key)
            if found is None:
                raise LookupError(f"{symbol} is not on disk any more")
            _add(symbol, found[0], key)


def _recall(symbol: str) -> bool:
    """Whether the function is among those that an earlier process has left on disk."""
    files = disk()
    noted = files.read(_note(symbol), NOTE) if files is not None else None
    found = build.find(noted.decode()) if noted is not None else None
    if noted is None or found is None:
        return False
    _add(symbol, found[0], noted.decode())
    return True


def _add(symbol: str, engine: Any, key: str) -> None:
    _engines[symbol], keys[symbol] = engine, key
    binding.add_symbol(symbol, engine.get_function_address(symbol))


def _note(symbol: str) -> str:
    return hashlib.sha256(f"{build.here()}\n{build.package()}\n{symbol}".encode()).hexdigest()
