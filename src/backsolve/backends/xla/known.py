"""Constants that branches, rounds and callees are given from outside: known while these are translated.

Large constants stand outside of what uses them. An index array whose numbers are known is looked at once, while
translating; of one that is not, each run would ask whether all of its places exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...ir import Equation, Program, Var
from ...regions import Branches, Callee, Loop


def known_inside(program: Program) -> dict[Var, Any]:
    """The inputs of regions that are the same constant wherever these are used."""
    numbers: dict[Var, Any] = {}
    given: dict[Var, list[Any]] = {}
    _collect(program, numbers, given, set())
    found: dict[Var, Any] = {}
    for v in given:
        _resolve(v, numbers, given, found)
    return {v: c for v, c in found.items() if c is not None}


def _collect(
    program: Program, numbers: dict[Var, Any], given: dict[Var, list[Any]], seen: set[Callee]
) -> None:
    numbers.update((v, array_of(c)) for v, c in program.constants)
    for e in program.equations:
        if not e.primitive.holds_regions:
            continue
        for inner, a in _handed_in(e):
            given.setdefault(inner, []).append(a)
        region = e.params["region"]
        for inside in region.programs():
            _collect(inside, numbers, given, seen)
        if isinstance(region, Callee) and region.program is not None and region not in seen:
            seen.add(region)
            _collect(region.program, numbers, given, seen)


def _handed_in(e: Equation) -> Iterator[tuple[Var, Any]]:
    """The inputs of a region that keep one value, and what an equation gives for them."""
    region = e.params["region"]
    if isinstance(region, Callee) and region.program is not None:
        yield from zip(region.program.inputs, e.inputs, strict=True)
    elif isinstance(region, Branches):
        for side in region.branches:
            yield from zip(side.inputs, e.inputs[1:], strict=True)
    elif isinstance(region, Loop):
        fixed = slice(1 + region.carried, 1 + region.carried + region.fixed)
        for inside in region.programs():
            yield from zip(inside.inputs[fixed], region.split(e.inputs)[2], strict=True)


def _resolve(
    a: Any, numbers: dict[Var, Any], given: dict[Var, list[Any]], found: dict[Var, Any]
) -> Any:
    """The number that `a` is in every use; None if there is none."""
    if type(a) is not Var:
        return a
    if a in numbers:
        return numbers[a]
    if a not in found:
        found[a] = None  # for what is given to itself
        values = [_resolve(outer, numbers, given, found) for outer in given.get(a, [])]
        if values and all(c is values[0] for c in values):
            found[a] = values[0]
    return found[a]


def array_of(constant: Any) -> Any:
    return np.asarray(constant._v if hasattr(constant, "_v") else constant)
