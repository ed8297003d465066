"""Loops inside loops over arrays: every place of a shape, and where that place lies in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Shape
from .build import vector_bytes
from .elementwise import FUNCTIONS
from .instructions import is_function
from .numbers.registers import clear, is_zero, store
from .repeat import loop_with
from .views import Buffer, View

if TYPE_CHECKING:
    from .kernel import Kernel

INT = ir.IntType(64)
LONG_LOOP = 64  # rounds from which on several vectors are under way
TOGETHER = 4  # rounds of an outer loop done together, where they share what they load
# Innermost loops that are written out: of so many rounds together, and each where vectors have masks, around so
# many statements and functions in all, inside of a loop of so many rounds.
NO_VECTORS = (2, 3, 5, 6, 7)
MOST_ROUNDS, MOST_STATEMENTS, MOST_FUNCTIONS = 12, 96, 12
ENOUGH = 16
TINY = 16  # rounds: of fewer LLVM makes vectors only if they fill them, or if there are masks for the last
MASKS = 32  # bytes of a vector, from which on a processor has them


def loop(b: ir.IRBuilder, count: int, body: Callable[[ir.IRBuilder, ir.Value], None]) -> None:
    def without_state(b: ir.IRBuilder, i: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        body(b, i)
        return []

    loop_with(b, count, [], without_state)


def nest(
    b: ir.IRBuilder,
    shape: Shape,
    body: Callable[[ir.IRBuilder, list[ir.Value]], None],
    place: Sequence[ir.Value] = (),
) -> None:
    """`body` at every place of `shape`, the last axis innermost; of the first ones, `place` is given."""
    if len(place) == len(shape):
        body(b, list(place))
    else:
        loop(b, shape[len(place)], lambda b, i: nest(b, shape, body, [*place, i]))


def fill(b: ir.IRBuilder, pointer: ir.Value, buffer: Buffer, value: ir.Value) -> None:
    """The same number into every entry."""
    if buffer.size > 1 and is_zero(value):
        clear(b, pointer, buffer.nbytes)
        return
    loop(b, buffer.size, lambda b, i: store(b, value, b.gep(pointer, [i]), buffer.dtype))


def offset(b: ir.IRBuilder, start: int, strides: Sequence[Any], place: Sequence[Any]) -> ir.Value:
    """start + Σ index · stride."""
    at = INT(start)
    for i, s in zip(place, strides, strict=True):
        if type(s) is not int:
            at = b.add(at, b.mul(i, s, flags=("nsw",)), flags=("nsw",))
        elif s:
            at = b.add(at, i if s == 1 else b.mul(i, INT(s), flags=("nsw",)), flags=("nsw",))
    return at


def address(
    b: ir.IRBuilder, pointer: ir.Value, start: int, strides: Sequence[Any], place: Sequence[Any]
) -> ir.Value:
    """Where the entry at a place lies.

    A step along the innermost loop is the size of a type, not a factor: so LLVM finds that the entries of a
    vector lie a fixed number of bytes apart, where it would multiply vectors of indices."""
    if not strides or type(strides[-1]) is not int or strides[-1] < 2:
        return b.gep(pointer, [offset(b, start, strides, place)])
    first = b.gep(pointer, [offset(b, start, strides[:-1], place[:-1])])
    step = ir.ArrayType(pointer.type.pointee, strides[-1])
    return b.gep(b.bitcast(first, step.as_pointer()), [place[-1], INT(0)])


def walk(kernel: Kernel, views: Sequence[View]) -> tuple[Shape, list[tuple[int, ...]]]:
    """The loops of a kernel, and how each view walks along them.

    Where nothing that is read or written lies along the last axis, but all of it along another, that one is
    innermost: so for sums over an array in Fortran's order."""
    shape, strides = kernel.domain, [v.strides for v in views]
    if not kernel.writes and not kernel.reads:  # of two writes to one place the last counts
        sums = {id(v) for v in [*[v for _, _, v in kernel.reductions], *kernel.end_views()]}
        moving = [s for v, s in zip(views, strides, strict=True) if id(v) not in sums and any(s)]
        lying = [
            k
            for k, n in enumerate(shape)
            if n >= LONG_LOOP and moving and all(abs(s[k]) == 1 or not s[k] for s in moving)
        ]
        if lying and not any(abs(s[-1]) <= 1 for s in moving):
            order = [*[k for k in range(len(shape)) if k != lying[-1]], lying[-1]]
            order = [*sorted(order[:-1], key=lambda k: -abs(moving[0][k])), order[-1]]
            shape = tuple([shape[k] for k in order])
            strides = [tuple([s[k] for k in order]) for s in strides]
    return merge_axes(shape, strides)


def rounds_together(kernel: Kernel, domain: Shape, strides: Mapping[int, tuple[int, ...]]) -> int:
    """How many rounds of the last loop but one are done together: several where it reads or sums up the same
    entries again and again, which are loaded once then: so for sums of products."""
    if domain[-2] < 2 * TOGETHER or len(kernel.statements) > 4 or not kernel.reductions:
        return 1
    if kernel.writes or kernel.stores or kernel.can_fail:
        return 1
    of_views = [strides[id(v)] for v in kernel.views()]
    is_shared = any(s[-2] == 0 and s[-1] != 0 for s in of_views)
    are_plain = not any(e.primitive.name in FUNCTIONS for e in kernel.statements)
    return TOGETHER if is_shared and are_plain else 1


def written_out(kernel: Kernel, domain: Shape) -> int:
    """From which loop on all are written out, round by round; the number of loops if none is.

    Rows of two or three numbers fill no vectors. Written out, they leave the long loop around them as the
    innermost one, of which LLVM makes vectors."""
    loops = len(domain)
    if kernel.writes or kernel.can_fail or loops < 2:
        return loops
    if domain[-1] not in NO_VECTORS and (has_masks() or domain[-1] > MOST_ROUNDS):
        return loops
    functions = sum(map(is_function, kernel.statements))
    for first in range(1, loops):
        rounds = prod(domain[first:])
        fits = rounds <= MOST_ROUNDS and rounds * functions <= MOST_FUNCTIONS
        if (
            fits
            and domain[first - 1] >= (ENOUGH if domain[-1] in NO_VECTORS else LONG_LOOP)
            and rounds * len(kernel.statements) <= MOST_STATEMENTS
        ):
            return first
    return loops - (domain[-1] == 2)


def has_masks() -> bool:
    return vector_bytes() >= MASKS


def lanes(dtype: np.dtype[Any]) -> int:
    """Numbers of a vector in a loop."""
    return max(vector_bytes() // dtype.itemsize, 1)


def common_lanes(views: Sequence[View]) -> int:
    """Of all that a loop reads and writes, numbers of a vector."""
    return min([lanes(v.dtype) for v in views if v.buffer.kind != "ramp"], default=1)


def left_over(rounds: int, views: Sequence[View]) -> int:
    """The last rounds of a short row that would keep LLVM from making vectors of the others."""
    rest = rounds % common_lanes(views)
    return 0 if rounds >= TINY or has_masks() or rest == rounds else rest


def merge_axes(shape: Shape, strides: list[tuple[int, ...]]) -> tuple[Shape, list[tuple[int, ...]]]:
    """Drop axes of length 1, and join neighbours that every view walks with even steps."""
    keep = [k for k, n in enumerate(shape) if n != 1]
    shape = tuple(shape[k] for k in keep)
    columns = [tuple(s[k] for k in keep) for s in strides]
    k = len(shape) - 2
    while k >= 0:
        n = shape[k + 1]
        if all(s[k] == s[k + 1] * n for s in columns):
            shape = (*shape[:k], shape[k] * n, *shape[k + 2 :])
            columns = [(*s[:k], s[k + 1], *s[k + 2 :]) for s in columns]
        k -= 1
    return shape, columns
