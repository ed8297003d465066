"""Memory that only the solve holds takes what is computed from it.

An adjoint that has been passed on, or a block's entries, are arrays of the arguments' size that nobody reads
again. Fresh memory for each of their products costs as much as the product itself, where arrays are large.

Whether anybody else holds an array, Python's reference counts tell. They are taken of what a container or an
object holds, never of a local name, which some versions of Python do not count.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from ..operators import Diagonal, Product, Scale
from ..ownership import LARGE, shared
from ..row import Row

_box = [object()]
_ONE = getrefcount(_box[0])  # what is counted where a container holds the only reference


def is_large(g: Any) -> bool:
    return g.__class__ is np.ndarray and g.size > LARGE


def _is_own(array: Any) -> bool:
    """Whether real numbers lie in memory of the array's own."""
    if array.__class__ is not np.ndarray or array.dtype.kind != "f":
        return False
    flags = array.flags
    return bool(flags.owndata and flags.writeable)


def last_row(parents: tuple[Any, ...]) -> int:
    """The place of the last parent that gets an adjoint."""
    for i in range(len(parents) - 1, -1, -1):
        if parents[i].__class__ is Row:
            return i
    return -1


def pull(block: list[Any], seed: list[Any]) -> Any:
    """The adjoint of a block applied to a seed. Each is the one entry of a list: who calls has let go of what
    is not needed any more."""
    ours = getrefcount(block[0]) == _ONE
    if block[0].__class__ is not Product:
        return _pull(block, seed, ours)
    for k in range(len(block[0].factors)):
        alone = ours and getrefcount(block[0].factors[k]) == _ONE
        seed = [_pull([block[0].factors[k]], seed, alone)]
    return seed[0]


def _pull(block: list[Any], seed: list[Any], ours: bool) -> Any:
    """The same for a single operator; `ours`: nobody else has it."""
    kind = block[0].__class__
    if (kind is Diagonal or kind is Scale) and is_large(seed[0]):
        spare = getrefcount(seed[0]) == _ONE and _is_own(seed[0])
        if kind is Diagonal:
            return _times(block, seed[0], spare, ours)
        if spare and type(block[0].factor) in (float, int):
            return np.multiply(seed[0], block[0].factor, out=seed[0])
    return block[0].pull(seed[0])


def _times(block: list[Any], seed: Any, spare: bool, ours: bool) -> Any:
    """seed · d; `ours`: nobody else has the block, so if only the block has d, nobody reads it again."""
    ours = ours and getrefcount(block[0].d) == _ONE and _is_own(block[0].d)
    d = block[0].d
    if spare and (type(d) in (float, int) or _fits(d, seed)):
        return np.multiply(seed, d, out=seed)
    if type(d) is np.ndarray and d.shape == seed.shape and _fits(d, seed):
        if not any(seed.strides) and seed[(0,) * seed.ndim] == 1:  # the adjoint of a sum
            return d if ours else shared(d)
        if ours:
            return np.multiply(seed, d, out=d)
    return block[0].pull(seed)


def _fits(d: Any, seed: Any) -> bool:
    """Whether seed · d is of the seed's type."""
    return type(d) is np.ndarray and d.dtype == seed.dtype and d.dtype.kind == "f"


def add(adjoints: dict[Row, Any], row: Row, g: list[Any]) -> None:
    """Add the one entry of g to the adjoint of a row, in the memory of one of them if nobody else holds it."""
    if adjoints[row] is g[0]:
        in_place = getrefcount(g[0]) == _ONE + 1 and _is_own(g[0])
        out = g[0] if in_place else None
    elif not _fits(g[0], adjoints[row]) or g[0].shape != adjoints[row].shape:
        out = None
    elif getrefcount(adjoints[row]) == _ONE and _is_own(adjoints[row]):
        out = adjoints[row]
    elif getrefcount(g[0]) == _ONE and _is_own(g[0]):
        out = g[0]
    else:
        out = None
    adjoints[row] = adjoints[row] + g[0] if out is None else np.add(adjoints[row], g[0], out=out)
