"""Rules: along which axes of a mesh the axes of an array are split, by the array's name and shape.

Names are dotted: `model.h.0.mlp.c_fc.weight` is inside of the argument `model`, `0.weight` in a first result. A
pattern fits a name, or the last parts of it: "*.weight", "c_fc.weight" and "weight" all fit that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ..errors import ShapeError, StructureError
from .devices import shown

Axes = tuple[Any, ...]  # for each axis of an array: None, a name of the mesh's, or several


class Leaf(NamedTuple):
    """An array that a rule is asked about."""

    name: str
    shape: tuple[int, ...]


class Rule:
    """`axes(leaves, sizes)`: for each array the axes of the mesh it is split along; None: no matter to it."""

    batch_axis = "data"

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"<{type(self).__name__.strip('_')} rule: {told}>"

    def axes(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        """For each leaf, the axes of the mesh that split its axes; None: the rule says nothing of it."""
        raise NotImplementedError

    def results(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        """The same for results."""
        return self.axes(leaves, sizes)

    def used(self, axes: Axes) -> Axes | None:
        """How an argument that is split so lies where products use it; None: XLA decides."""
        return None

    def is_batch(self, leaf: Leaf) -> bool:
        """Whether an argument holds examples, which other arrays have nothing to do with."""
        return False

    def check(self, arguments: Sequence[Leaf], results: Sequence[Leaf]) -> None:
        """Raise if it says something about arrays that are not there."""


class ByFunction(Rule):
    """`f(name, shape)`."""

    def __init__(self, f: Callable[[str, tuple[int, ...]], Any]):
        self.f = f

    def axes(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        return [_axes(self.f(*leaf), leaf.name) for leaf in leaves]


class ByPattern(Rule):
    """Patterns of names; the first that fits counts."""

    def __init__(self, patterns: Mapping[str, Any]):
        strange = [p for p in patterns if not isinstance(p, str)]
        if strange:
            raise TypeError(f"patterns of names are texts such as '*.weight', got {strange[0]!r}")
        self.patterns = {p: _axes(axes, p) or () for p, axes in patterns.items()}

    def axes(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        return [self._of(leaf.name) for leaf in leaves]

    def _of(self, name: str) -> Axes | None:
        return next((axes for p, axes in self.patterns.items() if fits(p, name)), None)

    def check(self, arguments: Sequence[Leaf], results: Sequence[Leaf]) -> None:
        there = [*arguments, *results]
        idle = [p for p in self.patterns if not any(fits(p, leaf.name) for leaf in there)]
        if idle:
            names = ", ".join(leaf.name for leaf in arguments[:12])
            more = f" and {len(arguments) - 12} more" if len(arguments) > 12 else ""
            raise StructureError(
                f"the rule for {idle[0]!r} fits no array: there are {names}{more}. Correct the pattern, or "
                "leave it out"
            )


def as_rule(shard: Any) -> Rule:
    """A rule, a function of (name, shape), or a dict of patterns; None: all arrays are whole."""
    if isinstance(shard, Rule):
        return shard
    if shard is None:
        return ByPattern({})
    if isinstance(shard, Mapping):
        return ByPattern(shard)
    if callable(shard) and not isinstance(shard, type):
        return ByFunction(shard)
    raise TypeError(
        'shard= is a rule such as bs.sharding.data("x"), a function of (name, shape), or a dict from patterns '
        f'of names to axes of the mesh, such as {{"*.weight": ("data", None)}}; got {shard!r}'
    )


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern fits a dotted name or the last parts of it."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[k:]), pattern) for k in range(len(parts)))


def _axes(given: Any, name: str) -> Axes | None:
    if isinstance(given, Rule):
        raise TypeError("a ready rule is made by a call: shard=bs.sharding.fully(), with brackets")
    if given is None:
        return None
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, tuple | list) or not all(map(_is_axis, given)):
        raise TypeError(
            f"the axes of {name!r} are a tuple with None or a name of the mesh's for each axis, or several "
            f"names for one, got {given!r}"
        )
    return tuple(tuple(a) if isinstance(a, list) else a for a in given)


def _is_axis(a: Any) -> bool:
    several = isinstance(a, tuple | list) and all(isinstance(name, str) for name in a)
    return a is None or isinstance(a, str) or several


def checked(axes: Axes, leaf: Leaf, sizes: Mapping[str, int]) -> Axes:
    """The axes; an error that says what to change if the array cannot be split so."""
    split = [_names(a) for a in axes]
    for name in (name for names in split for name in names):
        if name not in sizes:
            raise ValueError(
                f"`{leaf.name}` shall be split along {name!r}, which is no axis of the mesh: that has "
                f"{shown(sizes)}"
            )
    used = [name for names in split for name in names]
    twice = next((name for name in used if used.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"`{leaf.name}` shall be split along {twice!r} twice: {axes}")
    if any(split[len(leaf.shape) :]):
        raise ShapeError(
            f"`{leaf.name}` has shape {leaf.shape}, and shall be split as {axes}: that is "
            f"{len(axes)} axes for {len(leaf.shape)}"
        )
    for k, names in enumerate(split[: len(leaf.shape)]):
        parts = math.prod(sizes[name] for name in names)
        if leaf.shape[k] % parts:
            along = " and ".join(repr(name) for name in names)
            raise ShapeError(
                f"`{leaf.name}` has {leaf.shape[k]} entries along axis {k} (of {leaf.shape}), which cannot be "
                f"split into {parts} equal parts, the mesh's size along {along}: make it a multiple of "
                f"{parts}, or change the mesh or the rule"
            )
    return axes[: len(leaf.shape)]


def _names(axis: Any) -> tuple[str, ...]:
    return () if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)


def bytes_per_device(leaf: Leaf, itemsize: int, axes: Axes, sizes: Mapping[str, int]) -> int:
    parts = math.prod(sizes[name] for a in axes for name in _names(a))
    return math.prod(leaf.shape) * itemsize // parts
