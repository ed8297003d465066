"""Complex numbers, as NumPy has them: Smith's division, comparison by real and then by imaginary parts."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ..mathematics import complexes
from ..mathematics.lanes import FLOAT32, FLOAT64, Real
from .real import RULES as REAL
from .real import Rule, fabs
from .registers import Complex, select


def _parts(name: str) -> Rule:
    """Part by part."""
    return lambda b, *zs: Complex(
        REAL[name](b, *(z.re for z in zs)), REAL[name](b, *(z.im for z in zs))
    )


def multiply(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    mul, add, sub = REAL["multiply"], REAL["add"], REAL["subtract"]
    re = sub(b, mul(b, x.re, y.re), mul(b, x.im, y.im))
    return Complex(re, add(b, mul(b, x.re, y.im), mul(b, x.im, y.re)))


def divide(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    """Smith: with the larger part of y divided out; by 0 part by part."""
    high, low = fabs(b, y.re), fabs(b, y.im)
    wide = b.fcmp_ordered(">=", high, low)
    u, v = b.select(wide, y.re, y.im), b.select(wide, y.im, y.re)
    ratio = b.fdiv(v, u)
    scale = b.fdiv(ir.Constant(u.type, 1.0), b.fadd(u, b.fmul(v, ratio)))
    p, q = b.select(wide, x.re, x.im), b.select(wide, x.im, x.re)
    re = b.fmul(b.fadd(p, b.fmul(q, ratio)), scale)
    # wide: (x.im − x.re ratio); else (x.im ratio − x.re)
    plain, turned = b.fsub(q, b.fmul(p, ratio)), b.fsub(b.fmul(p, ratio), q)
    im = b.fmul(b.select(wide, plain, turned), scale)
    zero = ir.Constant(u.type, 0.0)
    nothing = b.and_(b.fcmp_ordered("==", high, zero), b.fcmp_ordered("==", low, zero))
    by_zero = Complex(b.fdiv(x.re, high), b.fdiv(x.im, high))
    return select(b, nothing, by_zero, Complex(re, im))


def _one(z: Complex) -> Complex:
    return Complex(ir.Constant(z.re.type, 1.0), ir.Constant(z.re.type, 0.0))


def _reciprocal(b: ir.IRBuilder, z: Complex) -> Complex:
    high, low = fabs(b, z.re), fabs(b, z.im)
    wide = b.fcmp_ordered("<=", low, high)
    u, v = b.select(wide, z.re, z.im), b.select(wide, z.im, z.re)
    ratio = b.fdiv(v, u)
    d = b.fadd(u, b.fmul(v, ratio))
    one, minus = ir.Constant(u.type, 1.0), ir.Constant(u.type, -1.0)
    re = b.fdiv(b.select(wide, one, ratio), d)
    return Complex(re, b.fdiv(b.select(wide, b.fneg(ratio), minus), d))


def _ordered(op: str) -> Rule:
    strict = op[0]

    def rule(b: ir.IRBuilder, x: Complex, y: Complex) -> ir.Value:
        numbers = b.fcmp_ordered("ord", x.im, y.im)
        first = b.and_(b.fcmp_ordered(strict, x.re, y.re), numbers)
        second = b.and_(b.fcmp_ordered("==", x.re, y.re), b.fcmp_ordered(op, x.im, y.im))
        return b.or_(first, second)

    return rule


def _isnan(b: ir.IRBuilder, z: Complex) -> ir.Value:
    return b.fcmp_unordered("uno", z.re, z.im)


def _chosen(op: str) -> Rule:
    """The first if it is NaN or stands so to the second."""

    def rule(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
        return select(b, b.or_(_isnan(b, x), _ordered(op)(b, x, y)), x, y)

    return rule


def _clip(b: ir.IRBuilder, x: Complex, low: Complex, high: Complex) -> Complex:
    return _chosen("<")(b, _chosen(">")(b, x, low), high)


def _lane(b: ir.IRBuilder, v: ir.Value) -> Real:
    return Real(b, v, FLOAT64 if v.type == FLOAT64.real else FLOAT32)


def _function(formula: Callable[[Real, Real], complexes.Number]) -> Rule:
    def rule(b: ir.IRBuilder, z: Complex) -> Complex:
        return Complex(*(part.value for part in formula(_lane(b, z.re), _lane(b, z.im))))

    return rule


def _real_function(formula: Callable[[Real, Real], Real]) -> Rule:
    return lambda b, z: formula(_lane(b, z.re), _lane(b, z.im)).value


def _multiplied_out(b: ir.IRBuilder, x: Complex, n: int) -> Complex:
    y, base, rest = None, x, abs(n)
    while rest:
        if rest & 1:
            y = base if y is None else multiply(b, y, base)
        base, rest = multiply(b, base, base), rest >> 1
    y = _one(x) if y is None else y
    return divide(b, _one(x), y) if n < 0 else y


def _power(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    """exp(y log x); small whole powers by multiplication, as NumPy has them."""
    if isinstance(y.re, ir.Constant) and isinstance(y.im, ir.Constant):
        n = y.re.constant
        if y.im.constant == 0 and n == int(n) and abs(n) < 100:
            return _multiplied_out(b, x, int(n))
    zero, hundred = ir.Constant(x.re.type, 0.0), ir.Constant(x.re.type, 100.0)
    log = complexes.log(_lane(b, x.re), _lane(b, x.im))
    exponent = complexes.times(log, (_lane(b, y.re), _lane(b, y.im)))
    general = Complex(*(v.value for v in complexes.exp(*exponent)))
    size = fabs(b, y.re)
    whole = b.fcmp_ordered("==", REAL["floor"](b, y.re), y.re)
    small = b.and_(b.fcmp_ordered("<", size, hundred), whole)
    small = b.and_(small, b.fcmp_ordered("==", y.im, zero))
    count = b.fptosi(b.select(small, size, zero), ir.IntType(32))
    product, base = _one(x), x
    for bit in range(7):
        taken = b.trunc(b.lshr(count, ir.IntType(32)(bit)), ir.IntType(1))
        product = select(b, taken, multiply(b, product, base), product)
        base = multiply(b, base, base)
    below = b.fcmp_ordered("<", y.re, zero)
    product = select(b, below, divide(b, _one(x), product), product)
    vanishes = b.and_(b.fcmp_ordered("==", x.re, zero), b.fcmp_ordered("==", x.im, zero))
    gone = b.fcmp_ordered(">", y.re, zero)
    nan = ir.Constant(x.re.type, float("nan"))
    nothing = select(b, gone, Complex(zero, zero), Complex(nan, nan))
    general = select(b, vanishes, nothing, general)
    return select(b, small, product, general)


def _any(name: str) -> Rule:
    return lambda b, z: b.or_(REAL[name](b, z.re), REAL[name](b, z.im))


def zero(z: Complex) -> Complex:
    return Complex(*[ir.Constant(z.re.type, 0.0)] * 2)


def equal(b: ir.IRBuilder, x: Complex, y: Complex) -> ir.Value:
    return b.and_(b.fcmp_ordered("==", x.re, y.re), b.fcmp_ordered("==", x.im, y.im))


def _over_gap(b: ir.IRBuilder, t: Complex, gap: Complex) -> Complex:
    """0 over a gap of 0; other t's over it are refused (refusals.py)."""
    return select(b, equal(b, gap, zero(t)), zero(t), divide(b, t, gap))


RULES: dict[str, Rule] = {
    **{name: _parts(name) for name in ("add", "subtract", "negative", "rint")},
    "multiply": multiply,
    "divide": divide,
    "reciprocal": _reciprocal,
    "square": lambda b, z: multiply(b, z, z),
    "power": _power,
    "conjugate": lambda b, z: Complex(z.re, b.fneg(z.im)),
    "real": lambda b, z: z.re,
    "imag": lambda b, z: z.im,
    "absolute": _real_function(complexes.absolute),
    "angle": _real_function(complexes.angle),
    "maximum": _chosen(">="),
    "minimum": _chosen("<="),
    "clip": _clip,
    "isnan": _isnan,
    "isinf": _any("isinf"),
    "isfinite": lambda b, z: b.and_(REAL["isfinite"](b, z.re), REAL["isfinite"](b, z.im)),
    "equal": equal,
    "over_gaps": _over_gap,
    "not_equal": lambda b, x, y: b.or_(
        b.fcmp_unordered("!=", x.re, y.re), b.fcmp_unordered("!=", x.im, y.im)
    ),
    "less": _ordered("<"),
    "less_equal": _ordered("<="),
    "greater": _ordered(">"),
    "greater_equal": _ordered(">="),
    **{name: _function(formula) for name, formula in complexes.FORMULAS.items()},
}
