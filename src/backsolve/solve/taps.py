"""Taps: where a parameter enters a program through one contraction, its gradient is a product of two things.

For y = W ⊙ a (any loop nest) the gradient of W is ȳ ⊙ a with the swapped nest: of a dense layer the outer
product ȳ aᵀ. Norms and Kronecker factors need a and ȳ alone. A zero is added to y, and back substitution to the
zeros instead of the parameters gives ȳ without forming a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..ir import Program, Var
from ..operators.nests import split_subscripts
from ..primitive import P
from ..row import ancestors, descendants
from ..tensor import Tensor
from .reverse import back_substitute
from .rows import vary

_TURNS = ("permute", "reshape")  # the same numbers in another order


@dataclass(frozen=True, eq=False)
class Tap:
    """y = contract(W, a): labels of each, a itself, and the adjoint of y."""

    labels: tuple[str, str, str]  # of W, of a, of y
    a: Any
    adjoint: Any

    def square_norm(self) -> Any:
        """|∂loss/∂W|², by the cheaper of Σ_tt' (a_t·a_t')(ȳ_t·ȳ_t') and the gradient itself."""
        w, a, y = self.labels
        summed = "".join(c for c in a if c not in w)
        if not summed:
            return np.sum(self.a * self.a) * np.sum(self.adjoint * self.adjoint)
        lengths = {
            **dict(zip(a, self.a.shape, strict=True)),
            **dict(zip(y, self.adjoint.shape, strict=True)),
        }
        many = prod(lengths[c] for c in summed)
        ins, outs = prod(self.a.shape) // many, prod(self.adjoint.shape) // many
        if many * (ins + outs) < ins * outs:
            return np.sum(_gram(self.a, a, summed) * _gram(self.adjoint, y, summed))
        g = P.contract(self.a, self.adjoint, subscripts=f"{a},{y}->{w}", sizes=())
        return np.sum(g * g)


def _gram(x: Any, labels: str, kept: str) -> Any:
    other = "".join(c.upper() if c in kept else c for c in labels)
    return P.contract(x, x, subscripts=f"{labels},{other}->{kept}{kept.upper()}", sizes=())


def tapped(program: Program, parameters: Sequence[Any]) -> tuple[dict[int, Tap], dict[int, Any]]:
    """Of a program from parameters to one number: taps by parameter, and the other parameters' gradients."""
    leaf_of = _single_uses(program)
    plans = [_labels(e, leaf_of) for e in program.equations]
    taken = {leaf for leaf, *_ in filter(None, plans)}
    values: dict[Var, Any] = dict(program.constants)
    varied: dict[int, Any] = {}
    for k, (var, x) in enumerate(zip(program.inputs, parameters, strict=True)):
        if k not in taken:
            varied[k] = x = vary(x)
        values[var] = x
    found: dict[int, tuple[tuple[str, str, str], Any, Any]] = {}
    for e, plan in zip(program.equations, plans, strict=True):
        args = [values[a] if type(a) is Var else a for a in e.inputs]
        result = e.primitive(*args, **e.params)
        if e.primitive.holds_regions:
            values.update(zip(e.outputs, result, strict=True))
            continue
        if plan is not None:
            leaf, labels, place = plan
            zero = vary(np.zeros(e.outputs[0].shape, e.outputs[0].dtype))
            found[leaf] = (labels, args[place], zero)
            result = result + zero
        values[e.outputs[0]] = result
    y = values[program.outputs[0]] if type(program.outputs[0]) is Var else None
    places = [*varied, *found]
    fresh = [x.row for x in varied.values()] + [zero.row for _, _, zero in found.values()]
    grads: list[Any] = [None] * len(fresh)
    if isinstance(y, Tensor) and y.row is not None:
        oldest = min(r.index for r in fresh)
        rows, _ = ancestors([y.row], oldest)
        seed = np.ones(y.shape, y.dtype)
        reached = set(descendants(rows, fresh))
        grads = back_substitute([(y.row, seed)], fresh, oldest=oldest, record=True, reached=reached)
    full = [
        np.zeros(r.shape, r.dtype) if g is None else g for g, r in zip(grads, fresh, strict=True)
    ]
    by_place = dict(zip(places, full, strict=True))
    taps = {k: Tap(labels, a, by_place[k]) for k, (labels, a, _) in found.items()}
    return taps, {k: by_place[k] for k in varied}


def _single_uses(program: Program) -> dict[Var, int]:
    """The variables that are a parameter, turned or not, and are read once."""
    uses: dict[Var, int] = {}
    for a in [a for e in program.equations for a in e.inputs] + list(program.outputs):
        if type(a) is Var:
            uses[a] = uses.get(a, 0) + 1
    leaf_of = {v: k for k, v in enumerate(program.inputs) if uses.get(v) == 1}
    for e in program.equations:
        source = e.inputs[0] if e.inputs else None
        if e.primitive.name in _TURNS and source in leaf_of and uses.get(e.outputs[0]) == 1:
            leaf_of[e.outputs[0]] = leaf_of[source]
    return leaf_of


def _labels(e: Any, leaf_of: dict[Var, int]) -> tuple[int, tuple[str, str, str], int] | None:
    """(parameter, labels of W, a and y, where a stands) of a contraction that can be tapped."""
    if e.primitive.name != "contract" or len(e.inputs) != 2 or e.params["sizes"]:
        return None
    holes = [k for k, a in enumerate(e.inputs) if type(a) is Var and a in leaf_of]
    if len(holes) != 1:
        return None
    inputs, y = split_subscripts(e.params["subscripts"])
    w, a = inputs[holes[0]], inputs[1 - holes[0]]
    simple = all(len(set(x)) == len(x) and x == x.lower() for x in (w, a, y))
    apart = not (set(w) & set(a) & set(y)) and set(w) <= set(a) | set(y)
    shared = {c for c in a if c not in w} == {c for c in y if c not in w}
    if not (simple and apart and shared):
        return None
    return leaf_of[e.inputs[holes[0]]], (w, a, y), 1 - holes[0]
