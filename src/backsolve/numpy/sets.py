"""Sets: which entries they are is known by value; reading them is differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import wrap
from ..row import NOTHING, Row
from ._register import array, dtype_of, function, known, rests_on_leaf
from .elementwise import astype
from .indexing import getitem, take
from .joining import concatenate
from .keys import BY_MASK
from .shapes import ravel


def places(found: Any, *sources: Any) -> Any:
    """Index arrays as Tensors; y.forward() cannot find them anew if they rest on a leaf, and says so."""
    t = wrap(np.asarray(found)[()], None)
    if rests_on_leaf(*sources):
        t.origin = Row(BY_MASK, (), NOTHING, None, t.shape, t.dtype, None)
    return t


@function
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """Always sorted. Of equal entries the first is read."""
    ar = array(ar)
    _, first, inverse, counts = np.unique(
        known("unique", ar), True, True, True, axis, equal_nan=equal_nan
    )
    read = take(ar, places(first, ar), axis)
    wanted = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    more = tuple(places(x, ar) for wish, x in wanted if wish)
    return (read, *more) if more else read


def _named(name: str, index: bool, inverse: bool, counts: bool) -> None:
    def call(x: Any) -> Any:
        found = unique(x, index, inverse, counts, equal_nan=False)
        if not isinstance(found, tuple):
            return found
        result = type(
            getattr(np, name)(np.zeros(1))
        )  # a named tuple of NumPy's, which it keeps to itself
        return result(*found)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`numpy.{name}`: the array API standard's parts of `unique`."
    function(call)


_named("unique_all", True, True, True)
_named("unique_counts", False, False, True)
_named("unique_inverse", False, True, False)
_named("unique_values", False, False, False)


@function
def union1d(ar1: Any, ar2: Any) -> Any:
    return unique(concatenate([array(ar1), array(ar2)], None))


def _flat(name: str, x: Any, assume_unique: bool) -> Any:
    known(name, x)
    x = array(x)
    return ravel(x) if assume_unique else unique(x)


@function
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The entries of ar1 that stand in ar2."""
    a, b = known("intersect1d", array(ar1)), known("intersect1d", array(ar2))
    _, i, j = np.intersect1d(a, b, assume_unique, return_indices=True)
    i, j = places(i, ar1, ar2), places(j, ar1, ar2)
    y = getitem(ravel(ar1), i)
    y = astype(y, np.result_type(dtype_of(a), dtype_of(b)))
    return (y, i, j) if return_indices else y


@function
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    a, b = _flat("setdiff1d", ar1, assume_unique), known("setdiff1d", array(ar2))
    stays = ~np.isin(known("setdiff1d", a), b)
    return getitem(a, places(np.flatnonzero(stays), ar1, ar2))


@function
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    both = concatenate([_flat("setxor1d", a, assume_unique) for a in (ar1, ar2)], None)
    value = known("setxor1d", both)
    order = np.argsort(value, stable=True)
    changes = np.concatenate([[True], value[order][1:] != value[order][:-1], [True]])
    alone = changes[1:] & changes[:-1] if value.size else np.zeros(0, bool)
    return getitem(both, places(order[alone], ar1, ar2))
