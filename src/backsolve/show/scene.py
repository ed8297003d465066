"""A Scene: everything that the pictures of a program show, as plain data.

`scene_of` runs the function once, keeps the System and where its rows came from, and solves it backwards once,
keeping every adjoint. What the views show is read off that: no view computes a derivative of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..api.systems import system_of
from ..errors import ShapeError, StructureError, check_function
from ..hooks import hooks
from ..operators import Operator
from ..results import check_numbers
from ..row import Row
from ..system import WAYS, System
from ..vary import ArgNums, Varied, numbers_of
from .places import Group, Places
from .varying import varying
from .wires import sent_back, trusted


@dataclass(frozen=True)
class Edge:
    """A block of the system: `reader` reads `read`, which is a parameter or an earlier row."""

    read: Row
    reader: Row
    place: int  # which input of the reader
    block: Operator


@dataclass(frozen=True)
class Scene:
    title: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    argnums: Any
    varied: Varied
    system: System
    values: dict[Row, Any]  # of parameters and rows
    adjoints: dict[Row, Any]  # of those that the outputs depend on
    seeds: tuple[Any, ...]  # one for each output
    edges: tuple[Edge, ...]
    sent: dict[int, Any]  # what goes back along an edge, by its number, where several terms add up
    home: dict[Row, Group | None]
    line: dict[Row, tuple[str, int]]

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of `f` with other arrays in the place of the parameters."""
        rest, v = iter(leaves), self.varied
        given = [x if fixed else next(rest) for x, fixed in zip(v.originals, v.static, strict=True)]
        args = list(self.args)
        for n, part in zip(numbers_of(self.argnums)[1], v.structure.unflatten(given), strict=True):
            args[n] = part
        return tuple(args)

    def run_again(self, args: Sequence[Any], merge: bool = True) -> System:
        """The System of the function at other arguments of the same form."""
        fixed = self.varied.static
        return system_of("show", self.f, args, self.kwargs, self.argnums, merge, fixed)[0]

    @property
    def nodes(self) -> list[Row]:
        """Parameters, then rows in the order in which they were computed."""
        return [*self.system.parameters, *self.system.rows]


def scene_of(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    argnums: ArgNums | None = None,
    seed: Any = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Scene:
    """Run `f`, and go back from `seed` (ones, if None is given)."""
    check_function("show", f)
    kwargs = kwargs or {}
    numbers, fixed = varying(args, argnums)
    places = Places(sys._getframe())
    hooks.add(places)
    try:
        with hooks.as_written.holding(True):
            system, varied = system_of("show", f, args, kwargs, numbers, fixed=fixed)
    finally:
        hooks.remove(places)
        places.finish()
    check_numbers("show", system._raw_outputs)
    values = dict(system.values)
    values.update(zip(varied.rows, _plain_leaves(varied), strict=True))
    seeds = _seeds(system, seed)
    pairs = [(row, s) for row, s in zip(system.outputs, seeds, strict=True) if row is not None]
    with np.errstate(all="ignore"):
        adjoints = all_adjoints(system, pairs)
    edges = tuple(edges_of(system))
    sent = trusted(sent_back(edges, adjoints, system.outputs), edges, adjoints, pairs)
    return Scene(
        f=f,
        args=args,
        kwargs=kwargs,
        argnums=numbers,
        varied=varied,
        title=getattr(f, "__name__", type(f).__name__).replace("<lambda>", "f"),
        system=system,
        values=values,
        adjoints=adjoints,
        seeds=tuple(seeds),
        edges=edges,
        sent=sent,
        home={row: places.group_of.get(row) for row in system.rows},
        line={row: places.line_of[row] for row in system.rows if row in places.line_of},
    )


def all_adjoints(system: System, pairs: Sequence[tuple[Row, Any]]) -> dict[Row, Any]:
    """Of all rows that the outputs depend on, for (output, seed)."""
    found: dict[Row, Any] = WAYS["adjoints"](system, pairs) if pairs else {}
    for row in system.rows:
        if row.primitive.is_component and row in found and row.parents[0].params["outputs"] == 1:
            found[row.parents[0]] = found[row]  # a call with one result has its adjoint
    return found


def _plain_leaves(varied: Varied) -> list[Any]:
    moving = [x for x, fixed in zip(varied.originals, varied.static, strict=True) if not fixed]
    return [getattr(x, "_v", x) for x in moving]


def _seeds(system: System, seed: Any) -> list[Any]:
    types = system.out_types
    if seed is None:
        return [np.ones(t.shape, t.dtype)[()] for t in types]
    given = tree.flatten(seed)[0]
    if len(given) != len(types):
        raise StructureError(
            f"a seed has a part for each result: expected {len(types)}, got {len(given)}"
        )
    for s, t in zip(given, types, strict=True):
        if np.shape(s) not in ((), t.shape):
            raise ShapeError(f"a seed has the shape of its result, {t.shape}, got {np.shape(s)}")
    return [
        np.broadcast_to(np.asarray(s, t.dtype), t.shape)[()]
        for s, t in zip(given, types, strict=True)
    ]


def edges_of(system: System) -> list[Edge]:
    found = []
    for row in system.rows:
        for parent, block in system.edges(row):
            places = [k for k, p in enumerate(row.parents) if p is parent]
            found.append(Edge(parent, row, places[0], block))
    return found
