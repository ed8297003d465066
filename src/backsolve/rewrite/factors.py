"""Factors that a whole row shares, taken out of its sum: Σ x r = r Σ x.

The rows of a layer norm, or of a softmax, are divided by a root or a total that is known once a loop over the
row has ended. What is summed up of the quotients is so summed up in a loop of its own; taken apart, in the one
that makes the total. And a term that is added twice (the derivative of a square) is added once, doubled.

Only reciprocals that neither overflow nor lose digits (division.py) are taken out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P
from .division import exact_variables, tame_variables

MOST = 6  # factors of a product


def take_out_factors(program: Program) -> Program:
    return _Walk(program).run()


class _Walk:
    def __init__(self, program: Program):
        self.program = program
        self.made: dict[Any, Equation] = {}
        self.kept: list[Equation] = []
        self.early: dict[
            Any, list[Equation]
        ] = {}  # behind the equation of a variable; None: at first
        self.order: dict[Any, int] = {}
        self.exact = exact_variables(program)
        atoms = [a for e in program.equations for a in e.inputs] + list(program.outputs)
        self.uses = Counter(a for a in atoms if type(a) is Var)
        tame = tame_variables(program)
        self.shared = {
            e.outputs[0]
            for e in program.equations
            if e.primitive is P.divide and e.inputs[1] in tame and type(e.inputs[0]) is not Var
        }

    def run(self) -> Program:
        before = self.program
        for e in before.equations:
            changed = e
            if e.outputs[0] not in self.exact and e.outputs[0].dtype.kind == "f":
                changed = self._sum(e) if e.primitive is P.sum else self._twice(e)
            self.kept.append(changed)
            for v in changed.outputs:
                self.made[v] = changed
                self.order[v] = len(self.kept)
        if self.kept == list(before.equations):
            return before
        equations = list(self.early.get(None, ()))
        for e in self.kept:
            equations += [e, *[x for v in e.outputs for x in self.early.get(v, ())]]
        return Program(before.inputs, before.constants, tuple(equations), before.outputs)

    def _emit(self, like: Equation, primitive: Any, *inputs: Any) -> Var:
        e = _equation(like, primitive, inputs, {})
        self.kept.append(e)
        self.made[e.outputs[0]] = e
        self.order[e.outputs[0]] = len(self.kept)
        return e.outputs[0]

    def _emit_early(
        self, last: Any, like: Equation, primitive: Any, *inputs: Any, **params: Any
    ) -> Var:
        e = _equation(like, primitive, inputs, params)
        self.early.setdefault(last, []).append(e)
        return e.outputs[0]

    def _sum(self, e: Equation) -> Equation:
        """Σ (x r) as r Σ x."""
        (a,), axis = e.inputs, e.params["axis"]
        factors = self._factors(a) if type(a) is Var else []
        outside = [f for f in factors if f in self.shared and _is_kept(f.type, a.type, axis)]
        inside = [f for f in factors if f not in outside]
        if not outside or not inside or len(factors) > MOST or not e.params["keepdims"]:
            return e
        shape = np.broadcast_shapes(*[type_of(f).shape for f in inside])
        if shape != a.shape or any(type_of(f).dtype != a.dtype for f in factors):
            return e
        # As soon as its factors are known, so that it is a part of the loop that makes them.
        known = [f for f in inside if f in self.order]
        last = max(known, key=self.order.__getitem__) if known else None
        product = inside[0]
        for f in inside[1:]:
            product = self._emit_early(last, e, P.multiply, product, f)
        total = self._emit_early(last, e, P.sum, product, **e.params)
        for f in outside[:-1]:
            total = self._emit(e, P.multiply, total, f)
        return Equation(e.outputs, P.multiply, (total, outside[-1]), {}, e.where)

    def _factors(self, a: Any) -> list[Any]:
        e = self.made.get(a)
        if e is None or e.primitive is not P.multiply:
            return [a]
        return [f for x in e.inputs for f in (self._factors(x) if type(x) is Var else [x])]

    def _twice(self, e: Equation) -> Equation:
        """(a ± v) ± v as a ± 2 v."""
        if e.primitive not in (P.add, P.subtract):
            return e
        ways = [e.inputs, e.inputs[::-1]] if e.primitive is P.add else [e.inputs]
        for sum_, v in ways:
            inner = self.made.get(sum_)
            if inner is None or inner.primitive is not e.primitive or type(v) is not Var:
                continue
            if self.uses[sum_] > 1 or inner.outputs[0].type != e.outputs[0].type:
                continue
            others = [inner.inputs, inner.inputs[::-1]] if e.primitive is P.add else [inner.inputs]
            for a, w in others:
                term = self._one_more(e, v, w)
                if term is not None:
                    return Equation(e.outputs, e.primitive, (a, term), {}, e.where)
        return e

    def _one_more(self, like: Equation, v: Var, w: Any) -> Var | None:
        """v + w, where w is v or some times v."""
        if w is v:
            return self._doubled(like, v)
        several = self.made.get(w) if self.uses[w] == 0 else None  # one of ours
        if several is None or several.primitive is not P.multiply or several.inputs[0] is not v:
            return None
        times = several.inputs[1]
        return self._emit(like, P.multiply, v, times + 1.0) if type(times) is float else None

    def _doubled(self, like: Equation, v: Var) -> Var:
        """2 v; of a product, twice its smaller factor."""
        e = self.made.get(v)
        if e is not None and e.primitive is P.multiply and self.uses[v] == 2:
            small, large = sorted(e.inputs, key=lambda x: type_of(x).size)
            is_smaller = type_of(small).size < type_of(large).size == v.type.size
            if is_smaller and type(small) is Var and small.dtype == v.dtype:
                twice = self._emit(like, P.add, small, small)
                return self._emit(like, P.multiply, twice, large)
        return self._emit(like, P.multiply, v, 2.0)


def _equation(like: Equation, primitive: Any, inputs: Any, params: dict[str, Any]) -> Equation:
    (t,) = primitive.infer([type_of(a) for a in inputs], params)
    return Equation((Var(t),), primitive, inputs, params, like.where)


def _is_kept(factor: Type, whole: Type, axis: tuple[int, ...]) -> bool:
    """Whether a factor is the same along the axes of a sum, and has all others."""
    return factor.shape == tuple([1 if k in axis else n for k, n in enumerate(whole.shape)])
