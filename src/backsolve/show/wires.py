"""What goes back along single wires: a value that several rows read adds up what each of them sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..row import Row
from ..solve.fit import fit_back

if TYPE_CHECKING:
    from .scene import Edge

_MOST_ENTRIES = 1_000_000  # of one adjoint: beyond, its terms are not worth the arithmetic


def sent_back(
    edges: Sequence[Edge], adjoints: Mapping[Row, Any], outputs: Sequence[Row | None]
) -> dict[int, Any]:
    """L_ijᵀ v̄_i, by the numbers of the edges, where v̄_j has more than one term: copy adds."""
    terms = Counter(e.read for e in edges) + Counter(row for row in outputs if row is not None)
    found = {}
    for k, e in enumerate(edges):
        if terms[e.read] < 2 or e.reader not in adjoints or np.prod(e.read.shape) > _MOST_ENTRIES:
            continue
        if e.reader.primitive.is_joint or e.reader.primitive.is_component:
            continue
        with np.errstate(all="ignore"):
            found[k] = fit_back(e.block.pull(adjoints[e.reader]), e.read)
    return found


def trusted(
    sent: Mapping[int, Any],
    edges: Sequence[Edge],
    adjoints: Mapping[Row, Any],
    seeds: Sequence[tuple[Row, Any]],
) -> dict[int, Any]:
    """Those whose sum is the adjoint: a solve knows zeros by structure, which single blocks turn into NaN."""
    terms: dict[Row, list[Any]] = {}
    for row, seed in seeds:
        terms.setdefault(row, []).append(seed)
    for k, g in sent.items():
        terms.setdefault(edges[k].read, []).append(g)
    right = {
        row for row, parts in terms.items() if row in adjoints and _add_up(parts, adjoints[row])
    }
    return {k: g for k, g in sent.items() if edges[k].read in right}


def _add_up(parts: Sequence[Any], whole: Any) -> bool:
    with np.errstate(all="ignore"):
        total = np.asarray(sum(parts))
        allowed = 1e-3 * np.asarray(sum(np.abs(g) for g in parts))  # as far as rounding may go
        same = (total == whole) | (np.isnan(total) & np.isnan(whole))
        return bool((same | (np.abs(total - whole) <= allowed)).all())
