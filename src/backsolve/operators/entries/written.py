"""Any operator by its entries: one way for each kind, and its matrix for all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...hooks import hooks
from ..base import Operator
from ..broadcast import Broadcast, Spread, SumAxes, SumTo
from ..cast import Cast
from ..contraction import Contraction
from ..convolution import Convolution
from ..diagonal import Diagonal
from ..identity import Identity
from ..mask import Mask
from ..nests import split_subscripts
from ..product import Product
from ..recurrence import Cumsum
from ..reshape import Reshape, Transpose
from ..scale import Scale
from ..slice import Slice, Spec, Unslice, part_of
from ..sum import OperatorSum
from ..windows import Fold, Windows
from ..zero import Zero
from .entries import Entries, steps_over, tidied
from .limit import about_to_list
from .terms import Listed, Steps, compact, shape_of, shaped


def entries_of(a: Operator) -> Entries:
    """The same map by its entries."""
    if isinstance(a, Entries):
        return a
    source, target = a.in_type, a.out_type
    if isinstance(source, tuple) or isinstance(target, tuple):
        raise UnsupportedError(f"{a!r} maps tuples: it has no entries of one matrix")
    if source.dtype.kind == "c" or target.dtype.kind == "c":
        raise UnsupportedError(f"entries are found of real maps; {a!r} is complex")
    return entries_over_its_field(a)


def entries_over_its_field(a: Operator) -> Entries:
    """The same of a map that is known to be linear over ℂ, if it is between complex arrays."""
    source, target = a.in_type, a.out_type
    if not source.size or not target.size:
        return Entries(source, target, [])
    write = _FORMS.get(type(a)) or next((w for k, w in _FORMS.items() if isinstance(a, k)), None)
    if write is not None:
        return write(a)
    if _is_moving(a):
        found = _moved(a)
        if found is not None:
            return found
    return _from_matrix(a)


def is_regular(a: Operator) -> bool:
    """Whether its entries are found without its matrix."""
    return has_form(a) or _is_moving(a)


def has_form(a: Operator) -> bool:
    """Whether what kind of operator it is tells its entries."""
    return isinstance(a, tuple(_FORMS))


def _is_moving(a: Operator) -> bool:
    return a.moves_entries or "selection" in a.structure


def _one(a: Operator, counts: Any, rows: Steps, cols: Steps, values: Any = 1.0) -> Entries:
    return Entries(a.in_type, a.out_type, [compact(counts, rows, cols, values)])


def _along(a: Operator, values: Any) -> Entries:
    """A diagonal; `values` may be a number or an array that fits the shape."""
    shape = a.in_type.shape
    steps = steps_over(shape)
    lengths = shape_of(values)
    if lengths:
        values = shaped(values, (1,) * (len(shape) - len(lengths)) + lengths)
    return _one(a, shape, steps, steps, values)


def number(c: Any) -> Any:
    """A bare number as a float; what is traced, or an array, as it is."""
    return float(c) if isinstance(c, int | float | np.integer | np.floating) else c


def _of_slice(a: Slice) -> Entries:
    at, counts = _view(a.in_type.shape, a.spec)
    return _one(a, counts, steps_over(counts), at)


def _view(shape: tuple[int, ...], spec: Spec) -> tuple[Steps, tuple[int, ...]]:
    counts, offset, strides = part_of(shape, steps_over(shape).strides, spec)
    return Steps(offset, strides), counts


def _of_broadcast(a: Broadcast) -> Entries:
    source, target = a.in_type.shape, a.out_type.shape
    inner = steps_over(source).strides
    padded = (0,) * (len(target) - len(source)) + tuple(
        0 if n == 1 else s for n, s in zip(source, inner, strict=True)
    )
    return _one(a, target, steps_over(target), Steps(0, padded))


def _of_spread(a: Spread) -> Entries:
    target = a.out_type.shape
    inner = iter(steps_over(a.in_type.shape).strides)
    strides = []
    for axis in range(len(target)):
        if axis not in a.axes:
            strides.append(next(inner))
        else:
            strides.append(0)
            if a.keepdims:
                next(inner)
    return _one(a, target, steps_over(target), Steps(0, tuple(strides)))


def _of_convolution(a: Convolution) -> Entries:
    """One diagonal for each entry of the shorter factor."""
    n, m = a.in_type.size, a.other.shape[0]
    out = a.out_type.size
    # full: y[i + j] += t[i] other[j], whichever of the two is given; valid: y begins later
    first = 0 if a.mode == "full" else (n if a.hole else m) - 1
    terms = []
    for j in range(m):
        # Where t[i] goes: y[i + j − first].
        start, stop = max(0, first - j), min(n, out + first - j)
        if stop > start:
            rows, cols = Steps(start + j - first, (1,)), Steps(start, (1,))
            terms.append(compact((stop - start,), rows, cols, a.other[j]))
    return Entries(a.in_type, a.out_type, tidied(terms))


def _of_cumsum(a: Cumsum) -> Entries:
    """Below the diagonal of the axis, the same for all lines."""
    shape = a.in_type.shape
    strides = steps_over(shape).strides
    about_to_list(a.in_type.size * (shape[a.axis] + 1) // 2)
    at, before = np.tril_indices(shape[a.axis])
    if a.reverse:
        at, before = before, at
    rest = tuple(1 if k == a.axis else n for k, n in enumerate(shape))
    lines = Steps(0, strides).listed(rest)[:, None]
    rows, cols = ((lines + x * strides[a.axis]).reshape(-1) for x in (at, before))
    return Entries(a.in_type, a.out_type, [Listed(rows, cols, 1.0)])


def _transposed(a: Operator) -> Entries:
    turned = entries_over_its_field(a.T)
    return Entries(a.in_type, a.out_type, [t.T for t in turned.terms])


def _of_transpose(a: Transpose) -> Entries:
    counts = a.in_type.shape
    out = steps_over(a.out_type.shape).strides
    rows = [0] * len(counts)
    for k, axis in enumerate(a.axes):
        rows[axis] = out[k]
    return _one(a, counts, Steps(0, tuple(rows)), steps_over(counts))


def _of_windows(a: Windows) -> Entries:
    """One slice for each place inside the window."""
    source = a.in_type
    out = a.out_type.shape
    inside = out[len(source.shape) :]
    strides = steps_over(out).strides
    terms = []
    for k in np.ndindex(*inside):
        spec = tuple((s.start, s.stop, s.step) for s in a.cut.places(k, source.shape))
        at, counts = _view(source.shape, spec)
        offset = sum(i * s for i, s in zip(k, strides[len(counts) :], strict=True))
        terms.append(compact(counts, Steps(offset, strides[: len(counts)]), at, 1.0))
    return Entries(source, a.out_type, terms)


def _of_product(a: Product) -> Entries:
    found = entries_of(a.factors[-1])
    for factor in a.factors[-2::-1]:
        found = entries_of(factor).times(found)
    return found


def _of_contraction(a: Contraction) -> Entries:
    """The nest itself: each of its points is an entry."""
    inputs, output = split_subscripts(a.subscripts)
    sizes = a.label_sizes()
    labels = list(dict.fromkeys(output + "".join(inputs)))
    counts = tuple(sizes[c] for c in labels)

    def steps(axes: str) -> Steps:
        strides = dict.fromkeys(labels, 0)
        for c, s in zip(axes, steps_over(tuple(sizes[c] for c in axes)).strides, strict=True):
            strides[c] += s  # a label that comes twice walks along the diagonal
        return Steps(0, tuple(strides.values()))

    rows, cols = steps(output), steps(inputs[a.hole])
    values: Any = 1.0
    for axes, captured in zip(inputs, a.operands, strict=True):
        if captured is not None:
            part = _spread(captured, axes, labels)
            values = part if type(values) is float else values * part
    silent = tuple(
        k for k, (r, c) in enumerate(zip(rows.strides, cols.strides, strict=True)) if not (r or c)
    )
    if silent:  # neither place moves along these: their values add up
        lengths = np.shape(values) or (1,) * len(labels)
        repeats = np.prod([counts[k] for k in silent if lengths[k] == 1], dtype=int)
        if np.ndim(values):
            values = np.sum(values, axis=silent, keepdims=True)
        values = values * float(repeats) if repeats != 1 else values
        counts = tuple([1 if k in silent else n for k, n in enumerate(counts)])
    return _one(a, counts, rows, cols, values)


def _spread(captured: Any, axes: str, labels: list[str]) -> Any:
    """A captured operand over the labels of the nest, of length 1 where it has none."""
    distinct = list(dict.fromkeys(axes))
    if len(distinct) < len(axes):
        captured = np.einsum(f"{axes}->{''.join(distinct)}", captured)
    order = sorted(range(len(distinct)), key=lambda k: labels.index(distinct[k]))
    if order != list(range(len(order))):
        captured = np.transpose(captured, order)
    lengths = iter(np.shape(captured))
    return np.reshape(captured, tuple([next(lengths) if c in distinct else 1 for c in labels]))


_FORMS: dict[type, Callable[[Any], Entries]] = {
    Zero: lambda a: Entries(a.in_type, a.out_type, []),
    Identity: lambda a: _along(a, 1.0),
    Cast: lambda a: _along(a, 1.0),
    Reshape: lambda a: _along(a, 1.0),
    Scale: lambda a: _along(a, number(a.factor)),
    Diagonal: lambda a: _along(a, number(a.d)),
    Mask: lambda a: _along(a, np.where(a.mask, 1.0, 0.0)),
    Slice: _of_slice,
    Unslice: _transposed,
    Broadcast: _of_broadcast,
    SumTo: _transposed,
    Spread: _of_spread,
    SumAxes: _transposed,
    Convolution: _of_convolution,
    Cumsum: _of_cumsum,
    Transpose: _of_transpose,
    Windows: _of_windows,
    Fold: _transposed,
    Product: _of_product,
    OperatorSum: lambda a: entries_of(a.terms[0]).plus(*[entries_of(t) for t in a.terms[1:]]),
    Contraction: _of_contraction,
}


def _moved(a: Operator) -> Entries | None:
    """The entries of a map that moves and adds entries, found by moving 1, 2, 3, …; None if it is traced."""
    source, target = a.in_type, a.out_type
    about_to_list(max(source.size, target.size))
    if "selection" in a.structure or "diagonal" in a.structure:
        seen = a.apply(np.arange(1.0, source.size + 1).reshape(source.shape))
        if not isinstance(seen, np.ndarray | np.generic):
            return None
        rows = np.flatnonzero(seen)
        cols = np.reshape(seen, -1)[rows].astype(np.intp) - 1
    else:
        seen = a.T.apply(np.arange(1.0, target.size + 1).reshape(target.shape))
        if not isinstance(seen, np.ndarray | np.generic):
            return None
        cols = np.flatnonzero(seen)
        rows = np.reshape(seen, -1)[cols].astype(np.intp) - 1
    return Entries(source, target, [Listed(rows, cols, 1.0)])


def _from_matrix(a: Operator) -> Entries:
    """Any other map, by the images of a basis (solve/many.py): all its entries."""
    return matrix_entries(a, hooks.images_of_basis(a))


def matrix_entries(a: Operator, columns: Any) -> Entries:
    """All entries of a map, given the images of a basis."""
    n, m = a.in_type.size, a.out_type.size
    return _one(a, (n, m), Steps(0, (0, 1)), Steps(0, (1, 0)), np.reshape(columns, (n, m)))
