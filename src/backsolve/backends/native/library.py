"""Functions that are the same in every program: built once a process, and called by name.

They are written as they shall run, in loops over vectors, and so are not optimised. Those that a program is
the first to ask for are built together: a module by itself costs LLVM several milliseconds. Those that only
call others are translated as they are, in a fifth of the time.
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
keys: dict[str, str] = {}  # of their code, by the same names
NOTE = ".function"  # a file that says in which code a function is


class _Wanted(threading.local):
    """What programs that a thread emits have asked for: another's failure is not theirs."""

    def __init__(self) -> None:
        self.by_symbol: dict[str, tuple[ir.FunctionType, Callable[[ir.Function], None], bool]] = {}


_wanted = _Wanted()


def shared(
    module: ir.Module,
    name: str,
    kind: ir.FunctionType,
    emit: Callable[[ir.Function], None],
    is_hot: bool = True,
) -> ir.Function:
    """The function of that name, for calls from `module`; `emit` fills it if nobody has asked before."""
    symbol = f"backsolve_{name}"
    if symbol not in _engines:
        _wanted.by_symbol[symbol] = (kind, emit, is_hot)
    return module.globals.get(symbol) or ir.Function(module, kind, symbol)


def build_wanted() -> None:
    """Have code find all functions that this thread has asked for. One that fails is asked for no more."""
    wanted = _wanted.by_symbol
    with _lock:
        for symbol in list(wanted):
            if symbol in _engines or _recall(symbol):
                del wanted[symbol]
        for is_hot in (True, False):
            _build([symbol for symbol, (_, _, hot) in wanted.items() if hot == is_hot], is_hot)


def _build(symbols: list[str], is_hot: bool) -> None:
    if not symbols:
        return
    module = ir.Module("backsolve")
    for symbol in symbols:
        kind, emit, _ = _wanted.by_symbol[symbol]
        try:
            emit(ir.Function(module, kind, symbol))
        except BaseException:
            del _wanted.by_symbol[symbol]
            raise
    for symbol in symbols:
        del _wanted.by_symbol[symbol]
    text = str(module)
    engine, _ = build.load(text, in_vectors=True, level=3 if is_hot else 0)
    key, files = build.key_of(text, in_vectors=True), disk()
    for symbol in symbols:
        _add(symbol, engine, key)
        if files is not None:
            files.write(_note(symbol), key.encode(), NOTE)


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
