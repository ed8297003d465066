"""What a Tensor has because an array has it: operators and methods, looked up in the tables by their names."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy.typing as npt

from .blame import blame
from .errors import UnsupportedError
from .hooks import hooks
from .lanes import Binary
from .primitive import FUNCTIONS, PRIMITIVES, P

if TYPE_CHECKING:
    from .tensor import Tensor


def method(name: str) -> Callable[..., Any]:
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        f = FUNCTIONS[name]
        try:
            return f(self, *args, **kwargs)
        except Exception as error:
            blame(error, f, (self, *args), kwargs)
            raise

    call.__name__ = name
    call.__doc__ = f"`numpy.{name}` of this tensor."
    return call


def _view(name: str) -> Callable[..., Any]:
    """The method of a function that gives a view in NumPy."""
    plain = method(name)

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return hooks.viewing(plain(self, *args, **kwargs), self)

    call.__name__, call.__doc__ = plain.__name__, plain.__doc__
    return call


_reshape, _transpose, _astype = _view("reshape"), _view("transpose"), method("astype")

_OPERATORS: dict[Callable[..., Any], str] = {}  # the primitive that an operator calls


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """x.__op__(y) and x.__rop__(y) of a primitive; `install_operators` puts the fast lanes there."""

    def forward(self: Tensor, other: Any) -> Any:
        return PRIMITIVES[name](self, other)

    def reflected(self: Tensor, other: Any) -> Any:
        return PRIMITIVES[name](other, self)

    _OPERATORS[forward] = _OPERATORS[reflected] = name
    return forward, reflected


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Tensor:
        result = FUNCTIONS[name](self, other)
        if self.ndim == 0:  # NumPy's scalars are immutable: x += 1 makes a new one
            return result
        return self._become(result, name)

    return method


class ArrayMethods:
    """Abstract: the part of Tensor that computes with nothing but the tables."""

    __slots__ = ()

    # ---- operators

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("remainder")
    __pow__, __rpow__ = _binary("power")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift")
    __lt__, _ = _binary("less")
    __le__, _ = _binary("less_equal")
    __gt__, _ = _binary("greater")
    __ge__, _ = _binary("greater_equal")
    __eq__, _ = _binary("equal")
    __ne__, _ = _binary("not_equal")
    __hash__ = object.__hash__

    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _in_place("power")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__ = _in_place("left_shift")
    __irshift__ = _in_place("right_shift")
    __imatmul__ = _in_place("matmul")

    def __neg__(self) -> Tensor:
        return P.negative(self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Tensor:
        return P.absolute(self)

    def __invert__(self) -> Tensor:
        return P.invert(self)

    def __matmul__(self, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            if getattr(other, "__array_ufunc__", self) is None:
                return NotImplemented  # theirs to answer, as NumPy has it
            if hasattr(other, "tocoo"):
                return FUNCTIONS["sparse.rmatmul"](self, other)
        return FUNCTIONS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return FUNCTIONS["sparse.matmul" if hasattr(other, "tocoo") else "matmul"](other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __round__(self, digits: int = 0) -> Tensor:
        return FUNCTIONS["round"](self, digits)

    # ---- shapes and reductions, under NumPy's names

    @property
    def T(self) -> Tensor:
        return self.transpose()

    @property
    def mT(self) -> Tensor:
        return self.swapaxes(-1, -2)

    @property
    def flat(self) -> NoReturn:
        raise UnsupportedError("x.flat is a view; write x.reshape(-1)")

    @property
    def real(self) -> Tensor:
        return hooks.viewing(FUNCTIONS["real"](self), self)

    @property
    def imag(self) -> Tensor:
        return hooks.viewing(FUNCTIONS["imag"](self), self)

    def reshape(self, *shape: Any, **kwargs: Any) -> Tensor:
        return _reshape(self, shape[0] if len(shape) == 1 else shape, **kwargs)

    def transpose(self, *axes: Any) -> Tensor:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return _transpose(self, given or None)

    def astype(self, dtype: npt.DTypeLike, **kwargs: Any) -> Tensor:
        return _astype(self, dtype, **kwargs)

    def __copy__(self) -> Tensor:
        return self.copy()

    all, any = method("all"), method("any")
    argmax, argmin, argsort = method("argmax"), method("argmin"), method("argsort")
    clip, conj, conjugate, copy = method("clip"), method("conj"), method("conj"), method("copy")
    cumprod, cumsum = method("cumprod"), method("cumsum")
    diagonal, dot = _view("diagonal"), method("dot")
    flatten, ravel = method("ravel"), _view("ravel")
    max, min, mean, prod = method("max"), method("min"), method("mean"), method("prod")
    ptp, repeat, round, squeeze = (
        method("ptp"),
        method("repeat"),
        method("round"),
        _view("squeeze"),
    )
    std, sum, swapaxes = method("std"), method("sum"), _view("swapaxes")
    take, trace, var, nonzero = (
        method("take"),
        method("trace"),
        method("var"),
        method("nonzero"),
    )


def install_operators() -> None:
    """Once the tables are filled: let `a * b` enter the primitive's fast lane without a detour."""
    for attribute, method in list(vars(ArrayMethods).items()):
        if not isinstance(method, FunctionType) or method not in _OPERATORS:
            continue
        row = PRIMITIVES[_OPERATORS[method]]
        assert isinstance(row, Binary)
        call = row.call
        if method.__name__ == "forward":
            setattr(ArrayMethods, attribute, call)
        else:
            setattr(ArrayMethods, attribute, lambda self, other, call=call: call(other, self))
