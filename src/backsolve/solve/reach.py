"""Entries of rows that no derivative passes, because masks (`where`, `max`) stand before or behind them.

A mask selects, it does not multiply: what it leaves out stays zero whatever infinity it meets. Once masks are
multiplied into other operators that is forgotten, and 0 · ∞ would be NaN. So infinities that all ways out of,
or into, an entry leave out are taken away before anything is multiplied:

    live[row]   where a change of its entries can be seen at an output
    fed[row]    where its entries can change with the parameters          (None: everywhere)

Where several ways meet in a row and a mask stands on one of them, an infinity that another one sees must stay,
and the masked one makes it NaN: such a system is `mixed`, and what is NaN has to be solved for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..operators import Diagonal, Mask, Operator, Product
from ..operators.base import whole
from ..row import Row

Blocks = dict[Row, list[tuple[Row, Operator]]]


def without_unreached(
    rows: Sequence[Row], outputs: Sequence[Row | None], blocks: Blocks
) -> tuple[Blocks, bool]:
    """The same blocks, diagonals zero where nothing passes them; and whether ways are mixed."""
    if not any(masks(b) for edges in blocks.values() for _, b in edges):
        return blocks, False
    fed: dict[Row, Any] = {}
    is_mixed = False
    for row in rows:
        ways = [_seen(b, fed.get(p), b.support) for p, b in blocks[row]]
        is_mixed |= _is_mixed(ways)
        fed[row] = _joined(ways)
    ahead: dict[Row, list[Any]] = {y: [None] for y in outputs if y is not None}
    live: dict[Row, Any] = {}
    for row in reversed(rows):
        is_mixed |= _is_mixed(ahead.get(row, []))
        live[row] = _joined(ahead.get(row, [None]))
        for p, b in blocks[row]:
            ahead.setdefault(p, []).append(_seen(b, live[row], b.T.support))
    kept = {
        row: [(p, _kept(b, live[row], fed.get(p))) for p, b in edges]
        for row, edges in blocks.items()
    }
    return kept, is_mixed


def _is_mixed(ways: Sequence[Any]) -> bool:
    return len(ways) > 1 and any(mask is not None for mask in ways)


def _factors(block: Operator) -> tuple[Operator, ...]:
    return block.factors if isinstance(block, Product) else (block,)


def masks(block: Operator) -> bool:
    """Whether it selects entries by a mask."""
    return any(isinstance(f, Mask) for f in _factors(block))


def _seen(block: Operator, mask: Any, support: Callable[[Any], Any]) -> Any:
    """What a mask looks like behind a block. The zeros that slices make are structure and need no care."""
    return None if mask is None and not masks(block) else support(mask)


def _joined(masks: Sequence[Any]) -> Any:
    found = masks[0] if masks else None
    for mask in masks[1:]:
        if found is None or mask is None:
            return None
        found = np.logical_or(found, mask)
    return None if type(found) is np.ndarray and found.all() else found


def _kept(block: Operator, live: Any, fed: Any) -> Operator:
    """The outermost factors are those that the masks of rows and columns belong to."""
    factors = list(_factors(block))
    for k, mask in ((0, live), (-1, fed)):
        d = factors[k]
        if mask is not None and isinstance(d, Diagonal):
            keep = whole(mask, d.in_type.shape)
            factors[k] = Diagonal(np.where(keep, d.d, np.zeros((), d.in_type.dtype)), d.in_type)
    return factors[0] if len(factors) == 1 else Product(factors)
