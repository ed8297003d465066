"""Differentiation by rules, the rules being the blocks of the primitives' rows.

For y = f(a, b) the chain rule says  dy = ∂f/∂a · da + ∂f/∂b · db.  The row of f holds ∂f/∂a as a
function of symbolic values that returns a linear operator. `rule` calls it on staged values and
applies the operator to a staged differential; what was recorded is ∂f/∂a · da as a Program:

>>> from backsolve.symbolic.expr import REAL
>>> print(rule(P.sin, 0, (REAL,), ()))
program(t:float64[], v1:float64[], y:float64[]):
  v2:float64[] = cos(v1)
  v3:float64[] = multiply(t, v2)
  return v3

Any operator will do (Diagonal, Mask, Scale, Product, …): on scalars each is a number in disguise.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import StructureError
from ..ir import Program, Type, Var
from ..primitive import P, Primitive, wrap
from ..solve import masked
from ..solve.masked import Masked
from ..tensor import leaf_row
from ..trace import stage
from . import simplify as _simplify  # fills the table that `call` looks into
from .expr import Call, Expr, Number, Params, Symbol, call, read
from .walk import nodes, spread
from .walk import share as _share

_BOOL = Type((), np.dtype(bool))


def diff(expr: Expr, x: str | Symbol, *, share: bool = True) -> Expr:
    """The derivative of `expr` with respect to the symbol `x`.

    With `share` (common sub-expression elimination) equal parts are one object: the derivative is a
    small multiple of the expression. Without, it is the tree that the rules of calculus write down,
    every part as often as it occurs; see `size`.

    >>> e = Symbol("x") * np.sin(Symbol("x"))
    >>> diff(e, "x")
    sin(x) + cos(x) * x
    >>> diff(diff(e, "x"), "x")
    cos(x) + (cos(x) - sin(x) * x)
    """
    label = x.label if isinstance(x, Symbol) else x
    expr = _share(expr)
    entries = [s.label for s in expr.symbols if s.index and s.name == label]
    if entries:
        raise StructureError(
            f"{label!r} is an array here: differentiate with respect to one of {', '.join(entries)}"
        )
    found = _derivative(expr, label)
    return _share(found) if share else spread(found)


@dataclass(frozen=True, slots=True)
class Tangent:
    """The differential of one node; where `guard` is false it is zero by structure."""

    value: Expr
    guard: Expr | None = None


def _derivative(expr: Expr, label: str) -> Expr:
    tangents: dict[int, Tangent] = {}  # a node that is absent does not depend on the symbol
    for node in nodes(expr):
        if isinstance(node, Symbol) and node.label == label:
            tangents[id(node)] = Tangent(Number(1.0))
        total: Tangent | None = None
        for i, a in enumerate(node.args):
            if id(a) in tangents and isinstance(node, Call):
                total = _plus(total, _image(node, i, tangents[id(a)]))
        if total is not None:
            tangents[id(node)] = total
    return tangents[id(expr)].value if id(expr) in tangents else Number(0.0)


def term(y: Call, i: int, t: Expr, value: Expr | None = None) -> Expr:
    """∂y/∂(operand i) · t as a formula; where the rule asks for y itself, `value` may stand for it.

    >>> x, y, t = Symbol("x"), Symbol("y"), Symbol("t")
    >>> term(call(P.exp, x), 0, t, value=y)
    t * y
    """
    image = _image(y, i, Tangent(t), value)
    return Number(0.0) if image is None else image.value


def _image(y: Call, i: int, t: Tangent, value_of_y: Expr | None = None) -> Tangent | None:
    """∂y/∂(operand i) · t."""
    kinds = tuple(
        _Fixed(type(a.value), a.value) if isinstance(a, Number) else a.type for a in y.args
    )
    program = rule(y.primitive, i, kinds, y.params, t.guard is not None)
    if program is None:
        return None
    inputs: list[Expr] = [t.value]
    if t.guard is not None:
        # `where(guard, u, 0)` goes on as u: what the guard hides is hidden again behind the block.
        v = t.value
        hidden = _simplify.is_call(v, "where") and v.args[0] is t.guard
        inputs = [v.args[1] if hidden else v, t.guard]
    free = [a for a in y.args if not isinstance(a, Number)]
    value, *guard = read(program, [*inputs, *free, y if value_of_y is None else value_of_y])
    return Tangent(_expr(value), _expr(guard[0]) if guard else None)


def _expr(y: Any) -> Expr:
    return y if isinstance(y, Expr) else Number(y)


def _plus(a: Tangent | None, b: Tangent | None) -> Tangent | None:
    if a is None or b is None:
        return a or b
    if a.guard is None or b.guard is None:
        return Tangent(a.value + b.value)
    return Tangent(a.value + b.value, call(P.logical_or, a.guard, b.guard))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A constant operand; the kind tells 2 from 2.0, which blocks may treat differently."""

    kind: type
    value: Any


@functools.lru_cache(maxsize=4096)
def rule(
    primitive: Primitive,
    i: int,
    operands: tuple[Type | _Fixed, ...],
    params: Params,
    guarded: bool = False,
) -> Program | None:
    """The term ∂f/∂(operand i) · t as a Program of t (and its guard), the operands and y = f(…).

    It returns the term, and where it is zero by structure in places, its guard; None is zero
    altogether. Constant operands are built in.
    """
    free = [k for k in operands if isinstance(k, Type)]

    def staged(t: Any, *rest: Any) -> list[Any]:
        guard, given = (rest[0], rest[1:]) if guarded else (None, rest)
        values = iter(given)
        args = [next(values) if isinstance(k, Type) else k.value for k in operands]
        args[i] = wrap(args[i]._v, leaf_row(args[i]._v))
        y = primitive(*args, **dict(params))
        if y.row is None:  # no block towards this operand
            return [y]
        saved = tuple(wrap(v, None) if type(v) is Var else v for v in y.row.saved)
        block = primitive.block(y.row, i, saved)
        image = masked.apply(block, Masked(t, guard) if guarded else t)
        if not isinstance(image, Masked):
            return [y, image]
        value = image.value
        # An operator that moves entries leaves zeros as they were; but t came without them.
        if guarded and block.moves_entries:
            value = np.where(image.mask, value, 0)
        return [y, value, image.mask]

    types: list[Any] = [operands[i], *([_BOOL] if guarded else []), *free]
    program, (y, *image) = stage(staged, types, ["t", *(["guard"] if guarded else [])])
    if not image:
        return None
    # The first equation computes y, which the expression has already: let it be an input.
    y._v.name = "y"
    return Program(
        (*program.inputs, y._v), program.constants, program.equations[1:], program.outputs[1:]
    )
