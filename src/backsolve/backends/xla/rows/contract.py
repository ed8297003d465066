"""`contract`: loops over products as einsum, then what einsum has no words for: diagonals and new axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import add, mul
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....operators.nests import label_sizes, split_subscripts
from .base import as_output, is_half, row

TERMS, TINY = (
    4,
    1 << 17,
)  # of a product on a GPU that is written out: numbers added up, numbers multiplied


@row("contract")
def contract(m: Any, e: Any, inputs: Any) -> Any:
    operands = as_output(m, e, inputs)
    subscripts = e.params["subscripts"]
    labels, output = split_subscripts(subscripts)
    sizes = label_sizes(subscripts, [a.shape for a in operands], e.params["sizes"])
    distinct = "".join(dict.fromkeys(output))
    known = "".join(c for c in distinct if any(c in x for x in labels))
    is_product = _is_product(labels, known, sizes)
    # Products of 16-bit matrices are added up in float32 anyway, and rounded once; other sums are told to be.
    wide = jnp.float32 if is_half(operands[0]) and not is_product else None
    if m.on_gpu and is_product and _is_tiny(operands, labels, known, sizes):
        y = _term_by_term(operands, labels, known, sizes)
    else:
        y = jnp.einsum(
            f"{','.join(labels)}->{known}",
            *operands,
            precision=m.precision if is_product else lax.Precision.HIGHEST,
            preferred_element_type=wide,
            optimize="optimal",
        )
    if distinct != known:
        places = [distinct.index(c) for c in known]
        y = lax.broadcast_in_dim(y, [sizes[c] for c in distinct], places)
    if distinct == output:
        return y
    return _diagonal(y, distinct, output, sizes)


def _is_product(labels: list[str], output: str, sizes: dict[str, int]) -> bool:
    """Whether this is a product of matrices, not a sum along axes, for which fewer digits gain nothing."""
    summed = {c for x in labels for c in x if c not in output and sizes[c] > 1}
    free = [{c for c in x if c in output and sizes[c] > 1} for x in labels]
    return bool(summed) and len(labels) == 2 and bool(free[0] - free[1]) and bool(free[1] - free[0])


def _is_tiny(
    operands: Sequence[Any], labels: list[str], output: str, sizes: dict[str, int]
) -> bool:
    """Whether starting a kernel for it takes longer than it runs; sums of products XLA fuses."""
    terms = prod(sizes[c] for c in _summed(labels, output))
    is_plain = all(len({*x}) == len(x) for x in labels) and not is_half(operands[0])
    return is_plain and terms <= TERMS and terms * prod(sizes[c] for c in output) <= TINY


def _summed(labels: list[str], output: str) -> str:
    return "".join(dict.fromkeys(c for x in labels for c in x if c not in output))


def _term_by_term(
    operands: Sequence[Any], labels: list[str], output: str, sizes: dict[str, int]
) -> Any:
    """Σ_k a_k b_k, each product spread over all places of the output."""
    summed, shape = _summed(labels, output), [sizes[c] for c in output]
    terms = []
    for numbers in np.ndindex(*[sizes[c] for c in summed]):
        at = dict(zip(summed, numbers, strict=True))
        factors = []
        for a, x in zip(operands, labels, strict=True):
            part = a[tuple(at.get(c, slice(None)) for c in x)]
            rest = [c for c in x if c in output]
            order = sorted(range(len(rest)), key=lambda k: output.index(rest[k]))
            places = sorted(output.index(c) for c in rest)
            factors.append(lax.broadcast_in_dim(jnp.transpose(part, order), shape, places))
        terms.append(reduce(mul, factors))
    return reduce(add, terms)


def _diagonal(y: Any, distinct: str, output: str, sizes: dict[str, int]) -> Any:
    """What stands where all places of a label agree, among zeros."""
    rank = len(output)
    fits = jnp.ones((1,) * rank, bool)
    seen: dict[str, Any] = {}
    for axis, c in enumerate(output):
        numbers = lax.broadcasted_iota(
            jnp.int32, [sizes[c] if k == axis else 1 for k in range(rank)], axis
        )
        if c in seen:
            fits = fits & (seen[c] == numbers)
        else:
            seen[c] = numbers
    firsts = [output.index(c) for c in distinct]
    wide = lax.broadcast_in_dim(y, [sizes[c] for c in output], firsts)
    return jnp.where(fits, wide, jnp.zeros((), y.dtype))
