"""How far down recursive functions may use the machine's stack: to the end of this thread's, less a reserve.

Where a thread's stack ends, the system tells; to ask it takes long, so each thread asks once and keeps the
answer in a slot of its own (CPython's thread-specific storage, which needs no GIL).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from llvmlite import binding, ir

from .interpreter import INT, POINTER, once

_USUAL = 1 << 20  # bytes, where the system does not tell
_RESERVE = 128 << 10  # bytes left to what recursive functions call


def here(b: ir.IRBuilder) -> ir.Value:
    """Where the frame of this function lies."""
    kind = ir.FunctionType(POINTER, [ir.IntType(32)])
    name = "llvm.frameaddress.p0"
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.ptrtoint(b.call(function, [ir.IntType(32)(0)]), INT)


def limit(b: ir.IRBuilder) -> ir.Value:
    """The lowest address that a frame of a recursive function may have in this thread."""
    return b.call(once(b, "stack_limit", INT, [], _limit), [])


def _limit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
    provide()
    get = _foreign(b.module, "backsolve_PyThread_tss_get", ir.FunctionType(POINTER, [POINTER]))
    ask = _foreign(b.module, "backsolve_ask_stack_limit", ir.FunctionType(INT, [INT]))
    key = _foreign(b.module, "backsolve_stack_key", None)
    known = b.ptrtoint(b.call(get, [key]), INT)
    with b.if_then(b.icmp_unsigned("==", known, INT(0)), likely=False):
        b.ret(b.call(ask, [here(b)]))
    b.ret(known)


SYMBOLS = ("backsolve_PyThread_tss_get", "backsolve_ask_stack_limit", "backsolve_stack_key")


def provide() -> None:
    """Have code find by name what is of this process: compiled code on disk serves other processes."""
    slot = _Slot.the()
    for symbol, address in zip(SYMBOLS, (slot.get, slot.ask, slot.key), strict=True):
        binding.add_symbol(symbol, address)


def _foreign(module: ir.Module, symbol: str, kind: Any) -> Any:
    found = module.globals.get(symbol)
    if found is None and kind is not None:
        return ir.Function(module, kind, symbol)
    return found or ir.GlobalVariable(module, ir.IntType(8), symbol)


class _Key(ctypes.Structure):
    """Py_tss_t, or more than it."""

    _fields_ = (("is_initialised", ctypes.c_int), ("key", ctypes.c_uint64 * 4))


class _Slot:
    """The addresses that compiled code needs; one for the process, kept for ever."""

    _known: _Slot | None = None

    def __init__(self) -> None:
        api = ctypes.pythonapi
        self._key = _Key()
        api.PyThread_tss_create.argtypes = [ctypes.c_void_p]
        api.PyThread_tss_set.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.key = ctypes.addressof(self._key)
        if api.PyThread_tss_create(self.key):
            raise MemoryError("no slot for what a thread knows of its stack")
        self._ask = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(self._answer)
        self.ask = ctypes.cast(self._ask, ctypes.c_void_p).value or 0
        self.get = ctypes.cast(api.PyThread_tss_get, ctypes.c_void_p).value or 0

    @staticmethod
    def the() -> _Slot:
        if _Slot._known is None:
            _Slot._known = _Slot()
        return _Slot._known

    def _answer(self, frame: int) -> int:
        found = lowest(frame)
        ctypes.pythonapi.PyThread_tss_set(self.key, found)
        return found


def lowest(frame: int) -> int:
    """The limit for the thread that runs, one of whose frames is given."""
    try:
        low, size = _bounds()
    except (AttributeError, OSError):
        low, size = 0, 0
    if not low <= frame < low + size:  # a stack that somebody made, or nothing was told
        low, size = frame - _USUAL // 2, _USUAL
    return low + min(max(size // 4, _RESERVE), size // 2)


def _bounds() -> tuple[int, int]:
    """Of this thread's stack: its lowest address, and its size."""
    low, size = ctypes.c_void_p(), ctypes.c_size_t()
    if sys.platform == "win32":
        high = ctypes.c_void_p()
        kernel = ctypes.WinDLL("kernel32")
        kernel.GetCurrentThreadStackLimits(ctypes.byref(low), ctypes.byref(high))
        return low.value or 0, (high.value or 0) - (low.value or 0)
    library = ctypes.CDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    me = ctypes.c_void_p(library.pthread_self())
    if sys.platform == "darwin":
        library.pthread_get_stackaddr_np.restype = ctypes.c_void_p
        library.pthread_get_stacksize_np.restype = ctypes.c_size_t
        length = library.pthread_get_stacksize_np(me)
        return (library.pthread_get_stackaddr_np(me) or 0) - length, length
    attributes = ctypes.create_string_buffer(256)  # pthread_attr_t is smaller everywhere
    if library.pthread_getattr_np(me, attributes):
        raise OSError("nothing is known of this thread")
    library.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return low.value or 0, size.value
