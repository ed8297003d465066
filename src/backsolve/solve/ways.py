"""The ways to solve, entered for `System`: thin doors to forward, reverse and many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..operators import Operator
from ..row import Row
from ..system import System, way
from .forward import forward_substitute
from .many import forward_jacobian, reverse_jacobian
from .reverse import back_substitute


@way("forward")
def forward(system: System, seeds: Sequence[Any]) -> list[Any]:
    pairs = list(zip(system.parameters, seeds, strict=True))
    return forward_substitute(system.rows, pairs, system.outputs, record=system.record)


@way("reverse")
def reverse(system: System, seeds: Sequence[tuple[Row, Any]]) -> list[Any]:
    found: list[Any] = back_substitute(
        seeds, system.parameters, oldest=_oldest(system), record=system.record
    )
    return found


def _oldest(system: System) -> int:
    return min((p.index for p in system.parameters), default=-1)


@way("adjoints")
def adjoints(system: System, output: Row) -> dict[Row, Any]:
    """v̄ of every row and parameter, for one scalar output."""
    seed = np.ones(output.shape, output.dtype)[()]
    found: dict[Row, Any] = {}
    for row in [*system.rows, *system.parameters]:
        if row is output:
            found[row] = seed
            continue
        (g,) = back_substitute(
            [(output, seed)], [row], oldest=_oldest(system), record=system.record
        )
        if g is not None:
            found[row] = g
    return found


@way("jacobian")
def jacobian(system: System, method: str) -> list[list[Any]]:
    """[output][parameter] -> dense array of shape output.shape + parameter.shape."""
    if method not in ("auto", "forward", "reverse"):
        raise ValueError(f'method must be "auto", "forward" or "reverse", got {method!r}')
    n_in = sum(p.size for p in system.parameters)
    live = [y for y in system.outputs if y is not None]
    if method == "forward" or (method == "auto" and n_in <= sum(y.size for y in live)):
        columns = [forward_jacobian(system.rows, live, p, system.record) for p in system.parameters]
        by_output = [
            [
                np.reshape(np.moveaxis(c[k], 0, -1), (*y.shape, *p.shape))
                for c, p in zip(columns, system.parameters, strict=True)
            ]
            for k, y in enumerate(live)
        ]
    else:
        by_output = []
        for y in live:
            stacks = reverse_jacobian(system.rows, y, system.parameters, system.record)
            by_output.append(
                [
                    np.reshape(s, (*y.shape, *p.shape))
                    for s, p in zip(stacks, system.parameters, strict=True)
                ]
            )
    rest = iter(by_output)
    return [
        [np.zeros((*np.shape(v), *p.shape)) for p in system.parameters]
        if row is None
        else next(rest)
        for row, v in zip(system.outputs, system._raw_outputs, strict=True)
    ]


@way("cost")
def cost(system: System, order: str) -> int:
    """Multiplications for the whole Jacobian, one solve per output (parameter) entry.

    Identities and signs cost nothing, nor does the first factor of a path: it multiplies the seed, 1.
    """
    if any(row.primitive.is_joint for row in system.rows):
        raise UnsupportedError(
            "the cost of a checkpointed, compiled or hand-written call inside a system is not known"
        )
    if order == "reverse":
        return sum(y.size * _reverse_pass(system, y) for y in system.outputs if y is not None)
    if order == "forward":
        return sum(_forward_pass(system, p, k) for p in system.parameters for k in range(p.size))
    raise ValueError(f'order must be "forward" or "reverse", got {order!r}')


def _price(block: Operator, source: Row, seeded: Row) -> int:
    return 0 if source is seeded and source.size == 1 else block.cost.multiplications


def _reverse_pass(system: System, output: Row) -> int:
    present = {output}
    total = 0
    for row in reversed(system.rows):
        if row in present:
            for parent, block in system.edges(row):
                total += _price(block, row, output)
                present.add(parent)
    return total


def _forward_pass(system: System, parameter: Row, k: int) -> int:
    seed = np.zeros(parameter.size)
    seed[k] = 1
    present = {parameter}
    total = 0
    for row in system.rows:
        for parent, block in system.edges(row):
            if parent not in present:
                continue
            # Reading entries of the seed: the one that is 1, or nothing.
            reads = parent is parameter and parameter.size > 1 and "selection" in block.structure
            if reads and not np.any(block.apply(seed.reshape(parameter.shape))):
                continue
            total += _price(block, parent, parameter)
            present.add(row)
    return total
