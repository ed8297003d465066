"""Activations of large arrays in eager mode: one compiled loop for the value, one for the derivative.

    @in_one_pass(kept=lambda x: np.logical_not(x <= 0), linear=True)
    def _relu(x):
        return P.where(x <= 0, 0, x)

A formula as it is written takes a pass over the array for each of its operations, and another for each of
their blocks. Once it has met a million entries, it is staged, differentiated and compiled, and what eager mode
records of it is one row. All else runs the formula: small arrays, other dtypes, staging, observers, and
derivatives that are differentiated themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...api import vjp
from ...hooks import hooks
from ...ir import Type
from ...operators import Operator
from ...operators.base import Cost
from ...operators.structure import facts
from ...primitive import Primitive
from ...primitives.large import ENOUGH, LARGE
from ...rewrite import rewrite_for_machines
from ...tensor import Tensor
from ...trace import stage

MOST = 8  # choices of parameters that one function is compiled for
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_lock = threading.RLock()


def in_one_pass(
    kept: Callable[..., Any] | None = None, linear: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a formula of an array, entry by entry, and of numbers.

    `kept` says where the derivative is not zero by structure (None: nowhere); `linear`, that the function is so
    between its kinks: its slopes are finite, whatever x is.
    """

    def decorate(formula: Callable[..., Any]) -> Callable[..., Any]:
        made: dict[Any, _Passes] = {}

        @wraps(formula)
        def call(x: Any, *numbers: Any) -> Any:
            v = x._v if x.__class__ is Tensor else x
            if v.__class__ is not np.ndarray or v.size < LARGE or not _is_plain(v):
                return formula(x, *numbers)
            if hooks.observe is not None or any([type(n) not in (int, float) for n in numbers]):
                return formula(x, *numbers)
            key = (v.dtype, *numbers)
            passes = made.get(key)
            if passes is None:
                if len(made) >= MOST * len(_FLOATS):
                    return formula(x, *numbers)
                with _lock:
                    passes = made.setdefault(key, _Passes(formula, numbers, kept, linear, v.dtype))
            return passes.primitive(x) if passes.are_ready(v.size) else formula(x, *numbers)

        return call

    return decorate


def _is_plain(a: Any) -> bool:
    return a.dtype in _FLOATS and a.flags.c_contiguous and a.flags.aligned


def _loop(f: Callable[..., Any], *types: Type) -> Any:
    from ...backends.native.pointwise import compile_loop  # loads LLVM

    program, _ = stage(f, types)
    return compile_loop(rewrite_for_machines(program))


class Step:
    """A formula of several arrays, entry by entry, that is written into another: a step of a recursion."""

    def __init__(self, formula: Callable[..., Any]):
        self.formula = formula
        self.seen: dict[Any, int] = {}
        self.loops: dict[Any, Any] = {}

    def chosen(self, dtype: Any, size: int) -> Callable[..., Any]:
        """The formula for arrays of that dtype, `size` entries in all: compiled once many were seen."""
        with _lock:
            seen = self.seen[dtype] = self.seen.get(dtype, 0) + size
            if seen >= ENOUGH and dtype not in self.loops and dtype in _FLOATS:
                arity = self.formula.__code__.co_argcount
                self.loops[dtype] = _loop(self.formula, *[Type((LARGE,), dtype)] * arity)
        return self.loops.get(dtype) or self._by_numpy

    def _by_numpy(self, *arrays: Any, out: Any) -> None:
        out[...] = self.formula(*arrays)


class _Passes:
    """The compiled loops of a function of arrays of one dtype."""

    def __init__(self, formula: Any, numbers: Any, kept: Any, linear: bool, dtype: Any):
        self.formula = lambda x: formula(x, *numbers)
        self.has_zeros, self.linear, self.dtype = kept is not None, linear, dtype
        self.where_kept = lambda x: kept(x, *numbers)
        self.seen = 0
        self.tried = False
        self.value: Any = None
        self.slope: Any = None
        self.support: Any = None
        self.primitive = Primitive(
            formula.__name__.strip("_"),
            self.run,
            blocks=(lambda a: _Slopes(self, a),),
            elementwise=True,
        )

    def are_ready(self, size: int) -> bool:
        """Whether they are compiled, which is worth it once many entries were seen."""
        if not self.tried:
            with _lock:
                self.seen += size
                if self.seen >= ENOUGH and not self.tried:
                    self._compile()
                    self.tried = True
        return self.value is not None

    def _compile(self) -> None:
        x = Type((LARGE,), self.dtype)
        slope = _loop(lambda x, t: vjp(self.formula, x)[1](t)[0], x, x)
        support = _loop(self.where_kept, x) if self.has_zeros else None
        value = _loop(self.formula, x)
        if slope is not None and (support is not None or not self.has_zeros):
            self.slope, self.support, self.value = slope, support, value

    def run(self, a: Any) -> Any:
        if a.__class__ is np.ndarray and _is_plain(a) and a.dtype == self.dtype:
            return self.value(a)
        return self.formula(a)


class _Slopes(Operator):
    """t ↦ f'(x) ⊙ t"""

    __slots__ = ("passes", "x")
    facts = facts("diagonal", "symmetric")

    def __init__(self, passes: _Passes, x: Any):
        self.passes = passes
        self.x = x

    @property
    def masks(self) -> bool:  # type: ignore[override]  # elsewhere the class knows
        return self.passes.has_zeros

    adjoint_masks = masks

    @property
    def moves_entries(self) -> bool:  # type: ignore[override]  # likewise
        return self.passes.linear  # zeros stay zeros

    def apply(self, t: Any) -> Any:
        x = self.x
        if x.__class__ is not np.ndarray or t.__class__ is not np.ndarray or t.dtype != x.dtype:
            return vjp(self.passes.formula, x)[1](t)[0]
        if not any(t.strides):  # one number, broadcast
            t = np.array(t[(0,) * t.ndim])
        return self.passes.slope(x, t if _is_plain(t) else np.array(t, order="C"))

    def support(self, mask: Any) -> Any:
        if not self.passes.has_zeros:
            return mask
        x = self.x
        compiled = x.__class__ is np.ndarray
        kept = self.passes.support(x) if compiled else self.passes.where_kept(x)
        return kept if mask is None else np.logical_and(kept, mask)

    @property
    def T(self) -> Operator:
        return self

    def pull(self, t: Any) -> Any:
        return self.apply(t)

    @property
    def in_type(self) -> Type:
        return Type(self.x.shape, self.x.dtype)

    out_type = in_type

    @property
    def cost(self) -> Cost:
        return Cost(multiplications=self.in_type.size, bytes=3 * self.x.nbytes)

    def __repr__(self) -> str:
        return f"Slopes of {self.passes.primitive.name}"
