"""Which arrays of a module are declared on manifolds: a setting of the module, beside plain arrays.

A layer computes with arrays, so a module holds arrays and, under dotted paths from itself ("weight",
"heads.0"), how `bs.on` declared them. Where the module is taken apart as a container they are Points again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from .. import containers
from ..declared import Point
from ..errors import ShapeError, StructureError

Declarations = tuple[tuple[str, Any], ...]  # path -> what `Point.declaration` says


def taken_off(value: Any, path: str) -> tuple[Any, dict[str, Any]]:
    """The same with arrays in the place of Points, and their declarations by path; not into modules."""
    found: dict[str, Any] = {}
    return _plain(value, path, found), found


def _plain(value: Any, path: str, found: dict[str, Any]) -> Any:
    if isinstance(value, Point):
        found[path] = value.declaration
        return value.x
    if not isinstance(value, Mapping | list | tuple) and not _is_record(value):
        return value
    meta, parts = containers.handlers(type(value))[0](value)
    new = [_plain(v, f"{path}.{k}", found) for k, v in zip(_names(value), parts, strict=True)]
    return containers.handlers(type(value))[1](type(value), meta, new) if found else value


def declared_again(value: Any, path: str, declarations: Declarations) -> Any:
    """The Points that were taken off, put on again."""
    return _mapped(value, path, declarations, lambda x, how: Point(how[0], x, *how[1:]))


def undeclared(value: Any, path: str, declarations: Declarations) -> Any:
    """Arrays where Points may stand under these paths."""
    return _mapped(value, path, declarations, lambda x, how: x.x if isinstance(x, Point) else x)


def with_declarations(old: Declarations, name: str, found: Mapping[str, Any]) -> Declarations:
    """The declarations of a module after an attribute was set."""
    kept = [(p, how) for p, how in old if p != name and not p.startswith(f"{name}.")]
    return (*kept, *found.items())


def check_point(name: str, how: Any, x: Any) -> None:
    """An error that names the array, if it is no point of the manifold it is declared on."""
    try:
        how[0].check(x)
    except ShapeError as error:
        raise StructureError(f"{name}: {error}") from None


def _mapped(
    value: Any, path: str, declarations: Declarations, change: Callable[[Any, Any], Any]
) -> Any:
    for declared, how in declarations:
        if declared == path:
            return change(value, how)
    if not any(declared.startswith(f"{path}.") for declared, _ in declarations):
        return value
    meta, parts = containers.handlers(type(value))[0](value)
    new = [
        _mapped(v, f"{path}.{k}", declarations, change)
        for k, v in zip(_names(value), parts, strict=True)
    ]
    return containers.handlers(type(value))[1](type(value), meta, new)


def _names(container: Any) -> Any:
    if _is_record(container):
        return [f.name for f in dataclasses.fields(container)]
    return container if isinstance(container, Mapping) else range(len(container))


def _is_record(value: Any) -> bool:
    """A dataclass, but no module."""
    return (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and type(value) not in containers.SHARED
    )
