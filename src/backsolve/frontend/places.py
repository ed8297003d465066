"""Places that hold state: a variable's cell, a Tensor object, a list or dict, an attribute.

A region that is staged reads its places before, puts the region's own values there, runs the user's code,
reads what it left, and puts the results back. Objects keep their identity: all names of an array that is
written into see the result.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol

import numpy as np

from .. import tree
from ..errors import UndefinedNameError
from ..primitive import coerce, wrap
from ..tensor import Staged, Tensor


def is_traced(x: Any) -> bool:
    return isinstance(x, Staged)


def holds_traced(x: Any, kind: type = Staged) -> bool:
    """Whether a key or a value to be written is traced, or in part."""
    if isinstance(x, kind):
        return True
    if isinstance(x, list | tuple):
        return any(holds_traced(y, kind) for y in x)
    if isinstance(x, slice):
        return any(isinstance(y, kind) for y in (x.start, x.stop, x.step))
    return False


def holds_tensor(x: Any) -> bool:
    return holds_traced(x, Tensor)


class _Nothing:
    """A variable that has no value."""

    def __repr__(self) -> str:
        return "undefined"


NOTHING = _Nothing()


class Undefined:
    """What a variable holds that only some ways through staged code assign: any use is an error."""

    __slots__ = ("_bs_why",)

    def __init__(self, why: str):
        self._bs_why = why

    def __repr__(self) -> str:
        return "undefined"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # to ask what kind of thing this is is no use of it
            raise AttributeError(name)
        raise UndefinedNameError(self._bs_why)


class Perhaps(Undefined):
    """A value that only some ways assign, with the flag that says whether the way taken did.

    Rewritten code takes it apart where it reads the variable (checks.py).
    """

    __slots__ = ("_bs_flag", "_bs_value")

    def __init__(self, value: Any, flag: Any, why: str):
        super().__init__(why)
        self._bs_value, self._bs_flag = value, flag


def _refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise UndefinedNameError(self._bs_why)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
_USES = (
    *_BINARY,
    *[f"{side}{name}" for side in "ri" for name in _BINARY],
    *(
        "neg",
        "pos",
        "abs",
        "invert",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "getitem",
        "setitem",
        "len",
    ),
    *("iter", "contains", "call", "bool", "float", "int", "index", "complex", "array"),
    *("array_ufunc", "array_function", "enter", "exit", "format"),
)
for _use in _USES:
    setattr(Undefined, f"__{_use}__", _refuse)


class Place(Protocol):
    name: str

    def get(self) -> Any: ...
    def put(self, value: Any) -> None: ...
    def restore(self, value: Any) -> None: ...


@dataclass(slots=True)
class Variable:
    name: str
    cell: CellType

    def get(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return NOTHING

    def put(self, value: Any) -> None:
        if value is not NOTHING:
            self.cell.cell_contents = value
        elif self.get() is not NOTHING:
            del self.cell.cell_contents

    restore = put


@dataclass(slots=True)
class Array:
    """A Tensor that is written into."""

    name: str
    tensor: Tensor

    def get(self) -> Any:
        return wrap(self.tensor._v, self.tensor.row)

    def put(self, value: Any) -> None:
        t = value if isinstance(value, Tensor) else wrap(coerce(value), None)
        self.tensor.__class__ = type(t)
        self.tensor._v, self.tensor.row = t._v, t.row

    restore = put


@dataclass(slots=True)
class Attribute:
    name: str
    owner: Any
    attribute: str

    def get(self) -> Any:
        return getattr(self.owner, self.attribute, NOTHING)

    def put(self, value: Any) -> None:
        if value is not NOTHING:
            setattr(self.owner, self.attribute, value)
        elif self.get() is not NOTHING:
            delattr(self.owner, self.attribute)

    restore = put


# ---- values of places as trees of numbers


@dataclass(frozen=True, slots=True)
class Form:
    """What a value is besides its numbers."""

    structure: tree.Structure | None  # None: it has no value
    fixed: tuple[Any, ...]  # leaves that are no numbers; a number's place holds NUMBER
    shapes: tuple[tuple[int, ...], ...]
    why: str | None = None  # of a value with a flag, which is the first of its numbers (`Perhaps`)

    def with_flag(self, why: str) -> Form:
        return Form(self.structure, self.fixed, ((), *self.shapes), why)

    def fits(self, other: Form) -> bool:
        return (
            (self.why is None) == (other.why is None)
            and self.structure == other.structure
            and len(self.fixed) == len(other.fixed)
            and all(_same(a, b) for a, b in zip(self.fixed, other.fixed, strict=True))
        )

    def build(self, numbers: Sequence[Any]) -> Any:
        if self.structure is None:
            return NOTHING
        rest = iter(numbers)
        flag = next(rest) if self.why is not None else True
        value = self.structure.unflatten([next(rest) if x is NUMBER else x for x in self.fixed])
        return value if self.why is None else Perhaps(value, flag, self.why)


NUMBER = object()
ABSENT = Form(None, (), ())


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return type(a) is type(b) and bool(a == b)
    except Exception:  # objects that cannot be compared are not the same
        return False


def take_apart(value: Any) -> tuple[list[Any], Form]:
    """The numbers in a value, and all else about it."""
    if isinstance(value, Perhaps):
        parts, form = take_apart(value._bs_value)
        return [value._bs_flag, *parts], form.with_flag(value._bs_why)
    if value is NOTHING or isinstance(value, Undefined):
        return [], ABSENT
    leaves, structure = tree.flatten(value)
    numbers = [x for x in leaves if is_number(x)]
    fixed = tuple([NUMBER if is_number(x) else x for x in leaves])
    return numbers, Form(structure, fixed, tuple([shape_of(x) for x in numbers]))


def is_number(x: Any) -> bool:
    if isinstance(x, Tensor | np.generic | float | int | complex):
        return True
    return isinstance(x, np.ndarray) and x.dtype.kind in "biufc"


def shape_of(x: Any) -> tuple[int, ...]:
    return x.shape if isinstance(x, Tensor) else np.shape(x)


def describe(value: Any) -> str:
    """A value's type as the messages name it: `float64[3]`, `None`, `a list of 2`."""
    if value is NOTHING or isinstance(value, Undefined):
        return "undefined"
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return f"{value.dtype.name}[{','.join(map(str, value.shape))}]"
    if value is None or isinstance(value, str | type):
        return repr(value)
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int | float | complex):
        return f"the {type(value).__name__} {value!r}"
    return f"a {type(value).__name__}"


def zeros_like(x: Any) -> Any:
    """A number of the type of `x`, for a place that is not read before it is set."""
    if isinstance(x, bool | int | float | complex):
        return type(x)(0)
    return np.zeros(shape_of(x), x.dtype)[()]


def traced_in(x: Any, depth: int = 4) -> list[Any]:
    """A traced value that can be reached from `x`, if there is one."""
    if is_traced(x):
        return [x]
    if isinstance(x, Perhaps):
        return traced_in([x._bs_flag, x._bs_value], depth)
    if x is NOTHING or x is None or depth == 0 or isinstance(x, np.ndarray | str | int | float):
        return []
    deeper: Any = ()
    if isinstance(x, list | tuple | set | frozenset):
        deeper = x
    elif isinstance(x, Mapping):
        deeper = x.values()
    elif isinstance(x, FunctionType):
        deeper = [Variable("", c).get() for c in x.__closure__ or ()]
    elif isinstance(x, MethodType):
        deeper = [x.__self__]
    elif isinstance(x, functools.partial):
        deeper = [x.func, *x.args, *x.keywords.values()]
    elif not isinstance(x, type | Tensor | ModuleType) and hasattr(x, "__dict__"):
        deeper = vars(x).values()
    return next((found for y in deeper if (found := traced_in(y, depth - 1))), [])
