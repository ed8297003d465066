"""Special functions that SciPy computes for one number at a time, called by the pointers it exports.

They stand in no vector loop; float32 is computed in float64 and rounded.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import factorial
from typing import Any

import numpy as np
from llvmlite import binding, ir

from ...primitives.special import NAMES, PARTS
from .mathematics import EMITTERS
from .numbers.integer import while_
from .numbers.real import intrinsic
from .numbers.registers import Complex, Register, each, parts, store

DOUBLE, INT, CINT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
PAIR = ir.LiteralStructType([DOUBLE, DOUBLE])
_COMPLEX = "__pyx_t_double_complex"
_INTEGER = "Py_ssize_t"
_FLAG = ", int __pyx_skip_dispatch"
_FUSED = re.compile(r"(?:__pyx_fuse_[0-9](?:_[01])?)?(.*)")
# How C hands over a complex number: two registers, but for Windows on x86-64, where it is an address.
_MACHINES = ("x86_64", "amd64", "arm64", "aarch64")
_MACHINE = platform.machine().lower()
_BY_ADDRESS = sys.platform == "win32" and _MACHINE == "amd64"


@dataclass(frozen=True)
class Exported:
    address: int
    arguments: tuple[str, ...]  # their types in C
    flagged: bool  # whether it takes Cython's flag too


@cache
def pointer(name: str, of_complex: bool = False) -> Exported | None:
    """A function of doubles; or one that gives a complex number, of such numbers and doubles.

    Degrees are integers, where SciPy has no function of doubles alone; its ufuncs take no others either.
    """
    result = _COMPLEX if of_complex else "double"
    for known in ({"double", _COMPLEX} if of_complex else {"double"}, {"double", _INTEGER}):
        for found in _exported(name, result):
            if set(found.arguments) <= known:
                return found
    return None


@cache
def several(name: str, of_complex: bool = False) -> Exported | None:
    """A function with several results, which it writes to addresses: all are doubles, or all complex."""
    kind = _COMPLEX if of_complex else "double"
    for found in _exported(name, "void"):
        if set(found.arguments) == {kind, f"{kind} *"}:
            return found
    return None


def _exported(name: str, result: str) -> Iterator[Exported]:
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
        kind, _, inside = signature.decode().removesuffix(")").partition(" (")
        if kind == result:
            arguments = tuple(inside.removesuffix(_FLAG).split(", "))
            found = int(api.PyCapsule_GetPointer(capsule, signature))
            yield Exported(found, arguments, inside.endswith(_FLAG))


def supports(name: str, of_complex: bool = False) -> bool:
    if of_complex and _MACHINE not in _MACHINES:
        return False
    if name in ("polygamma", "zeta"):
        return not of_complex
    if name in PARTS:
        return several(PARTS[name], of_complex) is not None
    return name in NAMES and pointer(NAMES[name], of_complex) is not None


def provide(symbol: str) -> None:
    """Have code find a function by its symbol, which tells what it takes."""
    word = symbol.removeprefix("backsolve_special_")
    plain = word.removesuffix("_flagged")
    all_of_it = plain.removesuffix("_complex")
    name = all_of_it.removesuffix("_several")
    find = pointer if name == all_of_it else several
    found = find(name, of_complex=all_of_it != plain)
    if found is None or found.flagged != (plain != word):
        raise LookupError(f"SciPy exports no {symbol}")
    binding.add_symbol(symbol, found.address)


def call(b: ir.IRBuilder, name: str, args: Sequence[Register]) -> Register:
    """All arguments are of one dtype; of a complex one, a function may take the real part."""
    of_complex = isinstance(args[0], Complex)
    found = pointer(NAMES[name], of_complex)
    assert found is not None
    assert len(found.arguments) == len(args)
    words = ["backsolve_special", NAMES[name]]
    words += ["complex"] * of_complex + ["flagged"] * found.flagged
    symbol = "_".join(words)
    provide(symbol)
    part = parts(args[0])[0].type
    wide = [each(lambda x: x if part == DOUBLE else b.fpext(x, DOUBLE), x) for x in args]
    pairs = list(zip(wide, found.arguments, strict=True))
    if of_complex:
        wide = [x if t == _COMPLEX else x.re for x, t in pairs]
    else:
        wide = [b.fptosi(x, INT) if t == _INTEGER else x for x, t in pairs]
    flag = [CINT(0)] if found.flagged else []
    y = (_call_with_complex if of_complex else _call)(b, symbol, [*wide, *flag])
    return y if part == DOUBLE else each(lambda x: b.fptrunc(x, part), y)


def component(b: ir.IRBuilder, name: str, args: Sequence[Register], k: int) -> Register:
    """Result k of a function with several, −1 the last.

    All of them are one call, without side effects to LLVM: of the same argument they are computed once.
    """
    of_complex = isinstance(args[0], Complex)
    found = several(PARTS[name], of_complex)
    assert found is not None
    words = ["backsolve_special", PARTS[name], "several", *["complex"] * of_complex]
    symbol = "_".join([*words, *["flagged"] * found.flagged])
    provide(symbol)
    part = parts(args[0])[0].type
    wide = [each(lambda x: x if part == DOUBLE else b.fpext(x, DOUBLE), x) for x in args]
    count = len(found.arguments) - len(args)
    given = [p for x in wide for p in parts(x)]
    function = b.module.globals.get(f"all_of_{symbol}")
    if function is None:
        function = _emit_several(b.module, symbol, len(given), of_complex, count)
    y = b.extract_value(b.call(function, given), k % count)
    if of_complex:
        y = Complex(b.extract_value(y, 0), b.extract_value(y, 1))
    return y if part == DOUBLE else each(lambda x: b.fptrunc(x, part), y)


def _emit_several(
    module: ir.Module, symbol: str, given: int, of_complex: bool, count: int
) -> ir.Function:
    """A function that returns all `count` results of SciPy's."""
    kind = PAIR if of_complex else DOUBLE
    everything = ir.LiteralStructType([kind] * count)
    signature = ir.FunctionType(everything, [DOUBLE] * given)
    function = ir.Function(module, signature, f"all_of_{symbol}")
    function.linkage = "internal"
    for word in ("noinline", "nounwind", "readnone"):
        function.attributes.add(word)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    places = [b.alloca(kind) for _ in range(count)]
    args: list[ir.Value] = list(function.args)
    if of_complex and _BY_ADDRESS:
        pair = b.alloca(PAIR)
        store(b, Complex(*args), pair, np.dtype("c16"))
        args = [pair]
    flag = [CINT(0)] if symbol.endswith("_flagged") else []
    _call(b, symbol, [*args, *places, *flag], ir.VoidType())
    y = ir.Constant(everything, ir.Undefined)
    for k, place in enumerate(places):
        y = b.insert_value(y, b.load(place), k)
    b.ret(y)
    return function


def _call(
    b: ir.IRBuilder, symbol: str, args: Sequence[ir.Value], result: ir.Type = DOUBLE
) -> ir.Value:
    function = b.module.globals.get(symbol)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(result, [x.type for x in args]), symbol)
    return b.call(function, args)


def _call_with_complex(b: ir.IRBuilder, symbol: str, args: Sequence[Register]) -> Complex:
    if not _BY_ADDRESS:
        y = _call(b, symbol, [p for x in args for p in parts(x)], PAIR)
        return Complex(b.extract_value(y, 0), b.extract_value(y, 1))
    with b.goto_entry_block():
        places = [b.alloca(PAIR) if isinstance(x, Complex) else x for x in args]
        result = b.alloca(PAIR)
    for x, place in zip(args, places, strict=True):
        if isinstance(x, Complex):
            for k in (0, 1):
                b.store(x[k], b.gep(place, [CINT(0), CINT(k)]))
    _call(b, symbol, [result, *places], ir.VoidType())
    return Complex(*(b.load(b.gep(result, [CINT(0), CINT(k)])) for k in (0, 1)))


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
    power = lambda b, a, m: multiplied_out(b, a, n + 1 - m)
    y = b.fmul(factor, _zeta(b, ir.Constant(DOUBLE, n + 1.0), wide, power))
    return y if x.type == DOUBLE else b.fptrunc(y, x.type)


def zeta(b: ir.IRBuilder, s: ir.Value, q: ir.Value) -> ir.Value:
    """Hurwitz' function where SciPy has it: ∞ at s = 1, NaN to the left; of q < 0 for whole s only."""
    kind = q.type
    s, q = (x if kind == DOUBLE else b.fpext(x, DOUBLE) for x in (s, q))
    floor, raised = intrinsic("llvm.floor"), EMITTERS["power"]
    power = lambda b, a, m: raised(b, a, b.fsub(s, ir.Constant(DOUBLE, float(m))))
    y = _zeta(b, s, q, power)
    zero, one = ir.Constant(DOUBLE, 0.0), ir.Constant(DOUBLE, 1.0)
    infinity, nan = ir.Constant(DOUBLE, float("inf")), ir.Constant(DOUBLE, float("nan"))
    broken = b.fcmp_unordered("!=", floor(b, s), s)
    undefined = b.and_(b.fcmp_ordered("<", q, zero), broken)
    pole = b.and_(undefined, b.fcmp_ordered("==", floor(b, q), q))
    y = b.select(undefined, b.select(pole, infinity, nan), y)
    y = b.select(b.fcmp_unordered(">=", s, one), y, nan)
    y = b.select(b.fcmp_ordered("==", s, one), infinity, y)
    y = b.select(b.fcmp_unordered("uno", s, q), nan, y)
    return y if kind == DOUBLE else b.fptrunc(y, kind)


def _zeta(b: ir.IRBuilder, s: ir.Value, q: ir.Value, power: Callable[..., ir.Value]) -> ir.Value:
    """Σ (q + k)^−s by Euler and Maclaurin: terms up to w > 9, then an expansion in 1/w.

    `power(b, a, m)` is a^(s − m).
    """
    zero, one, half = (ir.Constant(DOUBLE, c) for c in (0.0, 1.0, 0.5))

    def term(b: ir.IRBuilder, a: ir.Value) -> ir.Value:
        return b.fdiv(one, power(b, a, 0))

    # A pole, −∞ among them, is known without a sum.
    whole = b.fcmp_ordered("==", intrinsic("llvm.floor")(b, q), q)
    pole = b.and_(whole, b.fcmp_ordered("<=", q, zero))
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
    less = b.fsub(s, one)
    total = b.fadd(total, b.fdiv(b.fmul(last, w), less))
    total = b.fsub(total, b.fmul(half, last))
    rising, falling = one, last
    for k, c in enumerate(_FACTORIAL_OVER_BERNOULLI):
        rising = b.fmul(rising, b.fadd(s, ir.Constant(DOUBLE, 2.0 * k)))
        falling = b.fdiv(falling, w)
        step = b.fmul(falling, b.fmul(rising, ir.Constant(DOUBLE, 1 / c)))
        # Where the powers of a large s have vanished, so have all terms.
        total = b.select(b.fcmp_ordered("==", last, zero), total, b.fadd(total, step))
        rising = b.fmul(rising, b.fadd(s, ir.Constant(DOUBLE, 2.0 * k + 1)))
        falling = b.fdiv(falling, w)
    far = b.fdiv(power(b, b.fdiv(one, q), 1), less)
    total = b.select(b.fcmp_ordered(">", q, ir.Constant(DOUBLE, 1e17)), far, total)
    return b.select(pole, ir.Constant(DOUBLE, float("inf")), total)


def multiplied_out(b: ir.IRBuilder, x: ir.Value, n: int) -> ir.Value:
    y = None
    while n:
        if n & 1:
            y = x if y is None else b.fmul(y, x)
        x, n = b.fmul(x, x), n >> 1
    return ir.Constant(x.type, 1.0) if y is None else y
