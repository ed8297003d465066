"""Mathematical functions as inline LLVM instructions, for loops that LLVM vectorises.

`EMITTERS[name](builder, *values)` emits one element's worth of the primitive of that name, for float32
or float64 values, without branches or calls, and returns the result.

sin, cos and tan are right for every argument, at the price of a table lookup for the digits of 2/π.
`NARROW[name]` is the cheaper form for |x| ≤ `RANGE_LIMIT[dtype name]`, which a loop may take when it has
found its arguments there, a block of them at a time (as `kernels` and `narrowing` do).

At most 2 ulp are allowed, and where plain arithmetic keeps within them there are no pairs. The largest
errors seen on eight million arguments (in float64 half a million), in ulp of float64 and float32:

    exp      1.55  1.66      log       0.85  0.91      sin  1.44  1.48
    expm1    1.63  1.29      log1p     1.40  1.51      cos  1.44  1.51
    tanh     1.73  1.56      softplus  1.70  1.73      tan  0.92  0.89
    sigmoid  1.63  1.63      erf       1.16  1.20

The others use pairs: within 1, but erfc, logaddexp and rsqrt (which has none) within 1.5.

Where to start reading: `lanes` (operators on LLVM values), `pairs` (double-length arithmetic),
`exponentials`. `derive` computes the coefficients. All bounds: tests/backends/test_mathematics.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from . import arcs, error_function, exponentials, logarithms, powers, reduction, trigonometry
from .lanes import FLOAT32, FLOAT64, Real

Emitter = Callable[..., ir.Value]


def emitter(formula: Callable[..., Real], **choices: Any) -> Emitter:
    """A formula on Reals, as a function (builder, *LLVM values) → LLVM value."""

    def emit(builder: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        format = FLOAT64 if values[0].type == FLOAT64.real else FLOAT32
        return formula(*(Real(builder, v, format) for v in values), **choices).value

    emit.__name__, emit.__doc__ = formula.__name__, formula.__doc__
    return emit


TRIGONOMETRY = (trigonometry.sin, trigonometry.cos, trigonometry.tan)
FORMULAS: tuple[Callable[..., Real], ...] = (
    exponentials.exp,
    exponentials.exp2,
    exponentials.expm1,
    exponentials.sinh,
    exponentials.cosh,
    exponentials.tanh,
    exponentials.sigmoid,
    logarithms.log,
    logarithms.log2,
    logarithms.log10,
    logarithms.log1p,
    logarithms.softplus,
    logarithms.log_sigmoid,
    logarithms.logaddexp,
    logarithms.arcsinh,
    logarithms.arccosh,
    logarithms.arctanh,
    *TRIGONOMETRY,
    arcs.arctan,
    arcs.arctan2,
    arcs.arcsin,
    arcs.arccos,
    error_function.erf,
    error_function.erfc,
    powers.power,
    powers.sqrt,
    powers.rsqrt,
    powers.cbrt,
)

EMITTERS: dict[str, Emitter] = {f.__name__: emitter(f) for f in FORMULAS}
NARROW: dict[str, Emitter] = {f.__name__: emitter(f, wide=False) for f in TRIGONOMETRY}
RANGE_LIMIT: dict[str, float] = reduction.LIMIT
BINARY = frozenset({"power", "arctan2", "logaddexp"})


def sine_and_cosine(b: ir.IRBuilder, x: ir.Value, wide: bool) -> ir.Value:
    """Both, as a struct of two."""
    format = FLOAT64 if x.type == FLOAT64.real else FLOAT32
    pair = ir.Constant(ir.LiteralStructType([x.type, x.type]), ir.Undefined)
    for k, y in enumerate(trigonometry.both(Real(b, x, format), wide)):
        pair = b.insert_value(pair, y.value, k)
    return pair
