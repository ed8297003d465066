"""Rows without native code inside of compiled programs: their NumPy function, called back on the buffers.

The code hands over a number, by which this process knows what is to be computed (it stands in the table of
constants, so that the code itself is the same in all processes), and the places of the arguments and of the
result. An exception waits here until the program has been left.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import binding, ir

from ...ir import Equation, Type, type_of
from .failure import CODE, fail_if
from .steps import INT, POINTER, Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

SYMBOL = "call_elsewhere"  # without our prefix: a program that has it is found by its text alone
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p))
_numbers = itertools.count(1)
_calls: weakref.WeakValueDictionary[int, Call] = weakref.WeakValueDictionary()
_pending = threading.local()


class Elsewhere(Exception):  # noqa: N818 - a signal: the exception itself is pending
    """A row that was called back raised something."""


@dataclass(eq=False)
class Call:
    run: Callable[..., Any]
    types: list[Type]  # of the arguments, then of the result
    params: dict[str, Any]

    def __call__(self, pointers: Any) -> None:
        *args, out = (_array(t, pointers[k]) for k, t in enumerate(self.types))
        numbers = [a.item() if t.weak else a[()] for a, t in zip(args, self.types, strict=False)]
        with np.errstate(all="ignore"):
            out[...] = self.run(*numbers, **self.params)


def _array(t: Type, address: int) -> Any:
    nbytes = t.size * t.dtype.itemsize
    if not nbytes:
        return np.empty(t.shape, t.dtype)
    return np.ndarray(t.shape, t.dtype, memoryview((ctypes.c_char * nbytes).from_address(address)))


@_PROTOTYPE
def _call(number: int, pointers: Any) -> int:
    try:
        _calls[number](pointers)
    except BaseException as error:  # whatever it is, the program's caller gets it
        _pending.error = error
        return 1
    return 0


@cache
def _provide() -> None:
    binding.add_symbol(SYMBOL, ctypes.cast(_call, ctypes.c_void_p).value)


def raising(call: Callable[..., Any]) -> Callable[..., Any]:
    """The entry of a program that may end with a pending exception."""

    def run(*args: Any) -> Any:
        try:
            return call(*args)
        except Elsewhere:
            error, _pending.error = _pending.error, None
        raise error

    return run


@dataclass(eq=False)
class CallBack(Step):
    name: str
    number: View
    views: list[View]
    failure: int

    def buffers(self) -> list[Buffer]:
        return [self.number.buffer, *(v.buffer for v in self.views)]

    def describe(self) -> str:
        return f"{self.name} by NumPy"

    @property
    def seconds(self) -> float:
        return 1.0  # unknown: let other threads have the GIL

    def emit(self, site: Site) -> None:
        _provide()
        b, module = site.b, site.module
        function = module.globals.get(SYMBOL)
        if function is None:
            kind = ir.FunctionType(CODE, [INT, POINTER.as_pointer()])
            function = ir.Function(module, kind, SYMBOL)
        with b.goto_entry_block():
            table = b.alloca(POINTER, len(self.views))
        for k, view in enumerate(self.views):
            b.store(b.bitcast(site.address(view), POINTER), b.gep(table, [INT(k)]))
        code = b.call(function, [b.load(site.address(self.number)), table])
        fail_if(b, b.icmp_unsigned("!=", code, CODE(0)), self.failure)


def lower(schedule: Schedule, e: Equation) -> None:
    """A step that has the row's own function compute the equation."""
    (out,) = e.outputs
    types = [*(type_of(a) for a in e.inputs), out.type]
    call = Call(e.primitive.run, types, dict(e.params))
    number = next(_numbers)
    _calls[number] = call
    schedule.root.called.append(call)
    result = schedule.new_buffer(out.shape, out.dtype)
    views = [schedule.contiguous(schedule.in_memory(a)) for a in e.inputs]
    step = CallBack(
        e.primitive.name,
        schedule.constant(np.array([number])),
        [*views, result],
        schedule.fail(Elsewhere, ""),
    )
    schedule.steps.append(step)
    schedule.ready[result.buffer] = len(schedule.steps) - 1
    schedule.views[out] = result
    schedule.barrier = len(schedule.steps) - 1  # what may fail later is not moved ahead of it
