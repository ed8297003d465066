"""Algebraic simplification: what an equation adds nothing to, it passes through.

Only rules that keep every bit of the result, NaN and signed zeros included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import Equation, Program, Type, Var, is_uniform, type_of
from ..operators.nests import split_subscripts
from ..primitive import P

Rule = Callable[["_Simplifier", Equation], Any]


def simplify(program: Program) -> Program:
    return _Simplifier(program).run()


class _Simplifier:
    def __init__(self, program: Program):
        self.program = program
        self.same: dict[Var, Any] = {}  # a variable and the atom it equals
        self.made: dict[Var, Equation] = {}  # the (rewritten) equation that defines a variable
        self.numbers = {v: c.flat[0] for v, c in program.constants if is_uniform(c)}

    def now(self, a: Any) -> Any:
        return self.same.get(a, a) if type(a) is Var else a

    def run(self) -> Program:
        kept = []
        for e in self.program.equations:
            e = Equation(e.outputs, e.primitive, tuple(map(self.now, e.inputs)), e.params, e.where)
            rule = RULES.get(e.primitive.name)
            result = rule(self, e) if rule is not None else None
            if isinstance(result, Equation):
                e = result
            elif result is not None:
                self.same[e.outputs[0]] = result
                continue
            self.made[e.outputs[0]] = e
            kept.append(e)
        outputs = tuple(map(self.now, self.program.outputs))
        return Program(self.program.inputs, self.program.constants, tuple(kept), outputs)

    def is_number(self, a: Any, value: float) -> bool:
        if type(a) is Var:
            a = self.numbers.get(a)
        return a is not None and bool(a == value)

    def producer(self, a: Any, name: str) -> Equation | None:
        """The equation of that primitive which defines atom `a`, if one does."""
        e = self.made.get(a) if type(a) is Var else None
        return e if e is not None and e.primitive.name == name else None


def _type(a: Any) -> Type:
    return type_of(a)


def _same_type(e: Equation, a: Any) -> bool:
    out = e.outputs[0].type
    return (_type(a).shape, _type(a).dtype) == (out.shape, out.dtype)


def _pass_through(s: _Simplifier, e: Equation) -> Any:
    return e.inputs[0] if _same_type(e, e.inputs[0]) else None


def _multiply(s: _Simplifier, e: Equation) -> Any:
    a, b = e.inputs
    if s.is_number(b, 1) and type(a) is Var and _same_type(e, a):
        return a
    if s.is_number(a, 1) and type(b) is Var and _same_type(e, b):
        return b
    return None


def _power(s: _Simplifier, e: Equation) -> Any:
    a, b = e.inputs
    if type(b) in (int, float) and type(a) is Var and _same_type(e, a):
        if b == 1:
            return a
        if b == 2:
            return Equation(e.outputs, P.square, (a,), {}, e.where)
    return None


def _nested(name: str, combine: Callable[[Any, Any], Any]) -> Rule:
    """f(f(x)) as one f, or as x where that is the identity."""

    def rule(s: _Simplifier, e: Equation) -> Any:
        inner = s.producer(e.inputs[0], name)
        if inner is not None:
            e = Equation(
                e.outputs, e.primitive, inner.inputs, combine(e.params, inner.params), e.where
            )
        if _is_identity(e):
            return e.inputs[0]
        return e if inner is not None else None

    return rule


def _is_identity(e: Equation) -> bool:
    if not _same_type(e, e.inputs[0]):
        return False
    return e.primitive is not P.permute or e.params["axes"] == tuple(range(len(e.params["axes"])))


def _contract(s: _Simplifier, e: Equation) -> Any:
    """A transposed operand is the operand with its labels reordered."""
    labels, output = split_subscripts(e.params["subscripts"])
    inputs = list(e.inputs)
    changed = False
    for k, a in enumerate(inputs):
        inner = s.producer(a, "permute")
        if inner is not None:
            axes = inner.params["axes"]
            order = [""] * len(axes)
            for place, axis in enumerate(axes):
                order[axis] = labels[k][place]
            labels[k] = "".join(order)
            inputs[k] = inner.inputs[0]
            changed = True
    if not changed:
        return None
    params = {**e.params, "subscripts": f"{','.join(labels)}->{output}"}
    return Equation(e.outputs, e.primitive, tuple(inputs), params, e.where)


def _negative(s: _Simplifier, e: Equation) -> Any:
    inner = s.producer(e.inputs[0], "negative")
    return inner.inputs[0] if inner is not None else None


RULES: dict[str, Rule] = {
    "alias": _pass_through,
    "cast": _pass_through,
    "multiply": _multiply,
    "power": _power,
    "negative": _negative,
    "contract": _contract,
    "reshape": _nested("reshape", lambda outer, inner: outer),
    "broadcast_to": _nested("broadcast_to", lambda outer, inner: outer),
    "permute": _nested(
        "permute", lambda outer, inner: {"axes": tuple(inner["axes"][k] for k in outer["axes"])}
    ),
}
