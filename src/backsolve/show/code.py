"""The flat gradient code of a scene, and which nodes its lines are about.

The code is written from a recording of its own (source/). A row there and a row of the scene are the same if
they compute the same thing from the same inputs, which the key of each says: its primitive, its metadata and
the keys of what it reads.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from .. import tree
from ..api import value_and_grad
from ..errors import BacksolveError
from ..ir import Equation, Var
from ..row import Row
from ..source.function import Listing, listing
from ..vary import ArgNums, numbers_of
from .scene import Scene

_TARGET = re.compile(r"    (?:grad_)?(\w+) [-+]?= ")
_LONG = 3_000  # rows whose code nobody reads
_LONGEST = 1_000  # entries of a constant; nor these


def gradient_code(scene: Scene) -> dict[str, Any] | None:
    """{"lines", "nodes"}; None if there is no flat code: several outputs, or a path that depends on numbers."""
    if len(scene.system.rows) > _LONG or scene.varied.points:
        return None
    try:
        f, args, argnums = _as_written(scene)
        made = listing(value_and_grad(f, argnums), args, _LONGEST)
    except (BacksolveError, TypeError, ValueError):
        return None
    node_of = {key: k for k, key in enumerate(_keys_of_rows(scene))}
    keys = _keys_of_variables(made, args, numbers_of(argnums)[1])
    about = {name: node_of[keys[v]] for name, v in made.variable.items() if keys.get(v) in node_of}
    lines = made.text.rstrip("\n").split("\n")
    found = [_TARGET.match(line) for line in lines]
    return {
        "lines": lines,
        "nodes": [[about[m[1]]] if m is not None and m[1] in about else [] for m in found],
    }


def _as_written(scene: Scene) -> tuple[Callable[..., Any], tuple[Any, ...], ArgNums]:
    """A function by position, and what varies; of the parameters alone where something is a constant."""
    is_fixed = any(
        fixed and not tree.is_immutable(x)
        for x, fixed in zip(scene.varied.originals, scene.varied.static, strict=True)
    )
    if not scene.kwargs and not is_fixed:
        return scene.f, scene.args, scene.argnums

    def f(*leaves: Any) -> Any:
        return scene.f(*scene.arguments(leaves), **scene.kwargs)

    names = [re.sub(r"\W+", "_", name).strip("_") for name in scene.system.names]
    kind = inspect.Parameter.POSITIONAL_ONLY
    f.__name__ = scene.title
    vars(f)["__signature__"] = inspect.Signature([inspect.Parameter(n, kind) for n in names])
    leaves = tuple([scene.values[row] for row in scene.system.parameters])
    return f, leaves, tuple(range(len(leaves)))


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


def _keys_of_variables(made: Listing, args: Sequence[Any], varied: Sequence[int]) -> dict[Var, int]:
    values = dict(made.constants)
    keys = {var: _constant(value) for var, value in values.items()}
    numbers = count()
    for n, (leaves, argument) in enumerate(zip(made.inputs, args, strict=False)):
        for var, leaf in zip(leaves, tree.flatten(argument)[0], strict=True):
            if var is not None:
                keys[var] = hash(("input", next(numbers))) if n in varied else _constant(leaf)
                values[var] = leaf
    for e in made.equations:
        y = e.outputs[0]
        read = [keys.get(a, 0) if type(a) is Var else _constant(a) for a in e.inputs]
        keys[y] = _key(e.primitive.name, read, e.params)
        values[y] = _value(e, values)
        if (
            y.dtype.kind in "biu" and values[y] is not None
        ):  # where a gate is open: in the scene, numbers
            keys[y] = _constant(values[y])
    return keys


def _value(e: Equation, values: dict[Var, Any]) -> Any:
    given = [values.get(a) if type(a) is Var else a for a in e.inputs]
    if e.primitive.holds_regions or any(x is None for x in given):
        return None
    with np.errstate(all="ignore"):
        return e.primitive.run(*[getattr(x, "_v", x) for x in given], **e.params)


def _key(name: str, read: list[int], params: dict[str, Any] | None) -> int:
    return hash((name, tuple(read), repr(sorted((params or {}).items()))))


def _constant(value: Any) -> int:
    if value is None:
        return 0
    a = np.asarray(getattr(value, "_v", value))
    return (
        hash(float(a)) if a.ndim == 0 and a.dtype.kind in "biuf" else hash((a.shape, a.tobytes()))
    )
