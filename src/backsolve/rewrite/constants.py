"""Constants: equal ones are one, repeated rows are kept once, what rests on them alone is computed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, is_uniform, without_repeats
from ..primitive import P
from .engine import raw

SMALL = 4096  # entries: a folded result may be this large even if its inputs are smaller


def share_constants(program: Program) -> Program:
    """One constant for equal ones; one that repeats along an axis is kept once and broadcast."""
    first: dict[Any, Var] = {}
    same: dict[Var, Var] = {}
    constants: list[tuple[Var, Any]] = []
    spread: list[Equation] = []
    for var, value in program.constants:
        array = raw(value)
        if not isinstance(array, np.ndarray | np.generic):
            constants.append((var, value))
            continue
        small = array if is_uniform(array) else _without_repeats(array)
        key = (array.shape, var.type.weak, _content(small))
        if key in first:
            same[var] = first[key]
            continue
        first[key] = var
        if small.size == array.size:
            constants.append((var, value))
            continue
        kept = first.get((small.shape, False, key[2]))
        if kept is None:
            kept = first[small.shape, False, key[2]] = Var(Type(small.shape, small.dtype))
            constants.append((kept, small))
        spread.append(Equation((var,), P.broadcast_to, (kept,), {"shape": array.shape}))
    if not same and not spread:
        return program

    def now(a: Any) -> Any:
        return same.get(a, a) if type(a) is Var else a

    equations = [
        Equation(e.outputs, e.primitive, tuple(map(now, e.inputs)), e.params, e.where)
        for e in program.equations
    ]
    outputs = tuple(map(now, program.outputs))
    return Program(program.inputs, tuple(constants), (*spread, *equations), outputs)


def _bits(a: Any) -> Any:
    """As integers, of complex numbers bytes: NaNs and zeros of either sign compare as what they are."""
    a = np.ascontiguousarray(a)
    if a.ndim and a.itemsize <= 8:
        return a.view(f"u{a.itemsize}")
    return a.view(np.uint8).reshape(*a.shape, a.itemsize) if a.ndim else a.reshape(1).view(np.uint8)


class _Bits:
    """An array as a key: by all its bits, of which most arrays differ in the few that are looked at first."""

    def __init__(self, array: Any):
        self.array = array
        places = np.linspace(0, max(array.size - 1, 0), 16).astype(int)[: array.size]
        self.some = np.asarray(array.flat[places]).tobytes()

    def __hash__(self) -> int:
        return hash(self.some)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, _Bits) or self.some != other.some:
            return False
        same = self.array is other.array
        return same or np.array_equal(_bits(self.array), _bits(other.array))


def _content(a: Any) -> Any:
    a = np.asarray(a)
    return a.shape, a.dtype, a.flat[0].tobytes() if is_uniform(a) else _Bits(a)


def _without_repeats(a: Any) -> Any:
    a = without_repeats(a) if a.ndim else a
    for axis in range(a.ndim):
        if a.shape[axis] < 2 or not a.size:
            continue
        part = a.take([0], axis)
        other = a.take([1], axis)
        if np.array_equal(_bits(part), _bits(other)) and bool((_bits(a) == _bits(part)).all()):
            a = part
    front = next((k for k, n in enumerate(a.shape) if n != 1), a.ndim)
    return a.reshape(a.shape[front:])  # broadcasting adds the axes in front by itself


def fold(program: Program) -> Program:
    """What rests on constants and numbers alone is computed here, by NumPy, if it stays small."""
    known = {v: raw(c) for v, c in program.constants}
    known = {v: c for v, c in known.items() if isinstance(c, np.ndarray | np.generic)}
    constants = list(program.constants)
    kept: list[Equation] = []
    for e in program.equations:
        inputs = _read(e, known)
        unknown = [a for a in inputs if type(a) is Var and a not in known]
        if not unknown and not e.primitive.holds_regions:
            value = _folded(e, [known[a] if type(a) is Var else a for a in inputs])
            if value is not None:
                known[e.outputs[0]] = value
                constants.append((e.outputs[0], value))
                continue
        kept.append(e)
    return Program(program.inputs, tuple(constants), tuple(kept), program.outputs)


def _read(e: Equation, known: dict[Var, Any]) -> Sequence[Any]:
    """Its inputs; of a choice that is known, what is chosen in the place of both."""
    if (
        e.primitive.name != "where"
        or e.inputs[0] not in known
        or not is_uniform(known[e.inputs[0]])
    ):
        return e.inputs
    mask, a, b = e.inputs
    chosen = a if np.asarray(known[mask]).flat[0] else b
    return mask, chosen, chosen


def _folded(e: Equation, values: list[Any]) -> Any:
    out = e.outputs[0].type
    arrays = [v for v in values if isinstance(v, np.ndarray | np.generic)]
    if out.weak or not arrays:
        return None
    if e.primitive.name in ("reshape", "broadcast_to", "permute") and is_uniform(values[0]):
        return np.broadcast_to(np.asarray(values[0].flat[0], out.dtype), out.shape)
    if e.primitive.name == "broadcast_to":
        return None  # a view: it costs nothing as it is
    size = out.size
    if e.primitive.elementwise:  # what broadcasting repeats is computed once
        values = [_distinct(v) for v in values]
        size = prod(np.broadcast_shapes(*[np.shape(v) for v in values]))
    if size > max(SMALL, *[_distinct(v).size for v in arrays]):
        return None
    y = _run(e, values)
    return None if y is None else np.broadcast_to(np.asarray(y, out.dtype), out.shape)


def _distinct(v: Any) -> Any:
    """Length 1 along axes that only repeat."""
    if not isinstance(v, np.ndarray) or not v.ndim:
        return v
    return v[(slice(0, 1),) * v.ndim] if is_uniform(v) else without_repeats(v)


def _run(e: Equation, values: list[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return e.primitive.run(*values, **e.params)
    except Exception:  # an index out of range, a singular matrix: let it fail where it runs
        return None
