"""Calls of the functions of mathematics, each of which is emitted once in a module.

In a loop a function must be inlined, or the loop does not become one of vectors: it computes every form
that an argument may need and chooses. Outside of loops it is a function that LLVM inlines if it likes: one
that branches to the cheap form for arguments of usual size, and gives sine and cosine together, so that
a derivative beside its function costs no second call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from .mathematics import EMITTERS, NARROW, RANGE_LIMIT, sine_and_cosine
from .mathematics.lanes import FLOAT32, FLOAT64

Body = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value]


def call(b: ir.IRBuilder, name: str, args: Sequence[ir.Value], inline: bool) -> ir.Value:
    t = args[0].type
    if inline:
        body: Body = lambda b, xs: EMITTERS[name](b, *xs)
        function = _shared(b.module, f"{name}.{t}.inline", t, args, body)
        function.attributes.add("alwaysinline")
        return b.call(function, args)
    if name in ("sin", "cos"):
        both = ir.LiteralStructType([t, t])
        pair = _shared(b.module, f"sincos.{t}", both, args, _near_or_far(sine_and_cosine))
        return b.extract_value(b.call(pair, args), ("sin", "cos").index(name))
    if name in NARROW:
        body = _near_or_far(lambda b, x, wide: (EMITTERS if wide else NARROW)[name](b, x))
    else:
        body = lambda b, xs: EMITTERS[name](b, *xs)
    return b.call(_shared(b.module, f"{name}.{t}", t, args, body), args)


def keep_apart(function: ir.Function, as_it_is: bool = False) -> None:
    """Have LLVM compile a function by itself; `as_it_is`, if its time goes into what it calls.

    LLVM takes a third longer over one large function than over its parts, and most over code that
    computes a few addresses for a call of BLAS.
    """
    function.attributes.add("noinline")
    if as_it_is:
        function.attributes.add("optnone")


def _shared(
    module: ir.Module, symbol: str, result: ir.Type, args: Sequence[ir.Value], body: Body
) -> ir.Function:
    if symbol not in module.globals:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), symbol)
        function.linkage = "internal"
        b = ir.IRBuilder(function.append_basic_block("entry"))
        b.ret(body(b, function.args))
    return module.globals[symbol]


def _near_or_far(formula: Callable[[ir.IRBuilder, ir.Value, bool], ir.Value]) -> Body:
    """The narrow form where it holds; NaN goes the wide way."""

    def body(b: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        (x,) = args
        format = FLOAT64 if x.type == FLOAT64.real else FLOAT32
        limit = ir.Constant(x.type, RANGE_LIMIT[format.name])
        size = b.call(b.module.declare_intrinsic("llvm.fabs", [x.type]), [x])
        with b.if_else(b.fcmp_ordered("<=", size, limit), likely=True) as (near, far):
            with near:
                first, here = formula(b, x, False), b.block
            with far:
                second, there = formula(b, x, True), b.block
        y = b.phi(first.type)
        y.add_incoming(first, here)
        y.add_incoming(second, there)
        return y

    return body
