"""The elliptic integrals J_pq(φ, m) of primitives/elliptic.py, by the same quadrature.

A function of its own for every p and q; its loop over the places runs in vector registers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir

from ...primitives.elliptic import PLACE, WEIGHT
from .mathematics import NARROW
from .numbers.real import intrinsic
from .repeat import loop_with
from .special import multiplied_out

DOUBLE, INT = ir.DoubleType(), ir.IntType(64)
_HALF_TURN = float(0.5 * np.pi)


def moment(b: ir.IRBuilder, phi: ir.Value, m: ir.Value, *, p: int, q: int) -> ir.Value:
    kind = phi.type
    wide = [x if kind == DOUBLE else b.fpext(x, DOUBLE) for x in (phi, m)]
    name = f"elliptic_moment.{p}.{q}"
    y = b.call(b.module.globals.get(name) or _emit_moment(b.module, name, p, q), wide)
    return y if kind == DOUBLE else b.fptrunc(y, kind)


def _emit_moment(module: ir.Module, name: str, p: int, q: int) -> ir.Function:
    function, b = _begin(module, name)
    part = _emit_quadrature(module, f"{name}.part", p, q)
    phi, m = function.args
    turns = intrinsic("llvm.rint")(b, b.fdiv(phi, _number(np.pi)))
    y = b.call(part, [b.fsub(phi, b.fmul(_number(np.pi), turns)), m])
    with b.if_then(b.fcmp_ordered("==", turns, _number(0.0)), likely=True):
        b.ret(y)
    whole = b.fmul(b.fmul(_number(2.0), turns), b.call(part, [_number(_HALF_TURN), m]))
    b.ret(b.fadd(y, whole))
    return function


def _emit_quadrature(module: ir.Module, name: str, p: int, q: int) -> ir.Function:
    """∫₀^end, |end| ≤ π/2"""
    function, b = _begin(module, name)
    end, m = function.args
    place, weight = (_table(module, f"{name}.{k}", x) for k, x in enumerate((PLACE, WEIGHT)))
    size = intrinsic("llvm.fabs")(b, end)
    rest, less = b.fsub(_number(_HALF_TURN), size), b.fsub(_number(1.0), m)
    sine: Callable[..., ir.Value] = NARROW["sin"]

    def add(b: ir.IRBuilder, i: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        at, w = (b.load(b.gep(x, [INT(0), i])) for x in (place, weight))
        # Δ² = 1 − m + m cos²θ, the cosine of a θ near π/2 from its distance to it
        cosine = sine(b, b.fadd(rest, b.fmul(size, at)))
        square = b.fadd(less, b.fmul(m, b.fmul(cosine, cosine)))
        value = multiplied_out(b, square, abs(q) // 2)
        if q % 2:
            value = b.fmul(value, intrinsic("llvm.sqrt")(b, square))
        value = b.fdiv(w, value) if q > 0 else b.fmul(w, value)
        s = sine(b, b.fmul(end, b.fsub(_number(1.0), at)))
        value = b.fmul(value, multiplied_out(b, s, 2 * p))
        return [b.fadd(state[0], value, flags=("reassoc", "contract"))]

    (total,) = loop_with(b, len(PLACE), [_number(0.0)], add)
    b.ret(b.fmul(end, total))
    return function


def _begin(module: ir.Module, name: str) -> tuple[ir.Function, ir.IRBuilder]:
    function = ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE, DOUBLE]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _number(x: float) -> ir.Constant:
    return ir.Constant(DOUBLE, float(x))


def _table(module: ir.Module, name: str, values: np.ndarray) -> ir.GlobalVariable:
    kind = ir.ArrayType(DOUBLE, len(values))
    table = ir.GlobalVariable(module, kind, name)
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, values.tolist())
    return table
