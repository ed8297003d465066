"""contract: loops over products, `Y[h,i,j] += A[h,i,k] · B[h,j,k]`, and the swap rule.

`subscripts` is written as for einsum ("hik,hjk->hij"), and means the loop nest literally: every
label is a loop, the output is added into. So a label may stand twice in the output (only the
diagonal is written) and an output label may be absent from all inputs (the same number is written
along it, its length given by `sizes`): that makes the nests closed under swapping output and input.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir import Type
from ..operators import Contraction
from ..operators.contraction import _LETTERS, split_subscripts
from ..primitive import primitive
from .batching import rank


def _block(i: int, s: Any, row: Any) -> Any:
    params, parents = row.params, row.parents
    operands: tuple[Any, ...]
    if len(parents) == 2:
        operands = (s[1], None) if i else (None, s[2])
    else:
        operands = tuple([None if k == i else s[k + 1] for k in range(len(parents))])
    return Contraction(params["subscripts"], i, operands, parents[i], params["sizes"])


def label_sizes(subscripts: str, shapes: Any, sizes: Any) -> dict[str, int]:
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


def _type(*types: Type, subscripts: str, sizes: Any) -> Type:
    known = label_sizes(subscripts, [t.shape for t in types], sizes)
    _, output = split_subscripts(subscripts)
    return Type(tuple(known[c] for c in output), np.result_type(*[t.dtype for t in types]))


def _run(*operands: Any, subscripts: str, sizes: Any) -> Any:
    if subscripts == "ij,jk->ik":
        return np.matmul(*operands)
    plan = _plan(subscripts)
    if plan is not None:
        return plan(*operands)
    return _general(operands, subscripts, sizes)


def _general(operands: Any, subscripts: str, sizes: Any) -> Any:
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
def _plan(subscripts: str) -> Any:
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
        out = np.matmul(x.T if turn_a else x, y.T if turn_b else y)
        return out.T if swapped else out

    return run


def _outer_plan(a: str, b: str, output: str) -> Any:
    """No sum: line the axes up and multiply."""

    def lined_up(labels: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        perm = tuple(labels.index(c) for c in output if c in labels)
        new = tuple(k for k, c in enumerate(output) if c not in labels)
        return perm, new

    (perm_a, new_a), (perm_b, new_b) = lined_up(a), lined_up(b)

    def run(x: Any, y: Any) -> Any:
        label_sizes(f"{a},{b}->{output}", (np.shape(x), np.shape(y)), ())
        x = np.expand_dims(np.transpose(x, perm_a), new_a)
        y = np.expand_dims(np.transpose(y, perm_b), new_b)
        return np.multiply(x, y)

    return run


def _batch(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    inputs, output = split_subscripts(params["subscripts"])
    new = next(c for c in _LETTERS if c not in params["subscripts"])
    labels = [new + x if b else x for x, b in zip(inputs, batched, strict=True)]
    assert all(rank(a) == len(x) for a, x in zip(args, labels, strict=True))
    return prim(*args, subscripts=f"{','.join(labels)}->{new}{output}", sizes=params["sizes"])


contract = primitive(
    "contract",
    _run,
    blocks=_block,
    wants=lambda i, n: [k for k in range(1, n + 1) if k != i + 1],
    type=_type,
    batch=_batch,
    text="contract[{subscripts}]({args})",
    code="np.einsum('{subscripts}', {args})",
)
