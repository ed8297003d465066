"""Functions that certainly write into no array.

What a derivative captures is copied, because the function may write into its arrays before the derivative is
taken. A large copy takes as long as an operation, so we look whether the function can do so at all. It cannot
if

- it is straight code without assignments to entries or attributes, without `+=` and without inner functions;
- all that it calls by name are NumPy's functions that write nowhere, without `out`, those of nn.functional,
  and functions like itself;
- its arguments, and what it reads from outside, are arrays, numbers and plain containers of them, whose
  methods and operators are known.

Anything else, and what this file does not know, counts as writing.
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from .hooks import hooks


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MANY = 1 << 16  # entries of an array that is worth a look

_MODULES = _words("""
    numpy numpy.linalg numpy.fft backsolve.numpy backsolve.numpy.linalg backsolve.numpy.fft
    backsolve backsolve.nn backsolve.nn.functional
""")
_BUILTINS = _words("abs bool complex divmod float int len max min pow round sum tuple")
_ATTRIBUTES = _words("T mT shape ndim size dtype real imag linalg fft")
_KEYWORDS = _words("axis axes keepdims dtype ddof correction ord mode shape n initial")
_PLAIN = (int, float, complex, bool, str, type(None), type(...), slice, np.dtype, np.ndarray)


def _table(text: str) -> dict[str, int]:
    pairs = [line.partition(":") for line in text.strip().split("\n")]
    return {name: int(most) for most, _, names in pairs for name in names.split()}


# How many positional arguments a function takes before one would be `out`. Ufuncs know that themselves.
_FUNCTIONS = _table("""
1: inv det slogdet hstack vstack atleast_1d atleast_2d eigvalsh
2: concatenate stack dot outer inner vdot solve kron max min amax amin any all argmax argmin expand_dims
2: broadcast_to reshape transpose squeeze ravel sort argsort flip real imag angle copy diag norm cholesky
3: sum prod mean std var cumsum cumprod clip where take tensordot roll swapaxes moveaxis diff convolve
3: linspace arange full full_like ones zeros eye ones_like zeros_like fft ifft rfft irfft tril triu svd qr eigh
9: einsum
""")
_METHODS = _table("""
0: conj conjugate
1: max min any all argmax argmin dot ravel squeeze flatten item copy argsort
2: sum prod mean std var cumsum cumprod clip take swapaxes
9: reshape transpose
""")
_ONLY_FUNCTIONS = frozenset(["sort"])  # x.sort() sorts in place

# What an instruction takes from the stack and puts there, if it is nothing special.
_EFFECTS = {
    "BINARY_SUBSCR": (2, 1),
    "BINARY_SLICE": (3, 1),
    "COMPARE_OP": (2, 1),
    "IS_OP": (2, 1),
    "CONTAINS_OP": (2, 1),
    "UNARY_NEGATIVE": (1, 1),
    "UNARY_POSITIVE": (1, 1),
    "UNARY_INVERT": (1, 1),
    "STORE_FAST": (1, 0),
    "STORE_FAST_STORE_FAST": (2, 0),
    "STORE_FAST_LOAD_FAST": (1, 1),
    "POP_TOP": (1, 0),
    "LIST_EXTEND": (1, 0),
    "LOAD_FAST": (0, 1),
    "LOAD_FAST_CHECK": (0, 1),
    "LOAD_FAST_BORROW": (0, 1),
    "LOAD_FAST_LOAD_FAST": (0, 2),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": (0, 2),
    "LOAD_SMALL_INT": (0, 1),
    "RETURN_VALUE": (1, 0),
}
_NO_EFFECT = _words("RESUME NOP CACHE PRECALL COPY_FREE_VARS EXTENDED_ARG RETURN_CONST NOT_TAKEN")

_VALUE, _NULL = "a value", "NULL"  # entries of the stack; others are a _Name or a constant


class _Unknown(Exception):  # noqa: N818 - a signal, not a mistake
    """Something that this file does not know: it may write."""


@dataclass(frozen=True, slots=True)
class _Name:
    """What a name from outside stands for, and attributes of it; or (`where` empty) an attribute of a value."""

    where: str  # "global", "outer" or ""
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    callee: _Name
    positions: int
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    code: CodeType  # kept alive: it is found by its id
    calls: tuple[_Call, ...] | None  # None: it may write
    names: tuple[_Name, ...] = ()  # read as values


_seen: dict[int, _Seen] = {}


def are_large(values: Sequence[Any]) -> bool:
    """Whether one of these is, or holds, an array that is not copied lightly."""
    for x in values:
        if type(x) is np.ndarray:
            if x.size > MANY:
                return True
        elif type(x) in (dict, list, tuple):
            parts = x.values() if type(x) is dict else x
            if any([type(y) is np.ndarray and y.size > MANY for y in parts]):
                return True
    return False


def writes_nothing(f: Any, values: Sequence[Any]) -> bool:
    """Whether `f`, called with these values, certainly writes into no array."""
    if type(f) is not FunctionType or np.geterrcall() is not None:
        return False
    try:
        for v in values:
            _check_data(v)
        _check_function(f, set())
    except _Unknown:
        return False
    return True


def _check_function(f: FunctionType, visited: set[int]) -> None:
    code = f.__code__
    if id(f) in visited or _is_ours(f):
        return
    visited.add(id(f))
    found = _seen.get(id(code))
    if found is None:
        found = _seen[id(code)] = _look(code)
    if found.calls is None:
        raise _Unknown
    for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
        _check_data(default)
    for name in found.names:
        _check_value(f, name, visited)
    for call in found.calls:
        _check_call(f, call, visited)


def _check_value(f: FunctionType, name: _Name, visited: set[int]) -> None:
    """Something read from outside: it may be handed on, so a function counts as called."""
    x, rest = _resolved(f, name)
    if not _ATTRIBUTES.issuperset(rest):
        raise _Unknown
    if type(x) is FunctionType:
        _check_function(x, visited)
    elif not _is_known(x) and not _is_ufunc(x):
        _check_data(x)


def _check_call(f: FunctionType, call: _Call, visited: set[int]) -> None:
    name = call.callee.path[-1]
    x, rest = _resolved(f, call.callee)
    if rest:  # a method of data from outside
        _check_data(x)
        if not _ATTRIBUTES.issuperset(rest[:-1]):
            raise _Unknown
        _check_member(name, call)
    elif type(x) is FunctionType and (len(call.callee.path) == 1 or _is_ours(x)):
        _check_function(x, visited)
    elif _is_ufunc(x):
        _check_arguments(call, x.nin)
    elif len(call.callee.path) > 1:
        _check_arguments(call, _FUNCTIONS.get(name, -1))
    elif name not in _BUILTINS or getattr(builtins, name) is not x or call.keywords:
        raise _Unknown


def _check_member(name: str, call: _Call) -> None:
    """A method of a value, or a function of a module that was handed on as a value."""
    ufunc = getattr(np, name, None)
    if name in _ONLY_FUNCTIONS:
        raise _Unknown
    if isinstance(ufunc, np.ufunc):
        _check_arguments(call, min(ufunc.nin, _METHODS.get(name, 9)))
    else:
        limits = [table[name] for table in (_FUNCTIONS, _METHODS) if name in table]
        _check_arguments(call, min(limits, default=-1))


def _check_arguments(call: _Call, most: int) -> None:
    if call.positions > most or not _KEYWORDS.issuperset(call.keywords):
        raise _Unknown


def _resolved(f: FunctionType, name: _Name) -> tuple[Any, list[str]]:
    """What a name, and attributes of modules, stand for; and the attributes of what is no module."""
    first, *rest = name.path
    if name.where == "global":
        x = f.__globals__.get(first, _Unknown)
        x = getattr(builtins, first, _Unknown) if x is _Unknown else x
    else:
        try:
            x = (f.__closure__ or ())[f.__code__.co_freevars.index(first)].cell_contents
        except ValueError:  # not bound yet
            raise _Unknown from None
    while rest and _is_known(x):
        x = getattr(x, rest.pop(0), _Unknown)
    if x is _Unknown:
        raise _Unknown
    return x, rest


def _is_known(x: Any) -> bool:
    return type(x) is ModuleType and x.__name__ in _MODULES


def _is_ufunc(x: Any) -> bool:
    """One of NumPy's or SciPy's: they can also be made of any function, np.frompyfunc."""
    return isinstance(x, np.ufunc) and not x.types[0].startswith("O")


def _is_ours(f: FunctionType) -> bool:
    """Whether it is a function of networks: none of them writes into what it gets."""
    return str(f.__globals__.get("__name__")).startswith("backsolve.nn.functional.")


def _check_data(x: Any) -> None:
    """That x is an array, a number or a plain container of such, and rests on nothing differentiated."""
    kind = type(x)
    if kind is np.ndarray and x.dtype.hasobject:
        raise _Unknown
    if kind in _PLAIN or (isinstance(x, np.generic) and kind.__module__ == "numpy"):
        return
    if kind is type and issubclass(x, np.generic):  # as a dtype
        return
    if kind is hooks.Tensor and x.row is None:
        return
    if kind in (tuple, list) and len(x) <= 64:
        for y in x:
            _check_data(y)
    elif kind is dict and len(x) <= 64:
        for key, y in x.items():
            _check_data(key)
            _check_data(y)
    else:
        raise _Unknown


# ---- the instructions


def _look(code: CodeType) -> _Seen:
    calls: list[_Call] = []
    names: list[_Name] = []
    try:
        _follow(code, calls, names)
    except _Unknown:
        return _Seen(code, None)
    return _Seen(code, tuple(dict.fromkeys(calls)), tuple(dict.fromkeys(names)))


def _follow(code: CodeType, calls: list[_Call], names: list[_Name]) -> None:
    """What straight code calls and reads: its stack followed step by step, with names for values."""
    stack: list[Any] = []
    keywords: tuple[str, ...] = ()
    if code.co_cellvars or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        raise _Unknown

    def take(count: int) -> list[Any]:
        if count > len(stack):
            raise _Unknown
        taken = [stack.pop() for _ in range(count)]
        for x in taken:
            if x is _NULL or (
                type(x) is _Name and not x.where
            ):  # a method as a value: who knows which
                raise _Unknown
            if type(x) is _Name:
                names.append(x)
        return taken

    for i in dis.get_instructions(code):
        op, arg = i.opname, i.arg or 0
        if op in _NO_EFFECT:
            continue
        if op in ("LOAD_GLOBAL", "LOAD_DEREF"):
            name = _Name("global" if op == "LOAD_GLOBAL" else "outer", (i.argval,))
            two = dis.stack_effect(i.opcode, i.arg) == 2
            stack.extend([_NULL, name] if two else [name])
        elif op in ("LOAD_ATTR", "LOAD_METHOD"):
            if not stack:
                raise _Unknown
            stack.append(_attribute(stack.pop(), i.argval))
            if dis.stack_effect(i.opcode, i.arg) == 1:
                stack.append(_NULL)
        elif op == "PUSH_NULL":
            stack.append(_NULL)
        elif op == "LOAD_CONST":
            stack.append(i.argval if type(i.argval) is tuple else _VALUE)
        elif op == "KW_NAMES":
            keywords = code.co_consts[arg]
        elif op in ("CALL", "CALL_KW"):
            if op == "CALL_KW":
                (keywords,) = take(1)
            take(arg)
            callee = [x for x in stack[-2:] if x is not _NULL]
            del stack[-2:]
            if len(callee) != 1 or type(callee[0]) is not _Name or type(keywords) is not tuple:
                raise _Unknown
            call = _Call(callee[0], arg - len(keywords), keywords)
            if call.callee.where:
                calls.append(call)
            else:
                _check_member(call.callee.path[-1], call)
            keywords = ()
            stack.append(_VALUE)
        elif op == "BINARY_OP":
            if i.argrepr.endswith("="):
                raise _Unknown
            take(2)
            stack.append(_VALUE)
        elif op in ("BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE"):
            take(arg)
            stack.append(_VALUE)
        elif op == "UNPACK_SEQUENCE":
            take(1)
            stack.extend([_VALUE] * arg)
        elif op == "COPY" and 0 < arg <= len(stack):
            stack.append(stack[-arg])
        elif op == "SWAP" and 0 < arg <= len(stack):
            stack[-arg], stack[-1] = stack[-1], stack[-arg]
        elif op in _EFFECTS:
            taken, put = _EFFECTS[op]
            take(taken)
            stack.extend([_VALUE] * put)
        else:
            raise _Unknown


def _attribute(owner: Any, name: str) -> Any:
    if type(owner) is _Name:
        if not owner.where:
            raise _Unknown
        return _Name(owner.where, (*owner.path, name))
    return _VALUE if name in _ATTRIBUTES else _Name("", (name,))
