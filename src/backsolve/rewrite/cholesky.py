"""The adjoint of a Cholesky factor, recognised: compiled code has a step for it, of a quarter of the work.

Reverse mode writes it as the rule in primitives/linalg.py does, transposed, for L = chol(A) and its adjoint L̄:

    Ā = Φ(X + Xᵀ),   X = L⁻ᵀ (L⁻ᵀ Φ(Lᵀ L̄))ᵀ        Φ: the lower triangle with half of the diagonal
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Var
from ..operators.nests import split_subscripts
from ..primitives.linalg import cholesky_adjoint
from .recognise import Formula


class _Adjoint(Formula):
    row, holds = cholesky_adjoint, "cholesky"

    def inputs(self, e: Equation) -> tuple[Any, Any] | None:
        """L and L̄, if `e` is the last equation of the formula above."""
        total = self.made.get(self.halved(e))
        if total is None or total.primitive.name != "add":
            return None
        for X, turned in (total.inputs, total.inputs[::-1]):
            if self.transposed(turned) is not X or X is None:
                continue
            L, right = self.solved(X)
            M, product = self.solved(self.transposed(right))
            if L is None or L is not M:
                continue
            bar = self.product_with(L, self.halved(self.made.get(product)))
            if bar is not None:
                return L, bar
        return None

    def halved(self, e: Equation | None) -> Any:
        """a, of Φ(a)."""
        if e is None or e.primitive.name != "multiply":
            return None
        for a, weights in (e.inputs, e.inputs[::-1]):
            if type(a) is Var and a.type == e.outputs[0].type and self.is_half(weights):
                return a
        return None

    def is_half(self, a: Any) -> bool:
        a = self.before_broadcast(a)
        weights = self.constants.get(a) if type(a) is Var else None
        if not isinstance(weights, np.ndarray) or weights.ndim < 2:
            return False
        n = weights.shape[-1]
        if weights.size != n * n:
            return False
        return np.array_equal(weights.reshape(n, n), np.tri(n) - np.eye(n) / 2)

    def transposed(self, a: Any) -> Any:
        e = self.made.get(a)
        if e is None or e.primitive.name != "permute":
            return None
        rank = len(e.outputs[0].shape)
        swap = (*range(rank - 2), rank - 1, rank - 2)
        return e.inputs[0] if tuple(e.params["axes"]) == swap else None

    def solved(self, x: Any) -> tuple[Any, Any]:
        """L and b, of x = L⁻ᵀ b with a Cholesky factor L of the same dtype."""
        e = self.made.get(x)
        if e is None or e.primitive.name != "triangular_solve":
            return None, None
        if e.params["lower"] or e.params["unit"]:
            return None, None
        L = self.transposed(e.inputs[0])
        maker = self.made.get(L)
        if maker is None or maker.primitive.name != "cholesky":
            return None, None
        same = L.type == e.outputs[0].type and L.dtype.kind == "f"
        return (L, e.inputs[1]) if same else (None, None)

    def product_with(self, L: Any, a: Any) -> Any:
        """b, of a = Lᵀ b."""
        e = self.made.get(a)
        if e is None or e.primitive.name != "contract" or len(e.inputs) != 2 or e.params["sizes"]:
            return None
        labels, output = split_subscripts(e.params["subscripts"])
        front, row, column = output[:-2], output[-2:-1], output[-1:]
        for k in (0, 1):
            factor, other = labels[k], labels[1 - k]
            inner = factor[len(front) : len(front) + 1]
            plain = len({*output, inner}) == len(output) + 1
            if (
                plain
                and e.inputs[k] is L
                and (factor, other) == (front + inner + row, front + inner + column)
                and type(e.inputs[1 - k]) is Var
                and e.inputs[1 - k].type == L.type
            ):
                return e.inputs[1 - k]
        return None


join_cholesky_adjoints = _Adjoint.join
