"""Products: every one of them is a `contract` with its labels written out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..operators.contraction import _LETTERS
from ..primitive import FUNCTIONS, UFUNCS, P
from ..primitives.contract import MATMUL, outer_product
from ..tensor import Tensor
from ._register import (
    all_axes,
    array,
    dtype_of,
    flag,
    function,
    ndim_of,
    one_axis,
    reject,
    shape_of,
)


def _contract(subscripts: str, *operands: Any) -> Any:
    """`contract`, with einsum's habit of broadcasting axes of length 1."""
    shapes = tuple([shape_of(a) for a in operands])
    fitted, reduced, sizes = _fitted(subscripts, shapes)
    if reduced is None:
        return P.contract(*operands, subscripts=fitted, sizes=sizes)
    parts = [
        a if shape is None else P.reshape(a, shape=shape)
        for a, shape in zip(operands, reduced, strict=True)
    ]
    return P.contract(*parts, subscripts=fitted, sizes=sizes)


@lru_cache(maxsize=1024)
def _fitted(subscripts: str, shapes: tuple[Any, ...]) -> tuple[str, Any, tuple[Any, ...]]:
    """The labels without axes of length 1 that are broadcast, the operands' shapes without them (None: as
    they are), and the lengths of what then stands in the output alone."""
    inputs, output = subscripts.split("->")
    labels = inputs.split(",")
    longest: dict[str, int] = {}
    for x, shape in zip(labels, shapes, strict=True):
        for c, n in zip(x, shape, strict=True):
            if x.count(c) > 1 and {m for d, m in zip(x, shape, strict=True) if d == c} != {n}:
                raise ShapeError(f"`{subscripts}`: the axes labelled {c!r} of {shape} differ")
            longest[c] = n if longest.get(c, 1) == 1 else longest[c]
    reduced: list[Any] = []
    names, present = [], ""
    for x, shape in zip(labels, shapes, strict=True):
        keep = [k for k, c in enumerate(x) if shape[k] == longest[c] or shape[k] != 1]
        reduced.append(None if len(keep) == len(x) else tuple(shape[k] for k in keep))
        x = "".join(x[k] for k in keep)
        names.append(x)
        present += x
    sizes = tuple((c, longest[c]) for c in dict.fromkeys(output) if c not in present)
    changed = any(shape is not None for shape in reduced)
    return f"{','.join(names)}->{output}", reduced if changed else None, sizes


def _strong(x: Any) -> Any:
    """Products other than ufuncs take a Python scalar as an array: it is not weak in promotion."""
    x = array(x)
    return x if hasattr(x, "dtype") else np.asarray(x)


@function
def matmul(x1: Any, x2: Any, /) -> Any:
    s: Any = getattr(x1, "shape", ())
    t: Any = getattr(x2, "shape", ())
    lane = MATMUL.get((len(s), len(t)))
    if lane is not None and s[-1] == t[0]:  # vectors and matrices: no ceremony
        return lane(x1, x2)
    a, b = array(x1), array(x2)
    s, t = shape_of(a), shape_of(b)
    if not s or not t:
        raise ShapeError(
            f"`matmul` needs arrays of rank 1 or more, got {s} and {t}; use `*` for scalars"
        )
    inner = t[-2] if len(t) > 1 else t[0]
    if s[-1] != inner:
        which = "second-to-last" if len(t) > 2 else "first"
        hint = "; did you mean `a @ b.T`?" if len(t) == 2 and s[-1] == t[1] else ""
        raise ShapeError(
            f"`matmul` needs the last axis of the first argument to match the {which} axis of the "
            f"second: got {s} and {t}{hint}"
        )
    batch = max(len(s), len(t), 2) - 2
    lead = _LETTERS[3 : 3 + batch]
    left = ("" if len(s) == 1 else lead[batch - len(s) + 2 :] + "a") + "b"
    right = "b" if len(t) == 1 else lead[batch - len(t) + 2 :] + "bc"
    out = lead + ("a" if len(s) > 1 else "") + ("c" if len(t) > 1 else "")
    try:
        np.broadcast_shapes(s[:-2], t[:-2])
    except ValueError:
        raise ShapeError(f"`matmul` cannot broadcast the leading axes of {s} and {t}") from None
    return _contract(f"{left},{right}->{out}", a, b)


@function
def dot(a: Any, b: Any, out: Any = None) -> Any:
    s: Any = getattr(a, "shape", ())
    t: Any = getattr(b, "shape", ())
    lane = MATMUL.get((len(s), len(t)))
    if out is None and lane is not None:
        return lane(a, b) if s[-1] == t[0] else matmul(a, b)
    reject("dot", out=out)
    a, b = _strong(a), _strong(b)
    n, m = ndim_of(a), ndim_of(b)
    if n == 0 or m == 0:
        return P.multiply(a, b)
    return matmul(a, b) if m == 1 or (n <= 2 and m == 2) else tensordot(a, b, ((n - 1,), (m - 2,)))


@function
def vdot(a: Any, b: Any) -> Any:
    a, b = FUNCTIONS["ravel"](a), FUNCTIONS["ravel"](b)
    return matmul(P.conjugate(a) if dtype_of(a).kind == "c" else a, b)


@function
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, keepdims: bool = False) -> Any:
    a, b = array(x1), array(x2)
    a = P.conjugate(a) if dtype_of(a).kind == "c" else a
    a = FUNCTIONS["moveaxis"](a, one_axis(axis, ndim_of(a)), -1)
    b = FUNCTIONS["moveaxis"](b, one_axis(axis, ndim_of(b)), -1)
    if shape_of(a)[-1] != shape_of(b)[-1]:
        raise ShapeError(
            f"`vecdot` needs one length along axis {axis}, got {shape_of(x1)} and {shape_of(x2)}"
        )
    y = einsum("...i,...i->...", a, b)
    return FUNCTIONS["expand_dims"](y, axis) if flag(keepdims) else y


@function
def inner(a: Any, b: Any) -> Any:
    a, b = _strong(a), _strong(b)
    if ndim_of(a) == 0 or ndim_of(b) == 0:
        return P.multiply(a, b)
    return tensordot(a, b, ((ndim_of(a) - 1,), (ndim_of(b) - 1,)))


@function
def outer(a: Any, b: Any, out: Any = None) -> Any:
    a, b = [x if len(getattr(x, "shape", ())) == 1 else FUNCTIONS["ravel"](x) for x in (a, b)]
    return outer_product(a, b)


@function
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = array(a), array(b)
    n, m = ndim_of(a), ndim_of(b)
    if isinstance(axes, int | np.integer):
        over_a, over_b = tuple(range(n - axes, n)), tuple(range(axes))
    elif not isinstance(axes, list | tuple | np.ndarray) or len(axes) != 2:
        raise TypeError(f"`tensordot` takes a number of axes, or two lists of them, got {axes!r}")
    else:
        over_a, over_b = all_axes(axes[0], n), all_axes(axes[1], m)
    left = list(_LETTERS[:n])
    right = list(_LETTERS[n : n + m])
    for i, j in zip(over_a, over_b, strict=True):
        if shape_of(a)[i] != shape_of(b)[j]:
            raise ShapeError(
                f"`tensordot`: axis {i} of {shape_of(a)} does not match axis {j} of {shape_of(b)}"
            )
        right[j] = left[i]
    out = [c for k, c in enumerate(left) if k not in over_a] + [
        c for k, c in enumerate(right) if k not in over_b
    ]
    return P.contract(
        a, b, subscripts=f"{''.join(left)},{''.join(right)}->{''.join(out)}", sizes=()
    )


@function
def einsum(
    subscripts: Any, *operands: Any, optimize: Any = None, dtype: Any = None, **_: Any
) -> Any:
    """NumPy's einsum, with implicit output, ellipsis and broadcasting."""
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved(subscripts, *operands)
    if dtype is None:
        parts = [a if type(a) is Tensor else _strong(a) for a in operands]
    else:
        parts = [FUNCTIONS["astype"](a, dtype) for a in operands]
    labels = _labelled(subscripts, tuple([shape_of(a) for a in parts]))
    return _contract(labels, *parts)


@lru_cache(maxsize=1024)
def _labelled(subscripts: str, shapes: tuple[Any, ...]) -> str:
    """The labels with ellipses and the output written out."""
    text = subscripts.replace(" ", "")
    inputs, _, output = text.partition("->")
    labels = inputs.split(",")
    if len(labels) != len(shapes):
        raise ShapeError(f"einsum {subscripts!r} names {len(labels)} operands, got {len(shapes)}")
    free = [c for c in _LETTERS if c not in text]
    widths = [len(s) - len(x.replace("...", "")) for x, s in zip(labels, shapes, strict=True)]
    for x, shape, w in zip(labels, shapes, widths, strict=True):
        if w < 0 or (w and "..." not in x):
            raise ShapeError(
                f"einsum {subscripts!r}: {x!r} does not fit an operand of shape {shape}"
            )
    dots = "".join(free[: max(widths, default=0)])
    labels = [x.replace("...", dots[len(dots) - w :]) for x, w in zip(labels, widths, strict=True)]
    if "->" in text:
        output = output.replace("...", dots)
        missing = [c for c in output if c not in "".join(labels)]
        if missing or len(set(output)) < len(output):
            raise ShapeError(
                f"einsum {subscripts!r}: every label of the output must stand in an operand, and once"
            )
    else:
        joined = "".join(labels)
        output = dots + "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots)
        )
    return f"{','.join(labels)}->{output}"


def _interleaved(*args: Any) -> tuple[str, tuple[Any, ...]]:
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as text."""

    def text(sublist: Any) -> str:
        return "".join("..." if k is Ellipsis else _LETTERS[k] for k in sublist)

    pairs = len(args) // 2
    operands = args[: 2 * pairs : 2]
    names = ",".join(text(x) for x in args[1 : 2 * pairs : 2])
    return (f"{names}->{text(args[-1])}" if len(args) % 2 else names), tuple(operands)


@function
def kron(a: Any, b: Any) -> Any:
    a, b = _strong(a), _strong(b)
    n = max(ndim_of(a), ndim_of(b))
    s = (1,) * (n - ndim_of(a)) + shape_of(a)
    t = (1,) * (n - ndim_of(b)) + shape_of(b)
    a = P.reshape(a, shape=tuple(x for p in s for x in (p, 1)))
    b = P.reshape(b, shape=tuple(x for p in t for x in (1, p)))
    return P.reshape(P.multiply(a, b), shape=tuple(p * q for p, q in zip(s, t, strict=True)))


@function
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    n = ndim_of(a)
    i, j = one_axis(axis1, n), one_axis(axis2, n)
    rows, columns = shape_of(a)[i], shape_of(a)[j]
    top, left = max(-offset, 0), max(offset, 0)
    length = max(min(rows - top, columns - left), 0)
    key: list[Any] = [slice(None)] * n
    key[i], key[j] = slice(top, top + length), slice(left, left + length)
    square = array(a)[tuple(key)]
    labels = list(_LETTERS[:n])
    labels[j] = labels[i]
    rest = "".join(c for k, c in enumerate(labels) if k not in (i, j))
    return P.contract(square, subscripts=f"{''.join(labels)}->{rest}{labels[i]}", sizes=())


@function
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    reject("trace", out=out)
    d = diagonal(a, offset, axis1, axis2)
    d = d if dtype is None else FUNCTIONS["astype"](d, dtype)
    return P.sum(d, axis=(ndim_of(d) - 1,), keepdims=False)


@function
def diag(v: Any, k: int = 0) -> Any:
    v = array(v)
    if ndim_of(v) == 2:
        return diagonal(v, k)
    if ndim_of(v) != 1:
        raise ShapeError(f"`diag` needs rank 1 or 2, got shape {shape_of(v)}")
    n = shape_of(v)[0]
    square = P.contract(array(v), subscripts="i->ii", sizes=())
    if k == 0:
        return square
    start = (max(-k, 0), max(-k, 0) + n, 1), (max(k, 0), max(k, 0) + n, 1)
    return P.unslice(square, spec=start, shape=(n + abs(k), n + abs(k)))


@function
def diagflat(v: Any, k: int = 0) -> Any:
    return diag(FUNCTIONS["ravel"](v), k)


UFUNCS[np.matmul] = matmul
