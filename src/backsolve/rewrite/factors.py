"""Factors that do not vary along a sum go before it: Σ s u = s Σ u.

So several sums may turn out to be multiples of one. Where a mask hides entries of s u, and s is infinite, the
sum is zero if all are hidden: the product is then taken under any(mask), if the Program has it, else it stays.
What was rounded to 16 bits on the way into a sum is added up as it was before.
"""

from __future__ import annotations

from typing import Any

from ..ir import Equation, Program, Shape, Type, Var, type_of
from ..primitive import P, Primitive
from .half import HALF
from .regions import inside

FLOATS = "fd"


def take_factors_out(program: Program) -> Program:
    return inside(_Sums(program).program(), take_factors_out)


def chosen_or_zero(e: Equation) -> tuple[Any, bool]:
    """What a choice between something and 0 has, or None, and the truth with which it hides it."""
    _, a, b = e.inputs
    if type(b) is not Var and b == 0:
        return a, False
    return (b, True) if type(a) is not Var and a == 0 else (None, False)


def is_fixed(s: Any, shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether something does not vary along these axes of a shape that it is broadcast to."""
    if type(s) is not Var:
        return type(s) in (int, float)
    lengths = (*(1,) * (len(shape) - len(s.shape)), *s.shape)
    return all(lengths[k] == 1 for k in axes)


class Lines:
    """A sum along some axes, and the equations that stand for it."""

    def __init__(self, made: dict[Var, Equation], e: Equation):
        self.made, self.e = made, e
        self.axes, self.shape = e.params["axis"], type_of(e.inputs[0]).shape
        self.equations: list[Equation] = []

    def is_fixed(self, s: Any) -> bool:
        return is_fixed(s, self.shape, self.axes)

    def sees(self, guard: Var, mask: Var, value: bool) -> bool:
        """Whether `guard` says that some entry of a line is not hidden, where the mask has a value."""
        some = self.made.get(guard)
        if some is None or some.primitive is not P.any or some.params["axis"] != self.axes:
            return False
        source = some.inputs[0]
        if not value:
            return source is mask
        opposite = self.made.get(source) if type(source) is Var else None
        return (
            opposite is not None
            and opposite.primitive is P.logical_not
            and opposite.inputs[0] is mask
        )

    def emit(self, primitive: Primitive, *inputs: Any, **params: Any) -> Var:
        (t,) = primitive.infer([type_of(a) for a in inputs], params)
        y = Var(Type(t.shape, t.dtype))
        self.equations.append(Equation((y,), primitive, inputs, params, self.e.where))
        return y

    def sum(self, x: Var) -> Var:
        return self.emit(P.sum, x, axis=self.axes, keepdims=True)

    def finished(self, total: Var) -> list[Equation]:
        params = {"shape": self.e.outputs[0].shape}
        last = Equation(self.e.outputs, P.reshape, (total,), params, self.e.where)
        return [*self.equations, last]


class _Sums:
    def __init__(self, program: Program):
        self._program = program
        self._made: dict[Var, Equation] = {}
        self._guards: list[Var] = []  # whether any entry of a mask is true, line by line

    def program(self) -> Program:
        before = self._program
        kept: list[Equation] = []
        for e in before.equations:
            kept.extend(self._instead(e) if e.primitive is P.sum else [e])
            self._made.update((v, e) for v in e.outputs)
            if e.primitive is P.any:
                self._guards.append(e.outputs[0])
        if tuple(kept) == before.equations:
            return before
        return Program(before.inputs, before.constants, tuple(kept), before.outputs)

    def _instead(self, e: Equation) -> list[Equation]:
        out, (y,) = e.outputs[0], e.inputs
        if out.dtype.char not in FLOATS or type(y) is not Var or y.dtype != out.dtype:
            return [e]
        product = _Product(self._made, e)
        product.take(y)
        if not product.rounds and not any(type(s) is Var for s in product.fixed):
            return [e]
        mask, value = product.mask, product.hides
        guards = [g for g in self._guards if mask is not None and product.sees(g, mask, value)]
        if mask is not None and product.fixed and not guards:
            return [e]
        total = product.sum(product.core())
        for s in product.fixed:
            total = product.emit(P.multiply, total, s)
        if product.is_negative:
            total = product.emit(P.negative, total)
        if guards and product.fixed:
            some = product.emit(P.reshape, guards[0], shape=total.shape)
            total = product.emit(P.where, some, total, 0)
        return product.finished(total)


class _Product(Lines):
    """± Π fixed · Π varying, zero where a mask hides it."""

    def __init__(self, made: dict[Var, Equation], e: Equation):
        super().__init__(made, e)
        self.is_negative = False
        self.fixed: list[Any] = []
        self.varying: list[Var] = []
        self.mask: Var | None = None
        self.hides = False  # where the mask is true
        self.rounds = False  # whether something of it was rounded to 16 bits

    def take(self, y: Var) -> None:
        e = self.made.get(y)
        name = e.primitive.name if e is not None and y.shape == self.shape else ""
        if e is None or y.dtype != self.e.outputs[0].dtype:
            self.varying.append(y)
        elif name == "cast" and (before := self._unrounded(e)) is not None:
            self.rounds = True
            self.take(before)
        elif name == "negative":
            self.is_negative = not self.is_negative
            self.take(e.inputs[0])
        elif name == "multiply":
            for x in e.inputs:
                if self.is_fixed(x):
                    self.fixed.append(x)
                else:
                    self.take(x)
        elif name == "where" and self._is_hidden_product(e):
            self.mask = e.inputs[0]
            inner, self.hides = chosen_or_zero(e)
            self.take(inner)
        else:
            self.varying.append(y)

    def _unrounded(self, e: Equation) -> Var | None:
        """What was rounded to 16 bits before it was widened; of a choice, the same before it."""
        rounded = self.made.get(e.inputs[0])
        if rounded is None or rounded.outputs[0].dtype != HALF:
            return None
        x = rounded.inputs[0]
        if rounded.primitive is P.cast:
            return x if type(x) is Var and x.dtype == e.outputs[0].dtype else None
        inner, hides = chosen_or_zero(rounded) if rounded.primitive is P.where else (None, False)
        product = self.made.get(inner) if type(inner) is Var else None
        if product is None or product.primitive is not P.cast:
            return None
        before = product.inputs[0]
        if type(before) is not Var or before.dtype != e.outputs[0].dtype:
            return None
        sides = (0, before) if hides else (before, 0)
        wide = Equation((Var(e.outputs[0].type),), P.where, (x, *sides), {}, e.where)
        if not self._is_hidden_product(wide):
            return None
        self.made[wide.outputs[0]] = wide
        return wide.outputs[0]

    def _is_hidden_product(self, e: Equation) -> bool:
        """A product behind the one mask that there is."""
        inner, hides = chosen_or_zero(e)
        mask = e.inputs[0]
        if type(inner) is not Var or type(mask) is not Var or mask.shape != self.shape:
            return False
        if self.mask is not None and (mask, hides) != (self.mask, self.hides):
            return False
        return self._is_product(inner)

    def _is_product(self, y: Var) -> bool:
        made = self.made.get(y)
        return made is not None and made.primitive.name in ("multiply", "negative")

    def core(self) -> Var:
        """The product of what varies, behind the mask."""
        y, *rest = sorted(self.varying, key=lambda v: v.serial)
        for x in rest:
            y = self.emit(P.multiply, y, x)
        if y.shape != self.shape:
            y = self.emit(P.broadcast_to, y, shape=self.shape)
        if self.mask is None:
            return y
        return self.emit(P.where, self.mask, *((0, y) if self.hides else (y, 0)))
