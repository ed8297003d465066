"""The ways to solve, entered for `System`: thin doors to forward, reverse and many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..row import Row
from ..system import System, way
from .forward import forward_substitute
from .many import forward_jacobian, reverse_jacobian
from .reverse import back_substitute


@way("forward")
def forward(system: System, seeds: Sequence[Any]) -> list[Any]:
    pairs = list(zip(system.parameters, seeds, strict=True))
    return forward_substitute(system.rows, pairs, system.outputs)


@way("reverse")
def reverse(system: System, seeds: Sequence[tuple[Row, Any]]) -> list[Any]:
    return back_substitute(seeds, system.parameters, oldest=_oldest(system), record=system.record)


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
        (g,) = back_substitute([(output, seed)], [row], oldest=_oldest(system), record=system.record)
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
        columns = [forward_jacobian(system.rows, live, p, False) for p in system.parameters]
        by_output = [
            [np.reshape(np.moveaxis(c[k], 0, -1), (*y.shape, *p.shape)) for c, p in zip(columns, system.parameters, strict=True)]
            for k, y in enumerate(live)
        ]
    else:
        by_output = []
        for y in live:
            stacks = reverse_jacobian(system.rows, y, system.parameters, False)
            by_output.append([np.reshape(s, (*y.shape, *p.shape)) for s, p in zip(stacks, system.parameters, strict=True)])
    rest = iter(by_output)
    return [
        [np.zeros((*np.shape(v), *p.shape)) for p in system.parameters] if row is None else next(rest)
        for row, v in zip(system.outputs, system._raw_outputs, strict=True)
    ]


@way("cost")
def cost(system: System, order: str) -> int:
    """Multiplications for the whole Jacobian. A factor that is the unit seed itself, or ±1, is free."""
    if order == "reverse":
        total = 0
        for y in system.outputs:
            if y is not None:
                total += y.size * _reverse_pass(system, y)
        return total
    if order == "forward":
        return sum(_forward_pass(system, p, k) for p in system.parameters for k in range(p.size))
    raise ValueError(f'order must be "forward" or "reverse", got {order!r}')


# What is known of a differential during a pass: nothing there, the seed's own ±1, or a general number.
_ABSENT, _UNIT, _GENERAL = 0, 1, 2


def _reverse_pass(system: System, output: Row) -> int:
    state = {output: _UNIT if output.size == 1 else _GENERAL}
    total = 0
    for row in reversed(system.rows):
        known = state.get(row, _ABSENT)
        if known == _ABSENT:
            continue
        for parent, block in system.edges(row):
            count = block.cost.multiplications
            is_free = known == _UNIT and row.size == 1
            total += 0 if is_free else count
            kept = _UNIT if known == _UNIT and count == 0 else _GENERAL
            state[parent] = _GENERAL if parent in state else kept
    return total


def _forward_pass(system: System, parameter: Row, k: int) -> int:
    seed = np.zeros(parameter.size)
    seed[k] = 1
    state = {parameter: _UNIT if parameter.size == 1 else _GENERAL}
    total = 0
    for row in system.rows:
        found = _ABSENT
        for parent, block in system.edges(row):
            known = state.get(parent, _ABSENT)
            if known == _ABSENT:
                continue
            count = block.cost.multiplications
            is_free = known == _UNIT and parent.size == 1
            if parent is parameter and parameter.size > 1 and "selection" in block.structure:
                # Reading one entry of the seed: it is 1 or it is not there.
                image = np.asarray(block.apply(seed.reshape(parameter.shape)))
                if not image.any():
                    continue
                kept = _UNIT if image.size == 1 else _GENERAL
            else:
                total += 0 if is_free else count
                kept = _UNIT if known == _UNIT and count == 0 else _GENERAL
            found = kept if found == _ABSENT else _GENERAL
        if found != _ABSENT:
            state[row] = found
    return total
