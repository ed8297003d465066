"""Where rounding errors enter a row: δ of a bounded size, taken to the row by an operator.

Most rows add errors to their own entries. The computed factors of a matrix are exact for a matrix nearby, and
how the row depends on it takes that error to the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..operators import Operator
from ..row import Row
from ..system import System
from .absolute import absolute

Values = dict[Row, Any]
FUNCTION = 8  # u of an elementary function: four units in the last place, what vectorised libraries promise


def smallest(row: Row) -> float:
    """What numbers below it are rounded as: u times it is the smallest one above 0."""
    return 2 * float(np.finfo(row.dtype).smallest_normal)


@dataclass(frozen=True)
class Source:
    """|δ| ≤ size, entry by entry; or with `axes` (of δ), the length of δ along them is at most size.

    Of complex rows |δ| is the modulus.
    """

    size: Any
    operator: Operator | None = None  # from δ to the row; None: δ is the row's error itself
    axes: tuple[int, ...] = ()

    def error(self) -> Any:
        """The largest error of each entry of the row."""
        if self.operator is None:
            return self.size
        shape, dtype = self.operator.in_type.shape, self.operator.in_type.dtype
        return absolute(self.operator).apply(np.broadcast_to(self.size, shape).astype(dtype))

    def carried(self, adjoint: Any) -> float:
        """The largest change of a number with this adjoint in the row."""
        back = adjoint if self.operator is None else self.operator.T.apply(adjoint)
        reach = np.abs(np.asarray(back, np.result_type(back, float)))
        if self.axes:
            reach = np.sqrt(np.sum(reach * reach, axis=self.axes, keepdims=True))
        # no error, no change: where a derivative is infinite, too
        return float(np.sum(np.where(np.equal(self.size, 0), 0.0, reach * self.size)))


OwnSources = Callable[[System, Row, Values, float], list[Source]]
