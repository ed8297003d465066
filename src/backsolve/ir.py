"""The Program: straight-line code over typed variables, the common tongue of all rooms.

    Program  := inputs: Var*, constants: (Var, array)*, Equation*, outputs: Atom*
    Equation := Var* = primitive(Atom*, **metadata)
    Atom     := Var | Python scalar (weak in promotion)
    Type     := shape, dtype, weak

Loops, branches and calls are equations whose metadata holds Programs: see regions.py.

`print(program)` shows it, `program.verify()` checks it.
"""

from __future__ import annotations

import functools
import itertools
import operator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ProgramError

if TYPE_CHECKING:
    from .primitive import Primitive

Shape = tuple[int, ...]
broadcast_shapes = functools.lru_cache(4096)(np.broadcast_shapes)  # asked for at every equation
STACK = -1  # the length of a stack; lengths below it are the marks of boxes (regions.py)


@dataclass(frozen=True, slots=True)
class Type:
    """What is known of a value before it is computed; `weak` is a bare Python scalar's."""

    shape: Shape
    dtype: np.dtype[Any]
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_stack(self) -> bool:
        """A stack: one entry for each round of a loop whose number of rounds is not known. Or a box."""
        return bool(self.shape) and self.shape[0] <= STACK

    @property
    def is_box(self) -> bool:
        """Several values as one: what one call of a recursive function stores."""
        return bool(self.shape) and self.shape[0] < STACK

    def __str__(self) -> str:
        mark = "~" if self.weak else ""
        lengths = ["?" if s == STACK else "box" if s < STACK else str(s) for s in self.shape]
        return f"{self.dtype.name}{mark}[{','.join(lengths)}]"


_WEAK = {
    bool: Type((), np.dtype(bool), True),
    int: Type((), np.dtype(np.int64), True),
    float: Type((), np.dtype(np.float64), True),
    complex: Type((), np.dtype(np.complex128), True),
}


def type_of(value: Any) -> Type:
    """The Type of an array, a scalar, a Var, a Type, or anything with a shape and a dtype.

    >>> str(type_of(np.zeros((2, 3), np.float32))), str(type_of(1.5))
    ('float32[2,3]', 'float64~[]')
    """
    if type(value) is Var:
        return value.type
    found = _WEAK.get(type(value))
    if found is not None:
        return found
    if isinstance(value, Type):
        return value
    return Type(tuple(value.shape), np.dtype(value.dtype))


def without_repeats(a: Any) -> Any:
    """The entries of an array that broadcasting has not merely repeated: length 1 along axes of stride 0."""
    return a[tuple([slice(0, 1) if s == 0 else slice(None) for s in a.strides])]


def is_uniform(c: Any) -> bool:
    """A constant that is one number everywhere, such as the adjoint of a sum; +0 and −0 are two."""
    if not isinstance(c, np.ndarray | np.generic) or not c.size:
        return False
    if c.ndim and 0 in c.strides:
        c = without_repeats(c)
    if c.size == 1:
        return True
    first = c.flat[0]
    if bool(c.flat[-1] != first) or not bool((c == first).all()):
        return False
    return c.dtype.kind != "f" or first != 0 or not bool(np.ptp(np.signbit(c).astype(int)))


_serial = itertools.count().__next__


class Var:
    """A variable of a Program. `name` is a wish of the printer's; identity is what counts.

    Where calls run as they are met (at_once.py) it holds a value for each example in `stack`.
    """

    __slots__ = ("name", "recorder", "serial", "stack", "type")
    stack: Any

    def __init__(self, type: Type, recorder: Any = None, name: str | None = None):
        self.type = type
        self.recorder = recorder
        self.name = name
        self.serial = _serial()

    # A Var stands where an array could: the recording code reads these two of either.
    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"{self.name or f'v{self.serial}'}:{self.type}"


@dataclass(frozen=True, slots=True)
class Equation:
    outputs: tuple[Var, ...]
    primitive: Primitive
    inputs: tuple[Any, ...]  # Var or Python scalar
    params: dict[str, Any]
    where: str = ""  # the user's line
    # What rules of simplification looked at and left it as it is (rewrite/engine.py).
    seen: Any = field(default=None, init=False, compare=False, repr=False)

    def reading(self, inputs: tuple[Any, ...]) -> Equation:
        """The same of other inputs; itself if those are the same."""
        now = self.inputs
        if inputs is now or (len(inputs) == len(now) and all(map(operator.is_, inputs, now))):
            return self
        return Equation(self.outputs, self.primitive, inputs, self.params, self.where)


@dataclass(frozen=True, slots=True)
class Program:
    inputs: tuple[Var, ...]
    constants: tuple[tuple[Var, Any], ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Any, ...]
    # No pass changes it any more (rewrite/); whatever is made of it begins anew.
    is_settled: bool = field(default=False, init=False, compare=False, repr=False)

    def names(self) -> dict[Var, str]:
        """A distinct printable name for every variable."""
        names: dict[Var, str] = {}
        taken: set[str] = set()
        fresh = (f"v{k}" for k in itertools.count(1))

        def give(var: Var, wish: str | None) -> None:
            if wish is None or wish in taken:
                wish = next(n for n in fresh if n not in taken)
            taken.add(wish)
            names[var] = wish

        for var in self.inputs:
            give(var, var.name)
        for k, (var, _) in enumerate(self.constants, 1):
            give(var, var.name or f"c{k}")
        for equation in self.equations:
            for var in equation.outputs:
                give(var, var.name)
        return names

    def __str__(self) -> str:
        from .program_text import program_text

        return program_text(self)

    def verify(self) -> Program:
        """Check the grammar: every variable defined once, before its use, with the type its primitive gives."""
        known: set[Var] = set()

        def define(var: Var) -> None:
            if var in known:
                raise ProgramError(f"{var} is defined twice in\n{self}", at="")
            known.add(var)

        def use(a: Any, by: str) -> None:
            if isinstance(a, Var):
                if a not in known:
                    raise ProgramError(f"{by} uses {a!r}, which no earlier equation defines", at="")
            elif type(a) not in _WEAK:
                raise ProgramError(f"{by} uses {a!r}: only variables and Python scalars may", at="")

        for var in self.inputs:
            define(var)
        for var, value in self.constants:
            if (var.shape, var.dtype) != (value.shape, value.dtype):
                raise ProgramError(f"constant {var!r} holds a {type_of(value)}", at="")
            define(var)
        for e in self.equations:
            for a in e.inputs:
                use(a, e.primitive.name)
            inferred = e.primitive.infer([type_of(a) for a in e.inputs], e.params)
            for var, t in zip(e.outputs, inferred, strict=True):
                if var.type != t:
                    raise ProgramError(
                        f"`{e.primitive.name}` gives {t}, recorded as {var!r}", at=""
                    )
                define(var)
        for a in self.outputs:
            use(a, "return")
        return self
