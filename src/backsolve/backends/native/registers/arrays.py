"""Arrays inside a region: shapes, joints, reductions and products."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ....ir import Equation, Type
from ....operators.nests import label_sizes, split_subscripts
from ....operators.slice import key_of
from ..elementwise import combine, start_of
from ..numbers import complex as complex_number
from ..numbers import integer, real
from ..numbers.registers import Register, number
from ..support import REDUCTIONS
from .emitter import RULES, Emitter, elementwise, rule
from .plan import Plan, key
from .values import Array, Memory, Small, is_large, moved, read, small


def _settled(em: Emitter, t: Type, v: Array) -> Array:
    """A part of memory that is small is read at once."""
    return read(em.b, v) if isinstance(v, Memory) and not is_large(t) else v


@rule("slice")
def _slice(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    part = (*key_of(e.params["spec"]), ...)
    return _settled(em, e.outputs[0].type, moved(inputs[0], lambda x: x[part]))


@rule("permute")
def _permute(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    return moved(inputs[0], lambda x: x.transpose(e.params["axes"]))


@rule("reshape")
def _reshape(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    (v,), shape = inputs, e.params["shape"]
    if isinstance(v, Small):
        return Small(v.entries.reshape(shape), v.dtype)
    view = v.view.reshape(shape)
    if view is None:
        target = em.memory(key(e, "copy", 0), Type(v.shape, v.dtype))
        em.copy(v, target)
        v, view = target, target.view.reshape(shape)
    return Memory(v.pointer, view)


@rule("broadcast_to")
def _broadcast(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    (v,), t = inputs, e.outputs[0].type
    if isinstance(v, Small) and is_large(t):
        v = em.spilled(v)
    return moved(v, lambda x: np.broadcast_to(x, t.shape))


@rule("concatenate")
def _concatenate(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Small:
    dtype = e.outputs[0].dtype
    joined = np.concatenate([em.cast(v, dtype).entries for v in inputs], axis=e.params["axis"])
    return Small(joined, dtype)


@rule("alias", "cast")
def _alias(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    if isinstance(inputs[0], Memory):
        return inputs[0]
    return elementwise(em, plan, e, inputs)


# ---- reductions and products


def _reduce(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Small:
    out, how = e.outputs[0], REDUCTIONS[e.primitive.name]
    v = em.cast(inputs[0], out.dtype)
    axes = e.params["axis"]
    rest = [k for k in range(v.entries.ndim) if k not in axes]
    columns = (
        v.entries.transpose([*rest, *axes]).reshape(out.type.size, -1) if v.entries.size else None
    )
    if columns is None:
        start = start_of(how, out.dtype)
        return small(out.shape, [start] * out.type.size, out.dtype)
    totals = []
    for column in columns:
        total = column[0]
        for x in column[1:]:
            total = combine(em.b, how, total, x, out.dtype)
        totals.append(total)
    return small(out.shape, totals, out.dtype)


RULES.update(dict.fromkeys(REDUCTIONS, _reduce))


@rule("contract")
def _contract(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Small:
    out, b = e.outputs[0], em.b
    kinds: Any = {"f": real.RULES, "c": complex_number.RULES, "b": integer.LOGIC}
    multiply = kinds.get(out.dtype.kind, integer.SIGNED)["multiply"]
    operands = [em.cast(v, out.dtype) for v in inputs]
    labels, output = split_subscripts(e.params["subscripts"])
    sizes = label_sizes(e.params["subscripts"], [v.shape for v in operands], e.params["sizes"])
    found: dict[tuple[int, ...], Register] = {}
    how = "or" if out.dtype == np.bool_ else "add"
    for place in product(*[range(n) for n in sizes.values()]):
        at = dict(zip(sizes, place, strict=True))
        factors = [
            v.entries[tuple(at[c] for c in x)] for x, v in zip(labels, operands, strict=True)
        ]
        term = factors[0]
        for x in factors[1:]:
            term = multiply(b, term, x)
        target = tuple(at[c] for c in output)
        found[target] = combine(b, how, found[target], term, out.dtype) if target in found else term
    zero = number(0, out.dtype)
    return small(out.shape, [found.get(p, zero) for p in np.ndindex(out.shape)], out.dtype)
