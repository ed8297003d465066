"""The entry point: a built-in function that reads arrays where CPython and NumPy keep them.

Called by CPython's vectorcall convention (METH_FASTCALL), it checks every argument in a handful of
instructions, runs the program, and returns fresh arrays. If an argument is not what was compiled for,
it returns NotImplemented, and Python code takes over. An interpreter whose objects are laid out otherwise
(free-threaded builds) gets a slower entry through ctypes.

    PyObject       refcount 0, type 8
    PyArrayObject  data 16, nd 24, dimensions 32, strides 40, base 48, descr 56, flags 64
    PyFloatObject  value 16
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Type
from .failure import FINE, Failures

INT, CINT, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
POINTER = BYTE.as_pointer()
_BEHAVED = 0x0001 | 0x0100  # C-contiguous, aligned
_FASTCALL = 0x0080
# Places in NumPy's table of C functions (its ABI fixes them).
_ARRAY_TYPE, _SCALAR, _NEW = 2, 60, 93


@cache
def knows_layout() -> bool:
    """Whether objects are laid out as this file says, found out by looking at some."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize < 2**62:
        return False
    if sys.implementation.name != "cpython":
        return False
    array, number = np.zeros((2, 3)), 1.5

    def word(x: Any, offset: int) -> int:
        return ctypes.c_int64.from_address(id(x) + offset).value

    return (
        word(array, 8) == id(np.ndarray)
        and word(array, 16) == array.ctypes.data
        and ctypes.c_int32.from_address(id(array) + 24).value == 2
        and ctypes.c_int64.from_address(word(array, 32) + 8).value == 3
        and word(array, 56) == id(array.dtype)
        and word(number, 8) == id(float)
        and ctypes.c_double.from_address(id(number) + 16).value == 1.5
    )


@cache
def _numpy_api(place: int) -> int:
    module = importlib.import_module("numpy._core._multiarray_umath")
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(module._ARRAY_API, None)
    found = ctypes.c_void_p.from_address(table + 8 * place).value
    assert found is not None
    return found


def _python_api(name: str) -> int:
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


def emit_entry(
    module: ir.Module,
    inputs: Sequence[Type],
    outputs: Sequence[Type],
    constants: Sequence[Any],
    arena: int,
    failures: Failures,
) -> None:
    """`entry(self, args, nargs)` around `run(table, arena)`."""
    signature = ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), INT])
    function = ir.Function(module, signature, "entry")
    _, args, count = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused = function.append_basic_block("refused")
    size = len(inputs) + len(outputs) + len(constants)
    table = b.alloca(POINTER, size=max(size, 1))

    def require(condition: ir.Value) -> None:
        following = function.append_basic_block()
        b.cbranch(condition, following, refused)
        b.position_at_end(following)

    def read(obj: ir.Value, offset: int, t: ir.Type) -> ir.Value:
        return b.load(b.bitcast(b.gep(obj, [INT(offset)]), t.as_pointer()))

    require(b.icmp_unsigned("==", count, INT(len(inputs))))
    for k, t in enumerate(inputs):
        obj = b.load(b.gep(args, [INT(k)]))
        kind = read(obj, 8, INT)
        if t.weak:
            require(b.icmp_unsigned("==", kind, INT(id(float))))
            data = b.gep(obj, [INT(16)])
        else:
            require(b.icmp_unsigned("==", kind, INT(id(np.ndarray))))
            require(b.icmp_unsigned("==", read(obj, 56, INT), INT(id(t.dtype))))
            flags = b.and_(read(obj, 64, CINT), CINT(_BEHAVED))
            require(b.icmp_unsigned("==", flags, CINT(_BEHAVED)))
            require(b.icmp_unsigned("==", read(obj, 24, CINT), CINT(t.ndim)))
            shape = read(obj, 32, POINTER)
            for axis, n in enumerate(t.shape):
                require(b.icmp_unsigned("==", read(shape, 8 * axis, INT), INT(n)))
            data = read(obj, 16, POINTER)
        b.store(data, b.gep(table, [INT(k)]))
    results: list[tuple[Any, Any]] = []
    for t in outputs:
        array, data = _new_output(b, t)
        if array is not None:  # no memory: NumPy has set the error
            _return_if_null(b, function, array, [r for r, _ in results if r is not None])
            data = read(array, 16, POINTER)
        results.append((array, data))
    for k, (_, data) in enumerate(results):
        b.store(data, b.gep(table, [INT(len(inputs) + k)]))
    for k, c in enumerate(constants):
        place = b.gep(table, [INT(len(inputs) + len(outputs) + k)])
        b.store(INT(c.ctypes.data).inttoptr(POINTER), place)
    code = b.call(module.globals["run"], [table, INT(arena).inttoptr(POINTER)])
    if failures.known:
        made = [array for array, _ in results if array is not None]
        with b.if_then(b.icmp_unsigned("!=", code, FINE), likely=False):
            _raise(b, code, failures, made)
    b.ret(_packed(b, [_finished(b, t, r) for t, r in zip(outputs, results, strict=True)]))
    b.position_at_end(refused)
    refusal = INT(id(NotImplemented)).inttoptr(POINTER)
    _call(b, _python_api("Py_IncRef"), ir.VoidType(), [refusal])
    b.ret(refusal)


def _call(b: ir.IRBuilder, address: int, result: ir.Type, args: Sequence[ir.Value]) -> ir.Value:
    signature = ir.FunctionType(result, [a.type for a in args])
    return b.call(b.inttoptr(INT(address), signature.as_pointer()), args)


def _return_if_null(b: ir.IRBuilder, function: Any, obj: ir.Value, others: list[ir.Value]) -> None:
    failed, following = function.append_basic_block(), function.append_basic_block()
    null = INT(0).inttoptr(POINTER)
    b.cbranch(b.icmp_unsigned("==", b.ptrtoint(obj, INT), INT(0)), failed, following)
    b.position_at_end(failed)
    for other in others:
        _call(b, _python_api("Py_DecRef"), ir.VoidType(), [other])
    b.ret(null)
    b.position_at_end(following)


def _raise(b: ir.IRBuilder, code: ir.Value, failures: Failures, made: list[ir.Value]) -> None:
    """Release the outputs made so far, set the exception of a code, and return NULL."""
    for array in made:
        _call(b, _python_api("Py_DecRef"), ir.VoidType(), [array])
    leave = b.append_basic_block("leave")
    choice = b.switch(code, leave)
    for k, (kind, message) in enumerate(failures.known):
        case = b.append_basic_block("failed")
        choice.add_case(k + 1, case)
        b.position_at_end(case)
        raw = bytearray(message.encode() + b"\0")
        text = ir.GlobalVariable(b.module, ir.ArrayType(BYTE, len(raw)), f"message{k}")
        text.initializer, text.global_constant = ir.Constant(text.value_type, raw), True
        text.linkage = "internal"
        arguments = [INT(id(kind)).inttoptr(POINTER), b.bitcast(text, POINTER)]
        _call(b, _python_api("PyErr_SetString"), ir.VoidType(), arguments)
        b.branch(leave)
    b.position_at_end(leave)
    b.ret(INT(0).inttoptr(POINTER))


def _new_output(b: ir.IRBuilder, t: Type) -> tuple[ir.Value | None, Any]:
    """(array, None), or for a rank-0 result (None, a place on the stack), boxed afterwards."""
    if not t.shape:
        return None, b.bitcast(b.alloca(INT), POINTER)
    shape = b.alloca(INT, size=t.ndim)
    for axis, n in enumerate(t.shape):
        b.store(INT(n), b.gep(shape, [INT(axis)]))
    null, zero = INT(0).inttoptr(POINTER), CINT(0)
    kind = INT(id(np.ndarray)).inttoptr(POINTER)
    array = _call(
        b,
        _numpy_api(_NEW),
        POINTER,
        [
            kind,
            CINT(t.ndim),
            b.bitcast(shape, POINTER),
            CINT(t.dtype.num),
            null,
            null,
            zero,
            zero,
            null,
        ],
    )
    return array, None


def _finished(b: ir.IRBuilder, t: Type, result: tuple[ir.Value | None, ir.Value]) -> ir.Value:
    array, data = result
    if array is not None:
        return array
    if t.weak:
        value = b.load(b.bitcast(data, ir.DoubleType().as_pointer()))
        return _call(b, _python_api("PyFloat_FromDouble"), POINTER, [value])
    descr, null = INT(id(t.dtype)).inttoptr(POINTER), INT(0).inttoptr(POINTER)
    return _call(b, _numpy_api(_SCALAR), POINTER, [data, descr, null])


def _packed(b: ir.IRBuilder, objects: list[ir.Value]) -> ir.Value:
    """One object, or a tuple of them."""
    if len(objects) == 1:
        return objects[0]
    made = _call(b, _python_api("PyTuple_New"), POINTER, [INT(len(objects))])
    for k, obj in enumerate(objects):
        _call(b, _python_api("PyTuple_SetItem"), CINT, [made, INT(k), obj])
    return made


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


# CPython reads a built-in's definition even while it frees it: definitions live on, 32 bytes each.
_methods: list[_Method] = []


def make_builtin(address: int, keep: list[Any]) -> Callable[..., Any]:
    """A Python built-in around a compiled entry, which owns `keep`: the code and its memory."""
    method = _Method(b"compiled", address, _FASTCALL, b"A program compiled by Backsolve.")
    _methods.append(method)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new(ctypes.addressof(method), keep, None)


def slow_entry(
    address: int,
    outputs: Sequence[Type],
    constants: Sequence[Any],
    arena: int,
    failures: Failures,
    keep: list[Any],
) -> Callable[..., Any]:
    """The same through ctypes, for interpreters whose objects we do not know."""
    # PYFUNCTYPE keeps the GIL: calls share one arena.
    run = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(address)

    def call(*args: Any) -> Any:
        arrays = [np.ascontiguousarray(a) for a in args]
        results = [np.empty(t.shape, t.dtype) for t in outputs]
        pointers = [a.ctypes.data for a in (*arrays, *results, *constants)]
        table = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        code = run(ctypes.addressof(table), arena)
        if code:
            raise failures.exception(code)
        del keep[len(keep) :]  # refers to `keep`: the code lives as long as this function
        boxed = [r[()] if t.shape == () else r for r, t in zip(results, outputs, strict=True)]
        return boxed[0] if len(boxed) == 1 else tuple(boxed)

    return call
