"""A first-order bound for the rounding errors of a program.

Computing row i adds r_i by itself: nothing if it only moves entries, u |v_i| for one operation of arithmetic
(u is half the distance from 1 to the next float), a few u |v_i| for an elementary function, and for a sum of
n terms (n − 1) u times the sum of their absolute values, since the sum may cancel, they may not. Rows of
several steps are in own_rounding.py, those that take matrices apart in nearby.py. What a number y of the
results is off by is at most

    Σ_i |ȳ_i| r_i        ȳ_i = ∂y/∂x_i, by back substitution,

which sees that errors cancel on their ways to y (all entries of softmax's argument may move together). It
takes a back substitution for each number of the results. Where these are many, one forward substitution does
for all,

    e_i = Σ_j |L_ij| e_j + r_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import NotDifferentiableError, UnsupportedError
from ..operators import Operator
from ..row import Row
from ..system import System
from .absolute import absolute
from .nearby import NEARBY
from .own_rounding import OWN
from .semiring import Semiring, substitute
from .sources import FUNCTION, Source, Values

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
    [
        *("add", "subtract", "multiply", "divide", "over_gaps"),
        *("sqrt", "square", "reciprocal", "cast"),
    ]
)
_SUMS = frozenset(["sum", "contract", "convolve", "cumsum", "scatter_add", "fold"])


Edges = dict[Row, list[tuple[Row, Operator]]]
_MOST = 100_000  # blocks that are applied to find the bound of every number by itself


def rounding_errors(system: System, at: Sequence[Any]) -> list[Any]:
    """The bound for every output, given the values of the parameters, which are exact."""
    values = {row: np.asarray(getattr(v, "_v", v)) for row, v in system.values.items()}
    values.update({p: np.asarray(v) for p, v in zip(system.parameters, at, strict=True)})
    edges = {row: system.edges(row) for row in system.rows}
    numbers = sum(y.size for y in system.outputs if y is not None)
    few = numbers * sum(map(len, edges.values())) <= _MOST
    with np.errstate(all="ignore"):
        sources = {row: _sources(system, row, values) for row in system.rows}
        try:
            return _one_by_one(system, edges, sources) if few else _all_at_once(system, sources)
        except NotDifferentiableError as error:
            raise NotDifferentiableError(
                f"a bound of first order asks how these vectors move: {error.args[0]}"
            ) from error


def _one_by_one(system: System, edges: Edges, sources: dict[Row, list[Source]]) -> list[Any]:
    turned = {row: [(p, block.T) for p, block in found] for row, found in edges.items()}
    found = []
    for y, v in zip(system.outputs, system._raw_outputs, strict=True):
        bounds = np.zeros(np.shape(v))
        for place in np.ndindex(bounds.shape) if y in turned else ():
            assert y is not None
            seed = np.zeros(bounds.shape, y.dtype)
            seed[place] = 1
            adjoints: dict[Row, Any] = {y: np.reshape(seed, y.shape)}
            for row in reversed(system.rows):
                adjoint = adjoints.pop(row, None)
                if adjoint is None:
                    continue
                bounds[place] += sum(s.carried(adjoint) for s in sources[row])
                for parent, block in turned[row]:
                    image = block.apply(adjoint)
                    adjoints[parent] = adjoints[parent] + image if parent in adjoints else image
        found.append(bounds)
    return found


def _all_at_once(system: System, sources: dict[Row, list[Source]]) -> list[Any]:
    ring = Semiring(
        plus=lambda a, b: a + b,
        times=lambda w, e: w.apply(e),
        zero=0.0,
        one=1.0,
        weight=lambda block, row: absolute(block),
    )
    own = lambda row: sum((s.error() for s in sources.get(row, [])), np.zeros(row.shape))
    errors = substitute(system, ring, own)
    return [
        np.zeros(np.shape(v)) if y is None else np.reshape(errors[y], np.shape(v))
        for y, v in zip(system.outputs, system._raw_outputs, strict=True)
    ]


def _sources(system: System, row: Row, values: Values) -> list[Source]:
    if row.primitive.is_joint or row.primitive.is_component:
        raise UnsupportedError(
            "the rounding error of an implicit, checkpointed or hand-written call is not known: call the "
            "function itself"
        )
    u = float(np.finfo(row.dtype).eps) / 2
    name = row.primitive.name
    if name in _EXACT:
        return []
    if name in NEARBY:
        if row.dtype.kind == "c":
            raise UnsupportedError(f"the rounding error of `{name}` is known of real matrices only")
        return NEARBY[name](system, row, values, u)
    return [Source(_own(system, row, values, u))]


def _own(system: System, row: Row, values: Values, u: float) -> Any:
    name = row.primitive.name
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
        "functions, sums, products of matrices, softmax, linear systems, and decompositions of real matrices "
        "(but `eig`)"
    )


def _terms(block: Operator, row: Row) -> int:
    """How many numbers are added up in one entry, at most."""
    labels = getattr(block, "label_sizes", None)
    if labels is not None:
        points = int(np.prod(list(labels().values()), dtype=int))
        return max(1, points // max(row.size, 1))
    count = block.in_type.size
    return max(1, count // max(row.size, 1) if row.primitive.name == "sum" else count)
