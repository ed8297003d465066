"""A first-order bound for the rounding errors of a program.

Computing row i adds r_i by itself: nothing if it only moves entries, u |v_i| for one operation of arithmetic
(u is half the distance from 1 to the next float), a few u |v_i| for an elementary function, more for a special
one and for what its arguments move it by, and for a sum of n terms (n − 1) u times the sum of their absolute
values, since the sum may cancel, they may not. Rows of several steps are in own_rounding.py, those that take
matrices apart in nearby.py. What underflows is rounded as the smallest normal number is, by the smallest
number above 0, but for sums, which are exact there; inside of factors of matrices it is not looked after.
What a number y of the results is off by is at most

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
from .own_rounding import COMPLEX, OWN, RUNNING
from .semiring import Semiring, substitute
from .sources import FUNCTION, Source, Values, smallest

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
# u of |v|, of complex numbers: |δ| ≤ √5 u of a product, √2 · 7 u of a quotient (Higham 2002, lemma 3.5).
_COMPLEX = {"multiply": 3, "square": 3, "divide": 10, "reciprocal": 10, "sqrt": FUNCTION}
_SUMS = frozenset(["sum", "contract", "convolve", "cumsum", "scatter_add", "fold"])


# Right to a few units in the last place wherever they are not 0.
_NAMES = (
    "exp exp2 expm1 log log2 log10 log1p power float_power cbrt hypot sin cos tan arcsin arccos arctan arctan2 "
    "angle deg2rad rad2deg sinh cosh tanh arcsinh arccosh arctanh remainder fmod absolute sign i0"
)
_ELEMENTARY = frozenset(_NAMES.split())
_SPECIAL = 64  # u of the others: SciPy promises nothing, and beside mpmath we saw 40
_NEXT_TO_0 = 16  # SciPy's complex error functions lose digits beside their series at 0: we saw 8
_FLUSHED = 1 << 12  # SciPy's Bessel functions are 0 from 1,600 times the smallest normal number on
_CANCELLING = frozenset(
    ["kl_div", "pseudo_huber"]
)  # SciPy's formulas: no digit is sure where they are small


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
            found = _one_by_one(system, edges, sources) if few else _all_at_once(system, sources)
        except NotDifferentiableError as error:
            raise NotDifferentiableError(
                f"a bound of first order asks how these vectors move: {error.args[0]}"
            ) from error
    return [np.where(np.isnan(bound), np.inf, bound) for bound in found]  # 0 times an infinite one


def _one_by_one(system: System, edges: Edges, sources: dict[Row, list[Source]]) -> list[Any]:
    turned = {row: [(p, block.T) for p, block in found] for row, found in edges.items()}
    found = []
    for y, v in zip(system.outputs, system._raw_outputs, strict=True):
        bounds = np.zeros(np.shape(v))
        for place in np.ndindex(bounds.shape) if y in turned else ():
            assert y is not None
            for unit in (
                (1, 1j) if y.dtype.kind == "c" else (1,)
            ):  # its real part, and its imaginary one
                seed = np.zeros(bounds.shape, y.dtype)
                seed[place] = unit
                part = _carried(system, turned, sources, {y: np.reshape(seed, y.shape)})
                bounds[place] = np.hypot(bounds[place], part)
        found.append(bounds)
    return found


def _carried(
    system: System, turned: Edges, sources: dict[Row, list[Source]], adjoints: dict[Row, Any]
) -> float:
    """What all errors together change of the number with these adjoints, at most."""
    bound = 0.0
    for row in reversed(system.rows):
        adjoint = adjoints.pop(row, None)
        if adjoint is None:
            continue
        bound += sum(s.carried(adjoint) for s in sources[row])
        for parent, block in turned[row]:
            image = block.apply(adjoint)
            adjoints[parent] = adjoints[parent] + image if parent in adjoints else image
    return bound


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
    if name in _EXACT and not (name in ("absolute", "sign") and row.parents[0].dtype.kind == "c"):
        return []
    if name in NEARBY:
        if row.dtype.kind == "c":
            raise UnsupportedError(f"the rounding error of `{name}` is known of real matrices only")
        return NEARBY[name](system, row, values, u)
    if name in RUNNING:
        return RUNNING[name](system, row, values, u)
    return [Source(_own(system, row, values, u))]


def _own(system: System, row: Row, values: Values, u: float) -> Any:
    name = row.primitive.name
    if name in _SUMS:
        parent, block = system.edges(row)[0]
        products = max(len(row.parents) - 1, 0)
        terms, each = _terms(block, row), 3 if row.dtype.kind == "c" else 1
        roundings = terms - 1 + products * each
        weights = absolute(block)
        least = smallest(row) * (
            1.0 if products < 2 else _enlarged(weights, values[parent], products)
        )
        size = weights.apply(np.abs(values[parent]))
        return u * (roundings * size + terms * products * each * least)
    size = np.abs(values[row])
    is_complex = row.dtype.kind == "c"
    if name in ("add", "subtract"):
        return u * size
    if name in ("multiply", "square"):
        size = np.where(_is_zero(system, row, values), 0.0, np.maximum(size, smallest(row)))
    else:
        size = np.maximum(size, smallest(row))
    if name in _ROUNDED_ONCE:
        return u * size * (_COMPLEX.get(name, 1) if is_complex else 1)
    if name == "prod":
        return u * row.parents[0].size * size * (3 if is_complex else 1)
    if is_complex and name in COMPLEX:
        return COMPLEX[name](system, row, values, u)
    if name in OWN:
        return OWN[name](system, row, values, u)
    if row.primitive.elementwise and name not in _CANCELLING:
        if name in _ELEMENTARY:
            return FUNCTION * u * size
        # near its roots and far out it loses digits, as if its arguments had been rounded, too
        shifts = [absolute(b).apply(np.abs(values[p])) for p, b in system.edges(row)]
        next_to_0 = _NEXT_TO_0 if is_complex and name in ("erf", "erfi", "dawsn") else 0
        return u * (_SPECIAL * (size + sum(shifts)) + next_to_0) + _FLUSHED * smallest(row)
    raise UnsupportedError(
        f"the rounding error of `{row.primitive.name}` is not known; it is of arithmetic, elementwise "
        "functions, sums, running products, products of matrices, softmax, linear systems, and decompositions "
        "of real matrices (but `eig`)"
    )


def _enlarged(weights: Operator, value: Any, products: int) -> float:
    """By what further factors may enlarge a product of the first ones that has underflowed."""
    factors = getattr(weights, "operands", (value,) * products)
    most = [np.max(np.abs(c), initial=1.0) for c in (value, *factors) if c is not None]
    return float(np.prod(most))


def _is_zero(system: System, row: Row, values: Values) -> Any:
    """Where a product is 0 since a factor is: nothing is rounded there."""
    zero: Any = False
    for parent, block in system.edges(row):
        other = absolute(block).apply(np.ones(parent.shape))
        zero = zero | (values[parent] == 0) | (other == 0)
    return zero


def _terms(block: Operator, row: Row) -> int:
    """How many numbers are added up in one entry, at most."""
    labels = getattr(block, "label_sizes", None)
    if labels is not None:
        points = int(np.prod(list(labels().values()), dtype=int))
        return max(1, points // max(row.size, 1))
    count = block.in_type.size
    return max(1, count // max(row.size, 1) if row.primitive.name == "sum" else count)
