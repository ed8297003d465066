"""Where a sparse matrix has entries, as a drawing: a cell stands for many where it is large."""

from __future__ import annotations

from typing import Any

import numpy as np

from .drawing import Drawing, Rectangle, Text

_SIDE = 240.0  # of the longer side
_CELLS = 120


def spy(layout: Any) -> Drawing:
    """Of anything with a shape, `indptr` and `indices`, as scipy.sparse has them.

    >>> import numpy as np, scipy.sparse
    >>> len(spy(scipy.sparse.csr_array(np.eye(3))).shapes)
    5
    """
    height, width = layout.shape
    longest = max(height, width, 1)
    cells = min(longest, _CELLS)
    rows = np.repeat(np.arange(height), np.diff(layout.indptr)) * cells // longest
    columns = np.asarray(layout.indices, np.int64) * cells // longest
    filled = np.unique(rows * cells + columns)
    side = _SIDE / cells
    down, across = max(height, 1) * _SIDE / longest, max(width, 1) * _SIDE / longest
    drawing = Drawing(
        across + 24, down + 40, f"{layout.indices.size} of {height} × {width} entries"
    )
    drawing.shapes.append(Rectangle(12, 12, across, down, "sheet", "line", 0))
    for k in filled.tolist():
        y, x = divmod(k, cells)
        drawing.shapes.append(
            Rectangle(12 + x * side, 12 + y * side, side, side, "contraction", "contraction", 0)
        )
    words = f"{height:,} × {width:,}, {layout.indices.size:,} entries"
    drawing.shapes.append(Text(12, down + 30, words, "soft", 11, "start"))
    return drawing
