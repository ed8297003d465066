"""Taps: where a parameter enters a program through one contraction, its gradient is a product of two things.

For y = W ⊙ a (any loop nest) the gradient of W is ȳ ⊙ a with the swapped nest: of a dense layer the outer
product ȳ aᵀ. Norms and Kronecker factors need a and ȳ alone. A zero is added to y, and back substitution to the
zeros instead of the parameters gives ȳ without forming a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from string import ascii_lowercase
from typing import Any

import numpy as np

from ..ir import Equation, Program, Var
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

    def norm(self) -> Any:
        """|∂loss/∂W|, where its square may be below all numbers."""
        (a, u), (y, v) = _scaled(self.a), _scaled(self.adjoint)
        square = replace(self, a=a, adjoint=y).square_norm()
        return np.where(square > 0, np.sqrt(square), 0.0) * u * v

    def square_norm(self) -> Any:
        """|∂loss/∂W|², by the cheaper of Σ_tt' (ā_t·a_t')(ȳ_t·conj ȳ_t') and the gradient itself."""
        w, a, y = self.labels
        summed = "".join(c for c in a if c not in w)
        if not summed:
            return square_size(self.a) * square_size(self.adjoint)
        lengths = {
            **dict(zip(a, self.a.shape, strict=True)),
            **dict(zip(y, self.adjoint.shape, strict=True)),
        }
        many = prod(lengths[c] for c in summed)
        ins, outs = prod(self.a.shape) // many, prod(self.adjoint.shape) // many
        if many * (ins + outs) < ins * outs:
            grams = _gram(self.a, a, summed) * np.conjugate(_gram(self.adjoint, y, summed))
            return np.sum(np.real(grams))
        met = P.contract(np.conjugate(self.a), self.adjoint, subscripts=f"{a},{y}->{w}", sizes=())
        return square_size(met)


def square_size(x: Any) -> Any:
    """Σ |x|²."""
    return np.sum(np.real(np.conjugate(x) * x) if x.dtype.kind == "c" else x * x)


def _scaled(x: Any) -> tuple[Any, Any]:
    """x over its largest entry, and that: a constant for derivatives, since it cancels."""
    size = P.detach(np.max(np.abs(x), initial=0))
    size = np.where((size > 0) & np.isfinite(size), size, np.ones_like(size))
    return x / size, size


def _gram(x: Any, labels: str, kept: str) -> Any:
    """Σ x̄_t x_t' over the labels that are not kept."""
    other = "".join(c.upper() if c in kept else c for c in labels)
    nest = f"{labels},{other}->{kept}{kept.upper()}"
    return P.contract(np.conjugate(x), x, subscripts=nest, sizes=())


@dataclass(frozen=True, eq=False)
class Plan:
    """Where a parameter meets a: labels of W (as it was turned), a and y, and which operand a is.

    A parameter that is added to y has no a: it meets ones.
    """

    leaf: int
    labels: tuple[str, str, str]
    place: int | None
    turns: tuple[Equation, ...]


def plans_of(program: Program, sums: bool = False) -> list[Plan | None]:
    """For every equation, what can be tapped at it; with `sums`, parameters that are added, too."""
    leaf_of = _single_uses(program)
    found = [_labels(e, leaf_of) for e in program.equations]
    if sums:
        found = [p or _added(e, leaf_of) for p, e in zip(found, program.equations, strict=True)]
    return found


def run_tapped(
    program: Program, plans: Sequence[Plan | None], parameters: Sequence[Any], zeros: dict[int, Any]
) -> tuple[list[Any], dict[int, Any]]:
    """The outputs where zeros are added to what the parameters of `plans` make, and what these met."""
    values: dict[Var, Any] = dict(program.constants)
    values.update(zip(program.inputs, parameters, strict=True))
    met: dict[int, Any] = {}
    for e, plan in zip(program.equations, plans, strict=True):
        args = [values[a] if type(a) is Var else a for a in e.inputs]
        result = e.primitive(*args, **e.params)
        if e.primitive.holds_regions:
            values.update(zip(e.outputs, result, strict=True))
            continue
        if plan is not None:
            met[plan.leaf] = None if plan.place is None else args[plan.place]
            if plan.leaf in zeros:
                result = result + zeros[plan.leaf]
        values[e.outputs[0]] = result
    return [values[a] if type(a) is Var else a for a in program.outputs], met


def tapped(program: Program, parameters: Sequence[Any]) -> tuple[dict[int, Tap], dict[int, Any]]:
    """Of a program from parameters to one number: taps by parameter, and the other parameters' gradients."""
    plans = plans_of(program)
    places = {p.leaf: (p, e.outputs[0]) for p, e in zip(plans, program.equations, strict=True) if p}
    varied = {k: vary(x) for k, x in enumerate(parameters) if k not in places}
    zeros = {k: vary(np.zeros(y.shape, y.dtype)) for k, (_, y) in places.items()}
    given = [varied.get(k, x) for k, x in enumerate(parameters)]
    (y,), met = run_tapped(program, plans, given, zeros)
    fresh = {k: x.row for k, x in {**varied, **zeros}.items()}
    grads: list[Any] = [None] * len(fresh)
    if isinstance(y, Tensor) and y.row is not None:
        oldest = min(r.index for r in fresh.values())
        rows, _ = ancestors([y.row], oldest)
        seed = np.ones(y.shape, y.dtype)
        wanted = list(fresh.values())
        reached = set(descendants(rows, wanted))
        grads = back_substitute(
            [(y.row, seed)], wanted, oldest=oldest, record=True, reached=reached
        )
    full = {
        k: np.zeros(r.shape, r.dtype) if g is None else g
        for g, (k, r) in zip(grads, fresh.items(), strict=True)
    }
    taps = {k: Tap(p.labels, met[k], full[k]) for k, (p, _) in places.items()}
    return taps, {k: full[k] for k in varied}


_Leaves = dict[Var, tuple[int, tuple[Equation, ...]]]


def _single_uses(program: Program) -> _Leaves:
    """The variables that are a parameter, turned or not, and are read once."""
    uses: dict[Var, int] = {}
    for a in [a for e in program.equations for a in e.inputs] + list(program.outputs):
        if type(a) is Var:
            uses[a] = uses.get(a, 0) + 1
    leaf_of: _Leaves = {v: (k, ()) for k, v in enumerate(program.inputs) if uses.get(v) == 1}
    for e in program.equations:
        source = e.inputs[0] if e.inputs else None
        if type(source) is not Var or source not in leaf_of:
            continue
        if e.primitive.name in _TURNS and uses.get(e.outputs[0]) == 1:
            leaf, turns = leaf_of[source]
            leaf_of[e.outputs[0]] = leaf, (*turns, e)
    return leaf_of


def _labels(e: Equation, leaf_of: _Leaves) -> Plan | None:
    """A contraction that can be tapped."""
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
    if _loses_a_part(e, e.inputs[holes[0]]):
        return None
    leaf, turns = leaf_of[e.inputs[holes[0]]]
    return Plan(leaf, (w, a, y), 1 - holes[0], turns)


def _loses_a_part(e: Equation, hole: Var) -> bool:
    """Of a real parameter of a complex result the gradient is the real part of that product."""
    return e.outputs[0].dtype.kind == "c" and hole.dtype.kind != "c"


def _added(e: Equation, leaf_of: _Leaves) -> Plan | None:
    """A sum with a parameter, which is repeated along the axes that it does not have."""
    if e.primitive.name != "add":
        return None
    holes = [a for a in e.inputs if type(a) is Var and a in leaf_of]
    if len(holes) != 1 or len(e.outputs[0].shape) > len(ascii_lowercase):
        return None
    if _loses_a_part(e, holes[0]):
        return None
    shape, mine = e.outputs[0].shape, holes[0].shape
    y, ahead = ascii_lowercase[: len(shape)], len(shape) - len(mine)
    w = "".join(c for c, n, m in zip(y[ahead:], mine, shape[ahead:], strict=True) if n == m)
    many = "".join(c for c in y if c not in w)
    leaf, turns = leaf_of[holes[0]]
    return Plan(leaf, (w, many, y), None, turns)
