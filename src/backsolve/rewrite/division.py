"""Several divisions by one number: multiplications by its reciprocal.

A division costs as much as ten multiplications. Where a whole row is divided by the same number, or
several numbers by the same array, x / c becomes (x · 1/(c s)) · s with a power of two s, 1
unless c is so small or so large that its reciprocal would overflow or lose digits: so zeros, infinities
and NaN come out as by division, and everything else within 1.5 units in the last place. A square root, or a sum
of e^(x − max x), is never so small or large, and needs no s. Where a last digit could show (a quotient that is
a result itself, or that a rounding, a comparison or a sorting rests on: floor(x / c) jumps) it stays one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P

SHARED = 8  # entries of the result per entry of the divisor
# dtype: (c below which it is small, c above which it is large, the powers of two for them)
_RANGES = {
    np.dtype(np.float32): (2.0**-100, 2.0**100, 2.0**64, 2.0**-64),
    np.dtype(np.float64): (2.0**-900, 2.0**900, 2.0**512, 2.0**-512),
}


# Where the last digit of an input decides about the first of the output.
JUMPS = frozenset(
    [
        "floor",
        "ceil",
        "trunc",
        "rint",
        "sign",
        "floor_divide",
        "remainder",
        "fmod",
        "cast_discrete",
        "argsort",
        "ranked",
        "searchsorted",
        "argmax",
        "argmin",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "heaviside",
    ]
)
INDICES = {"gather": 1, "scatter_add": 1, "scatter_set": 2}  # the first input that is an index


def exact_variables(program: Program, rounding: bool = True) -> set[Any]:
    """Results, and all that a jump rests on; `rounding` to 16 bits is one."""
    results = {a for a in program.outputs if type(a) is Var}
    needed: set[Any] = set()
    for e in reversed(program.equations):
        name = e.primitive.name
        moved = results if name in INDICES else set()
        all_of_it = _jumps(e, rounding) or any(v in needed or v in moved for v in e.outputs)
        first = 0 if all_of_it else INDICES.get(name, len(e.inputs))
        needed.update(a for a in e.inputs[first:] if type(a) is Var)
    return needed | results


def _jumps(e: Equation, rounding: bool) -> bool:
    rounds = rounding and e.primitive.name == "cast" and e.outputs[0].dtype == np.float16
    return rounds or e.primitive.name in JUMPS


def tame_variables(program: Program) -> set[Any]:
    """What has a reciprocal that neither overflows nor loses digits: roots, and totals of e^(x − max x)."""
    made = {e.outputs[0]: e for e in program.equations}
    found: set[Any] = set()
    for e in program.equations:
        name, inputs = e.primitive.name, e.inputs
        if name == "sum":
            is_tame = _adds_to_one(e, made)
        elif name == "where":  # 1 in the place of no total at all
            is_tame = inputs[2] in found and type(inputs[1]) is not Var and inputs[1] == 1
        else:
            is_tame = name in ("reshape", "broadcast_to") and inputs[0] in found
        if is_tame or name == "sqrt":
            found.add(e.outputs[0])
    return found


def _adds_to_one(e: Equation, made: dict[Any, Equation]) -> bool:
    """Whether it is Σ e^(x − max x), which is 1 at least."""
    powers = made.get(e.inputs[0])
    shifted = made.get(powers.inputs[0]) if powers and powers.primitive is P.exp else None
    if shifted is None or shifted.primitive is not P.subtract:
        return False
    x, top = shifted.inputs
    source = made.get(top)
    while source is not None and (
        source.primitive.name in ("reshape", "broadcast_to", "clip")
        or _keeps_below_infinity(source)
    ):
        source = made.get(source.inputs[0])
    same = source is not None and source.primitive.name == "max" and source.inputs[0] is x
    return same and source is not None and source.params["axis"] == e.params["axis"]


def _keeps_below_infinity(e: Equation) -> bool:
    if e.primitive.name != "minimum" or type(e.inputs[1]) is Var:
        return False
    return bool(e.inputs[1] >= np.finfo(e.outputs[0].dtype).max)


def share_division(program: Program, rounding: bool = True) -> Program:
    """`rounding`: whether a last digit of float32 may not change what is rounded to 16 bits."""
    equations: list[Equation] = []
    spread: dict[Any, Any] = {}  # a variable that broadcast_to made, and from what
    known: dict[Any, tuple[Var, Var | None]] = {}
    tame = tame_variables(program)
    exact = exact_variables(program, rounding)
    often = Counter(e.inputs[1] for e in program.equations if e.primitive is P.divide)
    for e in program.equations:
        if e.primitive is P.broadcast_to:
            spread[e.outputs[0]] = e.inputs[0]
        divisor = _divisor(e, spread, often)
        if divisor is None or e.outputs[0] in exact:
            equations.append(e)
            continue
        if divisor not in known:
            known[divisor] = _reciprocal(divisor, e, equations, divisor in tame)
        inverse, power = known[divisor]
        scaled = e.outputs[0] if power is None else Var(e.outputs[0].type)
        equations.append(Equation((scaled,), P.multiply, (e.inputs[0], inverse), {}, e.where))
        if power is not None:
            equations.append(Equation(e.outputs, P.multiply, (scaled, power), {}, e.where))
    if not known:
        return program
    return Program(program.inputs, program.constants, tuple(equations), program.outputs)


def _divisor(e: Equation, spread: dict[Any, Any], often: Counter[Any]) -> Var | None:
    """What the equation divides by, if many entries or several equations share it."""
    if e.primitive is not P.divide:
        return None
    a, b = e.inputs
    out = e.outputs[0].type
    b = spread.get(b, b) if type(b) is Var else b
    if type(b) is not Var or out.dtype not in _RANGES or b.type.ndim > out.ndim:
        return None
    same = all(type_of(x).dtype == out.dtype or type_of(x).weak for x in (a, b))
    shared = b.type.size * SHARED <= out.size or (often[b] > 1 and b.type.size > 1)
    return b if same and not b.type.weak and shared else None


def _reciprocal(
    c: Var, e: Equation, equations: list[Equation], is_tame: bool
) -> tuple[Var, Var | None]:
    """(1/(c s), s), or (1/c, None)."""
    low, high, up, down = _RANGES[c.dtype]

    def add(
        primitive: Any, *inputs: Any, made: Any = c.dtype, params: dict[str, Any] | None = None
    ) -> Var:
        out = Var(Type(c.shape, np.dtype(made)))
        equations.append(Equation((out,), primitive, inputs, params or {}, e.where))
        return out

    if is_tame:
        return add(P.divide, 1.0, c), None
    size = add(P.absolute, c)
    one = add(P.where, add(P.greater, size, high, made=bool), down, 1.0, made=float)
    power = add(P.where, add(P.less, size, low, made=bool), up, one, made=float)
    if c.dtype != power.dtype:
        power = add(P.cast, power, params={"dtype": c.dtype})
    return add(P.divide, 1.0, add(P.multiply, c, power)), power
