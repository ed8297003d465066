"""NumPy's functions that write into their first argument: a Tensor becomes the new value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, InPlaceError, ShapeError, UnsupportedError
from ..primitive import FUNCTIONS, UFUNCS, P
from ..tensor import Tensor
from ._register import Casting, array, dtype_of, function, named, shape_of, size_of
from .elementwise import astype
from .indexing import _cast, _key_along, check_mode, getitem, places, setitem
from .joining import resize
from .shapes import broadcast_to, ravel, reshape


def check_target(x: Any, what: str) -> None:
    if not isinstance(x, Tensor):
        raise InPlaceError(
            f"`{what}` was to write a Tensor into a {type(x).__name__}, which would drop its "
            "derivative. Write a = a + t instead of a += t, or make the array a tensor first: "
            "a = bs.tensor(a)"
        )


@function
def copyto(dst: Any, src: Any, casting: Casting = "same_kind", where: Any = True) -> None:
    check_target(dst, "copyto")
    if not np.can_cast(dtype_of(array(src)), dst.dtype, casting):
        raise DTypeError(f"`copyto` cannot cast {dtype_of(src)} to {dst.dtype} ({casting!r})")
    new = broadcast_to(_cast(array(src), dst.dtype), dst.shape)
    dst._become(new if where is True else P.where(array(where), new, dst), "copyto")


@function
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    check_target(a, "put")
    check_mode("put", mode)
    flat = ravel(np.asarray(ind) if np.size(ind) else np.zeros(0, int))
    if mode != "raise":
        flat = np.clip(flat, 0, a.size - 1) if mode == "clip" else flat % a.size
    written = setitem(ravel(a), flat, resize(v, flat.shape))
    a._become(reshape(written, a.shape), "put")


def _same_size(name: str, a: Any, mask: Any) -> None:
    if size_of(a) != size_of(mask):
        raise ShapeError(
            f"`{name}` needs a mask of the array's size, got shapes {shape_of(mask)} and {shape_of(a)}"
        )


@function
def putmask(a: Any, mask: Any, values: Any) -> None:
    check_target(a, "putmask")
    _same_size("putmask", a, mask)
    copyto(a, resize(values, a.shape), where=array(mask))


@function
def place(arr: Any, mask: Any, vals: Any) -> None:
    check_target(arr, "place")
    mask = np.asarray(mask, bool)
    _same_size("place", arr, mask)
    if not np.can_cast(dtype_of(array(vals)), arr.dtype, "same_kind"):
        raise DTypeError(f"`place` cannot cast {dtype_of(vals)} to {arr.dtype}")
    if not size_of(vals) and mask.any():
        raise ShapeError("`place` needs values to write, got none")
    arr._become(setitem(arr, mask, resize(vals, int(mask.sum()))), "place")


@function
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    check_target(a, "fill_diagonal")
    numbers = np.zeros(a.shape, bool)
    np.fill_diagonal(numbers, True, wrap)
    where = np.flatnonzero(numbers)
    a._become(reshape(setitem(ravel(a), where, resize(val, where.shape)), a.shape), "fill_diagonal")


@function
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    check_target(arr, "put_along_axis")
    if axis is None:
        put(arr, indices, values)
        return
    key = _key_along("put_along_axis", arr, indices, axis)
    arr._become(setitem(arr, key, values), "put_along_axis")


@named("ufunc_at")
def ufunc_at(ufunc: np.ufunc, x: Any, key: Any, *values: Any) -> None:
    """ufunc.at(x, key, v): unbuffered, so repeated places add up."""
    what = f"np.{ufunc.__name__}.at"
    check_target(x, what)
    if ufunc in (np.add, np.subtract):
        numbers = places(x, key)
        v = ravel(broadcast_to(_cast(array(values[0]), x.dtype), shape_of(numbers)))
        added = P.scatter_add(v, ravel(numbers), shape=(x.size,))
        x._become(UFUNCS[ufunc](x, reshape(added, x.shape)), what)
        return
    numbers = places(x, key)
    if isinstance(numbers, Tensor) or np.unique(numbers).size < size_of(numbers):
        raise UnsupportedError(f"`{what}` on a tensor needs distinct places: {key!r} repeats some")
    new = UFUNCS[ufunc](getitem(x, key), *values)
    x._become(setitem(x, key, astype(new, x.dtype)), what)


FUNCTIONS["ufunc_at"] = ufunc_at
