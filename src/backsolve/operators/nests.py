"""Running a loop nest `Y[h,i,j] += A[h,i,k] · B[h,j,k]` on bare arrays, by a matrix product if it is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..errors import ShapeError

MATRIX = "ij,jk->ik"


def split_subscripts(subscripts: str) -> tuple[list[str], str]:
    inputs, output = subscripts.split("->")
    return inputs.split(","), output


def label_sizes(subscripts: str, shapes: Sequence[Any], sizes: Any) -> dict[str, int]:
    """The length of every loop; a clear error where two disagree."""
    inputs, _ = split_subscripts(subscripts)
    known = dict(sizes)
    for labels, shape in zip(inputs, shapes, strict=True):
        if len(labels) != len(shape):
            raise ShapeError(
                f"`{subscripts}` expects rank {len(labels)} for {labels!r}, got shape {shape}"
            )
        for c, n in zip(labels, shape, strict=True):
            if known.setdefault(c, n) != n:
                raise ShapeError(
                    f"`{subscripts}` needs one length for {c!r}: got {known[c]} and {n} in {shapes}"
                )
    return known


def run_nest(*operands: Any, subscripts: str, sizes: Any) -> Any:
    plan = plan_of(subscripts)
    return plan(*operands) if plan is not None else _general(operands, subscripts, sizes)


def _general(operands: Sequence[Any], subscripts: str, sizes: Any) -> Any:
    inputs, output = split_subscripts(subscripts)
    known = label_sizes(subscripts, [np.shape(a) for a in operands], sizes)
    unique = "".join(dict.fromkeys(output))
    present = "".join(c for c in unique if c in "".join(inputs))
    y = np.einsum(f"{','.join(inputs)}->{present}", *operands, optimize=len(operands) > 2)
    if present != unique:
        y = np.reshape(y, tuple(known[c] if c in present else 1 for c in unique))
        y = np.broadcast_to(y, tuple(known[c] for c in unique))
    if unique != output:
        out = np.zeros(tuple(known[c] for c in output), y.dtype)
        np.einsum(f"{output}->{unique}", out)[...] = y  # a writable view of the diagonal
        return out
    return y


@lru_cache(maxsize=4096)
def plan_of(subscripts: str) -> Callable[[Any, Any], Any] | None:
    """How to run two operands by one matrix product, or None. Worked out once per nest."""
    inputs, output = split_subscripts(subscripts)
    if len(inputs) != 2:
        return None
    a, b = inputs
    if any(len(set(x)) < len(x) for x in (a, b, output)) or not set(output) <= set(a + b):
        return None
    batch = [c for c in output if c in a and c in b]
    inner = [c for c in a if c in b and c not in output]
    left = [c for c in output if c in a and c not in b]
    right = [c for c in output if c in b and c not in a]
    if len(batch) + len(inner) + len(left) != len(a) or len(batch) + len(inner) + len(right) != len(
        b
    ):
        return None  # a label that stands in one operand only: einsum sums it first
    if not inner:
        return _outer_plan(a, b, output)
    if not batch and len(inner) == 1 and len(left) <= 1 and len(right) <= 1:
        turn_a, turn_b = a[-1] != inner[0], b[0] != inner[0]
        swapped = output != "".join(left + right)
        return _matmul_plan(turn_a, turn_b, swapped)
    perm_a = tuple(a.index(c) for c in batch + left + inner)
    perm_b = tuple(b.index(c) for c in batch + inner + right)
    perm_y = tuple((batch + left + right).index(c) for c in output)
    nb, nl, nc = len(batch), len(left), len(inner)

    def run(x: Any, y: Any) -> Any:
        label_sizes(subscripts, (x.shape, y.shape), ())
        x, y = x.transpose(perm_a), y.transpose(perm_b)
        bs, ls, cs, rs = x.shape[:nb], x.shape[nb : nb + nl], x.shape[nb + nl :], y.shape[nb + nc :]
        x = x.reshape(*bs, prod(ls), prod(cs))
        y = y.reshape(*bs, prod(cs), prod(rs))
        return np.matmul(x, y).reshape(bs + ls + rs).transpose(perm_y)[()]

    return run


def _matmul_plan(turn_a: bool, turn_b: bool, swapped: bool) -> Any:
    def run(x: Any, y: Any) -> Any:
        x, y = x.T if turn_a else x, y.T if turn_b else y
        # ndarray.dot is the same product, with half of matmul's overhead.
        out = x.dot(y) if x.__class__ is y.__class__ is np.ndarray else np.matmul(x, y)
        return out.T if swapped else out

    return run


def _outer_plan(a: str, b: str, output: str) -> Any:
    """No sum: line the axes up and multiply."""
    if (not a and b == output) or (not b and a == output):  # a number times an array
        return np.multiply

    def lined_up(labels: str) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        perm = tuple(labels.index(c) for c in output if c in labels)
        return perm, tuple(slice(None) if c in labels else None for c in output)

    (perm_a, key_a), (perm_b, key_b) = lined_up(a), lined_up(b)
    share = bool(set(a) & set(b))

    def run(x: Any, y: Any) -> Any:
        if share or x.ndim != len(a) or y.ndim != len(b):
            label_sizes(f"{a},{b}->{output}", (x.shape, y.shape), ())
        return np.multiply(x.transpose(perm_a)[key_a], y.transpose(perm_b)[key_b])

    return run
