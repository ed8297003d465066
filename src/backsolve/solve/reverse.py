"""Back substitution on `(I − L)ᵀ x̄ = seed`: backpropagation.

From the last row to the first:  x̄_j += L_ijᵀ x̄_i  for every block L_ij of row i. Each block is built
from what its row captured, applied, and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..operators import Identity, ScatterAdd, Unslice
from ..primitive import hooks, row_values
from ..row import FREED, Row
from . import masked
from .fit import fit_back
from .masked import Masked


def back_substitute(
    rows: Sequence[Row],
    seeds: Iterable[tuple[Row, Any]],
    wanted: Sequence[Row],
    *,
    record: bool = False,
    free: bool = False,
    reached: set[Row] | None = None,
) -> list[Any]:
    """The adjoints of `wanted`, given the adjoints `seeds` of the outputs.

    `rows` are the rows between them in order of execution; `record` keeps the solve itself
    differentiable; `free` gives back each row's captures once used; only rows in `reached`, if given,
    receive adjoints.
    """
    adjoints: dict[Row, Any] = {}
    owned: set[Row] = set()  # whose adjoint is an array made here, and may be added into
    for row, seed in seeds:
        adjoints[row] = masked.plus(adjoints[row], seed) if row in adjoints else seed
    stop = set(wanted)
    observe = hooks.observe_block
    with np.errstate(all="ignore"):
        for row in reversed(rows):
            if row in stop:
                continue
            seed = adjoints.pop(row, None)
            if seed is None:
                continue
            primitive = row.primitive
            if primitive.is_component:
                _deposit(adjoints, row, seed)
                continue
            saved = row_values(row) if record else row.saved
            if primitive.is_joint:
                _spread_joint(adjoints, row, seed, saved, reached, record)
            else:
                for i, parent in enumerate(row.parents):
                    if parent.__class__ is not Row or (reached is not None and parent not in reached):
                        continue
                    block = primitive.block(row, i, saved)
                    if block.__class__ is Identity:
                        g = seed
                    else:
                        block = block.T
                        old = adjoints.get(parent)
                        if old is not None and not record and _add_into(block, old, seed, parent, owned):
                            continue
                        if block.masks or seed.__class__ is Masked:
                            g = _apply_masked(block, seed, parent, owned, old is None)
                        else:
                            g = block.apply(seed)
                    g = fit_back(g, parent)
                    if observe is not None:
                        observe(row, g, seed)
                    if parent in adjoints:
                        adjoints[parent] = masked.plus(adjoints[parent], g)
                        if not record:
                            owned.add(parent)
                    else:
                        adjoints[parent] = g
            if free and row.saved:
                row.saved = FREED
    return [masked.plain(adjoints[r]) if r in adjoints else None for r in wanted]


def _apply_masked(block: Any, seed: Any, parent: Row, owned: set[Row], first: bool) -> Any:
    """A block that makes structural zeros. A leaf needs no mask: nothing will multiply its adjoint."""
    fresh = block.__class__ in (Unslice, ScatterAdd)
    if parent.is_leaf:
        g = block.apply(masked.plain(seed)) if fresh else masked.plain(masked.apply(block, seed))
    else:
        g = masked.apply(block, seed)
    if fresh and first:
        owned.add(parent)
    return g


def _add_into(block: Any, old: Any, seed: Any, parent: Row, owned: set[Row]) -> bool:
    """Adjoints of single entries are added in place: n reads of an array cost O(n), not O(n²)."""
    if block.__class__ not in (Unslice, ScatterAdd) or parent not in owned:
        return False
    value = masked.plain(old)
    seed_value = masked.plain(seed)
    if value.__class__ is not np.ndarray or getattr(seed_value, "dtype", None) != value.dtype:
        return False
    if isinstance(seed_value, hooks.Tensor):
        return False
    block.apply_add(value, seed_value)
    if old.__class__ is Masked:
        np.logical_or(old.mask, block.support(seed.mask if seed.__class__ is Masked else None), out=old.mask)
    return True


def _deposit(adjoints: dict[Row, Any], row: Row, seed: Any) -> None:
    """One component's adjoint into the tuple of its joint row."""
    base, k = row.parents[0], row.params["k"]  # type: ignore[index]
    parts = adjoints.setdefault(base, [None] * base.params["outputs"])
    seed = masked.plain(seed)
    parts[k] = seed if parts[k] is None else parts[k] + seed


def _spread_joint(
    adjoints: dict[Row, Any], row: Row, seed: Any, saved: Any, reached: set[Row] | None, record: bool
) -> None:
    operator = row.params["operator_of"](saved[1:], record)  # type: ignore[index]
    for parent, g in zip(row.parents, operator.T.apply(tuple(seed)), strict=True):
        if parent.__class__ is not Row or g is None or (reached is not None and parent not in reached):
            continue
        g = fit_back(g, parent)
        adjoints[parent] = masked.plus(adjoints[parent], g) if parent in adjoints else g
