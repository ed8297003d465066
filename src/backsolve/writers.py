"""Which functions write into NumPy arrays.

`y = np.zeros(n); y[i] = t` asks no protocol: with a tensor `t` NumPy can only fail. So a transformation runs
a function that may do so in its rewritten form (`frontend/`), where such an array becomes a tensor. All others
run as they are, and the rewriting is not even loaded.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

LIBRARIES = frozenset({"backsolve", "numpy", "scipy", *sys.stdlib_module_names})
_JOINS = frozenset({"array", "asarray", "ascontiguousarray", "asfortranarray"})  # np.array([t, u])
_MAKES = frozenset({"zeros", "ones", "empty", "full", "eye", "identity", "arange", "copy"})

# By the id of a function's code, which is kept alive: whether it writes itself, and the names in it (None:
# it is a library's). What they stand for is looked up each time: in a notebook functions are written anew.
_known: dict[int, tuple[CodeType, bool, frozenset[str] | None]] = {}


def is_users(f: FunctionType) -> bool:
    return f.__globals__.get("__name__", "").partition(".")[0] not in LIBRARIES


def writes_arrays(f: Callable[..., Any]) -> bool:
    """Whether a function, or one that it names, may write a tensor into an array."""
    if type(f) is not FunctionType:
        while isinstance(f, partial):
            f = f.func
        if isinstance(f, MethodType):
            f = f.__func__
        if not isinstance(f, FunctionType):
            f = type(f).__call__
        if not isinstance(f, FunctionType):
            return False
    seen = {id(f)}
    waiting = [f]
    for g in waiting:
        found = _known.get(id(g.__code__))
        if found is None:
            found = _known[id(g.__code__)] = _look(g)
        _, writes, names = found
        if writes:
            return True
        for reached in _named(g, names) if names is not None else ():
            if id(reached) not in seen:
                seen.add(id(reached))
                waiting.append(reached)
    return False


def _look(f: FunctionType) -> tuple[CodeType, bool, frozenset[str] | None]:
    if not is_users(f):
        return f.__code__, False, None
    codes = list(_codes(f.__code__))
    names = frozenset([name for code in codes for name in code.co_names])
    return f.__code__, any(_writes(code) for code in codes), names


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from _codes(c)


def _writes(code: CodeType) -> bool:
    if _JOINS.intersection(code.co_names):
        return True
    makes = bool(_MAKES.intersection(code.co_names))
    return any(
        i.opname == "STORE_SUBSCR" or (makes and i.opname == "BINARY_OP" and i.argrepr[-1] == "=")
        for i in dis.get_instructions(code)
    )


def _named(f: FunctionType, names: frozenset[str]) -> list[FunctionType]:
    """The functions that a function reaches by a name, an attribute of a module or a variable from outside."""
    found = []
    known = f.__globals__
    owners = [*map(known.__getitem__, filter(known.__contains__, names))]
    if f.__closure__:
        owners += map(_content, f.__closure__)
    for x in owners:
        if isinstance(x, ModuleType):
            if not _is_library(x):
                inside = [vars(x).get(name) for name in names]
                found += [y for y in inside if isinstance(y, FunctionType)]
        elif type(x) is FunctionType:
            found.append(x)
        elif type(x) is MethodType and isinstance(x.__func__, FunctionType):
            found.append(x.__func__)
    return found


@cache
def _is_library(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] in LIBRARIES


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
