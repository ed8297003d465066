"""Element-wise functions: thin names over the primitives, and what is composed of them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import primitives as _tables  # noqa: F401  (fills PRIMITIVES)
from ..errors import DTypeError, ShapeError
from ..primitive import FUNCTIONS, PRIMITIVES, UFUNCS, P
from ..primitives.special import NAMES, when_loaded
from ..tensor import Staged, Tensor
from ._register import (
    OWN,
    all_axes,
    array,
    dtype_of,
    function,
    given,
    known,
    named,
    reject,
    shape_of,
)
from .arguments import describe


def _expose(name: str, ufunc: np.ufunc | None) -> Any:
    prim = PRIMITIVES[name]

    def call(*args: Any) -> Any:
        if ufunc is not None and not any(isinstance(a, Tensor) for a in args):
            return ufunc(*args)
        return prim(*[array(a) for a in args])

    def receive(found: np.ufunc) -> None:
        nonlocal ufunc
        ufunc = found

    if name in NAMES:
        when_loaded(NAMES[name], receive)
    describe(call, name, len(prim.blocks or ()))
    FUNCTIONS[name] = call
    return call


_WITH_METADATA = {"cast", "cast_discrete", "where", "clip", "polygamma"}
_WITH_METADATA |= {"dawsn_derivative", "erfcx_moment", "gamma_tail", "scaled_bessel", "wofz"}
_WITH_METADATA |= {"elliptic_moment", *[name for name in PRIMITIVES if name.endswith("_part")]}
# Asked for by SciPy's name alone: of a huge degree or order some of them take for ever.
_SCIPYS = "ellipeinc ellipkinc ellipkm1 gammasgn hankel1 hankel1e hankel2 hankel2e hyp0f1 hyperu itmodstruve0 "
_SCIPYS += "itstruve0 jacobi_amplitude jve yve modstruve struve owens_t wright_bessel sindg cosdg tandg cotdg"
_WITH_METADATA |= {*_SCIPYS.split(), *[name for name in PRIMITIVES if name.startswith("eval_")]}
_UFUNC_OF = {impl: ufunc for ufunc, impl in UFUNCS.items()}
for _name, _prim in list(PRIMITIVES.items()):
    if _prim.elementwise and _name not in _WITH_METADATA:
        globals()[_name] = _expose(_name, _UFUNC_OF.get(getattr(_prim, "call", _prim)))

# Other names for the same functions: NumPy's aliases and the array API's names.
for _alias, _name in {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "bitwise_invert": "invert",
    "bitwise_not": "invert",
    "conj": "conjugate",
    "degrees": "rad2deg",
    "expit": "sigmoid",
    "fix": "trunc",
    "mod": "remainder",
    "pow": "power",
    "psi": "digamma",
    "radians": "deg2rad",
    "true_divide": "divide",
    "lgamma": "gammaln",
}.items():
    FUNCTIONS[_alias] = globals()[_alias] = FUNCTIONS[_name]


@function
def positive(x: Any) -> Any:
    x = array(x)
    if dtype_of(x).kind == "b":
        raise DTypeError("`positive` has no meaning for booleans")
    return P.alias(x)


UFUNCS[np.positive] = positive


@function
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    if not isinstance(a, Tensor):
        return np.array(a)
    y = P.alias(a)
    if (
        type(y._v) is np.ndarray and y._v.base is not None
    ):  # the numbers of a slice, apart from the whole
        y._v = y._v.copy()
    return y


@function
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None, **_: Any) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufc":
        raise DTypeError(f"`astype` gives numbers, got dtype={dtype}")
    if not copy and isinstance(x, Tensor) and x.dtype == dtype:
        return x
    prim = P.cast if dtype.kind in "fc" else P.cast_discrete
    return prim(array(x), dtype=dtype)


@function
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return FUNCTIONS["nonzero"](condition)
    condition = array(condition)
    if dtype_of(condition).kind != "b":
        condition = P.not_equal(condition, 0)
    return P.where(condition, array(x), array(y))


def _within(dtype: np.dtype[Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds of integers, without Python numbers that no integer of the dtype goes beyond."""
    if dtype.kind not in "iu":
        return low, high
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return (
        None if type(low) is int and low < least else low,
        None if type(high) is int and high > most else high,
    )


@function
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Any:
    reject("clip", out=out)
    low = a_min if given(a_min) else min
    high = a_max if given(a_max) else max
    a = array(a)
    low, high = _within(dtype_of(a), low, high)
    if low is None and high is None:
        return P.alias(a)
    if low is None or high is None:
        if dtype_of(a).kind != "f":
            return P.minimum(a, high) if low is None else P.maximum(a, low)
        low = -np.inf if low is None else low
        high = np.inf if high is None else high
    return P.clip(a, array(low), array(high))


@function
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    reject("round", out=out)
    a = array(a)
    if dtype_of(a).kind not in "fc":
        return astype(a, np.float16) if dtype_of(a).kind == "b" else P.alias(a)
    if decimals == 0:
        return P.rint(a)
    factor = 10.0 ** builtins.abs(decimals)
    return P.rint(a * factor) / factor if decimals > 0 else P.rint(a / factor) * factor


FUNCTIONS["around"] = around = round


def _clip(x: Any, /, min: Any = None, max: Any = None, **options: Any) -> Any:
    """The array API standard's: x within the bounds; None is no bound."""
    return np.clip(x, options.pop("a_min", min), options.pop("a_max", max), **options)


OWN["clip"] = _clip


@function
def divmod(x1: Any, x2: Any) -> Any:
    x1, x2 = array(x1), array(x2)
    return P.floor_divide(x1, x2), P.remainder(x1, x2)


@function
def modf(x: Any) -> Any:
    x = array(x)
    if dtype_of(x).kind in "biu":
        x = astype(x, np.modf(np.zeros(1, dtype_of(x)))[0].dtype)
    whole = P.trunc(x)
    return np.where(np.isinf(x), 0, P.subtract(x, whole)), whole


UFUNCS[np.divmod], UFUNCS[np.modf] = divmod, modf


@function
def frexp(x: Any) -> Any:
    """Mantissa and exponent, x = m 2ᵉ with ½ ≤ |m| < 1; the exponent is constant."""
    x = array(x)
    e = _exponent(x) if isinstance(x, Staged) else Tensor(np.frexp(known("frexp", x))[1])
    return P.ldexp(x, -e), e


def _exponent(x: Any) -> Any:
    """From the distance to the next number, 2^(e − digits); both ends of the range are moved inwards first."""
    x = x if dtype_of(x).kind == "f" else astype(x, float)
    digits = np.finfo(dtype_of(x)).nmant + 1
    plain = P.logical_and(P.isfinite(x), P.not_equal(x, 0))
    size = P.absolute(P.where(plain, x, 1))
    small = P.less(size, 1)
    size = P.where(small, P.minimum(size, 1) * 2.0**digits, size * 0.5)
    e = P.rint(P.log2(P.spacing(size))) + P.where(small, 0, digits + 1)
    return astype(P.where(plain, e, 0), np.int32)


UFUNCS[np.frexp] = frexp


@function
def sinc(x: Any) -> Any:
    # sin(πx)/(πx); near 0 its series, since the derivatives of the quotient cancel there: those of order k by
    # k! / t^(k+1). So far, and of so many terms, that 10 digits of the 12th are right.
    t = array(x) * np.pi
    s = t * t
    small = P.less(P.absolute(t), 2.0)
    series: Any = 1.0
    for k in range(30, 0, -2):  # 1 − s/6 (1 − s/20 (1 − s/42 …))
        series = 1.0 - series * s / (k * (k + 1))
    safe = P.where(small, 1.0, t)
    return P.where(small, series, P.sin(safe) / safe)


@function
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    x = array(x)
    if dtype_of(x).kind == "c":
        parts = [nan_to_num(p, copy, nan, posinf, neginf) for p in (P.real(x), P.imag(x))]
        return astype(parts[0] + 1j * parts[1], dtype_of(x))
    if dtype_of(x).kind != "f":
        return P.alias(x)
    info = np.finfo(dtype_of(x))
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    x = P.where(P.isnan(x), nan, x)
    x = P.where(P.isposinf(x), high, x)
    return P.where(P.isneginf(x), low, x)


@function
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ShapeError(f"`select` got {len(condlist)} conditions for {len(choicelist)} choices")
    y = array(default)
    for k, c in enumerate(condlist):
        if getattr(c, "dtype", None) != np.bool_:
            raise DTypeError(f"`select` needs conditions of booleans, got {c!r} as number {k}")
    for c, x in zip(reversed(condlist), reversed(choicelist), strict=True):
        y = P.where(array(c), array(x), y)
    return y


@function
def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma."""
    return P.polygamma(array(x), n=int(n))


@named("shape")
def _shape(a: Any) -> tuple[int, ...]:
    return shape_of(a)


@named("ndim")
def _ndim(a: Any) -> int:
    return len(shape_of(a))


@named("size")
def _size(a: Any, axis: int | None = None) -> int:
    lengths = [shape_of(a)[k] for k in all_axes(axis, len(shape_of(a)))]
    return int(np.prod(lengths, dtype=int))


@function
def iscomplexobj(x: Any) -> bool:
    return dtype_of(x).kind == "c"


@function
def real_if_close(a: Any, tol: float = 100) -> Any:
    """The real part if no imaginary part is further from 0 than tol rounding errors (tol itself if below 1)."""
    if dtype_of(a).kind != "c":
        return a
    v = np.asarray(known("real_if_close", a, "whether its result is real"))
    near = tol * np.finfo(v.dtype).eps if tol > 1 else tol
    return P.real(a) if np.all(np.absolute(v.imag) < near) else a


@function
def isrealobj(x: Any) -> bool:
    return dtype_of(x).kind != "c"


def _values(args: Any) -> list[Any]:
    return [a._known("its value") if isinstance(a, Tensor) else a for a in args]


def _isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    near = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


def _array_equal(a: Any, b: Any, equal_nan: bool = False) -> Any:
    if shape_of(a) != shape_of(b):
        return False
    return np.all(a == b if not equal_nan else (a == b) | (np.isnan(a) & np.isnan(b)))


def _isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    found = np.any(np.equal(np.expand_dims(element, -1), np.ravel(test_elements)), axis=-1)
    return ~found if invert else found


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Bins may fall; which way they go is seen by their ends."""
    side: Any = "left" if right else "right"
    if "c" in (dtype_of(x).kind, dtype_of(bins).kind):
        raise DTypeError("`digitize` needs real `x` and `bins`, got complex numbers")
    up = np.searchsorted(bins, x, side)
    return np.where(bins[0] > bins[-1], len(bins) - np.searchsorted(bins[::-1], x, side), up)


# Of values that are only types while a program is staged.
_STAGED: dict[str, Any] = {
    "isclose": _isclose,
    "allclose": lambda *args, **options: np.all(_isclose(*args, **options)),
    "array_equal": _array_equal,
    "digitize": _digitize,
    "iscomplex": lambda x: np.imag(x) != 0,
    "isreal": lambda x: np.imag(x) == 0,
    "isin": _isin,
}


def _compare(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if name in _STAGED and any(isinstance(a, Staged) for a in args):
            return _STAGED[name](*map(array, args[:2]), *args[2:], **kwargs)
        try:
            y = getattr(np, name)(*_values(args), **kwargs)
        except AttributeError as error:  # NumPy asks for the dtype of what has none
            raise DTypeError(f"`{name}` got what is no array: {error}") from None
        return Tensor(y) if isinstance(y, np.ndarray | np.generic) else y

    call.__name__ = name
    call.__doc__ = f"`numpy.{name}` of the values: an answer that does not vary."
    return call


for _name in (
    "allclose",
    "array_equal",
    "array_equiv",
    "array_repr",
    "array_str",
    "array2string",
    "common_type",
    "digitize",
    "isclose",
    "iscomplex",
    "isin",
    "isreal",
    "min_scalar_type",
):
    FUNCTIONS[_name] = globals()[_name] = _compare(_name)
