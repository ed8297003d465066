"""Values over the iteration space: an array with one axis per index letter that it depends on.

`A[i,k] - m[i]` is never more than an (i, k) array, whatever other loops stand around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..operators.contraction import _LETTERS
from ..primitive import P

_WEAK = {"b": False, "i": 0, "f": 0.0}


@dataclass(frozen=True, eq=False, slots=True)
class Spread:
    """An array whose k-th axis runs with the k-th letter.

    `weak` if it is made of index letters and Python's numbers alone: as theirs, its dtype gives way to others.
    """

    value: Any
    letters: tuple[str, ...] = ()
    weak: bool = False


def dtype_of(x: Any) -> np.dtype[Any]:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def lined_up(x: Spread, letters: Sequence[str]) -> Any:
    """The value with its axes in the order of `letters`, and an axis of length 1 for each that it lacks."""
    value = x.value
    order = [c for c in letters if c in x.letters]
    if tuple(order) != x.letters:
        value = P.permute(value, axes=tuple(x.letters.index(c) for c in order))
    first = next((k for k, c in enumerate(letters) if c in x.letters), len(letters))
    if len(letters) - first == len(order):
        return value
    lengths = iter(value.shape)
    shape = tuple(next(lengths) if c in x.letters else 1 for c in letters[first:])
    return P.reshape(value, shape=shape)


def combined(f: Callable[..., Any], order: Sequence[str], *parts: Spread) -> Spread:
    """An element-wise function of several values."""
    letters = tuple(c for c in order if any(c in x.letters for x in parts))
    weak = all(x.weak for x in parts)
    values = [lined_up(x, letters) for x in parts]
    if not weak and any(x.weak and x.letters for x in parts):
        values = _settled(values, parts)
    return Spread(f(*values), letters, weak)


def _settled(values: list[Any], parts: Sequence[Spread]) -> list[Any]:
    """Index letters beside numbers of an array take the dtype that Python's own int would."""
    strong = [dtype_of(x.value) for x in parts if not x.weak]
    if not any(d.kind in "fc" for d in strong):
        return values
    return [
        np.asarray(v).astype(np.result_type(*strong, _WEAK[dtype_of(v).kind]))
        if x.weak and x.letters
        else v
        for v, x in zip(values, parts, strict=True)
    ]


def chosen(order: Sequence[str], condition: Spread, a: Spread, b: Spread) -> Spread:
    """a where the condition holds, else b."""
    letters = tuple(c for c in order if any(c in x.letters for x in (condition, a, b)))
    values = [lined_up(x, letters) for x in (a, b)]
    weak = a.weak and b.weak
    if not weak and any(x.weak and x.letters for x in (a, b)):
        values = _settled(values, (a, b))
    return Spread(np.where(lined_up(condition, letters), *values), letters, weak)


def contracted(factors: Sequence[Spread], keep: Sequence[str]) -> Spread:
    """The sum of the product of all factors over the letters that are not kept, as one nest of loops."""
    names: dict[str, str] = {}
    every = dict.fromkeys(c for x in factors for c in x.letters)
    free = iter(c for c in _LETTERS if c not in every)
    for c in every:
        names[c] = c if len(c) == 1 and c in _LETTERS else next(free)
    letters = tuple(c for c in keep if c in every)
    labels = ",".join("".join(names[c] for c in x.letters) for x in factors)
    output = "".join(names[c] for c in letters)
    operands = [_widened(x.value, factors) for x in factors]
    return Spread(P.contract(*operands, subscripts=f"{labels}->{output}", sizes=()), letters)


def _widened(x: Any, factors: Sequence[Spread]) -> Any:
    """Sums of whole numbers are taken in the wider type that NumPy's sum takes."""
    dtype = np.result_type(*[dtype_of(f.value) for f in factors])
    if dtype.kind in "biu":
        wide = np.add.reduce(np.zeros(1, dtype)).dtype
        return x if dtype_of(x) == wide else P.cast_discrete(x, dtype=wide)
    return x


def smallest(how: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction of no terms gives."""
    if how in ("+=", "="):
        return dtype.type(0)
    if how == "*=":
        return dtype.type(1)
    if dtype.kind == "b":
        return dtype.type(how == "min=")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return dtype.type(limits.min if how == "max=" else limits.max)
    return dtype.type(-np.inf if how == "max=" else np.inf)


_REDUCE = {"+=": "sum", "*=": "prod", "max=": "max", "min=": "min"}
JOIN: dict[str, Any] = {
    "+=": np.add,
    "*=": np.multiply,
    "max=": np.maximum,
    "min=": np.minimum,
}


def reduced(x: Spread, how: str, keep: Sequence[str], gone: Mapping[str, int]) -> Spread:
    """The values combined over the letters `gone` (with their sizes), the rest in the order of `keep`."""
    axes = tuple(k for k, c in enumerate(x.letters) if c in gone)
    left = tuple(c for c in x.letters if c not in gone)
    value = x.value
    if axes:
        reduce = getattr(P, _REDUCE[how])
        if how in ("max=", "min=") and not all(value.shape[k] for k in axes):
            shape = tuple(n for k, n in enumerate(value.shape) if k not in axes)
            return Spread(np.full(shape, smallest(how, dtype_of(value))), left)
        value = reduce(value, axis=axes, keepdims=False)
    times = 1
    for c, n in gone.items():
        times *= 1 if c in x.letters else n
    if times == 0 and how != "+=":
        value = value * 0 + smallest(how, dtype_of(value)) if how == "*=" else _no_terms(how, value)
    elif times != 1 and how == "+=":
        value = value * times
    elif times != 1 and how == "*=":
        value = value**times
    elif not axes and how == "+=" and dtype_of(value).kind in "bu":
        value = P.sum(value, axis=(), keepdims=False)
    order = tuple(c for c in keep if c in left)
    return Spread(lined_up(Spread(value, left), order), order)


def _no_terms(how: str, value: Any) -> Any:
    return np.full(np.shape(value), smallest(how, dtype_of(value)))
