"""What each primitive does with the components of rows: for components.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..ir import Equation, Shape, Var, type_of
from ..operators.nests import split_subscripts
from ..operators.slice import key_of
from ..primitive import P, Primitive
from .component_rows import Rows, atoms, is_row

MOVES = {"concatenate", "unslice", "slice_update"}  # which cost a copy as arrays
MOST_PRODUCTS = 256  # in a contraction
_FOLDS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
_FOLDS |= {"any": "logical_or", "all": "logical_and", "first_max": "maximum"}


@dataclass(frozen=True)
class Rule:
    """`fits`: whether an equation works on rows alone, each on its own. `components`: of its result."""

    fits: Callable[[Equation, Shape, int], bool]
    components: Callable[[Rows, Equation, Shape], Any]


def _reads_rows(a: Any, lead: Shape, most: int) -> bool:
    return type(a) is Var and not a.type.weak and is_row(a.shape, lead, most)


# ---- arithmetic


def _spreads(a: Any, ndim: int, lead: Shape, most: int) -> bool:
    """Whether an atom, broadcast to `ndim` axes, is rows or the same for all rows."""
    if type(a) is not Var:
        return True
    if a.type.weak:
        return False
    if a.type.ndim == ndim:
        front = a.shape[: len(lead)]
        return is_row(a.shape, lead, most) or (set(front) <= {1} and a.type.size <= most)
    return a.type.ndim <= ndim - len(lead) and a.type.size <= most


def _elementwise_fits(e: Equation, lead: Shape, most: int) -> bool:
    ndim = e.outputs[0].type.ndim
    return all(_spreads(a, ndim, lead, most) for a in e.inputs)


def _elementwise(rows: Rows, e: Equation, row: Shape) -> Any:
    parts = [rows.of(a, e.outputs[0].type.ndim, row) for a in e.inputs]
    found = np.empty(row, object)
    blank = rows.blanks.get(e.outputs[0].dtype) if e.primitive is P.add else None
    for at in np.ndindex(*row):
        inputs = [p[at] for p in parts]
        left = [a for a in inputs if a is not blank]
        is_one = len(left) == 1 < len(inputs) and type_of(left[0]).dtype == e.outputs[0].dtype
        found[at] = left[0] if is_one else rows.emit(e.primitive, *inputs, **e.params)
    return found


# ---- other places


def _first_fits(e: Equation, lead: Shape, most: int) -> bool:
    return _reads_rows(e.inputs[0], lead, most)


def _reshape(rows: Rows, e: Equation, row: Shape) -> Any:
    return rows.own(e.inputs[0]).reshape(row)


def _broadcast_fits(e: Equation, lead: Shape, most: int) -> bool:
    return _spreads(e.inputs[0], e.outputs[0].type.ndim, lead, most) and type(e.inputs[0]) is Var


def _broadcast_to(rows: Rows, e: Equation, row: Shape) -> Any:
    return rows.of(e.inputs[0], e.outputs[0].type.ndim, row)


def _permute_fits(e: Equation, lead: Shape, most: int) -> bool:
    depth = len(lead)
    return _first_fits(e, lead, most) and e.params["axes"][:depth] == tuple(range(depth))


def _permute(rows: Rows, e: Equation, row: Shape) -> Any:
    depth = len(rows.lead)
    return rows.own(e.inputs[0]).transpose([k - depth for k in e.params["axes"][depth:]])


def _leaves_lead(spec: Any, lead: Shape) -> bool:
    return len(spec) >= len(lead) and all(
        type(s) is tuple and slice(*s).indices(n) == (0, n, 1)
        for s, n in zip(spec, lead, strict=False)
    )


def _slice_fits(e: Equation, lead: Shape, most: int) -> bool:
    return _first_fits(e, lead, most) and _leaves_lead(e.params["spec"], lead)


def _key(rows: Rows, e: Equation) -> Any:
    return (*key_of(e.params["spec"][len(rows.lead) :]), ...)


def _slice(rows: Rows, e: Equation, row: Shape) -> Any:
    return rows.own(e.inputs[0])[_key(rows, e)]


def _unslice(rows: Rows, e: Equation, row: Shape) -> Any:
    found = np.empty(row, object)
    found[...] = rows.blank(e.outputs[0].dtype)
    found[_key(rows, e)] = rows.own(e.inputs[0])
    return found


def _update_fits(e: Equation, lead: Shape, most: int) -> bool:
    a, v = e.inputs
    same = type_of(a).dtype == type_of(v).dtype
    return same and _slice_fits(e, lead, most) and _reads_rows(v, lead, most)


def _slice_update(rows: Rows, e: Equation, row: Shape) -> Any:
    found = rows.own(e.inputs[0]).copy()
    found[_key(rows, e)] = rows.own(e.inputs[1])
    return found


def _concatenate_fits(e: Equation, lead: Shape, most: int) -> bool:
    same = all(type_of(a).dtype == e.outputs[0].dtype for a in e.inputs)
    return (
        same and e.params["axis"] >= len(lead) and all(_reads_rows(a, lead, most) for a in e.inputs)
    )


def _concatenate(rows: Rows, e: Equation, row: Shape) -> Any:
    parts = [rows.own(a) for a in e.inputs]
    return np.concatenate(parts, axis=e.params["axis"] - len(rows.lead))


# ---- sums


def _reduction_fits(e: Equation, lead: Shape, most: int) -> bool:
    if not _first_fits(e, lead, most) or type_of(e.inputs[0]).dtype != e.outputs[0].dtype:
        return False
    return all(k >= len(lead) for k in e.params["axis"])


def _reduction(rows: Rows, e: Equation, row: Shape) -> Any:
    depth = len(rows.lead)
    axes = [k - depth for k in e.params["axis"]]
    parts = rows.own(e.inputs[0])
    left = [k for k in range(parts.ndim) if k not in axes]
    lines = parts.transpose(left + axes).reshape(prod(row), -1)
    combine = getattr(P, _FOLDS[e.primitive.name])
    return atoms([_folded(rows, combine, list(line)) for line in lines], row)


def _folded(rows: Rows, combine: Primitive, items: list[Any]) -> Any:
    total = items[0]
    for item in items[1:]:
        total = rows.emit(combine, total, item)
    return total


def _contract_fits(e: Equation, lead: Shape, most: int) -> bool:
    depth = len(lead)
    if e.params["sizes"] or e.outputs[0].dtype.kind not in "fc":
        return False
    if any(type(a) is not Var or a.dtype != e.outputs[0].dtype for a in e.inputs):
        return False
    labels, output = split_subscripts(e.params["subscripts"])
    front = output[:depth]
    for x, a in zip(labels, e.inputs, strict=True):
        of_rows = x[:depth] == front and is_row(a.shape, lead, most)
        rest = x[depth:] if of_rows else x
        if set(rest) & set(front) or (not of_rows and a.type.size > most):
            return False
    plain = len(set(output)) == len(output) and set(output) <= set("".join(labels))
    work = prod(_lengths(labels, e).values()) // max(prod(lead), 1)
    return plain and 0 < work <= MOST_PRODUCTS


def _lengths(labels: list[str], e: Equation) -> dict[str, int]:
    pairs = [zip(x, a.shape, strict=True) for x, a in zip(labels, e.inputs, strict=True)]
    return dict(pair for line in pairs for pair in line)


def _contract(rows: Rows, e: Equation, row: Shape) -> Any:
    depth = len(rows.lead)
    labels, output = split_subscripts(e.params["subscripts"])
    lengths = _lengths(labels, e)
    operands = []
    for k, a in enumerate(e.inputs):
        if a.shape[:depth] == rows.lead and labels[k][:depth] == output[:depth]:
            labels[k] = labels[k][depth:]
            operands.append(rows.own(a))
        else:
            operands.append(rows.small(a).reshape(a.shape))
    made = output[depth:]
    summed = sorted(set("".join(labels)) - set(made))
    found = np.empty(row, object)
    for at in np.ndindex(*row):
        place = dict(zip(made, at, strict=True))
        terms = []
        for inner in np.ndindex(*[lengths[c] for c in summed]):
            place.update(zip(summed, inner, strict=True))
            factors = [
                x[tuple([place[c] for c in mine])] for x, mine in zip(operands, labels, strict=True)
            ]
            terms.append(_folded(rows, P.multiply, factors))
        found[at] = _folded(rows, P.add, terms)
    return found


# ---- entries that an index points at


def _gather_fits(e: Equation, lead: Shape, most: int) -> bool:
    a, *indices = e.inputs
    if type(a) is not Var or len(indices) != 1 or a.type.ndim < 2:
        return False
    return type_of(indices[0]).shape == lead and not type_of(indices[0]).weak


def _gather(rows: Rows, e: Equation, row: Shape) -> Any:
    a, index = e.inputs
    rows.whole(a)
    i = rows.own(index)[()]
    full = (None, None, None)
    return rows.each(row, lambda at: rows.emit(P.gather, rows.cut(a, (full, *at), at), i))


_RULES = {
    "reshape": Rule(_first_fits, _reshape),
    "broadcast_to": Rule(_broadcast_fits, _broadcast_to),
    "permute": Rule(_permute_fits, _permute),
    "slice": Rule(_slice_fits, _slice),
    "unslice": Rule(_slice_fits, _unslice),
    "slice_update": Rule(_update_fits, _slice_update),
    "concatenate": Rule(_concatenate_fits, _concatenate),
    "contract": Rule(_contract_fits, _contract),
    "gather": Rule(_gather_fits, _gather),
    **{name: Rule(_reduction_fits, _reduction) for name in _FOLDS},
}
_ELEMENTWISE = Rule(_elementwise_fits, _elementwise)


def rule_for(e: Equation) -> Rule | None:
    return _ELEMENTWISE if e.primitive.elementwise else _RULES.get(e.primitive.name)
