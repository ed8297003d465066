"""Forward substitution on `(I − L) dx = D dp`: forward mode.

From the first row to the last:  dx_i = Σ_j L_ij dx_j.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..blocks import ASKS_MORE
from ..hooks import hooks
from ..ignoring import ignore_warnings, warn_again
from ..joint import component_of, operator_of
from ..primitive import row_values
from ..row import Row
from . import masked
from .fit import fit_ahead
from .masked import Masked, is_kept_entry_by_entry


def forward_substitute(
    rows: Sequence[Row],
    seeds: Iterable[tuple[Row, Any]],
    outputs: Sequence[Row | None],
    *,
    record: bool = False,
    masks: bool = True,
) -> list[Any]:
    """The differentials of `outputs`, given those of the parameters; None is structurally zero.

    Without `masks` zeros by structure are numbers like any other: 0 · ∞ gives NaN.
    """
    tangents: dict[Row, Any] = dict(seeds)
    given = set(tangents)
    observe = hooks.observe_block
    warnings = ignore_warnings()
    try:
        for row in rows:
            if row in given:
                continue
            primitive = row.primitive
            saved = row_values(row) if record else row.saved
            if primitive.is_component:
                parts = tangents.get(row.parents[0])
                if parts is not None and parts[component_of(row)] is not None:
                    tangents[row] = fit_ahead(parts[component_of(row)], row)
                continue
            if primitive.is_joint:
                ins = tuple(
                    masked.plain(tangents[p]) if p.__class__ is Row and p in tangents else None
                    for p in row.parents
                )
                if any(t is not None for t in ins):
                    tangents[row] = operator_of(row, saved, record).apply(ins)
                continue
            blocks = primitive.blocks
            total = None
            i = -1
            for parent in row.parents:
                i += 1
                t = tangents.get(parent) if parent.__class__ is Row else None
                if t is None:
                    continue
                if blocks is None:
                    block = primitive.block(row, i, saved)
                else:
                    block, k = blocks[i]
                    if k >= 0:
                        block = block(saved[k])
                    elif k == ASKS_MORE:
                        block = block(saved, row)
                if t.__class__ is not Masked and not (masks and block.masks):
                    image = block.apply(t)
                elif not masks or is_kept_entry_by_entry(block, parent):
                    image = block.apply(masked.plain(t))
                else:
                    image = masked.apply(block, t, ahead=True)
                if row.shape is not parent.shape or row.dtype is not parent.dtype:
                    image = fit_ahead(image, row)
                if observe is not None:
                    observe(row, image, t)
                total = image if total is None else masked.plus(total, image)
            if total is not None:
                tangents[row] = total
    finally:
        warn_again(warnings)
    return [None if y is None else _given(y, tangents.get(y)) for y in outputs]


def _given(row: Row, t: Any) -> Any:
    """As its own type says: blocks of single precision may have given more."""
    if t is None or row.primitive.is_joint:
        return t
    return fit_ahead(masked.plain(t), row)
