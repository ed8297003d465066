"""Many right-hand sides at once: dense Jacobians.

The solve is linear in its seed. It is staged once, on a seed of which only the type is known, and
then run batched over all seeds of a basis: every block is applied to a stack instead of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..batch import evaluate_batched
from ..ir import Type
from ..row import Row
from ..tensor import Tensor
from ..trace import stage
from .forward import forward_substitute
from .masked import Masked
from .reverse import back_substitute

_BUDGET = 1 << 24  # entries of a stack that are worth holding at once


def reverse_jacobian(
    rows: Sequence[Row], output: Row, inputs: Sequence[Row], record: bool
) -> list[Any]:
    """∂output/∂input for each input, as stacks with one leading axis over the output's entries."""

    oldest = min(r.index for r in inputs)

    def pull(seed: Any) -> list[Any]:
        grads = back_substitute([(output, seed)], inputs, oldest=oldest, record=record)
        return [
            np.zeros(r.shape, r.dtype) if g is None else g
            for g, r in zip(grads, inputs, strict=True)
        ]

    return _over_basis(pull, output, rows)


def forward_jacobian(
    rows: Sequence[Row], outputs: Sequence[Row], input_: Row, record: bool, unit: complex = 1
) -> list[Any]:
    """∂output/∂input for each output, as stacks with one leading axis over the input's entries.

    `unit` is the entry of the basis vectors: 1j asks for the derivatives along the imaginary axis.
    """

    def push(seed: Any) -> list[Any]:
        tangents = forward_substitute(rows, [(input_, seed)], outputs, record=record)
        return [
            np.zeros(r.shape, r.dtype) if t is None else t
            for t, r in zip(tangents, outputs, strict=True)
        ]

    return _over_basis(push, input_, rows, unit)


def _over_basis(
    solve: Callable[[Any], list[Any]], at: Row, rows: Sequence[Row], unit: complex = 1
) -> list[Any]:
    n = at.size
    basis = (np.eye(n) * unit).astype(at.dtype).reshape(n, *at.shape)
    widest = max((row.size for row in rows), default=1)
    step = max(1, _BUDGET // max(widest, 1))
    stacks = [_solve_stack(solve, basis[k : k + step], at) for k in range(0, max(n, 1), step)]
    return [
        np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*stacks, strict=True)
    ]


def _solve_stack(solve: Callable[[Any], list[Any]], seeds: Any, at: Row) -> list[Any]:
    t = Type(at.shape, at.dtype)
    program, _ = stage(solve, [t])
    with np.errstate(all="ignore"):
        result = evaluate_batched(program, [seeds], [True], len(seeds))
        if not any(_has_nan(y) for y in result):
            return result
        # An infinite block met a zero of the basis. Those zeros are structural: say so, solve again.
        masked_program, _ = stage(
            lambda seed, mask: solve(Masked(seed, mask)), [t, Type(at.shape, np.dtype(bool))]
        )
        return evaluate_batched(masked_program, [seeds, seeds != 0], [True, True], len(seeds))


def _has_nan(y: Any) -> bool:
    if isinstance(y, Tensor):
        return type(y) is Tensor and bool(np.isnan(np.asarray(y.value)).any())
    return bool(np.isnan(y).any())
