"""Attributes that are set while a function is recorded, and what they held before.

A Program has no place for them. Who records (compiled/specialise.py) puts them back and learns which they were.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from .hooks import hooks


class _Open(threading.local):
    """Those that this thread is noting changes in."""

    def __init__(self) -> None:
        self.all: list[Changes] = []


class Noted:
    """What tells of its attributes before they are set: `note(self, name)`."""


class Missing:
    """What an attribute holds that is not there."""


class Changes:
    """What attributes held before they were set, while it is entered; and again, if that ends in an error."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, str], tuple[Any, Any]] = {}

    def note(self, owner: Any, name: str) -> None:
        known = self._before.get((id(owner), name))
        if known is None or known[0]() is not owner:  # or another object had its place in memory
            self._before[id(owner), name] = weakref.ref(owner), held(owner, name)

    def made(self) -> list[tuple[Any, str, Any, Any]]:
        """(owner, name, before, now) of what has changed, in objects that are still there."""
        known = [(ref(), name, before) for (_, name), (ref, before) in self._before.items()]
        there = [(*change, held(*change[:2])) for change in known if change[0] is not None]
        return [change for change in there if change[2] is not change[3]]

    def __enter__(self) -> Changes:
        _open.all.append(self)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        _open.all.remove(self)
        if kind is not None:
            self.undo()

    def undo(self) -> None:
        """Let all that has changed hold what it held."""
        for owner, name, before, _ in self.made():
            put(owner, name, before)


_open = _Open()


def note(owner: Any, name: str) -> None:
    """An attribute is about to be set."""
    hooks.note_attribute(owner, name)
    for changes in _open.all:
        changes.note(owner, name)


def held(owner: Any, name: str) -> Any:
    return vars(owner).get(name, Missing)


def put(owner: Any, name: str, value: Any) -> None:
    """Let an attribute hold a value that it has held, or what takes its place."""
    note(owner, name)
    if value is Missing:
        vars(owner).pop(name, None)
    else:
        vars(owner)[name] = value
