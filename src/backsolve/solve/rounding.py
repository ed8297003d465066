"""A first-order bound for the rounding errors of a program, by forward substitution with absolute values.

    e_i = Σ_j |L_ij| e_j + r_i

where r_i is what computing row i adds by itself: nothing if it only moves entries, u |v_i| for one operation of
arithmetic (u is half the distance from 1 to the next float), a few u |v_i| for an elementary function, and for
a sum of n terms (n − 1) u times the sum of their absolute values, since the sum may cancel, they may not.
Rows of several steps are in own_rounding.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..operators import Operator
from ..row import Row
from ..system import System
from .absolute import absolute
from .own_rounding import FUNCTION, OWN
from .semiring import Semiring, substitute

_EXACT = frozenset(
    [
        "alias",
        "slice",
        "unslice",
        "slice_update",
        "reshape",
        "permute",
        "broadcast_to",
        "concatenate",
        "gather",
        "negative",
        "absolute",
        "fabs",
        "sign",
        "where",
        "maximum",
        "minimum",
        "max",
        "min",
        "fmax",
        "fmin",
        "clip",
        "real",
        "imag",
        "conjugate",
        "copysign",
        "windows",
        "scatter_set",
        "ranked",
        "detach",
    ]
)
_ROUNDED_ONCE = frozenset(
    ["add", "subtract", "multiply", "divide", "sqrt", "square", "reciprocal", "cast"]
)
_SUMS = frozenset(["sum", "contract", "convolve", "cumsum", "scatter_add", "fold"])


def rounding_errors(system: System, at: Sequence[Any]) -> dict[Row, Any]:
    """The bound for every row, given the values of the parameters, which are exact."""
    values = {row: np.asarray(getattr(v, "_v", v)) for row, v in system.values.items()}
    values.update({p: np.asarray(v) for p, v in zip(system.parameters, at, strict=True)})

    def own(row: Row) -> Any:
        return np.zeros(row.shape) if row in system.parameters else _own(system, row, values)

    ring = Semiring(
        plus=lambda a, b: a + b,
        times=lambda w, e: w.apply(e),
        zero=0.0,
        one=1.0,
        weight=lambda block, row: absolute(block),
    )
    with np.errstate(all="ignore"):
        return substitute(system, ring, own)


def _own(system: System, row: Row, values: dict[Row, Any]) -> Any:
    name = row.primitive.name
    if name in _EXACT:
        return np.zeros(row.shape)
    u = float(np.finfo(row.dtype).eps) / 2
    if name in _SUMS:
        parent, block = system.edges(row)[0]
        roundings = _terms(block, row) - 1 + max(len(row.parents) - 1, 0)
        return u * roundings * absolute(block).apply(np.abs(values[parent]))
    size = np.abs(values[row])
    if name in _ROUNDED_ONCE:
        return u * size
    if name == "prod":
        return u * row.parents[0].size * size
    if name in OWN:
        return OWN[name](system, row, values, u)
    if row.primitive.elementwise:
        return FUNCTION * u * size
    raise UnsupportedError(
        f"the rounding error of `{row.primitive.name}` is not known; it is of arithmetic, elementwise "
        "functions, sums, products of matrices, softmax, linear systems, Cholesky's factor and log det"
    )


def _terms(block: Operator, row: Row) -> int:
    """How many numbers are added up in one entry, at most."""
    labels = getattr(block, "label_sizes", None)
    if labels is not None:
        points = int(np.prod(list(labels().values()), dtype=int))
        return max(1, points // max(row.size, 1))
    count = block.in_type.size
    return max(1, count // max(row.size, 1) if row.primitive.name == "sum" else count)
