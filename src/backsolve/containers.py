"""Kinds of containers: how each is taken apart into its children, and put together around others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import Any

# kind -> (take apart into (meta, children), put together from (kind, meta, children))
Handlers = tuple[Callable[[Any], tuple[Any, Iterable[Any]]], Callable[[Any, Any, list[Any]], Any]]
REGISTRY: dict[type, Handlers] = {
    dict: (
        lambda t: (tuple(t), t.values()),
        lambda kind, keys, xs: dict(zip(keys, xs, strict=True)),
    ),
    list: (lambda t: (None, t), lambda kind, meta, xs: xs),
    tuple: (lambda t: (None, t), lambda kind, meta, xs: tuple(xs)),
}
# Bypass a __new__ of its own: it may take other arguments than the entries.
_NAMED_TUPLE: Handlers = (lambda t: (None, t), lambda kind, meta, xs: tuple.__new__(kind, xs))


def _take_dataclass_apart(t: Any) -> tuple[Any, Iterable[Any]]:
    names = tuple(f.name for f in dataclasses.fields(t))
    return names, [getattr(t, name) for name in names]


def _put_dataclass_together(kind: Any, names: Any, xs: list[Any]) -> Any:
    # Bypass __init__: it may validate or convert, and leaves may be placeholders.
    new = object.__new__(kind)
    for name, x in zip(names, xs, strict=True):
        object.__setattr__(new, name, x)
    return new


_DATACLASS: Handlers = (_take_dataclass_apart, _put_dataclass_together)


def _take_mapping_apart(t: Any) -> tuple[Any, Iterable[Any]]:
    return (tuple(t), getattr(t, "default_factory", None)), t.values()


def _put_mapping_together(kind: Any, meta: Any, xs: list[Any]) -> Any:
    keys, factory = meta
    new = kind() if factory is None else kind(factory)
    new.update(zip(keys, xs, strict=True))
    return new


_MAPPING: Handlers = (_take_mapping_apart, _put_mapping_together)
_SEQUENCE: Handlers = (lambda t: (None, t), lambda kind, meta, xs: kind(xs))


# kind -> types of the leaves that count by identity inside of it
SHARED: dict[Any, tuple[type, ...]] = {}


def register(
    kind: type,
    take_apart: Callable[[Any], tuple[Hashable, Iterable[Any]]],
    put_together: Callable[[Any, list[Any]], Any],
    shared: tuple[type, ...] = (),
) -> None:
    """Make `kind` a container: `take_apart(x) -> (meta, children)`, `put_together(meta, children)`.

    With `shared`, leaves of these types (and containers that share) that stand in several places stay one; then
    `meta` has (name, is_child, …) for each attribute.
    """
    REGISTRY[kind] = (take_apart, lambda _kind, meta, xs: put_together(meta, xs))
    if shared:
        SHARED[kind] = shared


def handlers(kind: type) -> Any:
    """How a kind of container is taken apart and put together; None of a leaf."""
    found = REGISTRY.get(kind)
    if found is None:
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return _NAMED_TUPLE
        if dataclasses.is_dataclass(kind):
            return _DATACLASS
        if issubclass(kind, dict) and not hasattr(
            kind, "tocoo"
        ):  # a sparse matrix of SciPy's may be one
            return _MAPPING
        if issubclass(kind, list | tuple):
            return _SEQUENCE
    return found
