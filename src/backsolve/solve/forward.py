"""Forward substitution on `(I − L) dx = D dp`: forward mode.

From the first row to the last:  dx_i = Σ_j L_ij dx_j.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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
            total = None
            for i, parent in enumerate(row.parents):
                t = tangents.get(parent) if parent.__class__ is Row else None
                if t is None:
                    continue
                block = primitive.block(row, i, saved)
                if not masks or is_kept_entry_by_entry(block, parent):
                    image = block.apply(masked.plain(t))
                elif block.masks or t.__class__ is Masked:
                    image = masked.apply(block, t, ahead=True)
                else:
                    image = block.apply(t)
                image = fit_ahead(image, row)
                if observe is not None:
                    observe(row, image, t)
                total = image if total is None else masked.plus(total, image)
            if total is not None:
                tangents[row] = total
    finally:
        warn_again(warnings)
    return [masked.plain(tangents[y]) if y is not None and y in tangents else None for y in outputs]
