"""Products of the same factors, in whatever order they were multiplied, are one.

The derivative of x·x·x has three terms, (t·x)·x, t·(x·x) and (t·x)·x again, that differ in roundings alone.
Results, and what a rounding or a comparison rests on (division.py), stay as they are.
"""

from __future__ import annotations

from typing import Any

from ..ir import Equation, Program, Var
from ..primitive import P
from .division import exact_variables

MOST = 8  # factors


def merge_products(program: Program) -> Program:
    exact = exact_variables(program)
    factors: dict[Any, tuple[Any, ...]] = {}  # of a product
    known: dict[Any, Var] = {}  # the first product of some factors
    same: dict[Any, Any] = {}
    kept: list[Equation] = []
    for e in program.equations:
        inputs = tuple([same.get(a, a) if type(a) is Var else a for a in e.inputs])
        e = Equation(e.outputs, e.primitive, inputs, e.params, e.where)
        if e.primitive is P.multiply and e.outputs[0].dtype.kind == "f":
            out = e.outputs[0]
            parts = [f for a in inputs for f in _factors_of(a, out, factors)]
            if len(parts) <= MOST:
                factors[out] = tuple(parts)
                key = (out.type, tuple(sorted(map(_key, parts))))
                if out not in exact and known.setdefault(key, out) is not out:
                    same[out] = known[key]
                    continue
        kept.append(e)
    if not same:
        return program
    return Program(program.inputs, program.constants, tuple(kept), program.outputs)


def _factors_of(a: Any, out: Var, factors: dict[Any, tuple[Any, ...]]) -> tuple[Any, ...]:
    is_part = type(a) is Var and a in factors and a.type == out.type
    return factors[a] if is_part else (a,)


def _key(factor: Any) -> tuple[str, Any]:
    return ("", id(factor)) if type(factor) is Var else (type(factor).__name__, factor)
