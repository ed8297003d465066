"""Parts of arrays inside a region: reading, writing and adding at slices and at indices.

An array in memory is changed where it lies: plan.py has seen to it that nobody reads what it held.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir

from ....ir import Equation
from ....operators.slice import key_of
from ..elementwise import combine
from ..nests import offset
from ..numbers.registers import Register, number, select
from .emitter import Emitter, Part, choose, elementwise, rule
from .moving import combine_into
from .plan import Plan
from .values import INT, Array, Memory, Small, constant, is_large, moved, read, scalar, small

FEW = 4  # entries that are chosen from without memory


@rule("slice_update")
def _slice_update(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    a = em.writable(plan, e, 0, inputs[0])
    part = (*key_of(e.params["spec"]), ...)
    v = _as_dtype(em, inputs[1], a.dtype)
    if isinstance(a, Memory):
        em.copy(_trimmed(v, a.view.imaginary[part].shape), a.part(a.view.imaginary[part]))
        return a
    entries = a.entries.copy()
    entries[part] = em.in_registers(v).entries
    return Small(entries, a.dtype)


@rule("unslice")
def _unslice(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    return _add_part(em, _zeros(em, e), Part(e, inputs))


@rule("scatter_add")
def _scatter_add(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    return _add_part(em, _zeros(em, e), Part(e, inputs))


@rule("add", "subtract")
def _add(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    for k, v in enumerate(inputs):
        if isinstance(v, Part):
            target = em.writable(plan, e, 1 - k, inputs[1 - k])
            return _add_part(em, target, v, e.primitive.name)
    return elementwise(em, plan, e, inputs)


def _zeros(em: Emitter, e: Equation) -> Array:
    out = e.outputs[0]
    zero = number(0, out.dtype)
    if not is_large(out.type):
        return small(out.shape, [zero] * out.type.size, out.dtype)
    target = em.made(e, 0)
    em.copy(scalar(zero, out.dtype), target)
    return target


def _add_part(em: Emitter, a: Array, part: Part, how: str = "add") -> Array:
    e = part.equation
    if how == "add" and e.outputs[0].dtype == np.bool_:
        how = "or"
    t, *indices = part.inputs
    t = _as_dtype(em, t, a.dtype)
    if e.primitive.name == "scatter_add":
        return _put(em, e, a, t, indices, how)
    spec = (*key_of(e.params["spec"]), ...)
    if isinstance(a, Memory):
        combine_into(
            em.b, how, _trimmed(t, a.view.imaginary[spec].shape), a.part(a.view.imaginary[spec])
        )
        return a
    entries = a.entries.copy()
    old = Small(entries[spec], a.dtype)
    new = np.broadcast_to(em.in_registers(t).entries, old.shape)
    entries[spec] = small(
        old.shape,
        [
            combine(em.b, how, x, y, a.dtype)
            for x, y in zip(old.entries.flat, new.flat, strict=True)
        ],
        a.dtype,
    ).entries
    return Small(entries, a.dtype)


def _as_dtype(em: Emitter, v: Array, dtype: np.dtype[Any]) -> Array:
    return em.cast(v, dtype) if isinstance(v, Small) and v.dtype != dtype else v


def _trimmed(v: Array, shape: Any) -> Array:
    """Without leading axes of length 1 that the shape does not have."""
    extra = len(v.shape) - len(shape)
    return moved(v, lambda x: x[(0,) * extra]) if extra > 0 and isinstance(v, Small | Memory) else v


# ---- index arrays


def _places(
    em: Emitter, e: Equation, shape: Any, indices: list[Any]
) -> list[tuple[Any, list[ir.Value]]]:
    """For every place of the index arrays: the indices there, checked."""
    arrays = [em.as_index(em.in_registers(i)).entries for i in indices]
    common = np.broadcast_shapes(*[a.shape for a in arrays])
    spread = [np.broadcast_to(a, common) for a in arrays]
    return [
        (p, [em.index(a[p], shape[k], k, e.where) for k, a in enumerate(spread)])
        for p in np.ndindex(common)
    ]


def _at(em: Emitter, a: Memory, indices: list[ir.Value]) -> Memory:
    """The part of memory that a full set of indices points at."""
    n = len(indices)
    first: tuple[Any, ...] = (*[0] * n, ...)
    place = offset(em.b, 0, a.view.strides[:n], indices)
    rest = a.part(a.view.imaginary[first])
    return (
        rest if isinstance(place, ir.Constant) and place.constant == 0 else rest.moved(em.b, place)
    )


@rule("gather")
def _gather(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    a, *indices = inputs
    out = e.outputs[0]
    found = _places(em, e, a.shape, indices)
    if isinstance(a, Small) and a.entries.size > FEW and not _all_known(found):
        a = em.spilled(a)
    if is_large(out.type):
        return _at(em, a, found[0][1])
    entries: list[Register] = []
    for _, at in found:
        part = read(em.b, _at(em, a, at)).entries if isinstance(a, Memory) else _chosen(em, a, at)
        entries += part.flat
    return small(out.shape, entries, out.dtype)


def _all_known(found: Any) -> bool:
    return all(isinstance(i, ir.Constant) for _, at in found for i in at)


def _chosen(em: Emitter, a: Small, at: list[ir.Value]) -> np.ndarray[Any, Any]:
    if all(isinstance(i, ir.Constant) for i in at):
        part = a.entries[(*[i.constant for i in at], ...)]
        return part
    n = len(at)
    if not a.entries.size:  # no index is in bounds: that was checked, and nobody sees the result
        return constant(np.zeros(a.shape[n:], a.dtype)).entries
    flat = a.entries.reshape(-1, *a.shape[n:])
    which = at[0]
    for i, size in zip(at[1:], a.shape[1:n], strict=True):
        which = em.b.add(em.b.mul(which, INT(size)), i)
    rest = a.shape[n:]
    entries = [
        choose(em.b, which, [flat[(j, *q)] for j in range(len(flat))]) for q in np.ndindex(rest)
    ]
    return small(rest, entries, a.dtype).entries


@rule("scatter_set")
def _scatter_set(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Array:
    a = em.writable(plan, e, 0, inputs[0])
    v = _as_dtype(em, inputs[1], a.dtype)
    return _put(em, e, a, v, inputs[2:], "set")


def _put(em: Emitter, e: Equation, a: Array, v: Array, indices: list[Any], how: str) -> Array:
    """a[indices] = v, or += v; one after the other."""
    found = _places(em, e, a.shape, indices)
    rest = a.shape[len(indices) :]
    common = np.broadcast_shapes(*[i.shape for i in indices])
    v = moved(v, lambda x: np.broadcast_to(x, (*common, *rest)))
    few = isinstance(a, Small) and a.entries.size <= FEW and not rest
    if isinstance(a, Small) and (few or _all_known(found)):
        return _put_in_registers(em, a, v, found, how)
    target = em.spilled(a)
    for p, at in found:
        part, place = _at(em, target, at), (*p, ...)
        entry = moved(v, operator.itemgetter(place))
        if how == "set":
            em.copy(entry, part)
        else:
            combine_into(em.b, how, entry, part)
    return read(em.b, target) if isinstance(a, Small) else target


def _put_in_registers(em: Emitter, a: Small, v: Any, found: Any, how: str) -> Small:
    b, n = em.b, len(found[0][1]) if found else 0
    entries, new = a.entries.copy(), em.in_registers(v).entries
    for p, at in found:
        for place in np.ndindex(a.shape):
            x, old = new[(*p, *place[n:])], entries[place]
            tests = [
                b.icmp_signed("==", i, INT(k))
                for i, k in zip(at, place, strict=False)
                if not isinstance(i, ir.Constant)
            ]
            if any(
                isinstance(i, ir.Constant) and i.constant != k
                for i, k in zip(at, place, strict=False)
            ):
                continue
            x = x if how == "set" else combine(b, how, old, x, a.dtype)
            for test in tests:
                x = select(b, test, x, old)
            entries[place] = x
    return Small(entries, a.dtype)
