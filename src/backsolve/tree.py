"""Nested containers and their flat leaves.

A tree is a dict, list, tuple, named tuple, dataclass or None, or of a subclass, nested at will; everything
else is a leaf. `flatten` gives the leaves in a fixed order and a Structure that puts them back.

A kind registered with `shared` (modules of networks) may hold an array, or a container of such a kind, in
several places: inside of it that is one leaf, or one container, and is put back in all of them. Elsewhere
every place is a leaf of its own: f(x, x) has two arguments.

>>> leaves, structure = flatten({"w": [1.0, 2.0], "b": None})
>>> leaves
[1.0, 2.0]
>>> structure.unflatten(["p", "q"])
{'w': ['p', 'q'], 'b': None}
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from .containers import REGISTRY, SHARED, handlers
from .containers import register as register
from .errors import StructureError


class Structure:
    """The form of a tree without its leaves; hashable, comparable."""

    __slots__ = ("children", "kind", "meta")

    def __init__(self, kind: Any, meta: Hashable = None, children: tuple[Structure, ...] = ()):
        self.kind = kind  # a container type, or LEAF
        self.meta: Any = meta  # keys of a dict, field names of a dataclass
        self.children = children

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Structure)
            and self.kind is other.kind
            and self.meta == other.meta
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.meta, self.children))

    def __repr__(self) -> str:
        return f"Structure({self.unflatten(['*'] * self.size)!r})"

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind is LEAF else sum(child.size for child in self.children)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Containers of this form around other leaves."""
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        kind = self.kind
        if kind is LEAF:
            return next(leaves)
        if kind is FIXED:
            return self.meta
        if kind in SHARED:
            return self._build_shared(leaves, [], set())
        xs = [
            next(leaves) if child.kind is LEAF else child._build(leaves) for child in self.children
        ]
        if kind is tuple:
            return tuple(xs)
        if kind is list:
            return xs
        if kind is type(None):
            return None
        _, rebuild = handlers(self.kind)
        return rebuild(self.kind, self.meta, xs)

    def _build_shared(self, leaves: Iterator[Any], made: list[Any], given: set[int]) -> Any:
        """As `_build`, inside of a container that shares: `made` are leaves and such containers so far."""
        kind = self.kind
        if kind is AGAIN:
            return made[self.meta]
        if kind is type(None):
            return None
        if kind is LEAF:
            new = next(leaves)
            if id(new) in given and hasattr(new, "dtype"):
                new = new.copy()  # what is two here must not look like one
            given.add(id(new))
        elif kind is FIXED:
            new = self.meta
        else:
            xs = [child._build_shared(leaves, made, given) for child in self.children]
            new = handlers(kind)[1](kind, self.meta, xs)
            if kind not in SHARED:
                return new
        made.append(new)
        return new


class _Flat(Structure):
    """A tuple of leaves, the form of most arguments: there is one for each length."""

    __slots__ = ()

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return tuple(leaves)


LEAF = object()
FIXED = object()  # a leaf that is always the same: its `meta`
AGAIN = object()  # what stands in an earlier place: number `meta` of `made`
_LEAF_STRUCTURE = Structure(LEAF)
LEAF_KINDS: set[type] = {np.ndarray, float, np.float64}  # nobody registers these as containers


@cache
def _flat(length: int) -> Structure:
    return _Flat(tuple, None, (_LEAF_STRUCTURE,) * length)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of nested containers from left to right, and the form they had.

    >>> leaves, form = flatten({"w": [1.0, 2.0], "b": 3.0})
    >>> leaves
    [1.0, 2.0, 3.0]
    >>> form.unflatten(x * 10 for x in leaves)
    {'w': [10.0, 20.0], 'b': 30.0}
    """
    kind = type(tree)
    if kind in LEAF_KINDS:
        return [tree], _LEAF_STRUCTURE
    if kind is tuple:
        for child in tree:
            if type(child) not in LEAF_KINDS:
                break
        else:
            return [*tree], _flat(len(tree))
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves)


def flatten_like(tree: Any, form: Structure) -> tuple[list[Any], Structure]:
    """As `flatten`; a dict that has the keys of the one in `form` in another order is taken in that of `form`.

    >>> form = flatten({"x": 1, "y": (2, 3)})[1]
    >>> flatten_like({"y": (20, 30), "x": 10}, form)[0]
    [10, 20, 30]
    """
    leaves, got = flatten(tree)
    sorted_leaves = None if got == form else _in_order_of(form, got, leaves)
    return (leaves, got) if sorted_leaves is None else (sorted_leaves, form)


def _in_order_of(form: Structure, got: Structure, leaves: list[Any]) -> list[Any] | None:
    """The leaves in the order of `form`; None if the two differ in more than the order of keys."""
    if got == form:
        return leaves
    if got.kind is not form.kind or len(got.children) != len(form.children):
        return None
    parts, at = [], 0
    for child in got.children:
        parts.append((child, leaves[at : at + child.size]))
        at += child.size
    if isinstance(form.kind, type) and issubclass(form.kind, dict):
        names, wanted = (s.meta if s.kind is dict else s.meta[0] for s in (got, form))
        if set(names) != set(wanted):
            return None
        named = dict(zip(names, parts, strict=True))
        parts = [named[name] for name in wanted]
    elif got.meta != form.meta:
        return None
    found: list[Any] = []
    for child, (other, own) in zip(form.children, parts, strict=True):
        part = _in_order_of(child, other, own)
        if part is None:
            return None
        found.extend(part)
    return found


def _flatten_into(tree: Any, leaves: list[Any]) -> Structure:
    kind = type(tree)
    if kind is tuple or kind is list:
        parts = []
        for child in tree:
            if type(child) in LEAF_KINDS:
                leaves.append(child)
                parts.append(_LEAF_STRUCTURE)
            else:
                parts.append(_flatten_into(child, leaves))
        return Structure(kind, None, tuple(parts))
    if kind in LEAF_KINDS:
        leaves.append(tree)
        return _LEAF_STRUCTURE
    if tree is None:
        return Structure(kind)
    by = handlers(kind)
    if by is None:
        leaves.append(tree)
        return _LEAF_STRUCTURE
    if kind in SHARED:
        return _Sharing(SHARED[kind], leaves).form(tree)
    meta, children = by[0](tree)
    return Structure(kind, meta, tuple([_flatten_into(child, leaves) for child in children]))


class _Sharing:
    """The way through a container in which arrays and containers may stand in several places."""

    def __init__(self, kinds: tuple[type, ...], leaves: list[Any]):
        self.kinds, self.leaves = kinds, leaves
        self.made: list[Any] = []  # leaves and containers that share, in the order they are made in
        self.numbers: dict[int, int] = {}  # of those that count by identity

    def form(self, x: Any) -> Structure:
        kind = type(x)
        if x is None:
            return Structure(kind)
        number = self.numbers.get(id(x))
        if number is not None:
            return Structure(AGAIN, number)
        by = handlers(kind)
        if by is None:
            self.leaves.append(x)
            found, counts = _LEAF_STRUCTURE, isinstance(x, self.kinds)
        else:
            meta, children = by[0](x)
            found = Structure(kind, meta, tuple([self.form(child) for child in children]))
            counts = kind in SHARED
            if not counts:
                return found
        if counts:
            self.numbers[id(x)] = len(self.made)
        self.made.append(x)
        return found


def without_fixed(structure: Structure, leaves: Iterable[Any]) -> tuple[list[Any], Structure]:
    """The leaves that are numbers, and a form that knows the others: names, functions, types."""
    kept: list[Any] = []
    return kept, _with_fixed(structure, iter(leaves), kept)


def _with_fixed(s: Structure, leaves: Iterator[Any], kept: list[Any]) -> Structure:
    if s.kind is not LEAF:
        children = tuple([_with_fixed(child, leaves, kept) for child in s.children])
        return Structure(s.kind, s.meta, children)
    x = next(leaves)
    if is_immutable(x) and not isinstance(x, bool):
        return Structure(FIXED, x)
    kept.append(x)
    return _LEAF_STRUCTURE


_IMMUTABLE = (str, bytes, bool, type, np.dtype, slice, range, frozenset, enum.Enum, type(...))


def is_immutable(leaf: Any) -> bool:
    """Whether a leaf that is no number stands for itself: a name, a function, a type."""
    return isinstance(leaf, _IMMUTABLE) or (
        callable(leaf) and not isinstance(leaf, np.ndarray | np.generic)
    )


def map(f: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply `f` to the leaves of trees of one form.

    >>> map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"x": 10, "y": (20, 30)})
    {'x': 11, 'y': (22, 33)}
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in others:
        other_leaves, other_structure = flatten(other)
        if other_structure != structure:
            raise StructureError(
                f"expected a tree of the form of {tree!r}, got {other!r}"
                + sharing_note(structure, other_structure)
            )
        columns.append(other_leaves)
    return structure.unflatten([f(*row) for row in zip(*columns, strict=True)])


def sharing_note(here: Structure, there: Structure) -> str:
    """For messages about two forms: what is one array in two places of one, and two in the other."""
    ours, theirs = shared_places(here), shared_places(there)
    for which, some, others in (("first", ours, theirs), ("second", theirs, ours)):
        for place, first in some.items():
            if others.get(place) != first:
                return f"; `{first}` and `{place}` hold one array in the {which}, not in the other"
    return ""


def shared_places(form: Structure) -> dict[str, str]:
    """Where arrays and containers stand that have an earlier place, by dotted names: place -> first place."""
    made: list[str] = []  # places in the order in which what stands there is made
    return dict(_again(form, "", made))


def _again(form: Structure, path: str, made: list[str]) -> Iterator[tuple[str, str]]:
    if form.kind is AGAIN:
        yield path, made[form.meta]
        return
    for name, child in zip(_names(form), form.children, strict=True):
        yield from _again(child, f"{path}.{name}" if path else str(name), made)
    if form.kind in (LEAF, FIXED) or form.kind in SHARED:
        made.append(path)


def leaf_names(form: Structure, name: str) -> list[str]:
    """The leaves of a tree that is called `name`, as users call them; inside of modules, as these do.

    >>> leaf_names(flatten({"w": [1.0, 2.0], "b": None})[1], "params")
    ["params['w'][0]", "params['w'][1]"]
    """
    return list(_leaf_names(form, name, False))


def dotted_names(form: Structure, name: str = "") -> Iterator[str]:
    """The leaves of a tree that is called `name`, by the keys on the way to them.

    >>> list(dotted_names(flatten({"w": [1.0, 2.0], "b": None})[1], "params"))
    ['params.w.0', 'params.w.1']
    """
    if form.kind is LEAF:
        yield name
    for part, child in zip(_names(form), form.children, strict=True):
        yield from dotted_names(child, f"{name}.{part}" if name else str(part))


def _leaf_names(form: Structure, name: str, in_module: bool) -> Iterator[str]:
    if form.kind is LEAF:
        yield name
    in_module = in_module or form.kind in SHARED
    for part, child in zip(_names(form), form.children, strict=True):
        is_field = isinstance(part, str) and not issubclass(form.kind, dict)
        dotted = in_module or is_field
        yield from _leaf_names(
            child, f"{name}.{part}" if dotted else f"{name}[{part!r}]", in_module
        )


def _names(form: Structure) -> Iterable[Any]:
    meta: Any = form.meta
    if form.kind in SHARED:
        return [name for name, is_child, _ in meta if is_child]
    if not isinstance(form.kind, type) or form.kind in REGISTRY.keys() - {dict}:
        return range(len(form.children))
    if issubclass(form.kind, dict):
        return list(meta if form.kind is dict else meta[0])
    if hasattr(form.kind, "_fields"):
        return list(form.kind._fields)
    return list(meta) if dataclasses.is_dataclass(form.kind) else range(len(form.children))
