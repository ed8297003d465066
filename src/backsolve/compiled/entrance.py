"""The way from a call with nested containers into native code and back, written out as Python.

Flattening any tree takes tens of microseconds. For the one form that a function was compiled for, the same
is a few unpackings and comparisons: `entrance` writes them down and compiles them. The result is
NotImplemented if anything is not as it was; the native entry itself looks at the types of numbers and arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import containers, tree
from .arguments import Arguments, exactly, raw

_BY_VALUE = (int, str, bool)  # compared by value, all else static by identity


def entrance(
    given: Arguments, results: tree.Structure, native: Callable[..., Any]
) -> Callable[..., Any] | None:
    """`enter(args, kwargs)` for arguments of this form; None if a container is of a kind not known here."""
    try:
        return _Writer(given, results, native).compiled()
    except _UnknownKindError:
        return None


class _UnknownKindError(Exception):
    """A container that is not written out here."""


class _Writer:
    def __init__(self, given: Arguments, results: tree.Structure, native: Callable[..., Any]):
        self.given, self.results = given, results
        self.known: dict[str, Any] = {"native": native, "array": np.array}
        self.known["new_tuple"] = tuple.__new__
        self.lines: list[str] = []
        self.numbers: list[str] = []
        self.leaf = self.names = 0

    def compiled(self) -> Callable[..., Any]:
        if self.given.static_named:
            raise _UnknownKindError
        positional, named = self.given.structure.children
        static = self.given.static
        count = len(positional.children) + len(static)
        self.require(f"len(args) == {count}")
        names = [self.new("a") for _ in range(count)]
        if names:
            self.lines.append(f"{', '.join(names)}, = args")
        for k, value in static.items():
            self.same(names[k], value)
        children = iter(positional.children)
        for k, name in enumerate(names):
            if k not in static:
                self.take_apart(name, next(children))
        if named.children:
            self.take_apart("kwargs", named)
        else:
            self.require("not kwargs")
        self.lines.append(f"y = native({', '.join(self.numbers)})")
        self.require("y is not NotImplemented")
        self.leaf = 0
        self.lines.append(f"return {self.put_together(self.results)}")
        text = "def enter(args, kwargs):\n" + "".join(f"    {line}\n" for line in self.lines)
        exec(compile(text, "<entrance>", "exec"), self.known)
        return self.known["enter"]

    def new(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def constant(self, value: Any) -> str:
        name = self.new("c")
        self.known[name] = value
        return name

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return NotImplemented")

    def same(self, name: str, value: Any) -> None:
        constant = self.constant(value)
        condition = f"{name} is {constant}"
        if type(value) in _BY_VALUE:
            kind = self.constant(type(value))
            condition += f" or (type({name}) is {kind} and {name} == {constant})"
        self.require(condition)

    # ---- arguments

    def take_apart(self, name: str, form: tree.Structure) -> None:
        kind = form.kind
        if kind is tree.LEAF:
            self.take_leaf(name)
            return
        if kind is type(None):
            self.require(f"{name} is None")
            return
        parts = [self.new("a") for _ in form.children]
        self.require(f"type({name}) is {self.constant(kind)}")
        if kind is dict:
            self.same_keys(name, form.meta)
            source = f"{name}.values()"
        elif kind in (list, tuple) or _is_named_tuple(kind):
            self.require(f"len({name}) == {len(parts)}")
            source = name
        elif _is_plain_dataclass(kind):
            source = "".join([f"{name}.{field.name}, " for field in dataclasses.fields(kind)])
        else:
            raise _UnknownKindError
        if parts:
            self.lines.append(f"{', '.join(parts)}, = {source}")
        for part, child in zip(parts, form.children, strict=True):
            self.take_apart(part, child)

    def same_keys(self, name: str, keys: Any) -> None:
        keys_are = f"tuple({name}) == {self.constant(keys)}"
        if any(type(key) is not str for key in keys):  # 1, 1.0 and True are equal, and differ
            function = self.constant(exactly)
            keys_are = f"{function}(tuple({name})) == {self.constant(exactly(keys))}"
        self.require(keys_are)

    def take_leaf(self, name: str) -> None:
        k, self.leaf = self.leaf, self.leaf + 1
        if k in self.given.fixed:
            self.same(name, self.given.fixed[k])
            return
        x = self.given.leaves[k]
        if np.ndim(raw(x)) == 0 and isinstance(raw(x), np.ndarray | np.generic):
            # Results without axes are NumPy's numbers: what was an array in the first call is one later.
            kind = self.constant(raw(x).dtype.type)
            self.lines.append(f"if type({name}) is {kind}: {name} = array({name})")
        self.numbers.append(name)

    # ---- results

    def put_together(self, form: tree.Structure) -> str:
        kind = form.kind
        if kind is tree.LEAF:
            k, self.leaf = self.leaf, self.leaf + 1
            return "y" if self.results.size == 1 else f"y[{k}]"
        if kind is type(None):
            return "None"
        if kind is tree.FIXED:
            return self.constant(form.meta)
        if kind is tree.AGAIN:
            raise _UnknownKindError
        parts = [self.put_together(child) for child in form.children]
        joined = "".join([f"{part}, " for part in parts])
        if kind is tuple:
            return f"({joined})"
        if kind is list:
            return f"[{joined}]"
        if kind is dict:
            keys = [self.constant(key) for key in form.meta]
            pairs = [f"{key}: {part}" for key, part in zip(keys, parts, strict=True)]
            return "{" + ", ".join(pairs) + "}"
        if _is_named_tuple(kind):
            return f"new_tuple({self.constant(kind)}, ({joined}))"
        if _is_plain_dataclass(kind):
            build = self.constant(tree.Structure(kind, form.meta, (_LEAF,) * len(parts)).unflatten)
            return f"{build}(({joined}))"
        raise _UnknownKindError


_LEAF = tree.Structure(tree.LEAF)


def _is_named_tuple(kind: Any) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and kind not in containers.REGISTRY


def _is_plain_dataclass(kind: Any) -> bool:
    if kind in containers.REGISTRY or issubclass(kind, dict | list | tuple):
        return False
    return dataclasses.is_dataclass(kind)
