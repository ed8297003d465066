"""Pools, found where a Program reduces windows, and their adjoints, without an array of all windows.

first_max(windows(x))                          lax.reduce_window, with x's surroundings as its padding
the number of the first largest in each        entry by entry of all windows: x at k, x at k + 1, …
fold(where(number == k for all k, t, 0))       t where the number is k, put back, and added up over k
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...ir import Equation, Shape, Var, type_of
from ...operators.slice import key_of
from ...operators.windows import Cut
from .rows.base import is_half
from .rows.windows import put_back
from .search import Joined, Search

IDLE = {"equal", "isnan", "logical_or"}  # if nobody reads them any more
_WORST = {"first_max": -np.inf, "max": -np.inf, "min": np.inf, "sum": 0.0}
_Padding = tuple[tuple[int, int], ...]


def join(search: Search, e: Equation) -> Joined | None:
    rule = _RULES.get(e.primitive.name)
    return rule(search, e) if rule is not None and e.outputs[0].type.size else None


# ---- what is found


def _pool(search: Search, e: Equation) -> Joined | None:
    windows = search.maker(e.inputs[0], "windows")
    if windows is None or e.outputs[0].dtype.kind != "f" or not _is_over_windows(e, windows):
        return _first_number(search, e) if e.primitive.name == "min" else None
    if e.params["keepdims"]:
        return None
    x, padding = _inside(search, windows.inputs[0], _WORST[e.primitive.name])
    run = partial(pooled, e.primitive.name, windows.params["cut"], padding, e.outputs[0])
    return Joined((x,), e.outputs[0], run)


def _is_over_windows(e: Equation, windows: Equation) -> bool:
    """Whether a reduction is over all of each window."""
    rank = type_of(windows.inputs[0]).ndim
    return tuple(e.params["axis"]) == tuple(range(rank, windows.outputs[0].type.ndim))


def _inside(search: Search, x: Any, around: float) -> tuple[Any, _Padding]:
    """What stands in x, and how many entries of the number `around` stand before and behind it."""
    shape = type_of(x).shape
    nothing = x, ((0, 0),) * len(shape)
    e = search.maker(x, "slice_update", "unslice")
    if e is None:
        return nothing
    inner = e.inputs[-1]
    outside = 0 if e.primitive.name == "unslice" else search.number(e.inputs[0])
    keys = key_of(e.params["spec"])
    if outside is None or outside != around or type(inner) is not Var:
        return nothing
    if (
        inner.type.ndim != len(shape)
        or inner.dtype != x.dtype
        or any(type(k) is not slice for k in keys)
    ):
        return nothing
    padding = []
    for key, n in zip((*keys, *[slice(None)] * (len(shape) - len(keys))), shape, strict=True):
        start, stop, step = key.indices(n)
        if step != 1:
            return nothing
        padding.append((start, n - stop))
    return inner, tuple(padding)


def _first_number(search: Search, e: Equation) -> Joined | None:
    """min(where(x == max x or x is NaN, 0 … n − 1, n)) over windows of x: see primitives/reduce.py."""
    choice = search.maker(e.inputs[0], "where")
    both = search.maker(choice.inputs[0], "logical_or") if choice is not None else None
    if choice is None or both is None or not e.params["keepdims"]:
        return None
    for first, second in (both.inputs, both.inputs[::-1]):
        equal, nan = search.maker(first, "equal"), search.maker(second, "isnan")
        if equal is None or nan is None:
            continue
        w = nan.inputs[0]
        windows = search.maker(w, "windows")
        if windows is None or w not in equal.inputs or not _is_over_windows(e, windows):
            continue
        top = search.maker(equal.inputs[1 if equal.inputs[0] is w else 0], "reshape")
        largest = search.maker(top.inputs[0], "first_max") if top is not None else None
        if largest is None or largest.inputs[0] is not w or not _is_over_windows(largest, windows):
            continue
        if not _counts(search, choice.inputs[1], windows.params["cut"]):
            continue
        x, padding = _inside(search, windows.inputs[0], -np.inf)
        run = partial(first_numbers, windows.params["cut"], padding, e.outputs[0])
        return Joined((x,), e.outputs[0], run)
    return None


def _counts(search: Search, a: Any, cut: Cut) -> bool:
    """Whether a constant is 0, 1, 2, … through each window."""
    numbers = search.constants.get(a) if type(a) is Var else None
    if numbers is None or numbers.shape[-len(cut.size) :] != cut.size:
        return False
    return bool(np.array_equal(numbers.ravel(), np.arange(np.prod(cut.size))))


def _fold(search: Search, e: Equation) -> Joined | None:
    """A fold of what the first largest entries of windows get, or of where they are."""
    cut, a = e.params["cut"], e.inputs[0]
    choice = search.maker(a, "where")
    if choice is not None and search.number(choice.inputs[2]) != 0:
        return None
    chosen = search.maker(a if choice is None else choice.inputs[0], "equal")
    if chosen is None:
        return None
    for numbers, number in (chosen.inputs, chosen.inputs[::-1]):
        found = search.maker(number, "min")
        if found is None or not _counts(search, numbers, cut):
            continue
        if _first_number(search, found) is None:
            continue
        ones = (1,) * len(cut.size)
        given = [] if choice is None else [choice.inputs[1]]
        if any(type_of(t).shape[-len(ones) :] != ones for t in given):
            continue
        run = partial(folded, cut, e.params["shape"], e.outputs[0])
        return Joined((number, *given), e.outputs[0], run)
    return None


_RULES: dict[str, Callable[[Search, Equation], Joined | None]] = {
    **dict.fromkeys(_WORST, _pool),
    "fold": _fold,
}


# ---- what is done


def pooled(name: str, cut: Cut, padding: _Padding, out: Var, m: Any, x: Any) -> Any:
    """The largest, the smallest or the sum of the entries of each window."""
    x = x.astype(m.dtype(out))
    size, step, dilation = ([1] * x.ndim for _ in range(3))
    for axis, n, s, d in zip(*cut, strict=True):
        size[axis], step[axis], dilation[axis] = n, s, d
    if name == "sum" and is_half(x):
        x = x.astype(jnp.float32)
    start = jnp.asarray(_WORST[name], x.dtype)
    join: Any = {"sum": lax.add, "min": lax.min}.get(name, lax.max)
    return lax.reduce_window(x, start, join, size, step, padding, window_dilation=dilation)


def _parts(cut: Cut, padding: _Padding, x: Any) -> list[Any]:
    """The entries number k of all windows, for each k."""
    low = jnp.asarray(-np.inf, x.dtype)
    x = lax.pad(x, low, [(*p, 0) for p in padding]) if any(map(any, padding)) else x
    return [x[cut.places(k, x.shape)] for k in np.ndindex(cut.size)]


def first_numbers(cut: Cut, padding: _Padding, out: Var, m: Any, x: Any) -> Any:
    """The number of the first largest entry of each window; a NaN is the largest of all."""
    best, *rest = _parts(cut, padding, x)
    small = jnp.uint8 if len(rest) < 256 else out.dtype
    number = jnp.zeros(best.shape, small)
    for k, part in enumerate(rest, 1):
        better = (part > best) | (jnp.isnan(part) & ~jnp.isnan(best))
        number = jnp.where(better, jnp.asarray(k, small), number)
        best = jnp.where(better, part, best)
    number = lax.optimization_barrier(number)  # else the truth of each `number == k` is kept
    return jnp.reshape(number, out.shape)


def folded(cut: Cut, shape: Shape, out: Var, m: Any, number: Any, t: Any = None) -> Any:
    """t, or truth, added up where the entries with these numbers stand."""
    lead = number.shape[: len(shape)]
    number = jnp.reshape(number, lead)
    if t is not None:
        t = jnp.broadcast_to(jnp.reshape(t, t.shape[: t.ndim - len(cut.size)]), lead)
        t = t.astype(jnp.float32 if is_half(t) else m.dtype(out))

    def part(k: tuple[int, ...]) -> Any:
        here = number == np.ravel_multi_index(k, cut.size)
        return here if t is None else jnp.where(here, t, jnp.zeros((), t.dtype))

    return put_back(cut, shape, part)
