"""Sums that need no pass of their own: fixed factors go before the sum, deviations from a mean vanish.

    Σ (s u + c (x − mean x))        s Σ u

The adjoint of a normalisation ends in such a sum, in which c rests on another sum over all of u and x. As
written, u and x are read once for c, once more for the sum, and a third time for the result; Σ u can be had
together with c. Sums in which no deviations vanish stay as they are.
"""

from __future__ import annotations

from typing import Any

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P, Primitive
from .masks import Outside
from .regions import inside

_FLOATS = "fd"
_Term = Any  # an atom: a variable with the summed axes kept as ones, or the number 0


def without_deviations(program: Program) -> Program:
    return inside(_Sums(program).program(), without_deviations)


class _NoneSuchError(Exception):
    """The sum is no combination that would save a pass."""


class _Sums:
    def __init__(self, program: Program):
        self._program = program
        self.made: dict[Var, Equation] = {}
        self._kept: list[Equation] = []

    def program(self) -> Program:
        before = self._program
        for e in before.equations:
            self._kept.extend(self._instead(e) if e.primitive is P.sum else [e])
            self.made.update((v, e) for v in e.outputs)
        kept = tuple(self._kept)
        if kept == before.equations:
            return before
        return Program(before.inputs, before.constants, kept, before.outputs)

    def number(self, a: Any) -> Any:
        return a if type(a) is not Var else None

    def is_number(self, a: Any, value: float) -> bool:
        return type(a) is not Var and bool(a == value)

    def _instead(self, e: Equation) -> list[Equation]:
        out, (y,) = e.outputs[0], e.inputs
        if out.dtype.char not in _FLOATS or type(y) is not Var or y.dtype != out.dtype:
            return [e]
        if not self._is_combination(y):
            return [e]
        work = _Combination(self, e)
        try:
            total = work.total(y, ())
        except _NoneSuchError:
            return [e]
        if type(total) is not Var or not work.vanished:
            return [e]
        last = Equation(e.outputs, P.reshape, (total,), {"shape": out.shape}, e.where)
        return [*work.equations, last]

    def _is_combination(self, y: Var) -> bool:
        """Whether this is a sum of terms, perhaps negated or masked."""
        while (e := self.made.get(y)) is not None and e.primitive.name in ("negative", "where"):
            inner = e.inputs[0] if e.primitive is P.negative else _inner(e)
            if type(inner) is not Var:
                return False
            y = inner
        return e is not None and e.primitive is P.add


def _inner(e: Equation) -> Any:
    """What a choice between something and 0 has; else None."""
    _, a, b = e.inputs
    if type(b) is not Var and b == 0:
        return a
    return b if type(a) is not Var and a == 0 else None


class _Combination:
    """One sum, written as a combination of others."""

    def __init__(self, sums: _Sums, e: Equation):
        self._sums, self._e = sums, e
        self._axes = e.params["axis"]
        self._shape = type_of(e.inputs[0]).shape
        self.equations: list[Equation] = []
        self.vanished = False  # whether deviations did

    def total(self, y: Any, guards: tuple[Var, ...]) -> _Term:
        """Σ y, of shape with ones, where each of some masks has an entry that is true."""
        made = self._sums.made.get(y) if type(y) is Var else None
        name = made.primitive.name if made is not None else ""
        if made is None or y.dtype != self._e.outputs[0].dtype or y.shape != self._shape:
            raise _NoneSuchError
        if name == "negative":
            return self._signed(self.total(made.inputs[0], guards))
        if name == "add":
            a, b = (self.total(x, guards) for x in made.inputs)
            if type(a) is Var and type(b) is Var:
                return self._emit(P.add, a, b)
            return a if type(a) is Var else b
        if name == "where":
            return self._masked(made, guards)
        if name == "multiply":
            return self._product(made)
        raise _NoneSuchError

    def _signed(self, a: _Term) -> _Term:
        return self._emit(P.negative, a) if type(a) is Var else 0

    def _product(self, made: Equation) -> _Term:
        x, s = self._factors(made)
        inner = self._of_factor(x)
        return self._emit(P.multiply, inner, s) if type(inner) is Var else 0

    def _factors(self, product: Equation) -> tuple[Var, Any]:
        """The factor that varies, and the one that does not."""
        for x, s in (product.inputs, product.inputs[::-1]):
            is_whole = type(x) is Var and x.shape == self._shape
            if is_whole and x.dtype == product.outputs[0].dtype and self._is_fixed(s):
                return x, s
        raise _NoneSuchError

    def _of_factor(self, x: Var) -> _Term:
        """Σ x, of what only factors stood before."""
        made = self._sums.made.get(x)
        if made is not None and made.primitive is P.subtract and self._is_mean(*made.inputs):
            self.vanished = True
            return 0
        if made is not None and made.primitive is P.multiply:
            try:
                return self._product(made)
            except _NoneSuchError:
                pass
        return self._emit(P.sum, x, axis=self._axes, keepdims=True)

    def _masked(self, made: Equation, guards: tuple[Var, ...]) -> _Term:
        mask, inner = made.inputs[0], _inner(made)
        if inner is None or type(mask) is not Var:
            raise _NoneSuchError
        if self._is_fixed(mask):
            if inner is not made.inputs[1]:
                raise _NoneSuchError
            total = self.total(inner, (*guards, mask))
            return self._emit(P.where, mask, total, 0) if type(total) is Var else 0
        # where(mask, 0, x s) under a guard: if s is infinite, so is the sum
        value = inner is made.inputs[2]  # of the mask, where it hides
        product = self._sums.made.get(inner)
        if product is None or product.primitive is not P.multiply:
            raise _NoneSuchError
        if not any(self._guards(g, mask, value) for g in guards):
            raise _NoneSuchError
        x, s = self._factors(product)
        if not Outside(self._sums).is_zero(x, mask, value):
            raise _NoneSuchError
        return self._emit(P.multiply, self._of_factor(x), s)

    def _guards(self, guard: Var, mask: Var, value: bool) -> bool:
        """Whether `guard` says that some entry of a line is not hidden, where the mask has a value."""
        some = self._sums.made.get(guard)
        if some is None or some.primitive is not P.any or some.params["axis"] != self._axes:
            return False
        source = some.inputs[0]
        if value:
            opposite = self._sums.made.get(source) if type(source) is Var else None
            return (
                opposite is not None
                and opposite.primitive is P.logical_not
                and opposite.inputs[0] is mask
            )
        return source is mask

    def _is_mean(self, x: Any, mean: Any) -> bool:
        """Whether `mean` is that of x along the axes."""
        made = self._sums.made.get(mean) if type(mean) is Var else None
        if made is None or made.primitive not in (P.multiply, P.divide):
            return False
        total, factor = made.inputs
        count = 1
        for k in self._axes:
            count *= self._shape[k]
        if type(factor) is Var or factor != (1 / count if made.primitive is P.multiply else count):
            return False
        e = self._sums.made.get(total) if type(total) is Var else None
        if e is None or e.primitive is not P.sum or e.inputs[0] is not x:
            return False
        return bool(e.params["axis"] == self._axes and e.params["keepdims"])

    def _is_fixed(self, s: Any) -> bool:
        """Whether something does not vary along the summed axes, and is no larger than a sum."""
        if type(s) is not Var:
            return type(s) in (int, float)
        lengths = (*(1,) * (len(self._shape) - len(s.shape)), *s.shape)
        return all(lengths[k] == 1 for k in self._axes)

    def _emit(self, primitive: Primitive, *inputs: Any, **params: Any) -> Var:
        (t,) = primitive.infer([type_of(a) for a in inputs], params)
        y = Var(Type(t.shape, t.dtype))
        self.equations.append(Equation((y,), primitive, inputs, params, self._e.where))
        return y
