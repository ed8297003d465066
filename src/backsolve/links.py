"""Objects that share memory in Python but not in a Program.

A slice of a NumPy array sees what is written into the array. A Tensor's slice is a value of its own; and what a
staged branch or loop leaves in a variable is a new object, even if Python would have bound one that has other
names. So such Tensors are *linked*: a write into one of them spoils the others, and a spoilt one is an error
when it is used. There are two kinds of links: those that the frontend makes, between any two Tensors; and
*families*, a Tensor that varies and its views, which every slice joins.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Container
from typing import Any
from weakref import ref

import numpy as np

from .errors import InPlaceError, location
from .hooks import hooks
from .tensor import Staged, Tensor

_joining = threading.Lock()


class _Record:
    """What is known of one Tensor object."""

    def __init__(self, tensor: Tensor, forget: Callable[[Any], Any]):
        self.ref = ref(tensor, forget)
        self.partners: list[Any] = []
        self.kind: type[Tensor] | None = None  # what it was before it was spoilt
        self.where = ""
        self.by: Any = None  # the Tensor whose write spoilt it


class _Known(threading.local):
    def __init__(self) -> None:
        self.records: dict[int, _Record] = {}


known = _Known()


def record(t: Tensor) -> _Record:
    records, key = known.records, id(t)
    found = records.get(key)
    if found is None or found.ref() is not t:
        found = records[key] = _Record(t, lambda _: records.pop(key, None))
    return found


def link(a: Any, *others: Any) -> None:
    """Tensors that Python might hold in the memory of `a`."""
    if not _is_array(a):
        return
    mine, me = record(a).partners, ref(a)
    for b in others:
        if b is not a and _is_array(b):
            mine.append(ref(b))
            record(b).partners.append(me)


def partners(t: Any) -> list[Tensor]:
    """Tensors that `t` is linked with, and that are still there."""
    found = known.records.get(id(t))
    if found is None or found.ref() is not t:
        return []
    return [p for p in (partner() for partner in found.partners) if p is not None]


def linked(t: Any, ends: Container[int] = ()) -> list[Any]:
    """All Tensors that a write into `t` concerns, itself first; `ends`: ids of those not to look behind."""
    found, waiting = {id(t): t}, [t]
    while waiting:
        x = waiting.pop()
        for p in partners(x) if id(x) not in ends else ():
            if id(p) not in found:
                found[id(p)] = p
                waiting.append(p)
    return list(found.values())


def _is_array(x: Any) -> bool:
    return isinstance(x, Tensor) and (is_spoilt(x) or x.ndim > 0)


# ---- families: a Tensor and its views


class Family:
    """Weak references to Tensors that NumPy would hold in one memory, the whole first, each with its key."""

    __slots__ = ("limit", "members")

    def __init__(self, whole: Tensor):
        self.members: list[tuple[Any, Any]] = [(ref(whole), None)]
        self.limit = 32

    def add(self, view: Tensor, key: Any) -> None:
        self.members.append((ref(view), key))
        if len(self.members) > self.limit:  # a loop made many, of which most are gone
            self.members = [m for m in self.members if m[0]() is not None]
            self.limit = 2 * len(self.members) + 32


def note_view(view: Tensor, whole: Tensor, key: Any) -> None:
    """`view` shows the memory of `whole`, or of `whole[key]`, as NumPy has it."""
    v, w = view._v, whole._v
    if type(v) is np.ndarray:
        shown = v if v.base is None else v.base
        if shown is not w and shown is not getattr(w, "base", None):
            return  # a copy
    elif type(view) is not Staged or not view.ndim or not _is_basic(key):
        return
    with _joining:  # two threads may take the first views of one whole
        family = getattr(whole, "family", None)
        if family is None:
            family = whole.family = Family(whole)
        family.add(view, key)
    view.family = family


def is_view(t: Tensor) -> bool:
    """Whether it shows the memory of another of its family, which was there before it."""
    family = getattr(t, "family", None)
    return family is not None and family.members[0][0]() is not t


def _is_basic(key: Any) -> bool:
    """Whether x[key] is a view in NumPy."""
    parts = key if type(key) is tuple else (key,)
    return all(k is None or k is ... or isinstance(k, int | np.integer | slice) for k in parts)


def _is_known(key: Any) -> bool:
    """Whether the places of a basic key are numbers now: bounds of a slice may be traced."""
    parts = key if type(key) is tuple else (key,)
    bounds = [b for k in parts if type(k) is slice for b in (k.start, k.stop, k.step)]
    return all(b is None or isinstance(b, int | np.integer) for b in bounds)


def relatives(t: Tensor, key: Any = ...) -> list[Tensor]:
    """The Tensors of its family that a write into `t[key]` concerns."""
    family = getattr(t, "family", None)
    if family is None:
        return []
    others = [p for p in (member() for member, _ in family.members) if p is not None and p is not t]
    known = type(t._v) is np.ndarray and _is_basic(key) and _is_known(key)
    written = _region(t._v, key) if known else t._v
    return [p for p in others if not is_spoilt(p) and _overlap(p._v, written)]


def _region(a: np.ndarray[Any, Any], key: Any) -> np.ndarray[Any, Any]:
    parts = key if type(key) is tuple else (key,)
    return a[parts] if any(k is ... for k in parts) else a[(*parts, ...)]  # of rank 0, not a number


_MOST_WORK: Any = 1000  # after which they are taken to overlap


def _overlap(a: Any, b: Any) -> bool:
    if type(a) is not np.ndarray or type(b) is not np.ndarray:
        return True
    try:
        return np.shares_memory(a, b, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def leave_family(t: Any) -> Any:
    """A Tensor whose writes the caller brings to the whole."""
    if getattr(t, "family", None) is not None:
        t.family = None
    return t


def note_write(t: Tensor, key: Any = ...) -> None:
    """Before `t[key]` gets new numbers in place."""
    concerned = relatives(t, key)
    if concerned:
        where = location(2)
        for p in concerned:
            spoil(p, where, t)


# Functions whose result NumPy may hold in the memory of their first argument.
VIEWS = frozenset({"reshape", "ravel", "transpose", "permute_dims", "matrix_transpose", "squeeze"})
VIEWS |= {"swapaxes", "moveaxis", "rollaxis", "expand_dims", "flip", "fliplr", "flipud", "rot90"}
VIEWS |= {"diagonal", "real", "imag", "atleast_1d", "atleast_2d", "atleast_3d", "unstack"}
VIEWS |= {"split", "array_split", "hsplit", "vsplit", "dsplit"}


def viewing(result: Any, whole: Any) -> Any:
    """A result, or several, that shows the memory of `whole` in NumPy."""
    for part in result if isinstance(result, list | tuple) else (result,):
        if part is whole or not isinstance(part, Tensor):
            continue
        if (part.row is not None and part.row.owner is None) or type(part) is Staged:
            note_view(part, whole, None)
    return result


def views(f: Callable[..., Any]) -> Callable[..., Any]:
    """One of these, told of its views."""

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        return viewing(result, args[0]) if args and isinstance(args[0], Tensor) else result

    return run


hooks.note_view, hooks.viewing = note_view, viewing
hooks.note_write = note_write


# ---- spoilt Tensors


def spoil(t: Tensor, where: str, by: Tensor | None = None) -> None:
    mine = record(t)
    if mine.kind is None:
        mine.kind, mine.where, mine.by = type(t), where, None if by is None else ref(by)
        t.__class__ = SpoiltStaged if isinstance(t, Staged) else SpoiltTensor


def restore(t: Tensor) -> None:
    mine = record(t)
    if mine.kind is not None:
        t.__class__, mine.kind = mine.kind, None


def _refuse(self: Any) -> Any:
    raise InPlaceError(
        "this array shares memory, or may share it, with one that was written into since, at "
        f"{record(self).where}; tensors keep the two apart, and would go on with the old numbers. Take "
        "a copy where it is bound, v = y[1:3].copy(), or read it again"
    )


def _set_item(self: Any, key: Any, new: Any) -> None:
    """Python's own `x[key] += v`: the view of x was written into, and is now put where it was read."""
    by, family = record(self).by, getattr(self, "family", None)
    members = family.members if by is not None and family is not None and by() is new else ()
    if not any(member() is new and k == key for member, k in members):
        _refuse(self)
    restore(self)
    self[key] = leave_family(new)


class SpoiltTensor(Tensor):
    __slots__ = ()
    _v = property(_refuse)
    __setitem__ = _set_item


class SpoiltStaged(Staged):
    __slots__ = ()
    _v = property(_refuse)
    __setitem__ = _set_item


def is_spoilt(x: Any) -> bool:
    return isinstance(x, SpoiltTensor | SpoiltStaged)
