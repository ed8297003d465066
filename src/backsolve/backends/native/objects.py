"""Python's and NumPy's objects as compiled code sees them: where their fields lie, what it may call.

    PyObject       refcount 0, type 8
    PyArrayObject  data 16, nd 24, dimensions 32, strides 40, base 48, descr 56, flags 64
    PyFloatObject  value 16
    PyComplexObject  real 16, imag 24

Compiled code contains no address of its process. What it needs stands in a `Table`, an array that is the
`self` of the built-in function: the code finds the table in its first argument, and the function owns it.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

TYPE, DATA, NDIM, DIMENSIONS, DESCR, FLAGS = 8, 16, 24, 32, 56, 64
FLOAT_VALUE = 16
CONTIGUOUS, ALIGNED, WRITEABLE = 0x0001, 0x0100, 0x0400
_FASTCALL = 0x0080
# Places in NumPy's table of C functions (its ABI fixes them).
_NUMPY = {"PyArray_Scalar": 60, "PyArray_New": 93}


@cache
def knows_layout() -> bool:
    """Whether objects are laid out as this file says, found out by looking at some."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize < 2**62:
        return False
    if sys.implementation.name != "cpython":
        return False
    array, number, pair = np.zeros((2, 3)), 1.5, 1.5 + 2.5j

    def word(x: Any, offset: int) -> int:
        return ctypes.c_int64.from_address(id(x) + offset).value

    return (
        word(array, TYPE) == id(np.ndarray)
        and word(array, DATA) == array.ctypes.data
        and ctypes.c_int32.from_address(id(array) + NDIM).value == 2
        and ctypes.c_int64.from_address(word(array, DIMENSIONS) + 8).value == 3
        and word(array, DESCR) == id(array.dtype)
        and ctypes.c_int32.from_address(id(array) + FLAGS).value == array.flags.num
        and word(number, TYPE) == id(float)
        and ctypes.c_double.from_address(id(number) + FLOAT_VALUE).value == 1.5
        and ctypes.c_double.from_address(id(pair) + FLOAT_VALUE + 8).value == 2.5
    )


@cache
def function_address(name: str) -> int:
    """Where a function of Python's or NumPy's C interface lies."""
    if name in _NUMPY:
        module = importlib.import_module("numpy._core._multiarray_umath")
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        table = get(module._ARRAY_API, None)
        found = ctypes.c_void_p.from_address(table + 8 * _NUMPY[name]).value
    else:
        found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


CALLS = 0  # the first word of a table counts the calls


class Table:
    """The words that compiled code reads through its `self`, each under a name."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {"calls": CALLS}
        self.words: list[int] = [0]

    def place(self, name: str, word: int) -> int:
        if name not in self.places:
            self.places[name] = len(self.words)
            self.words.append(word)
        return self.places[name]


class _Words(np.ndarray):
    """The table in memory; it owns what the code needs: the code, constants, the arena."""

    keep: list[Any]


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Definition:
    """A built-in's definition. CPython reads it even while it frees the function: used again, never freed.

    Not when the interpreter ends, either: then this class may go before functions that are garbage do.
    """

    spare: list[_Method] = []  # noqa: RUF012

    def __init__(self, address: int):
        if self.spare:
            self.method = self.spare.pop()
            self.method.call = address
        else:
            text = b"A program compiled by Backsolve."
            self.method = _Method(b"compiled", address, _FASTCALL, text)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.method))

    def __del__(self) -> None:
        self.spare.append(self.method)


def make_builtin(address: int, table: Table, keep: list[Any]) -> Callable[..., Any]:
    """A Python built-in around a compiled entry; it owns `keep`."""
    words = np.array(table.words, np.int64).view(_Words)
    definition = _Definition(address)
    words.keep = [*keep, definition]
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new(ctypes.addressof(definition.method), words, None)
