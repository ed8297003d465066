"""Runtime of comprehensions: over many entries they are staged once, as a loop that makes an array.

`np.array([f(x) for x in xs])`, `any(x > 0 for x in xs)` and their like take that array as it is. A list is made
of its entries; what is made of the whole list later takes the array again (`whole`).
"""

from __future__ import annotations

import builtins
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import control, tree
from ..control.calls import Unfinished
from ..control.regions import is_value, type_of_leaf
from ..tensor import Tensor
from .calls import JOINING, call, replace
from .iterables import Indexable, sequence_of
from .loops import PATIENCE, for_
from .places import is_traced, traced_in
from .scope import Called, at_end, made

FEW = 16  # entries that are computed one by one

# Functions of a list that are the same of an array.
OF_ARRAYS: tuple[Any, ...] = (np.array, np.asarray, np.asanyarray, np.sum, np.prod, np.mean, np.std)
OF_ARRAYS += (np.var, np.max, np.min, np.amax, np.amin, np.any, np.all, np.argmax, np.argmin)
OF_ARRAYS += (np.cumsum, np.cumprod, np.sort, np.median, np.linalg.norm)
_INSTEAD: dict[Any, Any] = {
    builtins.any: np.any,
    builtins.all: np.all,
    builtins.max: np.max,
    builtins.min: np.min,
    builtins.sum: lambda a, start=0: np.sum(a, axis=0) + start,
    np.stack: lambda a, axis=0: np.moveaxis(a, 0, axis),
}


class _Uneven(Exception):  # noqa: N818  (no mistake: it says that Python must do it)
    """What the entries are does not make an array."""


def total(iterable: Any, each: Callable[[Any], Any], start: Any = 0) -> Any:
    """sum(each(x) for x in iterable)"""
    if not traced_in([iterable, each]):
        return sum((each(x) for x in iterable), start)
    result = start

    def body(item: Any) -> None:
        nonlocal result
        result = result + each(item)

    for_(iterable, body, (), ("each",), ("result",), (), ())
    return result


def many(f: Any, iterable: Any, each: Callable[[Any], Any], is_list: bool) -> Callable[..., Any]:
    """f([each(x) for x in iterable], …), or f of a generator, as a function of the other arguments."""
    instead = _of_arrays(f)
    if instead is not None:
        array = _array(iterable, each, False)
        if array is not None:
            return functools.partial(instead, array)
    if is_list and f in OF_ARRAYS:
        entries = listed(iterable, each)
        joined = any(isinstance(x, Tensor) for x in entries)
        return functools.partial(call(f), call(np.array)(entries) if joined else entries)
    first = listed(iterable, each) if is_list else (_alone(each, x) for x in iterable)
    return functools.partial(call(f), first)


def _of_arrays(f: Any) -> Any:
    try:
        return call(f) if f in OF_ARRAYS else _INSTEAD.get(f)
    except TypeError:  # not hashable
        return None


class _Rows(threading.local):
    are_wanted = False  # what is made now becomes an entry of an array


_rows = _Rows()


def _alone(each: Callable[[Any], Any], x: Any, is_row: bool = False) -> Any:
    before, _rows.are_wanted = _rows.are_wanted, is_row
    try:
        return each(x)
    finally:
        _rows.are_wanted = before


def rows(iterable: Any, each: Callable[[Any], Any]) -> Any:
    """A list that is an entry of another one; an array, if that is to become one."""
    array = _array(iterable, each, False) if _rows.are_wanted else None
    return listed(iterable, each) if array is None else array


def listed(iterable: Any, each: Callable[[Any], Any]) -> list[Any]:
    """[each(x) for x in iterable]"""
    whole = _array(iterable, each, True)
    if whole is None:
        return made([_alone(each, x) for x in iterable])
    leaves, structure = tree.flatten(whole)
    count = len(leaves[0])
    entries = made([structure.unflatten([a[k] for a in leaves]) for k in range(count)])
    if isinstance(whole, Tensor):
        _wholes.of[id(entries)] = entries, tuple(map(id, entries)), whole
    return entries


class _Wholes(threading.local):
    def __init__(self) -> None:
        self.of: dict[int, tuple[list[Any], tuple[int, ...], Tensor]] = {}


_wholes = _Wholes()
at_end.append(lambda: _wholes.of.clear())


def whole(x: Any) -> Any:
    """The array that a list was made of, if it is still that list; or x."""
    found = _wholes.of.get(id(x))
    if found is None or found[0] is not x or tuple(map(id, x)) != found[1]:
        return x
    return found[2]


def taking_whole(f: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    """np.array, np.stack and their like, of a list that is known as an array."""

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        found = whole(args[0]) if args and isinstance(args[0], list) else None
        if isinstance(found, Tensor):
            return instead(found, *args[1:], **kwargs)
        return f(*args, **kwargs)

    return run


for _f in JOINING:
    replace(_f, lambda f: taking_whole(f, f))
for _whole, _instead in _INSTEAD.items():
    replace(_whole, functools.partial(taking_whole, instead=_instead))


def _array(iterable: Any, each: Callable[[Any], Any], is_tree: bool) -> Any:
    """The entries as one array (or a tree of arrays), by a staged loop; None where Python must make them."""
    found = sequence_of(iterable)
    if found is None or is_traced(found.length) or found.length <= FEW:
        return None
    reads = traced_in([found, each])
    if not reads:
        return None
    try:
        return _staged(found, each, reads, is_tree)
    except Unfinished:
        raise
    except (
        Exception
    ):  # of any kind: in Python it may work, and an error of the user's own shows as such
        if found.length > PATIENCE:
            raise
        return None


def _staged(found: Indexable, each: Callable[[Any], Any], reads: list[Any], is_tree: bool) -> Any:
    def entry(k: Any, state: Any, none: Any) -> tuple[Any, Any]:
        with Called("this comprehension"):
            y = whole(_alone(each, found.at(k), not is_tree))
        leaves, structure = tree.flatten(y)
        if not leaves or not all(is_value(x) for x in leaves):
            raise _Uneven
        if is_tree:
            if any(type_of_leaf(x).weak for x in leaves):
                raise _Uneven  # a bare number takes the type of what it meets; an entry of an array does not
            return state, y
        shapes = {type_of_leaf(x).shape for x in leaves}
        flat = structure.kind is tree.LEAF or all(c.kind is tree.LEAF for c in structure.children)
        if len(shapes) > 1 or not flat or (structure.kind not in (tree.LEAF, list, tuple)):
            raise _Uneven
        return state, y if structure.kind is tree.LEAF else np.stack(leaves)

    return control.record_loop(entry, None, (), (), found.length, reads=reads)[1]
