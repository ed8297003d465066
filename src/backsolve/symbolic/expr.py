"""Expr: a formula as a value. Symbols and numbers, and primitives applied to expressions.

Expressions are frozen records that may share their parts. What works on a Tensor works on an Expr:
operators make a Call at once; NumPy's functions are staged, and the Program that comes out is read
back as expressions (`lift`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np

from .. import numpy as _numpy  # noqa: F401 - fills the tables that NumPy's protocols look into
from .. import tree
from ..errors import TracedValueError, UnsupportedError
from ..ir import Equation, Program, Type, Var, type_of
from ..operators.slice import key_of
from ..primitive import P, Primitive
from ..tensor import Tensor
from ..trace import stage

REAL = Type((), np.dtype(np.float64))
Params = tuple[tuple[str, Any], ...]

# primitive name -> a simpler expression of the same value, or None; filled by simplify.py
SIMPLER: dict[str, Callable[..., Expr | None]] = {}


def _binary(name: str) -> tuple[Callable[..., Expr], Callable[..., Expr]]:
    """x.__op__(y) and x.__rop__(y) of a primitive of two arguments."""

    def forward(self: Expr, other: Any) -> Expr:
        return call(getattr(P, name), self, other)

    def reflected(self: Expr, other: Any) -> Expr:
        return call(getattr(P, name), other, self)

    return forward, reflected


def _unary(name: str) -> Callable[[Expr], Expr]:
    return lambda self: call(getattr(P, name), self)


class Expr:
    """A formula: print it, differentiate it, call it with numbers.

    >>> x, y = Symbol("x"), Symbol("y")
    >>> e = (x + y) * np.exp(-x)
    >>> e
    (x + y) * exp(-x)
    >>> e(x=0.0, y=2.0)
    2.0

    `==` makes an expression, as it does on arrays; ask `a is b` for identity.
    """

    # Frozen by hand: a dataclass would be a container of arrays to bs.tree, and this is a leaf.
    __slots__ = ("args", "type")
    args: tuple[Expr, ...]
    type: Type

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r} of an expression")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the number that it stands for."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Always (): an expression stands for one number."""
        return ()

    # ---- what one does with it; the work is done next door

    def diff(self, x: str | Symbol, *, share: bool = True) -> Expr:
        """The derivative with respect to the symbol `x`."""
        from .derive import diff

        return diff(self, x, share=share)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value, given those of the symbols: numbers, arrays, Tensors or expressions.

        >>> (Symbol("x") ** 2).evaluate({"x": np.array([1.0, 2.0])})
        array([1., 4.])
        >>> (Symbol("x") ** 2).evaluate({"x": Symbol("y") + 1})
        (y + 1) ** 2
        """
        from .walk import evaluate

        return evaluate(self, values)

    def __call__(self, **values: Any) -> Any:
        return self.evaluate(values)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols that occur, in the order of the printed text."""
        from .walk import symbols

        return symbols(self)

    def __str__(self) -> str:
        from .text import CODE, write

        return write(self, CODE)

    __repr__ = __str__

    def text(self) -> str:
        """The formula in mathematical Unicode.

        >>> print((np.sqrt(Symbol("x")) * 3.0).text())
        3 · √x
        """
        from .text import TEXT, write

        return write(self, TEXT)

    def latex(self) -> str:
        r"""The formula in LaTeX.

        >>> print((Symbol("x1") / np.exp(Symbol("x2"))).latex())
        \frac{x_{1}}{e^{x_{2}}}
        """
        from .text import LATEX, write

        return write(self, LATEX)

    def _repr_latex_(self) -> str | None:
        from .text import too_long

        return None if too_long(self) else f"$\\displaystyle {self.latex()}$"

    # ---- arithmetic

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
    __lt__, _ = _binary("less")
    __le__, _ = _binary("less_equal")
    __gt__, _ = _binary("greater")
    __ge__, _ = _binary("greater_equal")
    __eq__: Any = _binary("equal")[0]
    __ne__: Any = _binary("not_equal")[0]
    __hash__ = object.__hash__
    __neg__ = _unary("negative")
    __abs__ = _unary("absolute")
    __invert__ = _unary("invert")

    def __pos__(self) -> Expr:
        return self

    def __bool__(self) -> bool:
        raise TracedValueError(
            f"Python asked for the truth value of the expression {self}, which has none before its "
            "symbols have values. Use np.where(condition, a, b) instead of `if`"
        )

    # ---- NumPy's protocols

    __array_priority__ = 1001

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return lift(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return lift(func, args, kwargs)


class Symbol(Expr):
    """A variable, or one entry of an array variable.

    >>> Symbol("x"), Symbol("x", (0, 1))
    (x, x[0, 1])
    """

    __slots__ = ("index", "name")
    name: str
    index: tuple[int, ...]

    def __init__(self, name: str, index: tuple[int, ...] = ()):
        self._set(type=REAL, args=(), name=name, index=index)

    @property
    def label(self) -> str:
        """How it is printed: `x`, or `x[0, 1]` for an entry."""
        return f"{self.name}[{', '.join(map(str, self.index))}]" if self.index else self.name


class Number(Expr):
    """A constant: a Python number."""

    __slots__ = ("value",)
    value: Any

    def __init__(self, value: Any):
        self._set(type=type_of(value), args=(), value=value)


class Call(Expr):
    """A primitive applied to expressions. Made by `call`, which simplifies first."""

    __slots__ = ("params", "primitive")
    primitive: Primitive
    params: Params

    def __init__(self, primitive: Primitive, args: tuple[Expr, ...], params: Params, type: Type):
        self._set(type=type, args=args, primitive=primitive, params=params)


def as_expr(a: Any) -> Expr:
    """A number of any kind as an expression."""
    if isinstance(a, Expr):
        return a
    if isinstance(a, Tensor):
        a = a._plain("making it part of an expression")
    if np.shape(a) != ():
        raise UnsupportedError(
            f"expected a number, got an array of shape {np.shape(a)}: expressions are "
            "made of scalars"
        )
    return Number(np.asarray(a).item())


def call(primitive: Primitive, *args: Any, **params: Any) -> Expr:
    """`primitive(*args)` as an expression, in simpler form if there is one.

    >>> x = Symbol("x")
    >>> call(P.add, 0.0, call(P.multiply, x, 1.0))
    x
    """
    operands = tuple(as_expr(a) for a in args)
    (type_,) = primitive.infer([a.type for a in operands], params)
    numbers = [a.value for a in operands if isinstance(a, Number)]
    if len(numbers) == len(operands):
        folded = _fold(primitive, numbers, params)
        if folded is not None:
            return folded
    rule = SIMPLER.get(primitive.name)
    if rule is not None:
        simpler = rule(*operands, **params)
        # A rule must not change the kind of number: 1.0 * n is not the integer n.
        if simpler is not None and simpler.dtype == type_.dtype:
            return simpler
    return Call(primitive, operands, tuple(sorted(params.items())), type_)


def _fold(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Number | None:
    """The number, unless computing it warns or fails: then the formula should keep showing why."""
    try:
        with np.errstate(all="raise"):
            return Number(np.asarray(primitive.run(*values, **params)).item())
    except (ArithmeticError, ValueError, TypeError):
        return None


# ---- Programs as expressions


def read(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a Program of scalars, as expressions of `inputs`.

    An array of inputs may be there (an object array of expressions), to be read by fixed indices.
    """
    values: dict[Var, Any] = dict(zip(program.inputs, inputs, strict=True))
    for var, constant in program.constants:
        values[var] = _constant(constant)
    for e in program.equations:
        args = [values[a] if isinstance(a, Var) else a for a in e.inputs]
        values[e.outputs[0]] = _equation(e, args)
    return [values[a] if isinstance(a, Var) else a for a in program.outputs]


def _constant(c: Any) -> Any:
    if isinstance(c, Tensor):
        c = c._plain("making it part of an expression")
    if np.shape(c) == ():
        return as_expr(c)
    out = np.empty(np.shape(c), object)
    for i in np.ndindex(out.shape):
        out[i] = as_expr(c[i])
    return out


def _equation(e: Equation, args: list[Any]) -> Any:
    if e.primitive.name == "slice" and isinstance(args[0], np.ndarray):
        return args[0][key_of(e.params["spec"])]
    if e.outputs[0].shape != () or any(isinstance(a, np.ndarray) for a in args):
        raise UnsupportedError(
            f"`{e.primitive.name}` works on arrays here ({e.outputs[0].type}), and expressions are "
            "made of scalars. Read the entries of an array argument by fixed indices, x[0] * x[1]; "
            "for whole arrays use bs.grad",
            at=e.where,
        )
    return call(e.primitive, *args, **e.params)


def lift(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`f(*args, **kwargs)`, NumPy's or anybody's, on expressions: stage it and read the Program."""
    leaves, structure = tree.flatten((tuple(args), dict(kwargs)))
    free = [a for a in leaves if isinstance(a, Call | Symbol)]
    results: list[Any] = []

    def staged(*tensors: Any) -> list[Any]:
        rest = iter(tensors)
        inner = [
            next(rest) if isinstance(a, Call | Symbol) else a.value if isinstance(a, Number) else a
            for a in leaves
        ]
        positional, keywords = structure.unflatten(inner)
        results[:] = tree.flatten(f(*positional, **keywords))
        return results[0]

    program, _ = stage(staged, [a.type for a in free])
    # A Python number among the results (a rank, a length) is handed on as it is.
    return results[1].unflatten(read(program, free))
