"""Back substitution on `(I − L)ᵀ x̄ = seed`: backpropagation.

From the last row to the first:  x̄_j += L_ijᵀ x̄_i  for every block L_ij of row i. Each block is built
from what its row captured, applied, and forgotten. The rows still to visit wait in a heap, the
youngest on top: the order of execution is the order of the system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from types import FunctionType
from typing import Any

import numpy as np

from ..errors import FreedGraphError
from ..operators import Identity, ScatterAdd, Unslice
from ..primitive import hooks, row_values
from ..row import FREED, Row
from . import masked
from .fit import fit_back
from .masked import Masked


class OuterRow(Exception):
    """A row older than the solve was met: somebody outside differentiates too, so it must be recorded."""


def back_substitute(
    seeds: Iterable[tuple[Row, Any]],
    wanted: Sequence[Row] | None,
    *,
    oldest: int = -1,
    record: bool = False,
    free: bool = False,
    reached: set[Row] | None = None,
) -> Any:
    """The adjoints of `wanted`, given the adjoints `seeds` of the outputs.

    With `wanted` None, a dict of the adjoints of all leaves. Rows older than `oldest` are not entered;
    meeting one raises OuterRow unless the solve is recorded. `record` keeps the solve itself
    differentiable; `free` gives back each row's captures once used; only rows in `reached`, if given,
    receive adjoints.
    """
    adjoints: dict[Row, Any] = {}
    waiting: dict[int, Row] = {}
    heap: list[int] = []
    fresh: set[Row] = set()  # whose adjoint is an array made here, and may be added into
    stop = frozenset(wanted) if wanted is not None else frozenset()

    def receive(row: Row, g: Any) -> None:
        old = adjoints.get(row)
        if old is None:
            adjoints[row] = g
            if row not in stop:
                waiting[-row.index] = row
                heappush(heap, -row.index)
        elif old.__class__ is Masked or g.__class__ is Masked:
            adjoints[row] = masked.plus(old, g)
        else:
            adjoints[row] = old + g

    with np.errstate(all="ignore"):
        for row, seed in seeds:
            receive(row, seed)
        observe = hooks.observe_block
        while heap:
            row = waiting.pop(heappop(heap))
            primitive = row.primitive
            if primitive.is_leaf:
                continue
            seed = adjoints.pop(row)
            if primitive.is_component:
                _deposit(adjoints, waiting, heap, row, seed)
                continue
            saved = row.saved
            if saved is FREED:
                raise FreedGraphError("the rows of this result were freed; keep retain_graph=True")
            if record and saved:
                saved = row_values(row)
            if primitive.is_joint:
                operator = row.params["operator_of"](saved[1:], record)  # type: ignore[index]
                images = operator.T.apply(tuple(seed))
            blocks = primitive.blocks
            for i, parent in enumerate(row.parents):
                if parent.__class__ is not Row:
                    continue
                if parent.index < oldest and parent not in stop:
                    if not record:
                        raise OuterRow
                    continue
                if reached is not None and parent not in reached:
                    continue
                if primitive.is_joint:
                    g = images[i]
                    if g is None:
                        continue
                else:
                    block = blocks[i] if blocks is not None else None
                    if block.__class__ is FunctionType:
                        block = block(saved, row)
                    elif block is None:
                        block = primitive.block(row, i, saved)
                    if block.__class__ is Identity:
                        g = seed
                    elif block.adjoint_masks or seed.__class__ is Masked:
                        block = block.T
                        if _add_into(block, adjoints, seed, parent, fresh, record):
                            continue
                        g = _apply_masked(block, seed, parent)
                    else:
                        g = block.pull(seed)
                if g.__class__ is Masked or g.shape != parent.shape or g.dtype != parent.dtype:
                    g = fit_back(g, parent)
                if observe is not None:
                    observe(row, g, seed)
                receive(parent, g)
            if free and row.saved:
                row.saved = FREED
    if wanted is None:
        return {row: masked.plain(g) for row, g in adjoints.items()}
    return [masked.plain(adjoints[r]) if r in adjoints else None for r in wanted]


def _apply_masked(block: Any, seed: Any, parent: Row) -> Any:
    """A block that makes structural zeros. A leaf needs no mask: nothing will multiply its adjoint."""
    if parent.is_leaf and block.__class__ in (Unslice, ScatterAdd):
        return block.apply(masked.plain(seed))
    g = masked.apply(block, seed)
    return masked.plain(g) if parent.is_leaf else g


def _add_into(
    block: Any, adjoints: dict[Row, Any], seed: Any, parent: Row, fresh: set[Row], record: bool
) -> bool:
    """Adjoints of single entries are added in place: n reads of an array cost O(n), not O(n²)."""
    if record or block.__class__ not in (Unslice, ScatterAdd):
        return False
    old = adjoints.get(parent)
    if old is None:
        fresh.add(parent)  # what apply is about to make
        return False
    value, part = masked.plain(old), masked.plain(seed)
    if isinstance(part, hooks.Tensor) or isinstance(value, hooks.Tensor) or part.dtype != value.dtype:
        return False
    if parent not in fresh:
        value = np.array(value)
        mask = np.array(old.mask) if old.__class__ is Masked else None
        adjoints[parent] = value if mask is None else Masked(value, mask)
        fresh.add(parent)
        old = adjoints[parent]
    block.apply_add(value, part)
    if old.__class__ is Masked:
        old.mask |= block.support(seed.mask if seed.__class__ is Masked else None)
    return True


def _deposit(adjoints: dict[Row, Any], waiting: dict[int, Row], heap: list[int], row: Row, seed: Any) -> None:
    """One component's adjoint into the tuple of its joint row."""
    base, k = row.parents[0], row.params["k"]  # type: ignore[index]
    parts = adjoints.get(base)
    if parts is None:
        parts = adjoints[base] = [None] * base.params["outputs"]
        waiting[-base.index] = base
        heappush(heap, -base.index)
    seed = masked.plain(seed)
    parts[k] = seed if parts[k] is None else parts[k] + seed
