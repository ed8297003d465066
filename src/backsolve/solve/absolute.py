"""|A|: the map whose entries are the absolute values of an operator's, and the gain measured by it.

Structure stays: a diagonal's is a diagonal, a contraction's the same nest. A product of maps is bounded by the
product of theirs, a sum by the sum. What has no form of its own goes by its entries. Of complex numbers these
are moduli, and those of t ↦ P t + Q t̄ are |P| + |Q|.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..operators import Custom, Diagonal, Identity, Operator, Scale
from ..operators.broadcast import Broadcast, Spread, SumAxes, SumTo
from ..operators.cast import Cast, Conjugate, RealPart
from ..operators.contraction import Contraction
from ..operators.convolution import Convolution
from ..operators.entries import Entries, entries_of, is_complex, pair_of
from ..operators.entries.terms import Listed
from ..operators.fourier import Fourier, HalfFourier, RealFourier
from ..operators.gaps import OverGaps
from ..operators.mask import Mask
from ..operators.product import Product
from ..operators.recurrence import Recurrence
from ..operators.reshape import Reshape, Transpose
from ..operators.slice import Slice, Unslice
from ..operators.solve import Solve, TriangularSolve
from ..operators.sum import OperatorSum
from ..operators.windows import Fold, Windows
from ..operators.zero import Zero
from ..primitives.linalg import stacked
from ..tensor import Tensor

# Entries are 0 and 1.
_MOVES = (
    *(Identity, Zero, Cast, Conjugate, RealPart, Mask, Slice, Unslice, Reshape, Transpose),
    *(Broadcast, Spread, SumAxes, SumTo, Windows, Fold),
)


def absolute(a: Operator) -> Operator:
    """|A|, or an upper bound of it with the same structure."""
    _check(a)
    if isinstance(a, _MOVES) or a.moves_entries:
        return a
    if isinstance(a, Scale):
        return Scale(_size(a.factor), a.in_type)
    if isinstance(a, Diagonal):
        return Diagonal(_size(a.d), a.in_type)
    if isinstance(a, OverGaps):
        return OverGaps(_size(a.d), a.in_type)
    if isinstance(a, Contraction):
        operands = tuple(None if c is None else _size(c) for c in a.operands)
        return Contraction(a.subscripts, a.hole, operands, a.in_type, a.sizes)
    if isinstance(a, Recurrence):
        return Recurrence(_size(a.a), a.axis, a.reverse, a.in_type)
    if isinstance(a, Convolution):
        return Convolution(a.in_type, _size(a.other), a.mode, a.hole)
    if isinstance(a, Product):
        return Product([absolute(f) for f in a.factors])
    if isinstance(a, OperatorSum):
        return OperatorSum([absolute(t) for t in a.terms])
    if isinstance(a, Solve | TriangularSolve):
        nest = stacked("XY,YZ->XZ", a.in_type)
        return Contraction(nest, 1, (_size(inverse_of(a)), None), a.in_type)
    if isinstance(a, Fourier | RealFourier | HalfFourier):
        return _of_fourier(a)
    if is_complex(a):
        pair = pair_of(a)
        parts = [pair.p] if pair.q is None else [pair.p, pair.q]
    else:
        parts = [entries_of(a)]
    terms = [t.listed() for e in parts for t in e.terms]
    sizes = [Listed(t.rows, t.cols, _size(t.values)) for t in terms]
    return Entries(a.in_type, a.out_type, sizes)


def _of_fourier(a: Fourier | RealFourier | HalfFourier) -> Operator:
    """All entries are 1, but those of half a spectrum that stand for their mirror image, too."""
    t, out = a.in_type, a.out_type
    axes = a.axes if isinstance(a, Fourier) else (a.axis,)
    total = SumAxes(t, axes, keepdims=True)
    spread = Broadcast(total.out_type, out.shape)
    factors: list[Operator] = [Cast(spread.out_type, out.dtype), spread, total]
    if isinstance(a, HalfFourier) and not a.halved:
        factors.append(Diagonal(a.counts, t))
    if isinstance(a, RealFourier) and not a.halved:
        factors.insert(0, Diagonal(a.counts, out))
    return Product(factors)


def inverse_of(a: Solve | TriangularSolve) -> Any:
    """The matrix that a system multiplies by."""
    _size(a.A)
    return np.linalg.inv(a.A if isinstance(a, Solve) else a.read())


def factors_of(a: Operator) -> Sequence[Operator]:
    return a.factors if isinstance(a, Product) else [a]


def gain(a: Operator) -> float:
    """The largest change of an entry that A gives, if entries that it takes change by 1 at most.

    That is the ∞-norm, the largest row sum of |A|; of a number its size. Gains along a path, multiplied, bound
    what the path carries: of a scalar result, the sum of |entries| of its part of the gradient.
    """
    _check(a)
    with np.errstate(all="ignore"):
        if isinstance(a, Identity):
            return 1.0
        if isinstance(a, Scale):
            return float(_size(a.factor))
        if isinstance(a, Diagonal):
            return float(np.max(_size(a.d), initial=0.0))
        t = a.in_type
        sums = absolute(a).apply(np.ones(t.shape, t.dtype))
        return float(np.max(np.abs(sums), initial=0.0))


def _check(a: Operator) -> None:
    if isinstance(a, Custom):
        raise UnsupportedError(
            f"a checkpointed, compiled or hand-written call has no entries to measure: {a!r}"
        )
    if isinstance(a.in_type, tuple) or isinstance(a.out_type, tuple):
        raise UnsupportedError(f"{a!r} maps tuples: it has no entries to measure")


def _size(c: Any) -> Any:
    if isinstance(c, Tensor):
        raise UnsupportedError(
            "the gain of a block is a number: measure it outside jit and other derivatives"
        )
    return np.abs(c)
