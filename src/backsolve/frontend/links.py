"""Objects that share memory in Python but not in a Program.

A slice of a NumPy array sees what is written into the array. A Tensor's slice is a value of its own; and what a
staged branch or loop leaves in a variable is a new object, even if Python would have bound one that has other
names. So such Tensors are *linked*: a write into one of them spoils the others (aliases.py), and a spoilt one
is an error when it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from typing import Any
from weakref import ref

from ..errors import InPlaceError
from ..tensor import Staged, Tensor


class _Record:
    """What is known of one Tensor object."""

    def __init__(self, tensor: Tensor, forget: Callable[[Any], Any]):
        self.ref = ref(tensor, forget)
        self.partners: list[Any] = []
        self.kind: type[Tensor] | None = None  # what it was before it was spoilt
        self.where = ""


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


def link(a: Any, b: Any) -> None:
    """Two Tensors that Python might hold in one memory."""
    if a is not b and _is_array(a) and _is_array(b):
        record(a).partners.append(ref(b))
        record(b).partners.append(ref(a))


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


# ---- spoilt Tensors


def _refuse(self: Any) -> Any:
    raise InPlaceError(
        "this array shares memory, or may share it, with one that was written into since, at "
        f"{record(self).where}; compiled code keeps the two apart, and would go on with the old numbers. Take "
        "a copy where it is bound, v = y[1:3].copy(), or read it again"
    )


class SpoiltTensor(Tensor):
    __slots__ = ()
    _v = property(_refuse)


class SpoiltStaged(Staged):
    __slots__ = ()
    _v = property(_refuse)


def is_spoilt(x: Any) -> bool:
    return isinstance(x, SpoiltTensor | SpoiltStaged)
