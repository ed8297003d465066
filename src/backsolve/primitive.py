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

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np

from .errors import BacksolveError, DTypeError, ShapeError, StaticArgumentError
from .ir import Type, Var, type_of
from .row import NOTHING, Row

PRIMITIVES: dict[str, Primitive] = {}
P = SimpleNamespace()  # the same primitives as attributes: P.multiply(a, b)
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # the public array functions, by NumPy's names
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}  # what a NumPy or SciPy ufunc means on a Tensor

_FLOAT64 = np.dtype(np.float64)
_COMPLEX128 = np.dtype(np.complex128)
_PLAIN = frozenset([float, int, bool, complex, np.ndarray, np.float64, np.float32])
_LETTERS = {letter: k for k, letter in enumerate("yabcd")}


class _Hooks:
    """What the layers above hang in: the Tensor class, the stager, and an optional observer."""

    Tensor: Any = object
    stage: Callable[..., Any]
    wrap_var: Callable[..., Any]
    # Told of every call (debug_nans, linearize), and of every block applied by a solve.
    observe: Callable[[Primitive, Row | None, Any, Sequence[Any]], None] | None = None
    observe_block: Callable[[Row, Any, Any], None] | None = None


hooks = _Hooks()


class Primitive:
    """See the head of this file. Instances are the functions that all rooms compute with."""

    is_leaf = False
    is_joint = False
    is_component = False

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        *,
        blocks: Any = None,
        wants: Callable[[int, int], Sequence[int]] | None = None,
        type: Callable[..., Type] | None = None,
        batch: Callable[..., Any] | None = None,
        elementwise: bool = False,
        text: str | None = None,
        code: str | None = None,
        latex: str | None = None,
    ):
        self.name = name
        self.run = run
        self.elementwise = elementwise
        self.type_rule = type
        self.batch_rule = batch
        self.text = text  # how print(system) writes it: "{0} · {1}"
        self.code = code  # how bs.source writes it: "{0} * {1}"
        self.latex = latex
        self.differentiable = blocks is not None
        self._wants: Any
        if wants is not None:  # any number of inputs: blocks(i, saved, row) -> operator
            self._variadic, self._wants = blocks, wants
            self.blocks: tuple[Any, ...] | None = None
        else:
            compiled = [_compile(block) for block in blocks or ()]
            self._variadic = None
            self.blocks = tuple(call for call, _, _ in compiled)
            self._wants = tuple(values for _, values, _ in compiled)
            self._type_wants = tuple(types for _, _, types in compiled)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        Tensor = hooks.Tensor
        values = []
        boxed = False
        for a in args:
            if type(a) is Tensor:
                values.append(a._v)
                boxed = True
            elif isinstance(a, Tensor):
                return hooks.stage(self, args, params)
            else:
                values.append(a if type(a) in _PLAIN else coerce(a))
        try:
            y = self.run(*values, **params)
        except Exception as error:
            raise translate(error, self, values, params) from error
        if not boxed:
            if hooks.observe is not None:
                hooks.observe(self, None, y, args)
            return y
        row = self.record(y, args, values, params)
        if hooks.observe is not None:
            hooks.observe(self, row, y, args)
        return wrap(y, row)

    def record(self, y: Any, args: Sequence[Any], values: Sequence[Any], params: Any) -> Row | None:
        """The row of `y = self(*args)`, or None if nothing in it varies."""
        if not self.differentiable:
            return None
        Tensor = hooks.Tensor
        rows = [a.row if isinstance(a, Tensor) else None for a in args]
        keep: set[int] = set()
        types: set[int] = set()
        active = False
        for i, parent in enumerate(rows):
            if parent is None:
                continue
            if self.blocks is None:
                keep.update(self._wants(i, len(args)))
            elif self.blocks[i] is None:
                rows[i] = None
                continue
            else:
                keep.update(self._wants[i])
                types.update(self._type_wants[i])
            active = True
        if not active:
            return None
        saved = NOTHING
        if keep or types:
            everything = (y, *values)
            saved = tuple(
                v if k in keep else type_of(v) if k in types and rows[k - 1] is None and k else None
                for k, v in enumerate(everything)
            )
        return self.make_row(y, rows, values, saved, params)

    def make_row(
        self, y: Any, rows: Sequence[Row | None], values: Sequence[Any], saved: Any, params: Any
    ) -> Row:
        owned = any(r is not None and r.owner is not None for r in rows)
        parents = tuple(rows)
        if owned and None in rows:
            parents = tuple(v if r is None else r for r, v in zip(rows, values, strict=True))
        t = y if hasattr(y, "shape") else type_of(y)
        return Row(self, parents, saved, params or None, t.shape, t.dtype, owned or None)

    def block(self, row: Row, i: int, s: Sequence[Any]) -> Any:
        """The operator ∂y/∂input i; `s` is row.saved, or `row_values(row)` to be recorded."""
        if self.blocks is None:
            return self._variadic(i, s, row)
        block = self.blocks[i]
        return block(s, row) if block.__class__ is FunctionType else block

    def infer(self, types: Sequence[Type], params: dict[str, Any]) -> list[Type]:
        """The types of the outputs, without computing them."""
        if self.type_rule is not None:
            return [self.type_rule(*types, **params)]
        if not self.elementwise:  # a row of a user's without a rule: try it on zeros
            samples = [t.dtype.type(0).item() if t.weak else np.zeros(t.shape, t.dtype) for t in types]
            with np.errstate(all="ignore"):
                return [type_of(self.run(*samples, **params))]
        dtype, weak = _elementwise_dtype(self, tuple((t.dtype, t.weak) for t in types), _frozen(params))
        return [Type(np.broadcast_shapes(*[t.shape for t in types]), dtype, weak)]


class Unary(Primitive):
    """One input, no metadata: the fast lane."""

    def __init__(self, name: str, run: Callable[..., Any], **fields: Any):
        super().__init__(name, run, **fields)
        wants = self._wants[0] if self._wants else ()
        self._keep_y, self._keep_a = 0 in wants, 1 in wants

    def __call__(self, a: Any) -> Any:  # type: ignore[override]
        if type(a) is not hooks.Tensor:
            return Primitive.__call__(self, a)
        v = a._v
        try:
            y = self.run(v)
        except Exception as error:
            raise translate(error, self, (v,), {}) from error
        parent = a.row
        row = None
        if parent is not None and self.differentiable:
            if self._keep_y:
                saved: Any = (y, v if self._keep_a else None)
            else:
                saved = (None, v) if self._keep_a else NOTHING
            try:
                row = Row(self, (parent,), saved, None, y.shape, y.dtype, parent.owner)
            except AttributeError:  # a bare Python number
                t = type_of(y)
                row = Row(self, (parent,), saved, None, t.shape, t.dtype, parent.owner)
        if hooks.observe is not None:
            hooks.observe(self, row, y, (a,))
        return wrap(y, row)


class Binary(Primitive):
    """Two inputs, no metadata: the fast lane."""

    def __init__(self, name: str, run: Callable[..., Any], **fields: Any):
        super().__init__(name, run, **fields)
        # Which of (y, a, b) to keep when a varies, b varies, both vary.
        both = [set(w) for w in self._wants] or [set(), set()]
        cases = (set(), both[0], both[1], both[0] | both[1])
        self._picks = tuple(_pick(case) for case in cases)

    def __call__(self, a: Any, b: Any) -> Any:  # type: ignore[override]
        Tensor = hooks.Tensor
        parent_a = parent_b = None
        if type(a) is Tensor:
            va, parent_a = a._v, a.row
        elif type(a) in _PLAIN:
            va = a
        else:
            return Primitive.__call__(self, a, b)
        if type(b) is Tensor:
            vb, parent_b = b._v, b.row
        elif type(b) in _PLAIN and type(a) is Tensor:
            vb = b
        else:
            return Primitive.__call__(self, a, b)
        try:
            y = self.run(va, vb)
        except Exception as error:
            raise translate(error, self, (va, vb), {}) from error
        row = None
        if (parent_a is not None or parent_b is not None) and self.differentiable:
            owner = None
            if parent_a is None:
                pick, owner = self._picks[2], parent_b.owner
                parents = (None if owner is None else va, parent_b)
            elif parent_b is None:
                pick, owner = self._picks[1], parent_a.owner
                parents = (parent_a, None if owner is None else vb)
            else:
                pick, owner = self._picks[3], parent_a.owner or parent_b.owner
                parents = (parent_a, parent_b)
            try:
                row = Row(self, parents, pick(y, va, vb), None, y.shape, y.dtype, owner)
            except AttributeError:  # two bare Python numbers gave a third
                t = type_of(y)
                row = Row(self, parents, pick(y, va, vb), None, t.shape, t.dtype, owner)
        if hooks.observe is not None:
            hooks.observe(self, row, y, (a, b))
        return wrap(y, row)


def _pick(case: set[int]) -> Callable[[Any, Any, Any], tuple[Any, ...]]:
    table: dict[tuple[int, ...], Callable[[Any, Any, Any], tuple[Any, ...]]] = {
        (): lambda y, a, b: NOTHING,
        (0,): lambda y, a, b: (y,),
        (1,): lambda y, a, b: (None, a),
        (2,): lambda y, a, b: (None, None, b),
        (0, 1): lambda y, a, b: (y, a),
        (0, 2): lambda y, a, b: (y, None, b),
        (1, 2): lambda y, a, b: (None, a, b),
        (0, 1, 2): lambda y, a, b: (y, a, b),
    }
    return table[tuple(sorted(case))]


def primitive(name: str, run: Callable[..., Any], kind: type[Primitive] = Primitive, **row: Any) -> Any:
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
    if row is not None and row.owner is not None:
        row.owner = ref(t)
    return t


def row_values(row: Row) -> tuple[Any, ...]:
    """What the blocks of `row` captured, as Tensors that know their own rows: for higher orders."""
    saved = row.saved
    if not saved:
        return saved
    out = [wrap(saved[0], row) if saved[0] is not None else None]
    for v, parent in zip(saved[1:], row.parents, strict=False):
        known = parent.__class__ is Row and v is not None
        out.append(wrap(v, parent) if known else v)
    return tuple(out)


def coerce(a: Any) -> Any:
    """An argument that is not a Tensor as something NumPy computes with."""
    if isinstance(a, np.generic) or a is None:
        return a
    v = np.asarray(a)
    if v.dtype.kind not in "biufc":
        raise DTypeError(
            f"expected numbers, got an array of dtype {v.dtype} from {type(a).__name__}; "
            "to join Tensors into one use np.stack([...]) or np.concatenate([...])"
        )
    return v


def translate(error: Exception, prim: Primitive, values: Sequence[Any], params: Any) -> Exception:
    """NumPy's complaint as ours, with the shapes and the user's line."""
    if isinstance(error, BacksolveError | IndexError | np.exceptions.AxisError):
        return error
    shapes = " and ".join(str(np.shape(v)) for v in values)
    if isinstance(error, ValueError):
        return ShapeError(f"`{prim.name}` got shapes {shapes}: {error}")
    if isinstance(error, TypeError):
        dtypes = " and ".join(str(getattr(v, "dtype", type(v).__name__)) for v in values)
        return DTypeError(f"`{prim.name}` got {dtypes}: {error}")
    return error


def _compile(block: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """A block as called by the engine, `call(saved, row)`, and the positions it asks for."""
    if block is None or not inspect.isfunction(block):
        return block, (), ()
    code = block.__code__
    names = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    values = tuple(_LETTERS[n] for n in names if n in _LETTERS)
    types = tuple(_LETTERS[n.lower()] for n in names if n not in _LETTERS)
    if not types and not keywords:
        if len(values) == 1:
            (k,) = values
            return lambda s, row: block(s[k]), values, ()
        if len(values) == 2:
            j, k = values
            return lambda s, row: block(s[j], s[k]), values, ()

    def call(s: Sequence[Any], row: Row) -> Any:
        args = [s[_LETTERS[n]] if n in _LETTERS else _type(row, s, _LETTERS[n.lower()]) for n in names]
        return block(*args, **{k: row.params[k] for k in keywords})  # type: ignore[index]

    return call, values, types


def _type(row: Row, s: Sequence[Any], k: int) -> Any:
    if k == 0:
        return row
    parent = row.parents[k - 1]
    return parent if parent.__class__ is Row else s[k]


def _frozen(params: dict[str, Any]) -> tuple[Any, ...]:
    items = tuple(sorted(params.items()))
    try:
        hash(items)
    except TypeError:
        raise StaticArgumentError(
            f"metadata must be hashable (a tuple instead of a list, no arrays), got {params!r}"
        ) from None
    return items


_DTYPES: dict[Any, Any] = {}


def _elementwise_dtype(prim: Primitive, inputs: Any, params: Any) -> tuple[np.dtype[Any], bool]:
    """Ask NumPy: run the primitive on single ones of these dtypes."""
    key = (prim, inputs, params)
    if key not in _DTYPES:
        ones = [d.type(1).item() if weak else np.ones(1, d) for d, weak in inputs]
        with np.errstate(all="ignore"):
            y = prim.run(*ones, **dict(params))
        t = type_of(y)
        _DTYPES[key] = (t.dtype, t.weak)
    return _DTYPES[key]  # type: ignore[no-any-return]
