"""The Primitive record, the registry, and what happens when a primitive is called.

A primitive is one row of a table (`primitives/`):

    multiply = primitive("multiply", operator.mul, blocks=(lambda b: Diagonal(b), lambda a: Diagonal(a)))

`blocks` holds one entry per input: the operator ∂y/∂input, or a function that returns it and asks, by
the names of its arguments, for what it needs:

    y, a, b, c …   the value of the output, of the first input, of the second …
    Y, A, B, C …   only its type (shape, dtype)
    *, axis, …     metadata of the call

What no block asks for by value is not kept alive. `None` means structurally zero. Blocks are written
in plain NumPy: on arrays they compute at once, on Tensors they are recorded, so one formula serves
both modes and every order. Broadcasting, accumulation, conjugation and promotion are the engine's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np

from .blocks import ASKS_MORE, compile_block
from .dtypes import elementwise_dtype, frozen
from .errors import BacksolveError, DTypeError, ShapeError
from .hooks import hooks
from .ir import Type, Var, broadcast_shapes, type_of
from .ownership import own
from .row import NOTHING, Replayed, Row, next_index

tracer = hooks.tracer
PRIMITIVES: dict[str, Primitive] = {}
P = SimpleNamespace()  # the same primitives as attributes: P.multiply(a, b)
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # the public array functions, by NumPy's names
ARRAY_FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # the same by NumPy's function, found so far
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}  # what a NumPy or SciPy ufunc means on a Tensor

_new = object.__new__
PLAIN = frozenset([float, int, bool, complex, np.ndarray, np.float64, np.float32])
WEAK = frozenset([float, int, bool])
_OPERATORS = frozenset(["divide", "power", "floor_divide", "remainder"])  # of Python, too
_VALUE, _CONSTANT, _TYPE = 1, 2, 3
_SAVES_OF_ONE: dict[tuple[bool, bool], Callable[[Any, Any], tuple[Any, ...]]] = {
    (False, False): lambda y, a: NOTHING,
    (True, False): lambda y, a: (y, None),
    (False, True): lambda y, a: (None, a),
    (True, True): lambda y, a: (y, a),
}
_Plan = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]


class Primitive:
    """See the head of this file. Instances are the functions that all rooms compute with."""

    is_leaf = is_joint = is_component = False
    is_plain = True  # none of the three above
    has_effect = False  # it may raise: kept though nobody reads its result
    raises_its_own = False  # what it raises is ours in full, or the user's: no complaint of NumPy's
    holds_regions = False  # its metadata holds Programs, and it has several outputs (regions.py)

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        *,
        blocks: Any = None,
        wants: Callable[[int, int], Sequence[int]] | None = None,
        type: Callable[..., Type] | None = None,
        batch: Callable[..., Any] | None = None,
        adjoint: Callable[..., Any] | None = None,
        keeping: Callable[..., Any] | None = None,
        elementwise: bool = False,
        text: str | None = None,
        code: str | None = None,
        latex: str | None = None,
    ):
        self.name = name
        self.is_operator = name in _OPERATORS
        self.run = run
        self.elementwise = elementwise
        self.type_rule = type
        self.batch_rule = batch
        # The blocks' adjoints in one, written out for bare arrays, where their many small steps would take most
        # of the time: adjoint(seed, saved, params, wanted) -> one image per input, or None if it will not do.
        self.adjoint = adjoint
        # run, and what its adjoint wants to know, too (the factors of a matrix): -> (y, the last of `saved`)
        self.keeping = keeping
        self.is_walked = self.is_plain and adjoint is None  # back substitution goes block by block
        self.text = text  # how print(system) writes it: "{0} · {1}"
        self.code = code  # how bs.source writes it: "{0} * {1}"
        self.latex = latex
        self.differentiable = blocks is not None
        self._saves_of_one: Callable[[Any, Any], tuple[Any, ...]] | None = None
        self._plans: dict[tuple[bool, ...], _Plan] = {}
        self._wants: Any
        if wants is not None:  # any number of inputs: blocks(i, saved, row) -> operator
            self._variadic, self._wants = blocks, wants
            self.blocks: tuple[Any, ...] | None = None
        else:
            compiled = [compile_block(block) for block in blocks or ()]
            self._variadic = None
            self.blocks = tuple(entry for entry, _, _ in compiled)
            self._wants = tuple(values for _, values, _ in compiled)
            self._type_wants = tuple(types for _, _, types in compiled)
        self._varies_with_one = self.differentiable and (not self.blocks or self.has_block(0))

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        Tensor = hooks.Tensor
        if len(args) == 1 and type(args[0]) is Tensor:
            return self._of_one(args[0], params)
        values, rows = [], []
        boxed = varies = False
        for a in args:
            if type(a) is Tensor:
                row = a.row
                values.append(a._v)
                rows.append(row)
                boxed = True
                if row is not None:
                    varies = True
                continue
            if isinstance(a, Tensor):
                if tracer.is_set and (call := tracer.value) is not None:
                    return call(self, args, params)
                return hooks.stage(self, args, params)
            values.append(a if type(a) in PLAIN else coerce(a))
            rows.append(None)
        kept = None
        try:
            if varies and self.keeping is not None:
                y, kept = self.keeping(*values, **params)
            else:
                y = self.run(*values, **params)
        except Exception as error:
            raise translate(error, self, values, params) from error
        if y.__class__ is np.float64 and self.is_operator and _are_weak(values):
            y = float(y)
        if not boxed:
            if hooks.observe is not None:
                hooks.observe(self, None, y, args)
            return y
        row = self.record(y, rows, values, params) if varies else None
        if kept is not None and row is not None:
            row.saved = (*row.saved, kept)
        if hooks.observe is not None:
            hooks.observe(self, row, y, args)
        t = _new(Tensor)
        t._v, t.row, t.grad = y, row, None
        if row is None:
            if hooks.has_leaves:
                remember(t, self, args, values, params)
        elif row.owner is not None:
            row.owner = ref(t)
            row.parents = tuple(
                [
                    p if p.__class__ is Row else constant(a, v)
                    for p, a, v in zip(row.parents, args, values, strict=True)
                ]
            )
        return t

    def _of_one(self, a: Any, params: dict[str, Any]) -> Any:
        """The same for one Tensor, unrolled: most rows with metadata (slices, shapes, sums) have one input."""
        v, parent, kept = a._v, a.row, None
        try:
            if parent is not None and self.keeping is not None:
                y, kept = self.keeping(v, **params)
            else:
                y = self.run(v, **params)
        except Exception as error:
            raise translate(error, self, (v,), params) from error
        t = _new(a.__class__)
        t._v = y
        t.grad = t.row = None
        if parent is not None and self._varies_with_one:
            try:
                shape, dtype = y.shape, y.dtype
            except AttributeError:  # a bare Python number
                shape, dtype = (), type_of(y).dtype
            t.row = row = _new(Row)  # Row(…) without the call of its __init__
            row.primitive = self
            row.parents = (parent,)
            row.saved = (self._saves_of_one or self._find_saves_of_one())(y, v)
            if kept is not None:
                row.saved = (*row.saved, kept)
            row.params = params or None
            row.shape = shape
            row.dtype = dtype
            row.owner = None if parent.owner is None else ref(t)
            row.index = next_index()
        elif hooks.has_leaves:
            remember(t, self, (a,), (v,), params)
        if hooks.observe is not None:
            hooks.observe(self, t.row, y, (a,))
        return t

    def _find_saves_of_one(self) -> Callable[[Any, Any], tuple[Any, ...]]:
        """What a row of one input keeps of (output, input)."""
        keeps = {k for k, _ in self._plan((True,))[1]}
        self._saves_of_one = _SAVES_OF_ONE[0 in keeps, 1 in keeps]
        return self._saves_of_one

    def record(
        self, y: Any, rows: list[Row | None], values: Sequence[Any], params: dict[str, Any]
    ) -> Row | None:
        """The row of `y = self(*values)`, or None if nothing in it varies."""
        pattern = tuple([r is not None for r in rows])
        plan = self._plans.get(pattern)
        if plan is None:
            plan = self._plans[pattern] = self._plan(pattern)
        active, kept = plan
        if not active:
            return None
        owner = None
        for i in active:
            if i < 0:
                rows[~i] = None
            elif (row := rows[i]) is not None and row.owner is not None:
                owner = True
        saved = NOTHING
        if kept:
            slots: list[Any] = [None] * (len(values) + 1)
            for k, how in kept:
                v = values[k - 1] if k else y
                slots[k] = v if how == _VALUE else own(v) if how == _CONSTANT else type_of(v)
            saved = tuple(slots)
        t = y if hasattr(y, "shape") else type_of(y)
        return Row(self, tuple(rows), saved, params or None, t.shape, t.dtype, owner)

    def _plan(self, pattern: tuple[bool, ...]) -> _Plan:
        """For inputs that vary as in `pattern`: which of them count, and what to keep.

        An input that varies but has no block is written ~i. What to keep is given as (position, how),
        position 0 being the output.
        """
        active: list[int] = []
        keep: dict[int, int] = {}
        for i, varies in enumerate(pattern if self.differentiable else ()):
            if not varies:
                continue
            if self.blocks is not None and self.blocks[i][0] is None:
                active.append(~i)
                continue
            active.append(i)
            for k in self._wants(i, len(pattern)) if self.blocks is None else self._wants[i]:
                keep[k] = _VALUE if k == 0 or pattern[k - 1] else _CONSTANT
            for k in () if self.blocks is None else self._type_wants[i]:
                if k and not pattern[k - 1]:
                    keep.setdefault(k, _TYPE)
        if all(i < 0 for i in active):
            return (), ()
        return tuple(active), tuple(keep.items())

    def block(self, row: Row, i: int, s: Sequence[Any]) -> Any:
        """The operator ∂y/∂input i; `s` is row.saved, or `row_values(row)` to be recorded."""
        if self.blocks is None:
            return self._variadic(i, s, row)
        block, k = self.blocks[i]
        return block(s[k]) if k >= 0 else block(s, row) if k == ASKS_MORE else block

    def has_block(self, i: int) -> bool:
        """Whether the output varies smoothly with input i."""
        return self.differentiable and (self.blocks is None or self.blocks[i][0] is not None)

    def asks(self, i: int, count: int) -> Sequence[int]:
        """Which values the block of input i is made of: 0 the output, k + 1 input k; of `count` inputs."""
        found: Sequence[int] = self._wants(i, count) if self.blocks is None else self._wants[i]
        return found

    def infer(self, types: Sequence[Type], params: dict[str, Any]) -> list[Type]:
        """The types of the outputs, without computing them."""
        if self.type_rule is not None:
            return [self.type_rule(*types, **params)]
        if not self.elementwise:  # a row of a user's without a rule: try it on zeros
            samples = [
                t.dtype.type(0).item() if t.weak else np.zeros(t.shape, t.dtype) for t in types
            ]
            with np.errstate(all="ignore"):
                return [type_of(self.run(*samples, **params))]
        dtype, weak = elementwise_dtype(
            self, tuple([(t.dtype, t.weak) for t in types]), frozen(params) if params else ()
        )
        shapes = dict.fromkeys([t.shape for t in types])
        shape = types[0].shape if len(shapes) == 1 else broadcast_shapes(*shapes)
        return [Type(shape, dtype, weak)]


def _are_weak(values: Sequence[Any]) -> bool:
    return all(v.__class__ in WEAK for v in values)


def constant(a: Any, v: Any) -> Any:
    """A constant input as y.forward() will need it."""
    origin = getattr(a, "origin", None)
    return own(v) if origin is None else Replayed(origin)


def remember(
    t: Any, prim: Primitive, args: Sequence[Any], values: Sequence[Any], params: Any
) -> None:
    """A result without a row that still rests on a user's leaf: keep how it was made, for replay."""
    Tensor = hooks.Tensor
    origins = [_origin(a) if a.__class__ is Tensor else None for a in args]
    if any(origins):
        parents = tuple(
            [own(v) if o is None else Replayed(o) for o, v in zip(origins, values, strict=True)]
        )
        known = type_of(t._v)
        t.origin = Row(prim, parents, NOTHING, params or None, known.shape, known.dtype, None)


def _origin(a: Any) -> Row | None:
    row = a.row
    return row if row is not None and row.owner is not None else getattr(a, "origin", None)


def primitive(
    name: str, run: Callable[..., Any], kind: type[Primitive] = Primitive, **row: Any
) -> Any:
    """Write one row of the table: make a primitive and register it under its name."""
    if name in PRIMITIVES:
        raise ValueError(f"there is already a primitive named {name!r}; names are unique")
    made = kind(name, run, **row)
    PRIMITIVES[name] = made
    setattr(P, name, made)
    return made


def wrap(value: Any, row: Row | None) -> Any:
    """A Tensor around a raw value (or, around a Var, a staged one) without copy or check."""
    Tensor = hooks.Tensor
    if type(value) is Var:
        return hooks.wrap_var(value, row)
    t = Tensor.__new__(Tensor)
    t._v = value
    t.row = row
    t.grad = None
    if (
        row is not None and row.owner is True
    ):  # fresh from `record`, and it wants to know its Tensor
        row.owner = ref(t)
    return t


def row_values(row: Row) -> tuple[Any, ...]:
    """What the blocks of `row` captured, as Tensors that know their own rows: for higher orders."""
    saved = row.saved
    if not saved:
        return saved
    out = [wrap(saved[0], row) if saved[0] is not None else None]
    for v, parent in zip(saved[1:], row.parents, strict=False):
        if parent.__class__ is Row and v is not None:
            out.append(wrap(v, parent))
        else:  # a constant; a staged one must look like a Tensor to the block's formula
            out.append(wrap(v, None) if type(v) is Var else v)
    return tuple(out)


def coerce(a: Any) -> Any:
    """An argument that is not a Tensor as something NumPy computes with."""
    if isinstance(a, np.generic) or a is None:
        return a
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())  # NumPy, too, loads it on use
    if isinstance(a, (np.matrix, masked)):
        raise DTypeError(
            f"{type(a).__name__} changes the meaning of operators or hides entries; "
            "pass a plain array: np.asarray(a), or np.where(mask, …) for masked entries"
        )
    v = np.asarray(a)
    if v.dtype.kind not in "biufc":
        if hasattr(a, "tocoo"):
            raise DTypeError(
                f"{type(a).__name__} is a sparse matrix: A @ x and x @ A take one; elsewhere write "
                "A.toarray(), or A.data for the numbers of one whose pattern is known"
            )
        raise DTypeError(
            f"expected numbers, got an array of dtype {v.dtype} from {type(a).__name__}; "
            "to join Tensors into one use np.stack([...]) or np.concatenate([...])"
        )
    return v


def translate(error: Exception, prim: Primitive, values: Sequence[Any], params: Any) -> Exception:
    """NumPy's complaint as ours, with the shapes and the user's line."""
    said = BacksolveError | IndexError | np.exceptions.AxisError | np.linalg.LinAlgError
    if prim.raises_its_own or isinstance(error, said):
        return error
    shapes = " and ".join(str(np.shape(v)) for v in values)
    if isinstance(error, ValueError):
        return ShapeError(f"`{prim.name}` got shapes {shapes}: {error}")
    if isinstance(error, TypeError | AttributeError):  # the latter of arrays of objects
        dtypes = " and ".join(str(getattr(v, "dtype", type(v).__name__)) for v in values)
        return DTypeError(f"`{prim.name}` got {dtypes}: {error}")
    return error
