"""The fast lanes: primitives of one or two inputs without metadata, `Primitive.__call__` unrolled.

Most calls of eager mode are of this kind, on small arrays, where the overhead is the cost: names are
bound once, there are no loops and no sets, and what to keep for the blocks is decided beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from .hooks import hooks
from .ir import type_of
from .ownership import own
from .primitive import PLAIN, WEAK, Primitive, constant, remember, translate
from .row import NOTHING, Row, next_index


class Unary(Primitive):
    """One input, no metadata: the fast lane."""

    def __init__(self, name: str, run: Callable[..., Any], **fields: Any):
        super().__init__(name, run, **fields)
        self.use(run)

    def use(self, run: Callable[..., Any]) -> None:
        """Compute by `run` from now on."""
        self.run = run
        self.call = self._fast_lane()

    def __call__(self, a: Any) -> Any:
        return self.call(a)

    def _fast_lane(self) -> Callable[[Any], Any]:
        """The same as Primitive.__call__, unrolled: names bound once, no loops, no sets."""
        run, differentiable, general = self.run, self.differentiable, Primitive.__call__
        wants = self._wants[0] if self._wants else ()
        keep_y, keep_a = 0 in wants, 1 in wants
        new, hook = object.__new__, hooks

        def call(a: Any) -> Any:
            Tensor = hook.Tensor
            if type(a) is not Tensor:
                return general(self, a)
            v = a._v
            try:
                y = run(v)
            except Exception as error:
                raise translate(error, self, (v,), {}) from error
            t = new(Tensor)
            t._v = y
            t.grad = t.row = None
            parent = a.row
            if parent is not None and differentiable:
                if keep_y:
                    saved: Any = (y, v) if keep_a else (y,)
                else:
                    saved = (None, v) if keep_a else NOTHING
                try:
                    shape, dtype = y.shape, y.dtype
                except AttributeError:  # a bare Python number
                    shape, dtype = (), type_of(y).dtype
                if shape == parent.shape:
                    shape = parent.shape  # one tuple for both: the solve compares by identity
                t.row = row = new(Row)  # Row(…) without the call of its __init__
                row.primitive = self
                row.parents = (parent,)
                row.saved = saved
                row.params = None
                row.shape = shape
                row.dtype = dtype
                row.owner = None if parent.owner is None else ref(t)
                row.index = next_index()
            elif hook.has_leaves:
                remember(t, self, (a,), (v,), {})
            if hook.observe is not None:
                hook.observe(self, t.row, y, (a,))
            return t

        return call


class Binary(Primitive):
    """Two inputs, no metadata: the fast lane."""

    def __init__(self, name: str, run: Callable[..., Any], **fields: Any):
        super().__init__(name, run, **fields)
        self.use(run)

    def use(self, run: Callable[..., Any]) -> None:
        """Compute by `run` from now on."""
        self.run = run
        self.call = binary_lane(self, run, self._wants or ((), ()))

    def __call__(self, a: Any, b: Any) -> Any:
        return self.call(a, b)


def binary_lane(
    prim: Primitive,
    run: Callable[..., Any],
    keep: Sequence[Sequence[int]],
    params: dict[str, Any] | None = None,
) -> Callable[[Any, Any], Any]:
    """The same as prim(a, b, **params), unrolled. `keep`: which of (y, a, b) each block captures."""
    differentiable, metadata = prim.differentiable, params or {}
    # Which of (y, a, b) to keep when a varies, b varies, both vary.
    wants = [set(w) for w in keep]
    pick_a, pick_b, pick_both = _pick(wants[0]), _pick(wants[1]), _pick(wants[0] | wants[1])
    new, hook, plain, ndarray = object.__new__, hooks, PLAIN, np.ndarray
    weak, float64 = WEAK if prim.is_operator else frozenset[type](), np.float64

    def general(a: Any, b: Any) -> Any:
        return Primitive.__call__(prim, a, b, **metadata)

    def call(a: Any, b: Any) -> Any:
        Tensor = hook.Tensor
        if type(a) is Tensor:
            va, row_a = a._v, a.row
            if type(b) is Tensor:
                vb, row_b = b._v, b.row
            elif type(b) in plain:
                vb, row_b = b, None
            else:
                return general(a, b)
        elif type(b) is Tensor and type(a) in plain:
            va, row_a, vb, row_b = a, None, b._v, b.row
        else:
            return general(a, b)
        try:
            y = run(va, vb)
        except Exception as error:
            raise translate(error, prim, (va, vb), metadata) from error
        if y.__class__ is float64 and va.__class__ in weak and vb.__class__ in weak:
            y = float(y)  # of two Python numbers a third: weak in promotion
        t = new(Tensor)
        t._v = y
        t.grad = t.row = None
        if (row_a is not None or row_b is not None) and differentiable:
            parents: Any
            if row_b is None:
                owner = row_a.owner
                saved = pick_a(y, va, own(vb) if vb.__class__ is ndarray else vb)
                parents = (row_a, None if owner is None else constant(b, vb))
            elif row_a is None:
                owner = row_b.owner
                saved = pick_b(y, own(va) if va.__class__ is ndarray else va, vb)
                parents = (None if owner is None else constant(a, va), row_b)
            else:
                owner = row_a.owner or row_b.owner
                saved = pick_both(y, va, vb)
                parents = (row_a, row_b)
            try:
                shape, dtype = y.shape, y.dtype
            except AttributeError:  # two bare Python numbers gave a third
                shape, dtype = (), type_of(y).dtype
            if row_a is not None and shape == row_a.shape:
                shape = row_a.shape
            elif row_b is not None and shape == row_b.shape:
                shape = row_b.shape
            t.row = row = new(Row)
            row.primitive = prim
            row.parents = parents
            row.saved = saved
            row.params = params
            row.shape = shape
            row.dtype = dtype
            row.owner = None if owner is None else ref(t)
            row.index = next_index()
        elif hook.has_leaves:
            remember(t, prim, (a, b), (va, vb), metadata)
        if hook.observe is not None:
            hook.observe(prim, t.row, y, (a, b))
        return t

    return call


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
