"""Contractions: as matrix products by tiles or by BLAS, or, small ones that suit neither, as loops."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir import Equation, Shape, Type, Var
from ...operators.nests import split_subscripts
from ...primitive import P
from .blas import SMALL, Product
from .kernel import Kernel
from .lattice_products import multiply
from .steps import Zero
from .support import Unsupported
from .tiles import registers
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

ROW = 8  # windows side by side from which on their sums are made row by row
NEAR = 8  # steps for which the copy of an operand is kept for other products


def lower_outer(schedule: Schedule, e: Equation) -> bool:
    """A product of all entries with all others, nothing summed, is element-wise: it joins a kernel."""
    labels, output = split_subscripts(e.params["subscripts"])
    out = e.outputs[0]
    plain = len(labels) == 2 and not e.params["sizes"] and out.dtype.kind in "fiu"
    unique = all(len(set(x)) == len(x) for x in (*labels, output))
    if not plain or not unique or set(output) != set("".join(labels)):
        return False
    stand_ins = []
    for x, a in zip(labels, e.inputs, strict=True):
        view = schedule.view_of(a)
        turned = view.permute(tuple(x.index(c) for c in output if c in x))
        index = [slice(None) if c in x else None for c in output]
        spread = turned.imaginary[(*index, ...)]  # the dots keep a single number a view
        var = Var(Type(out.shape, view.dtype))
        schedule.views[var] = view.with_(np.broadcast_to(spread, out.shape))
        schedule.last_use[var] = schedule.now
        stand_ins.append(var)
    schedule.lower_elementwise(Equation((out,), P.multiply, tuple(stand_ins), {}, e.where))
    return True


def lower_contraction(schedule: Schedule, e: Equation) -> View:
    from .lapack import product_with_factor

    labels, output = split_subscripts(e.params["subscripts"])
    views = [schedule.view_of(a) for a in e.inputs]
    out = e.outputs[0]
    if len(views) == 1:
        return _rearranged(schedule, labels[0], views[0], output, out)
    if len(views) != 2 or e.params["sizes"] or not set(output) <= set("".join(labels)):
        raise Unsupported("contract")
    views = [same_dtype(schedule, v, out.dtype) for v in views]
    row = _row_of_windows(schedule, out, output)
    if row and row in labels[0]:
        e = Equation(e.outputs, e.primitive, e.inputs[::-1], e.params, e.where)
        labels, views = labels[::-1], views[::-1]
    for k in (0, 1):
        labels[k], views[k] = _without_repeats(labels[k], views[k])
    a, b = labels
    if len(set(output)) < len(output):
        raise Unsupported("contract")
    batch = [c for c in output if c in a and c in b]
    inner = [c for c in a if c in b and c not in output]
    left = [c for c in output if c in a and c not in b]
    right = [c for c in output if c in b and c not in a]
    lonely = [c for c in a + b if c not in output and c not in inner]
    sizes = {
        c: n for x, v in zip(labels, views, strict=True) for c, n in zip(x, v.shape, strict=True)
    }
    order = batch + left + right
    work = prod(sizes.values())
    is_vector = 1 in (_size(left, sizes), _size(right, sizes))  # memory decides: BLAS gains nothing
    is_small = lonely or not inner or is_vector or out.dtype.kind not in "fc"
    if not is_small and work <= SMALL:
        is_small = not work or batch or not _suits_tiles(views, labels, left, inner, right)
    if not is_small and not batch and out.dtype.kind == "f":
        lines = zip(views, labels, (left, right), strict=True)
        if any(_as_it_lies(v, x, [], own, inner) is None for v, x, own in lines):
            product = multiply(schedule, views, labels, output, row)
            if product is not None:
                return product
    shape = tuple(sizes[c] for c in order)
    view = schedule.new_buffer(shape, out.dtype)
    if is_small:
        nest = batch + left + inner + lonely + right
        if is_vector:  # along the matrix as it lies in memory
            matrix = 0 if len(a) >= len(b) else 1
            far = dict(zip(labels[matrix], views[matrix].strides, strict=True))
            nest.sort(key=lambda c: -far.get(c, 0))
        _as_loops(schedule, e, labels, views, nest, order, sizes, view)
    else:
        x = _matrix(schedule, views[0], a, batch, left, inner)
        y = _matrix(schedule, views[1], b, batch, inner, right)
        c = view.reshape((*[sizes[k] for k in batch], _size(left, sizes), _size(right, sizes)))
        assert c is not None
        if product_with_factor(schedule, e, x, y, c):
            return view.permute(tuple(order.index(k) for k in output))
        schedule.steps.append(Product(x, y, c))
        schedule.ready[view.buffer] = len(schedule.steps) - 1
    return view.permute(tuple(order.index(c) for c in output))


def _suits_tiles(
    views: list[View], labels: list[str], left: list[str], inner: list[str], right: list[str]
) -> bool:
    """Whether tiles do even a small product faster than loops, whatever its sizes."""
    found = registers()
    if found is None or not found.masks or views[0].dtype.kind != "f":
        return False
    x = _as_it_lies(views[0], labels[0], [], left, inner)
    y = _as_it_lies(views[1], labels[1], [], inner, right)
    if x is None or y is None:
        return False
    return y.strides[-1] == 1 or x.shape[0] >= found.repaid


def _row_of_windows(schedule: Schedule, out: Var, output: str) -> str:
    """The label of rows of windows, if the result is only added up as such; else none.

    The operand with that label then stands last, so that rows of windows lie in memory as rows of the sum do.
    """
    readers = schedule.readers.get(out, [])
    if len(readers) != 1 or readers[0].primitive.name != "fold":
        return ""
    axis = readers[0].params["cut"].axes[-1]
    return output[axis] if out.shape[axis] >= ROW else ""


def _size(labels: list[str], sizes: dict[str, int]) -> int:
    return prod(sizes[c] for c in labels)


def same_dtype(schedule: Schedule, view: View, dtype: np.dtype[Any]) -> View:
    if view.dtype == dtype:
        return view
    fresh = schedule.new_buffer(view.shape, dtype)
    schedule.copy(view, fresh)
    return fresh


def _without_repeats(labels: str, view: View) -> tuple[str, View]:
    """A label that stands twice walks the diagonal: one axis whose stride is the sum."""
    unique = "".join(dict.fromkeys(labels))
    if unique != labels:
        view = view.with_(np.einsum(f"{labels}->{unique}", view.imaginary))
    return unique, view


def _rearranged(schedule: Schedule, labels: str, view: View, output: str, out: Var) -> View:
    """One operand: its diagonals taken, axes summed, and the rest written along diagonals and new axes."""
    labels, view = _without_repeats(labels, view)
    view = same_dtype(schedule, view, out.dtype)
    summed = "".join(c for c in labels if c not in output)
    rest = "".join(c for c in labels if c in output)
    if summed:
        view = _sum(
            schedule, view.permute(tuple(labels.index(c) for c in rest + summed)), len(rest)
        )
    unique = "".join(dict.fromkeys(output))
    source = view.permute(tuple(rest.index(c) for c in unique if c in rest))
    if unique == output and len(rest) == len(output):
        return source
    target = schedule.new_buffer(out.shape, out.dtype)
    spread = source.with_(
        source.imaginary[tuple(slice(None) if c in rest else None for c in unique)]
    )
    if unique != output:
        schedule.steps.append(Zero(target.buffer))
    diagonal = target.with_(np.einsum(f"{output}->{unique}", target.imaginary))
    schedule.copy(spread, diagonal)
    return target


def _sum(schedule: Schedule, view: View, kept: int) -> View:
    """The sums over all axes but the first `kept`."""
    total = schedule.new_buffer(view.shape[:kept], view.dtype)
    kernel = Kernel(view.shape)
    entry = Var(Type(view.shape, view.dtype))
    kernel.loads[entry] = view
    kernel.axes = tuple(range(kept, len(view.shape)))
    spread = total.imaginary[(..., *[None] * len(kernel.axes))]
    how = "or" if view.dtype == np.bool_ else "add"
    kernel.reductions.append((how, entry, total.with_(np.broadcast_to(spread, view.shape))))
    schedule.steps.append(kernel)
    schedule.ready[total.buffer] = len(schedule.steps) - 1
    return total


def _matrix(
    schedule: Schedule,
    view: View,
    labels: str,
    batch: list[str],
    rows: list[str],
    columns: list[str],
) -> View:
    """The operand as (…batch, rows, columns) with one unit stride, copied only if it must be."""
    matrix = _as_it_lies(view, labels, batch, rows, columns)
    if matrix is None:
        moved = view.permute(tuple(labels.index(c) for c in batch + rows + columns))
        shape = _matrix_shape(moved.shape, len(batch), len(rows))
        matrix = _copied(schedule, moved).reshape(shape)
    assert matrix is not None
    return matrix


def _as_it_lies(
    view: View, labels: str, batch: list[str], rows: list[str], columns: list[str]
) -> View | None:
    """The operand as (…batch, rows, columns), or None if that needs a copy."""
    moved = view.permute(tuple(labels.index(c) for c in batch + rows + columns))
    matrix = moved.reshape(_matrix_shape(moved.shape, len(batch), len(rows)))
    return matrix if matrix is not None and has_unit_stride(matrix) else None


def _matrix_shape(shape: Shape, nb: int, nr: int) -> Shape:
    return (*shape[:nb], prod(shape[nb : nb + nr]), prod(shape[nb + nr :]))


def _copied(schedule: Schedule, view: View) -> View:
    """A copy in one piece; the one that was just made for another product, if nothing was written since.

    (Kept for long, it would take memory: windows of all layers from forward to backward.)"""
    key = (view.buffer, view.offset, view.strides, view.shape)
    found = schedule.matrices.get(key)
    if found is not None:
        made = schedule.ready[found.buffer]
        if schedule.ready[view.buffer] < made and len(schedule.steps) - made <= NEAR:
            return found
    schedule.matrices[key] = schedule.contiguous(view)
    return schedule.matrices[key]


def has_unit_stride(matrix: View) -> bool:
    rows, columns = matrix.strides[-2:]
    m, n = matrix.shape[-2:]
    fits = (columns in (0, 1) or n == 1) and (rows >= n or m == 1)
    turned = (rows in (0, 1) or m == 1) and (columns >= m or n == 1)
    broadcast = (rows == 0 and m > 1) or (columns == 0 and n > 1)
    return (fits or turned) and not broadcast


def _as_loops(
    schedule: Schedule,
    e: Equation,
    labels: list[str],
    views: list[View],
    nest: list[str],
    order: list[str],
    sizes: dict[str, int],
    view: View,
) -> None:
    """for batch, left, inner, right: C += A · B, with the innermost loop along C where it can be."""
    domain = tuple(sizes[c] for c in nest)
    kernel = Kernel(domain)
    stand_ins = []
    for x, v in zip(labels, views, strict=True):
        present = tuple(x.index(c) for c in nest if c in x)
        spread = v.imaginary.transpose(present)
        index = tuple(slice(None) if c in x else None for c in nest)
        var = Var(Type(domain, v.dtype))
        kernel.loads[var] = v.with_(np.broadcast_to(spread[(*index, ...)], domain))
        stand_ins.append(var)
    product = Var(Type(domain, e.outputs[0].dtype))
    kernel.statements.append(Equation((product,), P.multiply, tuple(stand_ins), {}))
    kernel.made.add(product)
    index = tuple(slice(None) if c in order else None for c in nest)
    lined_up = view.imaginary.transpose(tuple(order.index(c) for c in nest if c in order))
    target = view.with_(np.broadcast_to(lined_up[(*index, ...)], domain))
    kernel.axes = tuple(k for k, c in enumerate(nest) if c not in order)
    if kernel.axes:
        kernel.reductions.append(("or" if view.dtype == np.bool_ else "add", product, target))
    else:
        kernel.stores.append((product, target))
    schedule.steps.append(kernel)
    schedule.ready[view.buffer] = len(schedule.steps) - 1
