"""Sums that are rounded as NumPy rounds them: those of which a root, a logarithm or a reciprocal is taken.

A product and a sum may be fused into one operation, which rounds once. But then x² − y² with x = y is not 0, as
in NumPy, but the rounding error of x²; if that is negative, its root is NaN. So sums whose sign or zero reaches
a function that ends there keep both roundings. (All sums would: GELU's gradient then takes a tenth longer.)
Each region is looked at by itself.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Program, Var
from ...regions import Callee

FUSED = {"add", "subtract"}
# What is not defined, or infinite, somewhere in the midst of all numbers, and at which of its inputs.
ENDING = dict.fromkeys(["sqrt", "log", "log2", "log10", "log1p", "arcsin", "arccos", "arccosh"], 0)
ENDING |= dict.fromkeys(["arctanh", "power", "float_power", "reciprocal", "logit"], 0)
ENDING |= {"divide": 1, "xlogy": 1, "xlog1py": 1, "log_abs_det": 0}
# What hands on zeros and signs.
PASSING = {"add", "subtract", "multiply", "divide", "negative", "sum", "prod", "where", "cast"}
PASSING |= {
    "maximum",
    "minimum",
    "max",
    "min",
    "clip",
    "alias",
    "detach",
    "reshape",
    "broadcast_to",
}
PASSING |= {"permute", "slice", "unslice", "concatenate", "gather", "slice_update", "scatter_set"}
ROUNDED = "rounded"  # the name of the mark, a parameter that only the backend knows


def round_apart(program: Program) -> Program:
    """The Program with such sums marked."""
    needed: set[Var] = set()
    equations = []
    for e in reversed(program.equations):
        name, reached = e.primitive.name, any(v in needed for v in e.outputs)
        if reached and name in PASSING:
            needed.update(a for a in e.inputs if type(a) is Var)
        elif name in ENDING and type(e.inputs[ENDING[name]]) is Var:
            needed.add(e.inputs[ENDING[name]])
        region = e.params.get("region") if e.primitive.holds_regions else None
        if reached and name in FUSED and e.outputs[0].dtype.kind == "f":
            e = replace(e, params={ROUNDED: True})
        elif region is not None and not isinstance(region, Callee) and region.programs():
            parts = tuple(map(round_apart, region.programs()))
            e = replace(e, params={**e.params, "region": region.with_programs(parts)})
        equations.append(e)
    return replace(program, equations=tuple(reversed(equations)))
