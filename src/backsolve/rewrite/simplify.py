"""Algebraic simplification: what an equation adds nothing to, it passes through.

Rules keep every bit of the result, NaN and signed zeros included; sums may be reordered, as everywhere
in compiled code. Arithmetic is here, shapes and reductions in shapes.py, products in contractions.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, broadcast_shapes, type_of
from ..primitive import P, Primitive
from . import contractions, masks, parts, places, shapes
from .clean import atom_key
from .engine import Rule, Walk, instead, is_real, scalar

SUMS = ("sum", "contract", "scatter_add")


def simplify(program: Program) -> Program:
    return Walk(program).run(_rules_of)


def _rules_of(primitive: Primitive) -> list[Rule]:
    own = RULES.get(primitive.name, [])
    return [_elementwise, *own] if primitive.elementwise else own


# ---- all element-wise equations: numbers for uniform constants, small operands for broadcast ones


def _elementwise(w: Walk, e: Equation) -> Any:
    return _with_numbers(w, e) or _before_broadcast(w, e)


def _with_numbers(w: Walk, e: Equation) -> Any:
    """A uniform constant beside an operand of its dtype and the result's shape is a Python number."""
    if w.numbers.keys().isdisjoint(e.inputs):
        return None
    first = 1 if e.primitive.name == "where" else 0
    types = [type_of(a) for a in e.inputs]
    strong = [t for t in types[first:] if not t.weak]
    if len({t.dtype for t in strong}) != 1:
        return None
    inputs = list(e.inputs)
    for k in range(first, len(inputs)):
        number = scalar(w.numbers[inputs[k]]) if inputs[k] in w.numbers else None
        others = [t for n, t in enumerate(types) if n != k]
        rests = any(
            n >= first and not type_of(a).weak for n, a in enumerate(inputs) if n != k
        )  # an operand that keeps the dtype
        if number is not None and rests and _spread(others) == e.outputs[0].shape:
            inputs[k], types[k] = number, type_of(number)
    if inputs == list(e.inputs):
        return None
    return instead(e, e.primitive, *inputs, **e.params)


def _before_broadcast(w: Walk, e: Equation) -> Any:
    """f(broadcast a, b) is f(a, b); where all are broadcast, f comes first."""
    if w.spread.isdisjoint(e.inputs):
        return None
    inputs = [w.made[a].inputs[0] if a in w.spread else a for a in e.inputs]
    out = e.outputs[0]
    if _spread([type_of(a) for a in inputs]) == out.shape:
        return instead(e, e.primitive, *inputs, **e.params)
    if not out.type.size:
        return None  # nothing is computed, and nothing may fail
    small = w.emit(e, e.primitive, *inputs, **e.params)
    return instead(e, P.broadcast_to, small, shape=out.shape)


def _spread(types: list[Type]) -> tuple[int, ...]:
    return broadcast_shapes(*[t.shape for t in types])


# ---- arithmetic


def _pass_through(w: Walk, e: Equation) -> Any:
    return e.inputs[0]  # taken if the type is the same


def _pass_real(w: Walk, e: Equation) -> Any:
    return e.inputs[0] if is_real(e.outputs[0].type) else None


def _minus(w: Walk, a: Any, e: Equation) -> Equation | None:
    """The negation that made `a`, taken in the dtype of the result: in a narrower one it may wrap."""
    minus = w.sole(a, "negative")
    same = minus is not None and type_of(minus.inputs[0]).dtype == e.outputs[0].dtype
    return minus if same else None


def _multiply(w: Walk, e: Equation) -> Any:
    a, b = e.inputs
    for x, y in ((a, b), (b, a)):
        if type(x) is not Var or type_of(x) != e.outputs[0].type:
            continue
        if w.is_number(y, 1):
            return x
        if w.is_number(y, -1) and x.dtype.kind in "fi":
            return instead(e, P.negative, x)
    minus_a, minus_b = _minus(w, a, e), _minus(w, b, e)
    if minus_a is not None and minus_b is not None:
        return instead(e, P.multiply, minus_a.inputs[0], minus_b.inputs[0])
    minus = minus_a or minus_b
    if minus is None or not is_real(e.outputs[0].type):
        return None
    pair = (minus.inputs[0], b) if minus_a is not None else (a, minus.inputs[0])
    return instead(e, P.negative, w.emit(e, P.multiply, *pair))


def _divide(w: Walk, e: Equation) -> Any:
    a, b = e.inputs
    if w.is_number(b, 1):
        return a
    if type(b) in (int, float) and type(a) is Var and a.dtype.char in "fd" and _is_power_of_2(b):
        return instead(e, P.multiply, a, 1 / b)
    minus = _minus(w, a, e)
    if minus is not None and is_real(e.outputs[0].type):
        return instead(e, P.negative, w.emit(e, P.divide, minus.inputs[0], b))
    return None


def _is_power_of_2(b: float) -> bool:
    mantissa, exponent = math.frexp(b)
    return abs(mantissa) == 0.5 and abs(exponent) < 100


def _add(w: Walk, e: Equation) -> Any:
    a, b = e.inputs
    for x, y in ((a, b), (b, a)):
        if _is_neutral(w, y, e, minus=True) and type_of(x) == e.outputs[0].type:
            return x
    for x, y in ((a, b), (b, a)):
        # A sum starts at zero anyway.
        if w.is_number(y, 0) and w.producer(x, *SUMS) and type_of(x) == e.outputs[0].type:
            return x
    for x, y in ((a, b), (b, a)):
        minus = _minus(w, y, e)
        if minus is not None:
            return instead(e, P.subtract, x, minus.inputs[0])
    return None


def _subtract(w: Walk, e: Equation) -> Any:
    a, b = e.inputs
    if _is_neutral(w, b, e, minus=False) and type_of(a) == e.outputs[0].type:
        return a
    minus = _minus(w, b, e)
    return None if minus is None else instead(e, P.add, a, minus.inputs[0])


def _is_neutral(w: Walk, a: Any, e: Equation, minus: bool) -> bool:
    """x + (−0) = x and x − (+0) = x for all x; the other way, −0 would become +0."""
    if not w.is_number(a, 0) or e.outputs[0].dtype.kind == "c":
        return False
    return e.outputs[0].dtype.kind != "f" or bool(np.signbit(w.number(a))) == minus


def _negative(w: Walk, e: Equation) -> Any:
    inner = w.producer(e.inputs[0], "negative")
    if inner is not None:
        return inner.inputs[0]
    product = w.sole(e.inputs[0], "multiply")
    if product is not None and type(product.inputs[1]) is float:
        return instead(e, P.multiply, product.inputs[0], -product.inputs[1])
    if product is not None and type(product.inputs[0]) is float:
        return instead(e, P.multiply, -product.inputs[0], product.inputs[1])
    return None


def _power(w: Walk, e: Equation) -> Any:
    a, b = e.inputs
    if type(b) in (int, float) and type(a) is Var and type_of(a) == e.outputs[0].type:
        if b == 1:
            return a
        if b == 2:
            return instead(e, P.square, a)
        if b == 0.5 and a.dtype.char in "fd" and not a.type.weak:  # NumPy, too, takes the root
            return instead(e, P.sqrt, a)
    return None


def _absolute(w: Walk, e: Equation) -> Any:
    if e.outputs[0].dtype.kind != "f":  # integers wrap
        return None
    inner = w.producer(e.inputs[0], "negative")
    if inner is not None:
        return instead(e, e.primitive, inner.inputs[0])
    return e.inputs[0] if w.producer(e.inputs[0], "absolute", "square") is not None else None


def _same_operand(w: Walk, e: Equation) -> Any:
    return e.inputs[0] if e.inputs[0] is e.inputs[1] else None


def _cast(w: Walk, e: Equation) -> Any:
    """A detour through a dtype that holds everything is none."""
    inner = w.producer(e.inputs[0], "cast", "cast_discrete")
    if inner is None or not _holds(inner.outputs[0].dtype, type_of(inner.inputs[0]).dtype):
        return None
    start = inner.inputs[0]
    if type_of(start) == e.outputs[0].type:
        return start
    return instead(e, e.primitive, start, **e.params)


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Every number of one dtype exactly; NumPy lets int64 pass as float64."""
    long = narrow.kind in "iu" and narrow.itemsize == 8
    return np.can_cast(narrow, wide) and not (long and wide.kind in "fc")


# ---- choices


def _where(w: Walk, e: Equation) -> Any:
    mask, a, b = e.inputs
    if a is b and type(a) is Var:
        return a
    known = w.number(mask)
    if known is not None:
        return _chosen(e, a if known else b)
    opposite = w.producer(mask, "logical_not")
    if opposite is not None:
        return instead(e, P.where, opposite.inputs[0], b, a)
    if _never(w, mask):
        return _chosen(e, b)
    for x, other in ((a, 2), (b, 1)):
        inner = w.producer(x, "where")
        if inner is None or inner.inputs[0] is not mask or type_of(x) != e.outputs[0].type:
            continue
        if atom_key(inner.inputs[other]) == atom_key(e.inputs[other]):
            return x
    inner_a, inner_b = _under(w, a, mask, 1, e), _under(w, b, mask, 2, e)
    if inner_a is not a or inner_b is not b:
        return instead(e, P.where, mask, inner_a, inner_b)
    return None


def _chosen(e: Equation, a: Any) -> Any:
    t, out = type_of(a), e.outputs[0].type
    if t == out:
        return a
    if t.shape != out.shape and t.dtype == out.dtype and not t.weak:
        return instead(e, P.broadcast_to, a, shape=out.shape)
    return None


def _never(w: Walk, mask: Any) -> bool:
    """isneginf(log(eᵃ + eᵇ)) with a finite number for a or b: the guard of its derivative."""
    test = w.producer(mask, "isneginf")
    total = w.producer(test.inputs[0], "logaddexp") if test is not None else None
    if total is None:
        return False
    numbers = [w.number(a) for a in total.inputs]
    return any(n is not None and bool(np.isfinite(n)) for n in numbers)


def _under(w: Walk, a: Any, mask: Any, branch: int, e: Equation) -> Any:
    """`a` where only its entries inside the mask count: a choice by the same mask is decided.

    In a product it is left if others read it, too: one of them is enough.
    """
    inner = w.producer(a, "where")
    if inner is not None and inner.inputs[0] is mask:
        return inner.inputs[branch]
    chain = w.sole(a, "multiply", "negative")
    if chain is None:
        return a
    inputs = [_decided(w, x, mask, branch) for x in chain.inputs]
    if all(x is y for x, y in zip(inputs, chain.inputs, strict=True)):
        return a
    return w.emit(e, chain.primitive, *inputs, **chain.params)


def _decided(w: Walk, a: Any, mask: Any, branch: int) -> Any:
    inner = w.sole(a, "where")
    if inner is None or inner.inputs[0] is not mask:
        return a
    chosen = inner.inputs[branch]
    return chosen if type_of(chosen) == type_of(a) else a


def _logical_not(w: Walk, e: Equation) -> Any:
    inner = w.producer(e.inputs[0], "logical_not")
    return inner.inputs[0] if inner is not None else None


def _sigmoid(w: Walk, e: Equation) -> Any:
    """exp(x − log(1 + eˣ)), the derivative of log(1 + eˣ)."""
    gap = w.producer(e.inputs[0], "subtract")
    total = w.producer(gap.inputs[1], "logaddexp") if gap is not None else None
    if gap is None or total is None:
        return None
    x = gap.inputs[0]
    for a, b in (total.inputs, total.inputs[::-1]):
        if a is x and w.is_number(b, 0):
            return instead(e, P.sigmoid, x)
    return None


def _accumulate(w: Walk, e: Equation) -> Any:
    """x[i] = x[i] + t as an addition into x, which reads nothing of x."""
    x, v, *indices = e.inputs
    total = w.sole(v, "add", "subtract")
    if total is None or any(type_of(i).shape != () for i in indices):
        return None
    a, b = total.inputs
    pairs = [(a, b), (b, a)] if total.primitive is P.add else [(a, b)]
    for old, t in pairs:
        read = w.sole(old, "gather")
        if read is None or read.inputs[0] is not x or list(read.inputs[1:]) != indices:
            continue
        if type(t) is not Var or t.type != v.type or v.dtype != e.outputs[0].dtype:
            continue
        part = w.emit(e, P.scatter_add, t, *indices, shape=e.outputs[0].shape)
        return instead(e, total.primitive, x, part)
    return None


RULES: dict[str, list[Rule]] = {
    "scatter_set": [_accumulate, *places.RULES["scatter_set"]],
    "alias": [_pass_through],
    "cast": [_pass_through, _cast, shapes.CAST_OF_PARTS],
    "cast_discrete": [_pass_through, _cast, shapes.CAST_OF_PARTS],
    "real": [_pass_through],
    "conjugate": [_pass_real],
    "multiply": [_multiply],
    "divide": [_divide],
    "add": [_add, parts.SIDE_BY_SIDE],
    "subtract": [_subtract],
    "negative": [_negative],
    "power": [_power],
    "absolute": [_absolute],
    "maximum": [_same_operand],
    "minimum": [_same_operand],
    "logical_and": [_same_operand, masks.ALL_OR_ANY],
    "logical_or": [_same_operand, masks.ALL_OR_ANY],
    "where": [_where, parts.MASKED, masks.MASKED],
    "logical_not": [_logical_not],
    "exp": [_sigmoid],
    "slice_update": [parts.OVERWRITTEN],
    "gather": places.RULES["gather"],
    "scatter_add": places.RULES["scatter_add"],
    **shapes.RULES,
    **contractions.RULES,
    "permute": [*shapes.RULES["permute"], contractions.PERMUTED],
}
