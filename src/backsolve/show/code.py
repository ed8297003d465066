"""The flat gradient code of a scene, and which nodes its lines are about.

The code is written from a recording of its own (source/). A row there and a row of the scene are the same if
they compute the same thing from the same inputs, which the key of each says: its primitive, its metadata and
the keys of what it reads.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..api import value_and_grad
from ..errors import BacksolveError
from ..ir import Var
from ..row import Row
from ..source.function import Listing, listing
from ..vary import numbers_of
from .scene import Scene

_TARGET = re.compile(r"    (?:grad_)?(\w+) [-+]?= ")
_LONG = 3_000  # rows whose code nobody reads


def gradient_code(scene: Scene) -> dict[str, Any] | None:
    """{"lines", "nodes"}; None if there is no flat code: several outputs, or a path that depends on numbers."""
    if len(scene.system.rows) > _LONG or scene.varied.points:
        return None
    try:
        made = listing(value_and_grad(_of_positions(scene), scene.argnums), scene.args)
    except (BacksolveError, TypeError, ValueError):
        return None
    node_of = {key: k for k, key in enumerate(_keys_of_rows(scene))}
    keys = _keys_of_variables(made, scene)
    about = {name: node_of[keys[v]] for name, v in made.variable.items() if keys.get(v) in node_of}
    lines = made.text.rstrip("\n").split("\n")
    found = [_TARGET.match(line) for line in lines]
    return {
        "lines": lines,
        "nodes": [[about[m[1]]] if m is not None and m[1] in about else [] for m in found],
    }


def _of_positions(scene: Scene) -> Callable[..., Any]:
    if not scene.kwargs:
        return scene.f
    return functools.wraps(scene.f)(lambda *args: scene.f(*args, **scene.kwargs))


def _keys_of_rows(scene: Scene) -> list[int]:
    keys: dict[Row, int] = {
        row: hash(("input", k)) for k, row in enumerate(scene.system.parameters)
    }
    for row in scene.system.rows:
        given = scene.system.constants.get(row, ())
        read = [
            keys[p]
            if p.__class__ is Row and p in keys
            else _constant(given[k] if k < len(given) else p)
            for k, p in enumerate(row.parents)
        ]
        keys[row] = _key(row.primitive.name, read, row.params)
    return [keys[row] for row in scene.nodes]


def _keys_of_variables(made: Listing, scene: Scene) -> dict[Var, int]:
    keys = {var: _constant(value) for var, value in made.constants.items()}
    varied = numbers_of(scene.argnums)[1]
    numbers = iter(range(len(scene.system.parameters)))
    for n, (leaves, argument) in enumerate(zip(made.inputs, scene.args, strict=False)):
        for var, leaf in zip(leaves, tree.flatten(argument)[0], strict=True):
            if var is not None:
                keys[var] = hash(("input", next(numbers))) if n in varied else _constant(leaf)
    for e in made.equations:
        read = [keys.get(a, 0) if type(a) is Var else _constant(a) for a in e.inputs]
        keys[e.outputs[0]] = _key(e.primitive.name, read, e.params)
    return keys


def _key(name: str, read: list[int], params: dict[str, Any] | None) -> int:
    return hash((name, tuple(read), repr(sorted((params or {}).items()))))


def _constant(value: Any) -> int:
    if value is None:
        return 0
    a = np.asarray(getattr(value, "_v", value))
    return (
        hash(float(a)) if a.ndim == 0 and a.dtype.kind in "biuf" else hash((a.shape, a.tobytes()))
    )
