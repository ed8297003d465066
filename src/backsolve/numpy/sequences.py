"""Sequences between numbers, unwrapped angles, windows, bits, and what only looks at types or memory."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import FUNCTIONS, P
from ..tensor import Staged, Tensor
from ._register import OWN, array, dtype_of, function, known, ndim_of, one_axis, shape_of
from .creation import KEEPING, has_tensor, linspace
from .elementwise import astype
from .indexing import getitem, setitem
from .making import made
from .shapes import expand_dims, moveaxis, ravel, reshape


@function
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    start, stop, base = array(start), array(stop), array(base)
    rank = max(ndim_of(a) for a in (start, stop, base))
    if ndim_of(base):
        start, stop, base = (
            reshape(a, (1,) * (rank - ndim_of(a)) + shape_of(a)) for a in (start, stop, base)
        )
        base = expand_dims(base, axis)
    y = P.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else astype(y, dtype)


@function
def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Start and stop exactly, and between them equal quotients; of one sign, or complex."""
    start, stop = array(start), array(stop)
    for end in (start, stop):
        if not isinstance(end, Staged) and np.any(known("geomspace", end) == 0):
            raise ValueError("`geomspace` cannot start or stop at 0")
    # Without a dtype, NumPy computes in double precision at least.
    kind = np.result_type(dtype_of(start), dtype_of(stop), np.dtype(dtype))
    kind = np.result_type(kind, float(num))
    start, stop = astype(start, kind), astype(stop, kind)
    sign = P.sign(start)
    first, last = start / sign, stop / sign
    y = logspace(P.log10(first), P.log10(last), num, endpoint)
    y = astype(y, kind)
    if num > 0:
        y = setitem(y, 0, first)
    if num > 1 and endpoint:
        y = setitem(y, -1, last)
    y = y * sign
    y = moveaxis(y, 0, axis) if axis else y
    return y if dtype is None else astype(y, dtype)


@function
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * pi) -> Any:
    """Jumps of more than half a period taken back by whole periods, which are constant in p."""
    p = array(p)
    if not ndim_of(p):
        raise ShapeError("`unwrap` needs rank 1 or more, got a scalar")
    axis = one_axis(axis, ndim_of(p))
    steps = FUNCTIONS["diff"](p, axis=axis)
    discont = period / 2 if discont is None else discont
    kind = np.result_type(dtype_of(steps), period.dtype if hasattr(period, "dtype") else period)
    if kind.kind in "iu":
        half, odd = divmod(period, 2)
    else:
        half, odd = period / 2, 0
    inside = P.remainder(steps + half, period) - half
    if not odd:  # the boundary belongs to both sides: keep the sign of the step
        inside = P.where(P.equal(inside, -half) & P.greater(steps, 0), half, inside)
    taken = P.where(P.less(P.absolute(steps), discont), 0, inside - steps)
    full = (slice(None),) * axis
    first, rest = getitem(p, (*full, slice(0, 1))), getitem(p, (*full, slice(1, None)))
    rest = rest + FUNCTIONS["cumsum"](taken, axis)
    return FUNCTIONS["concatenate"]([astype(first, kind), astype(rest, kind)], axis)


@function
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """By shapes alone."""
    plain = [
        np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, Tensor) else x
        for x in operands
    ]
    find: Any = np.einsum_path
    return find(*plain, optimize=optimize, einsum_call=einsum_call)


@function
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    a = array(a)
    if dtype_of(a).kind not in "iub":
        raise TypeError(f"`packbits` takes whole numbers or booleans, got {dtype_of(a)}")
    a, axis = (ravel(a), 0) if axis is None else (a, one_axis(axis, ndim_of(a)))
    rows = moveaxis(P.not_equal(a, 0), axis, -1)
    n = shape_of(rows)[-1]
    rows = FUNCTIONS["pad"](rows, [(0, 0)] * (ndim_of(rows) - 1) + [(0, -n % 8)])
    groups = reshape(rows, (*shape_of(rows)[:-1], -(-n // 8), 8))
    values = P.left_shift(np.uint8(1), _bits(bitorder))
    y = P.sum(P.where(groups, values, np.uint8(0)), axis=(ndim_of(groups) - 1,), keepdims=False)
    return moveaxis(astype(y, np.uint8), -1, axis)


@function
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    a = array(a)
    if dtype_of(a) != np.uint8:
        raise TypeError(f"`unpackbits` takes uint8, got {dtype_of(a)}")
    a, axis = (ravel(a), 0) if axis is None else (a, one_axis(axis, ndim_of(a)))
    rows = moveaxis(a, axis, -1)
    bits = P.bitwise_and(
        P.right_shift(getitem(rows, (Ellipsis, None)), _bits(bitorder)), np.uint8(1)
    )
    n = shape_of(rows)[-1] * 8
    y = reshape(bits, (*shape_of(rows)[:-1], n))
    if count is not None:
        count = n + count if count < 0 else count
        if count < 0:
            raise ValueError(f"`unpackbits` cannot leave out more than {n} bits")
        y = FUNCTIONS["pad"](y, [(0, 0)] * (ndim_of(y) - 1) + [(0, max(count - n, 0))])
        y = getitem(y, (Ellipsis, slice(0, count)))
    return moveaxis(astype(y, np.uint8), -1, axis)


def _bits(bitorder: str) -> Any:
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder is 'big' or 'little', got {bitorder!r}")
    bits = np.arange(8, dtype=np.uint8)
    return bits[::-1] if bitorder == "big" else bits


def _kaiser(M: int, beta: Any, *, device: Any = None) -> Any:
    """`numpy.kaiser`, as a Tensor; differentiable in beta."""
    if not isinstance(beta, Tensor):
        return made(np.kaiser(M, beta))
    if M < 2:
        return made(np.ones(max(M, 0)))
    alpha = (M - 1) / 2.0
    inside = 1 - ((np.arange(M) - alpha) / alpha) ** 2
    return np.i0(beta * np.sqrt(inside)) / np.i0(beta)


_kaiser.__name__ = _kaiser.__qualname__ = "kaiser"
OWN["kaiser"] = _kaiser


def _in_memory(name: str) -> None:
    """Functions about memory, of which a Tensor has its own: it stays as it is."""
    plain = getattr(np, name)

    def call(a: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
        if not has_tensor(a):
            try:
                return plain(a, dtype, *args, **options)
            except (AttributeError, KeyError) as error:  # of requirements that are none
                raise TypeError(f"`{name}` got {args or options}: {error}") from None
        y = KEEPING["asarray"](a, dtype)
        if name == "asarray_chkfinite" and type(y) is Tensor and not np.all(np.isfinite(y._v)):
            raise ValueError("array must not contain infs or NaNs")
        rank = 0 if name in ("require", "asarray_chkfinite") else 1
        return y if y.ndim >= rank else reshape(y, (1,))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`numpy.{name}`; a Tensor stays one."
    OWN[name] = KEEPING[name] = call


for _name in ("ascontiguousarray", "asfortranarray", "asarray_chkfinite", "require"):
    _in_memory(_name)
