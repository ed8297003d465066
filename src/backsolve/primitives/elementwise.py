"""Element-wise arithmetic, powers, exponentials, trigonometry: y[i] = f(a[i], b[i], …).

Every block is a Diagonal; functions that select are in selection.py. Conventions at kinks: |x| has derivative 0
at 0; 0 ** b has the derivative 0 with respect to b; hypot has the derivative 0 at (0, 0).

An input may be a bare Python number, whose own `/` and `**` raise at 0: inputs are divided by
np.divide and raised by np.power, which say inf.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..ir import Type, type_of
from ..lanes import Binary, Unary
from ..operators import Cast, Conjugate, Diagonal, Identity, Mask, Product, RealPart, Scale, Zero
from ..ownership import LARGE
from ..primitive import UFUNCS, Primitive, primitive
from .batching import elementwise as batch
from .large import large

# Functions that compiled loops are worth having for; blocks use sin_, cos_, exp_ for large arrays too.
COSTLY = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "erf", "erfc", "sigmoid"}
COSTLY |= {"sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log_sigmoid"}
COSTLY |= {"arcsinh", "arccosh", "arctanh"}
sin_, cos_, exp_ = large(np.sin, "sin"), large(np.cos, "cos"), large(np.exp, "exp")
sinh_, cosh_ = large(np.sinh, "sinh"), large(np.cosh, "cosh")

ONE = Identity()
MINUS = Scale(-1.0)
LN2, LN10 = float(np.log(2.0)), float(np.log(10.0))


def elementwise(
    name: str,
    run: Any,
    blocks: Any = None,
    *,
    kind: type[Primitive] = Primitive,
    ufunc: Any = None,
    **row: Any,
) -> Any:
    """A row of this table; it also answers for NumPy's ufunc of that name."""
    made = primitive(name, run, kind, blocks=blocks, elementwise=True, batch=batch, **row)
    found = ufunc if ufunc is not None else run
    if isinstance(found, np.ufunc):
        UFUNCS[found] = getattr(made, "call", made)
    return made


def unary(name: str, block: Any, run: Any = None, *, ufunc: Any = None, **row: Any) -> Any:
    run = run if run is not None else getattr(np, name)
    if name in COSTLY:
        ufunc, run = ufunc or getattr(np, name, None), large(run, name)
    blocks = None if block is None else (block,)
    return elementwise(name, run, blocks, kind=Unary, ufunc=ufunc or getattr(np, name, None), **row)


def binary(name: str, a: Any = None, b: Any = None, run: Any = None, **row: Any) -> Any:
    run = run if run is not None else getattr(np, name)
    blocks = None if a is None and b is None else (a, b)
    row.setdefault("ufunc", getattr(np, name, None))
    # The fast lane lets both inputs vary; where only one can, the general way drops the other.
    kind = Primitive if (a is None) != (b is None) else Binary
    return elementwise(name, run, blocks, kind=kind, **row)


def is_complex(a: Any) -> bool:
    return type(a) is complex or getattr(a, "dtype", np.dtype(float)).kind == "c"


def real_of(a: Any, d: Any) -> Any:
    """The block  dz ↦ Re(d · dz)  of a real function of a complex variable."""
    t = type_of(a)
    return Product([RealPart(t), Diagonal(d, t)])


# ---- arithmetic

add = binary("add", ONE, ONE, operator.add, text="{0} + {1}", code="{0} + {1}", latex="{0} + {1}")
subtract = binary(
    "subtract", ONE, MINUS, operator.sub, text="{0} − {1}", code="{0} - {1}", latex="{0} - {1}"
)
multiply = binary(
    "multiply",
    lambda b: Diagonal(b),
    lambda a: Diagonal(a),
    operator.mul,
    text="{0} · {1}",
    code="{0} * {1}",
    latex=r"{0} \cdot {1}",
)


def _inverse(b: Any) -> Any:
    """1 / b; of a Python number a Python number, which leaves float32 what it is."""
    if type(b) in (int, float):
        return 1 / b if b else math.copysign(math.inf, b)
    return np.divide(1, b)


def _are_many(a: Any) -> bool:
    """Whether these are so many known real numbers that a formula should take no memory twice."""
    return type(a) is np.ndarray and a.size > LARGE and a.dtype.kind == "f"


def _minus_ratio(y: Any, b: Any) -> Any:
    if not _are_many(y):
        return np.divide(-y, b)
    d = np.divide(y, b)
    return np.negative(d, out=d)


divide = binary(
    "divide",
    lambda b: Diagonal(_inverse(b)),
    lambda y, b: Diagonal(_minus_ratio(y, b)),
    np.divide,
    text="{0} / {1}",
    code="{0} / {1}",
    latex=r"\frac{{{0}}}{{{1}}}",
)
negative = unary("negative", MINUS, operator.neg, text="−{0}", code="-{0}", latex="-{0}")
reciprocal = unary("reciprocal", lambda y: Diagonal(-(y * y)))


def _twice(a: Any) -> Any:
    """The block 2a; for many known numbers the adjoint, which often is one number, is doubled instead."""
    if _are_many(a):
        return Product([Scale(2.0, type_of(a)), Diagonal(a)])
    return Diagonal(2 * a)


square = unary("square", lambda a: _twice(a), text="{0}²", latex="{0}^2")


def _run_floor_divide(a: Any, b: Any) -> Any:
    """NumPy's; but where an operand is infinite the quotient a / b, as the array API standard has it."""
    infinite = np.isinf(a) | np.isinf(b)
    if not infinite.any():
        return np.floor_divide(a, b)
    with np.errstate(invalid="ignore"):
        return np.where(infinite, np.divide(a, b), np.floor_divide(a, b))[()]


floor_divide = binary("floor_divide", run=_run_floor_divide, code="{0} // {1}")
remainder = binary(
    "remainder", ONE, lambda a, b: Diagonal(-np.floor(np.divide(a, b))), code="{0} % {1}"
)
fmod = binary("fmod", ONE, lambda a, b: Diagonal(-np.trunc(np.divide(a, b))))


def _d_power_base(a: Any, b: Any) -> Any:
    # b a^(b−1), and 0 where a = b = 0: there the formula says 0 · ∞. (There alone, lest the
    # derivative of b a^(b−1) with respect to b be lost where only b is 0.)
    if type(b) in (int, float):
        if b == 0:
            return Mask(np.zeros(np.shape(a), bool))
        if b == 2:
            return _twice(a)
        d = np.power(a, b - 1)
        return Diagonal(np.multiply(d, b, out=d) if _are_many(d) else b * d)
    if getattr(b, "dtype", np.dtype(float)).kind == "u":
        b = b.astype(np.int64)  # b − 1 must not wrap round
    zero = np.equal(a, 0) & np.equal(b, 0)
    return Diagonal(np.where(zero, 0, b * np.power(a, np.where(zero, 1, b - 1))))


def _d_power_exponent(y: Any, a: Any) -> Any:
    # a^b log a, and 0 at a = 0: there a^b vanishes faster than log a grows.
    zero = np.equal(a, 0)
    return Diagonal(y * np.where(zero, 0, np.log(np.where(zero, 1, a))))


def _power(a: Any, b: Any) -> Any:
    if type(b) in (int, float):
        if type(a) is int and type(b) is int:
            return a**b  # Python's integers do not wrap
        if b == 2:
            return np.square(a)
        if b == 3 and type(a) is np.ndarray and a.dtype.kind == "f":
            return a * a * a  # within 1 ulp, in a tenth of the time of a power
    return np.power(a, b)


power = binary(
    "power",
    lambda a, b: _d_power_base(a, b),
    lambda y, a: _d_power_exponent(y, a),
    _power,
    text="{0}^{1}",
    code="{0} ** {1}",
    latex="{{{0}}}^{{{1}}}",
)
float_power = binary(
    "float_power", lambda a, b: _d_power_base(a, b), lambda y, a: _d_power_exponent(y, a)
)
sqrt = unary("sqrt", lambda y: Diagonal(0.5 / y), text="√{0}", latex=r"\sqrt{{{0}}}")
cbrt = unary("cbrt", lambda y: Diagonal(1 / (3 * y * y)))
absolute = unary(
    "absolute",
    lambda a: real_of(a, np.conjugate(np.sign(a))) if is_complex(a) else Diagonal(np.sign(a)),
    abs,  # of a Python number a Python number
    ufunc=np.absolute,
    text="|{0}|",
    code="np.abs({0})",
    latex="|{0}|",
)


def _d_sign(y: Any, a: Any) -> Any:
    # Of a complex number it is z/|z|, which turns:  dy = i y Im(ȳ dz) / |z|,  and 0 at 0.
    t = type_of(a)
    if not is_complex(a):
        return Zero(t, t)
    real = RealPart(t)
    turned = Diagonal(1j * ratio(y, np.abs(a)), t)
    return Product([turned, real.T, real, Diagonal(-1j * np.conjugate(y), t)])


sign = unary("sign", lambda y, a: _d_sign(y, a))
fabs = unary("fabs", lambda a: Diagonal(np.sign(a)))
hypot = binary("hypot", lambda y, a: Diagonal(ratio(a, y)), lambda y, b: Diagonal(ratio(b, y)))


def holds_nowhere(condition: Any) -> bool:
    """Whether it is known to be false everywhere: of arrays yes or no, of what is recorded no."""
    return isinstance(condition, np.ndarray | np.bool_) and not condition.any()


def ratio(a: Any, b: Any) -> Any:
    """a / b, and 0 where b = 0."""
    zero = np.equal(b, 0)
    if holds_nowhere(zero):
        return a / b
    return np.where(zero, 0, a / np.where(zero, 1, b))


# ---- exponentials and logarithms

exp = unary("exp", lambda y: Diagonal(y), latex="e^{{{0}}}")
exp2 = unary("exp2", lambda y: Diagonal(LN2 * y))


def _run_expm1(a: Any) -> Any:
    """NumPy's; but, as the standard has it, e^z − 1 of what is complex and not finite, and +0 for Re z = 0."""
    if not is_complex(a):
        return np.expm1(a)
    with np.errstate(invalid="ignore"):
        y = np.where(np.isfinite(a), np.expm1(a), np.exp(a) - 1)
    y.real += 0.0
    return y[()]


expm1 = unary("expm1", lambda y: Diagonal(y + 1), _run_expm1)
log = unary("log", lambda a: Diagonal(np.divide(1, a)), latex=r"\log {0}")
log2 = unary("log2", lambda a: Diagonal(np.divide(1 / LN2, a)))
log10 = unary("log10", lambda a: Diagonal(np.divide(1 / LN10, a)))
log1p = unary("log1p", lambda a: Diagonal(np.divide(1, 1 + a)))


def share(a: Any, y: Any, base: Any = np.exp) -> Any:
    """exp(a − y), the weight of a in logaddexp; 0 where all is −∞."""
    return base(a - np.where(np.isneginf(np.real(y)), 0, y))


logaddexp = binary(
    "logaddexp", lambda y, a: Diagonal(share(a, y)), lambda y, b: Diagonal(share(b, y))
)
logaddexp2 = binary(
    "logaddexp2",
    lambda y, a: Diagonal(share(a, y, np.exp2)),
    lambda y, b: Diagonal(share(b, y, np.exp2)),
)

# ---- trigonometry

sin = unary("sin", lambda a: Diagonal(cos_(a)), latex=r"\sin {0}")
cos = unary("cos", lambda a: Diagonal(-sin_(a)), latex=r"\cos {0}")
tan = unary("tan", lambda y: Diagonal(1 + y * y))
arcsin = unary("arcsin", lambda a: Diagonal(1 / np.sqrt(1 - a * a)))
arccos = unary("arccos", lambda a: Diagonal(-1 / np.sqrt(1 - a * a)))
arctan = unary("arctan", lambda a: Diagonal(np.divide(1, 1 + a * a)))


def _radius_squared(a: Any, b: Any) -> Any:
    """a² + b², where small integers might overflow as real numbers."""
    a, b = (x * 1.0 if getattr(x, "dtype", np.dtype(float)).kind in "biu" else x for x in (a, b))
    return a * a + b * b


arctan2 = binary(
    "arctan2",
    lambda a, b: Diagonal(np.divide(b, _radius_squared(a, b))),
    lambda a, b: Diagonal(-np.divide(a, _radius_squared(a, b))),
)
sinh = unary("sinh", lambda a: Diagonal(cosh_(a)))
cosh = unary("cosh", lambda a: Diagonal(sinh_(a)))


def _one_minus_square(y: Any) -> Any:
    squared = y * y
    return np.subtract(1, squared, out=squared) if _are_many(squared) else 1 - squared


tanh = unary("tanh", lambda y: Diagonal(_one_minus_square(y)), latex=r"\tanh {0}")
arcsinh = unary("arcsinh", lambda a: Diagonal(1 / np.sqrt(a * a + 1)))
arccosh = unary("arccosh", lambda a: Diagonal(1 / (np.sqrt(a - 1) * np.sqrt(a + 1))))
arctanh = unary("arctanh", lambda a: Diagonal(np.divide(1, 1 - a * a)))
deg2rad = unary("deg2rad", Scale(float(np.pi / 180)))
rad2deg = unary("rad2deg", Scale(float(180 / np.pi)))
UFUNCS[np.radians], UFUNCS[np.degrees] = deg2rad, rad2deg

nextafter = binary("nextafter", ONE)  # a and a rounding error
copysign = binary(
    "copysign",
    lambda y, a: Diagonal(np.sign(y) * np.sign(a)),
    lambda b: Mask(np.zeros(np.shape(b), bool)),
)
ldexp = binary("ldexp", lambda b: Diagonal(np.exp2(b)))

# ---- complex numbers: real-linear blocks (see operators/cast.py)

conjugate = elementwise(
    "conjugate",
    np.conjugate,
    (lambda A: Conjugate(A) if A.dtype.kind == "c" else ONE,),
    code="np.conj({0})",
)
real = elementwise(
    "real", np.real, (lambda A: RealPart(A) if A.dtype.kind == "c" else ONE,), ufunc=()
)
imag = elementwise(
    "imag",
    np.imag,
    (lambda A: Product([RealPart(A), Scale(-1j, A)]) if A.dtype.kind == "c" else Zero(A, A),),
    ufunc=(),
)
angle = elementwise(
    "angle",
    np.angle,
    (lambda a: real_of(a, np.divide(-1j, a)) if is_complex(a) else Zero(type_of(a), type_of(a)),),
    ufunc=(),
)


def _run_cast(a: Any, *, dtype: Any) -> Any:
    return np.asarray(a).astype(dtype)[()]


cast = elementwise(
    "cast",
    _run_cast,
    (lambda A, *, dtype: Cast(A, dtype),),
    code="np.{dtype}({0})",
    type=lambda a, *, dtype: Type(a.shape, np.dtype(dtype)),
)
# To integers or booleans: piecewise constant.
cast_discrete = elementwise(
    "cast_discrete",
    _run_cast,
    type=lambda a, *, dtype: Type(a.shape, np.dtype(dtype)),
    code="np.{dtype}({0})",
)

# The same value under a new row: what a nested differentiation varies, and what x.copy() returns.
alias = elementwise("alias", lambda a: a, (ONE,), kind=Unary, text="{0}", code="{0}")
# The same value, constant from here on: how a region remembers a stop_gradient.
detach = elementwise("detach", lambda a: a, text="{0}", code="{0}")
