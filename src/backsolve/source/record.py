"""Recording a function, and the back substitution through it, with every value computed once.

`Tracer` stands in for the stager while a function runs: asked for a value that is already there, it
gives that one. `pull_back` is solve/reverse.py's walk, except that it notes what each step did to
which row: those notes are the lines of the gradient code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..hooks import hooks
from ..ir import Type, Var
from ..joint import component_of, operator_of
from ..operators import Erase, EraseAt, Mask, ScatterAdd, Unslice, Zero
from ..primitive import P, Primitive, coerce, wrap
from ..row import Row, descendants
from ..solve import masked
from ..solve.fit import fit_back
from ..solve.masked import Masked
from ..tensor import Tensor
from ..trace import Recorder
from ..vary import Varied

_COMMUTATIVE = ("add", "multiply")
_NUMBERS = (float, int, bool, complex)
# Their image is zero outside its support by construction; others may have made 0 · ∞ of it.
_SELECTS = (Mask, Unslice, ScatterAdd, Erase, EraseAt)


@dataclass(frozen=True, slots=True)
class Step:
    """The adjoint of `row` becomes `total`: its first contribution, or `part` added to the last."""

    row: Row
    total: Any
    part: Any = None


class Tracer:
    """A context in which staged calls are recorded once each, in `recorder`."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.deriving = False  # calls of the function's own are written as they stand
        self.var_of: dict[Row, Var] = {}
        self.maker: dict[Var, tuple[Primitive, Sequence[Any], dict[str, Any]]] = {}
        self._vars: dict[Any, Var] = {}
        self._rows: dict[Any, Row | None] = {}
        self._constants: dict[Any, Any] = {}

    def __enter__(self) -> Tracer:
        self._before = hooks.tracer.set(self.call)
        self._stage = self._before or hooks.stage
        return self

    def __exit__(self, *_: Any) -> None:
        hooks.tracer.set(self._before)

    def input(self, t: Type) -> Any:
        return wrap(Var(t, self.recorder), None)

    def atom(self, a: Any) -> Any:
        return self.recorder.atom(self._own(a))

    def constants(self) -> dict[Var, Any]:
        return {var: np.asarray(value) for var, value in self.recorder.order}

    def call(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """`prim(*args)`: a new equation, or the value that an earlier one gave."""
        levels = [a._v.recorder.level for a in args if _is_staged(a)]
        if max(levels) != self.recorder.level:  # a vmap inside records for itself
            return self._stage(prim, args, params)
        args = [self._own(a) for a in args]
        for a in args:
            if isinstance(a, Tensor) and a.row is not None:
                self.var_of.setdefault(a.row, a._v)
        known = self._simpler(prim, args, params)
        if known is not None:
            return known
        key, row_key = self._keys(prim, args, params)
        var = self._vars.get(key)
        if var is None:
            y = self._stage(prim, args, params)
            var, row = y._v, y.row
            self._vars[key], self.maker[var] = var, (prim, args, params)
        elif row_key in self._rows:  # the same value of the same rows
            row = self._rows[row_key]
        else:  # the same value, but another part of it varies
            row = self._record(prim, var, args, params)
        self._rows[row_key] = row
        if row is not None:
            self.var_of[row] = var
        return wrap(var, row)  # a new Tensor each time: x[i] = v may change it in place

    def _record(
        self, prim: Primitive, var: Var, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        rows = [a.row if isinstance(a, Tensor) else None for a in args]
        values = [a._v if isinstance(a, Tensor) else a for a in args]
        return prim.record(var, rows, values, params)

    def _own(self, a: Any) -> Any:
        """An argument with constants of equal content made one, and safe from later writes."""
        if isinstance(a, Tensor):
            v = a._v
            if type(v) is Var and v.recorder is self.recorder:
                return a
            a = a._known("its value, as a constant of the code to write")
        if type(a) in _NUMBERS:
            return a
        v = np.array(coerce(a))
        key = (v.dtype.str, v.shape, v.tobytes())
        return self._constants.setdefault(key, v[()] if v.ndim == 0 else v)

    def _keys(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        parts: list[tuple[Any, int]] = []
        for a in args:
            if isinstance(a, Tensor):
                parts.append((id(a._v), id(a.row)))
            else:
                parts.append(((type(a), repr(a)) if type(a) in _NUMBERS else id(a), 0))
        if prim.name in _COMMUTATIVE:
            parts.sort(key=repr)
        meta: Any = tuple(sorted(params.items()))
        try:
            hash(meta)
        except TypeError:
            meta = id(params)
        return (prim, tuple(v for v, _ in parts), meta), (prim, tuple(parts), meta)

    def _simpler(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """What a call comes to without an equation of its own; None if it needs one."""
        a = args[0]
        if prim is P.alias:  # the same value under a new row
            row = self._record(prim, a._v, args, params)
            if row is not None:
                self.var_of[row] = a._v
            return wrap(a._v, row)
        if prim is P.reshape:
            if a.shape == params["shape"]:
                return wrap(a._v, a.row)
            x, how = self._made_by(a, "sum")
            if x is not None and how["keepdims"]:
                left = [s for k, s in enumerate(x.shape) if k not in how["axis"]]
                if tuple(left) == params["shape"]:
                    return P.sum(x, axis=how["axis"], keepdims=False)
        if prim is P.permute and tuple(params["axes"]) == tuple(range(len(a.shape))):
            return wrap(a._v, a.row)
        if prim is P.broadcast_to:
            x, _ = self._made_by(a, "reshape")
            if x is not None and x.shape == ():
                return P.broadcast_to(x, shape=params["shape"])
        if prim is P.where and _is_staged(args[1]) and type(args[2]) in _NUMBERS:
            made, inner, _ = self.maker.get(args[1]._v, (None, (), {}))
            if made is P.where and _same(inner[0], a) and _same(inner[2], args[2]):
                return wrap(args[1]._v, args[1].row)
        if prim is P.multiply:
            for x, c in ((args[0], args[1]), (args[1], args[0])):
                if self._is_sign(c) and _keeps_dtype(x, c):
                    if c == 1:  # the seed of a gradient inside
                        return wrap(x._v, x.row)
                    if c == -1 and x.dtype.kind in "fc":
                        return P.negative(x)
        return None

    def _made_by(self, a: Tensor, name: str) -> tuple[Any, dict[str, Any]]:
        """(x, metadata) if `a` is the row `name` of x; x varies as far as a does (stop_gradient)."""
        made, inner, params = self.maker.get(a._v, (None, (), {}))
        if made is None or made.name != name:
            return None, {}
        x = inner[0]
        if a.row is None:
            return wrap(x._v, None), params
        return (x, params) if a.row.parents[0] is x.row else (None, {})

    def _is_sign(self, c: Any) -> bool:
        """±1, out of a seed or a block: a NumPy scalar where users write Python's."""
        kinds: Any = (np.generic, float, int) if self.deriving else np.generic
        return isinstance(c, kinds) and abs(c) == 1


def _is_staged(a: Any) -> bool:
    return isinstance(a, Tensor) and type(a._v) is Var


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and a._v is b._v and a.row is b.row
    return a is b or (type(a) in _NUMBERS and type(a) is type(b) and repr(a) == repr(b))


def _keeps_dtype(x: Any, c: Any) -> bool:
    return _is_staged(x) and np.result_type(np.empty(0, x.dtype), c).type is x.dtype.type


def pull_back(tracer: Tracer, y: Tensor, seed: Any, varied: Varied) -> list[Step | Row]:
    """The steps of back substitution from `y`.

    A bare Row among the steps says that its adjoint is complete and its blocks come next.
    """
    rows = descendants(varied.gather([y])[0], varied.rows)
    reached, leaves = set(rows), set(varied.rows)
    adjoints: dict[Row, Any] = {}
    joints: dict[Row, list[Any]] = {}
    steps: list[Step | Row] = []

    def home(row: Row) -> Row:
        while row.primitive is P.alias and row not in leaves:
            row = row.parents[0]
        return row

    def give(row: Row, g: Any) -> None:
        row = home(row)
        part = tracer.atom(masked.plain(g))
        if row in adjoints:
            g = _plus(adjoints[row], g)
            steps.append(Step(row, tracer.atom(masked.plain(g)), part))
        else:
            steps.append(Step(row, part))
        adjoints[row] = g

    if y.row is None or y.row not in reached:
        return steps
    tracer.var_of.setdefault(y.row, y._v)
    tracer.deriving = True
    give(y.row, seed)
    with np.errstate(all="ignore"):
        for row in reversed(rows):
            if row in leaves or (row not in adjoints and row not in joints):
                continue
            if row.primitive.is_joint:
                given = tuple(joints[row])
                operator = operator_of(row, _values(row), True)
                for parent, g in zip(row.parents, operator.T.apply(given), strict=True):
                    if parent in reached and g is not None:
                        give(parent, fit_back(g, parent))
                continue
            steps.append(row)
            g = adjoints[row]
            if row.primitive.is_component:
                base, k = row.parents[0], component_of(row)
                parts = joints.setdefault(base, [None] * base.params["outputs"])
                parts[k] = masked.plain(g)
                continue
            places = [k for k, p in enumerate(row.parents) if p.__class__ is Row and p in reached]
            # Parameters first, as on the slides: their lines end here.
            for i in sorted(places, key=lambda i: home(row.parents[i]) not in leaves):
                parent = row.parents[i]
                block = row.primitive.block(row, i, _values(row))
                if not isinstance(block, Zero):
                    give(parent, fit_back(_apply(block.T, g, home(parent)), parent))
    return steps


def _values(row: Row) -> tuple[Any, ...]:
    """What the blocks captured, staged. (Without rows: nobody differentiates the code we write.)"""
    return tuple(wrap(v, None) if type(v) is Var else v for v in row.saved)


def _apply(block: Any, g: Any, parent: Row) -> Any:
    if not block.masks and g.__class__ is not Masked:
        return block.apply(g)
    if isinstance(block, _SELECTS):
        image = block.apply(masked.plain(g))
        if parent.is_leaf:  # nothing will multiply it any more
            return image
        return _masked(image, block.support(g.mask if g.__class__ is Masked else None))
    image = masked.apply(block, g)
    return masked.plain(image) if parent.is_leaf else image


def _plus(a: Any, b: Any) -> Any:
    total = masked.plus(a, b)
    return _masked(total.value, total.mask) if total.__class__ is Masked else total


def _masked(value: Any, mask: Any) -> Any:
    if mask is None or (not isinstance(mask, Tensor) and np.all(mask)):
        return value
    return Masked(value, mask)
