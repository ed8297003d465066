"""Sums that need no pass of their own: fixed factors go before the sum, deviations from a mean vanish.

    Σ (s u + c (x − mean x))        s Σ u

The adjoint of a normalisation ends in such a sum, in which c rests on another sum over all of u and x. As
written, u and x are read once for c, once more for the sum, and a third time for the result; Σ u can be had
together with c. Sums in which no deviations vanish stay as they are.
"""

from __future__ import annotations

from typing import Any

from ..ir import Equation, Program, Var
from ..primitive import P
from .factors import FLOATS, Lines, chosen_or_zero
from .masks import Outside
from .regions import inside

_Term = Any  # an atom: a variable with the summed axes kept as ones, or the number 0


def without_deviations(program: Program) -> Program:
    return inside(_Sums(program).program(), without_deviations)


class _NoneSuchError(Exception):
    """The sum is no combination that would save a pass."""


class _Sums:
    def __init__(self, program: Program):
        self._program = program
        self.made: dict[Var, Equation] = {}

    def program(self) -> Program:
        before = self._program
        kept: list[Equation] = []
        for e in before.equations:
            kept.extend(self._instead(e) if e.primitive is P.sum else [e])
            self.made.update((v, e) for v in e.outputs)
        if tuple(kept) == before.equations:
            return before
        return Program(before.inputs, before.constants, tuple(kept), before.outputs)

    def maker(self, a: Var) -> Equation | None:
        return self.made.get(a)

    def number(self, a: Any) -> Any:
        return a if type(a) is not Var else None

    def is_number(self, a: Any, value: float) -> bool:
        return type(a) is not Var and bool(a == value)

    def _instead(self, e: Equation) -> list[Equation]:
        out, (y,) = e.outputs[0], e.inputs
        if out.dtype.char not in FLOATS or type(y) is not Var or y.dtype != out.dtype:
            return [e]
        if not self._is_combination(y):
            return [e]
        work = _Combination(self, e)
        try:
            total = work.total(y, ())
        except _NoneSuchError:
            return [e]
        return work.finished(total) if type(total) is Var and work.vanished else [e]

    def _is_combination(self, y: Var) -> bool:
        """Whether this is a sum of terms, perhaps negated or masked."""
        while (e := self.made.get(y)) is not None and e.primitive.name in ("negative", "where"):
            inner = e.inputs[0] if e.primitive is P.negative else chosen_or_zero(e)[0]
            if type(inner) is not Var:
                return False
            y = inner
        return e is not None and e.primitive is P.add


class _Combination(Lines):
    """One sum, written as a combination of others."""

    def __init__(self, sums: _Sums, e: Equation):
        super().__init__(sums.made, e)
        self._sums = sums
        self.vanished = False  # whether deviations did

    def total(self, y: Any, guards: tuple[Var, ...]) -> _Term:
        """Σ y, of shape with ones, where each of some masks has an entry that is true."""
        made = self.made.get(y) if type(y) is Var else None
        name = made.primitive.name if made is not None else ""
        if made is None or y.dtype != self.e.outputs[0].dtype or y.shape != self.shape:
            raise _NoneSuchError
        if name == "negative":
            return self._signed(self.total(made.inputs[0], guards))
        if name == "add":
            a, b = (self.total(x, guards) for x in made.inputs)
            if type(a) is Var and type(b) is Var:
                return self.emit(P.add, a, b)
            return a if type(a) is Var else b
        if name == "where":
            return self._masked(made, guards)
        if name == "multiply":
            return self._product(made)
        raise _NoneSuchError

    def _signed(self, a: _Term) -> _Term:
        return self.emit(P.negative, a) if type(a) is Var else 0

    def _product(self, made: Equation) -> _Term:
        x, s = self._factors(made)
        inner = self._of_factor(x)
        return self.emit(P.multiply, inner, s) if type(inner) is Var else 0

    def _factors(self, product: Equation) -> tuple[Var, Any]:
        """The factor that varies, and the one that does not."""
        for x, s in (product.inputs, product.inputs[::-1]):
            is_whole = type(x) is Var and x.shape == self.shape
            if is_whole and x.dtype == product.outputs[0].dtype and self.is_fixed(s):
                return x, s
        raise _NoneSuchError

    def _of_factor(self, x: Var) -> _Term:
        """Σ x, of what only factors stood before."""
        made = self.made.get(x)
        if made is not None and made.primitive is P.subtract and self._is_mean(*made.inputs):
            self.vanished = True
            return 0
        if made is not None and made.primitive is P.multiply:
            try:
                return self._product(made)
            except _NoneSuchError:
                pass
        return self.sum(x)

    def _masked(self, made: Equation, guards: tuple[Var, ...]) -> _Term:
        mask, (inner, value) = made.inputs[0], chosen_or_zero(made)  # of the mask, where it hides
        if inner is None or type(mask) is not Var:
            raise _NoneSuchError
        if self.is_fixed(mask):
            if value:
                raise _NoneSuchError
            total = self.total(inner, (*guards, mask))
            return self.emit(P.where, mask, total, 0) if type(total) is Var else 0
        # where(mask, 0, x s) under a guard: if s is infinite, so is the sum
        product = self.made.get(inner)
        if product is None or product.primitive is not P.multiply:
            raise _NoneSuchError
        if not any(self.sees(g, mask, value) for g in guards):
            raise _NoneSuchError
        x, s = self._factors(product)
        if not Outside(self._sums).is_zero(x, mask, value):
            raise _NoneSuchError
        return self.emit(P.multiply, self._of_factor(x), s)

    def _is_mean(self, x: Any, mean: Any) -> bool:
        """Whether `mean` is that of x along the axes."""
        made = self.made.get(mean) if type(mean) is Var else None
        if made is None or made.primitive not in (P.multiply, P.divide):
            return False
        total, factor = made.inputs
        count = 1
        for k in self.axes:
            count *= self.shape[k]
        if type(factor) is Var or factor != (1 / count if made.primitive is P.multiply else count):
            return False
        e = self.made.get(total) if type(total) is Var else None
        if e is None or e.primitive is not P.sum or e.inputs[0] is not x:
            return False
        return bool(e.params["axis"] == self.axes and e.params["keepdims"])
