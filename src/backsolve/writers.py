"""Which functions write into NumPy arrays.

`y = np.zeros(n); y[i] = t` asks no protocol: with a tensor `t` NumPy can only fail. So a transformation runs
a function that may do so in its rewritten form (`frontend/`), where such an array becomes a tensor. All others
run as they are, and the rewriting is not even loaded.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

LIBRARIES = frozenset({"backsolve", "numpy", "scipy", *sys.stdlib_module_names})
_JOINS = frozenset({"array", "asarray"})  # np.array([t, u])
_MAKES = frozenset({"zeros", "ones", "empty", "full", "eye", "identity", "arange", "copy"})

# By the ids of a function's code and of that of the functions in its variables from outside; kept alive here.
_known: dict[tuple[int, ...], tuple[list[CodeType], bool]] = {}


def is_users(f: FunctionType) -> bool:
    return f.__globals__.get("__name__", "").partition(".")[0] not in LIBRARIES


def writes_arrays(f: Callable[..., Any]) -> bool:
    """Whether a function, or one that it names, may write a tensor into an array."""
    while isinstance(f, partial):
        f = f.func
    if isinstance(f, MethodType):
        f = f.__func__
    if not isinstance(f, FunctionType):
        f = type(f).__call__
    if not isinstance(f, FunctionType):
        return False
    codes = [f.__code__]
    for cell in f.__closure__ or ():
        inner = _content(cell)
        if type(inner) is FunctionType:
            codes.append(inner.__code__)
    key = tuple([id(code) for code in codes])
    found = _known.get(key)
    if found is None:
        found = _known[key] = codes, _search(f)
    return found[1]


def _search(f: FunctionType) -> bool:
    seen: set[int] = set()
    waiting = [f]
    while waiting:
        g = waiting.pop()
        if id(g.__code__) in seen or not is_users(g):
            continue
        seen.add(id(g.__code__))
        codes = list(_codes(g.__code__))
        if any(_writes(code) for code in codes):
            return True
        waiting.extend(_named(g, codes))
    return False


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


def _named(f: FunctionType, codes: list[CodeType]) -> Iterator[FunctionType]:
    """The functions that a function reaches by a name, an attribute of a module or a variable from outside."""
    names = {name for code in codes for name in code.co_names}
    owners: list[Any] = [f.__globals__.get(name) for name in names]
    for cell in f.__closure__ or ():
        owners.append(_content(cell))
    for x in owners:
        if isinstance(x, MethodType):
            x = x.__func__
        if isinstance(x, FunctionType):
            yield x
        elif isinstance(x, ModuleType) and x.__name__.partition(".")[0] not in LIBRARIES:
            inside = [vars(x).get(name) for name in names]
            yield from [y for y in inside if isinstance(y, FunctionType)]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
