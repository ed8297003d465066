"""Special functions that SciPy computes for one number at a time, called by the pointers it exports.

They stand in no vector loop; float32 is computed in float64 and rounded.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from math import factorial
from typing import Any

from llvmlite import binding, ir

from ...primitives.special import NAMES
from .numbers.integer import while_
from .numbers.real import intrinsic

DOUBLE, CINT = ir.DoubleType(), ir.IntType(32)
_FLAG = ", int __pyx_skip_dispatch"
_FUSED = re.compile(r"(?:__pyx_fuse_[0-9](?:_1)?)?(.*)")


@cache
def pointer(name: str) -> tuple[int, int, bool] | None:
    """The address of a function of doubles, how many it takes, and whether it takes Cython's flag too."""
    from scipy.special import cython_special

    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    exported: dict[str, Any] = dict(cython_special.__pyx_capi__)
    for key, capsule in exported.items():
        if _FUSED.sub(r"\1", key, count=1) != name:
            continue
        signature = api.PyCapsule_GetName(capsule)
        inside = signature.decode().removeprefix("double (").removesuffix(")")
        arguments = inside.removesuffix(_FLAG).split(", ")
        if set(arguments) == {"double"} and signature.startswith(b"double ("):
            found = api.PyCapsule_GetPointer(capsule, signature)
            return int(found), len(arguments), inside.endswith(_FLAG)
    return None


def supports(name: str) -> bool:
    return name == "polygamma" or (name in NAMES and pointer(NAMES[name]) is not None)


def provide(symbol: str) -> None:
    """Have code find a function by its symbol, which tells whether it takes Cython's flag."""
    word = symbol.removeprefix("backsolve_special_")
    name = word.removesuffix("_flagged")
    found = pointer(name)
    if found is None or found[2] != (name != word):
        raise LookupError(f"SciPy exports no {symbol}")
    binding.add_symbol(symbol, found[0])


def call(b: ir.IRBuilder, name: str, args: list[ir.Value]) -> ir.Value:
    found = pointer(NAMES[name])
    assert found is not None
    _, arity, flagged = found
    assert arity == len(args)
    symbol = f"backsolve_special_{NAMES[name]}{'_flagged' if flagged else ''}"
    provide(symbol)
    kinds = [DOUBLE] * arity + ([CINT] if flagged else [])
    function = b.module.globals.get(symbol)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(DOUBLE, kinds), symbol)
    wide = [x if x.type == DOUBLE else b.fpext(x, DOUBLE) for x in args]
    y = b.call(function, [*wide, CINT(0)] if flagged else wide)
    return y if args[0].type == DOUBLE else b.fptrunc(y, args[0].type)


# Of the expansion of Hurwitz' zeta function: (2k)!/B_2k.
_FACTORIAL_OVER_BERNOULLI = [
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1.8924375803183791606e9,
    7.47242496e10,
    -2.950130727918164224e12,
    1.1646782814350067249e14,
    -4.5979787224074726105e15,
    1.8152105401943546773e17,
    -7.1661652561756670113e18,
]


def polygamma(b: ir.IRBuilder, x: ir.Value, n: int) -> ir.Value:
    """(−1)^(n+1) n! ζ(n + 1, x), and digamma for n = 0."""
    if n == 0:
        return call(b, "digamma", [x])
    wide = x if x.type == DOUBLE else b.fpext(x, DOUBLE)
    factor = ir.Constant(DOUBLE, float((-1) ** (n + 1) * factorial(n)))
    y = b.fmul(factor, zeta(b, n + 1, wide))
    return y if x.type == DOUBLE else b.fptrunc(y, x.type)


def zeta(b: ir.IRBuilder, s: int, q: ir.Value) -> ir.Value:
    """Σ (q + k)^−s by Euler and Maclaurin: terms up to w > 9, then an expansion in 1/w."""
    one, half = ir.Constant(DOUBLE, 1.0), ir.Constant(DOUBLE, 0.5)

    def term(b: ir.IRBuilder, a: ir.Value) -> ir.Value:
        return b.fdiv(one, multiplied_out(b, a, s))

    # A pole, −∞ among them, is known without a sum.
    whole = b.fcmp_ordered("==", intrinsic("llvm.floor")(b, q), q)
    pole = b.and_(whole, b.fcmp_ordered("<=", q, ir.Constant(DOUBLE, 0.0)))
    q = b.select(pole, one, q)
    first = term(b, q)
    w, _, total = while_(
        b,
        [q, CINT(0), first],
        lambda b, a, i, _: b.or_(
            b.icmp_signed("<", i, CINT(9)), b.fcmp_ordered("<=", a, ir.Constant(DOUBLE, 9.0))
        ),
        lambda b, a, i, total: [
            b.fadd(a, one),
            b.add(i, CINT(1)),
            b.fadd(total, term(b, b.fadd(a, one))),
        ],
    )
    last = term(b, w)
    total = b.fadd(total, b.fdiv(b.fmul(last, w), ir.Constant(DOUBLE, s - 1.0)))
    total = b.fsub(total, b.fmul(half, last))
    rising, power = 1.0, last
    for k, c in enumerate(_FACTORIAL_OVER_BERNOULLI):
        rising *= s + 2 * k
        power = b.fdiv(power, w)
        total = b.fadd(total, b.fmul(power, ir.Constant(DOUBLE, rising / c)))
        rising *= s + 2 * k + 1
        power = b.fdiv(power, w)
    far = b.fmul(multiplied_out(b, b.fdiv(one, q), s - 1), ir.Constant(DOUBLE, 1 / (s - 1)))
    total = b.select(b.fcmp_ordered(">", q, ir.Constant(DOUBLE, 1e17)), far, total)
    return b.select(pole, ir.Constant(DOUBLE, float("inf")), total)


def multiplied_out(b: ir.IRBuilder, x: ir.Value, n: int) -> ir.Value:
    y = None
    while n:
        if n & 1:
            y = x if y is None else b.fmul(y, x)
        x, n = b.fmul(x, x), n >> 1
    return ir.Constant(x.type, 1.0) if y is None else y
