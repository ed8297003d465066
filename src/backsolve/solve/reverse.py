"""Back substitution on `(I − L)ᵀ x̄ = seed`: backpropagation.

From the last row to the first:  x̄_j += L_ijᵀ x̄_i  for every block L_ij of row i. Each block is built
from what its row captured, applied, and forgotten. The rows still to visit wait in a heap, the
youngest on top: the order of execution is the order of the system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..blocks import ASKS_MORE
from ..errors import FreedGraphError
from ..hooks import hooks
from ..ignoring import ignore_warnings, warn_again
from ..ir import Var
from ..joint import component_of, operator_of
from ..operators import Identity, Mask, OperatorSum, Product, Scale, ScatterAdd, Unslice
from ..operators.broadcast import sum_to
from ..ownership import LARGE
from ..primitive import row_values
from ..row import FREED, Row, is_over
from . import masked, spare
from .fit import fit_back
from .masked import Masked, is_kept_entry_by_entry

_COMBINED = frozenset([Product, Scale])  # they go by parts, or after a sum


class OuterRow(Exception):  # noqa: N818 - a signal, not a mistake
    """A row older than the solve was met: somebody outside differentiates too, so it must be recorded."""


class _Kept(dict[Row, Any]):
    """Adjoints that stay when a row has passed them on."""

    def pop(self, row: Row, *default: Any) -> Any:
        return self[row]


def back_substitute(
    seeds: Iterable[tuple[Row, Any]],
    wanted: Sequence[Row] | None,
    *,
    oldest: int = -1,
    record: bool = False,
    free: bool = False,
    reached: set[Row] | None = None,
    keep: bool = False,
    masks: bool = True,
) -> Any:
    """The adjoints of `wanted`, given the adjoints `seeds` of the outputs.

    With `wanted` None, a dict of the adjoints of all leaves; with `keep`, of all rows. Rows older than
    `oldest` are not entered; meeting one raises OuterRow unless the solve is recorded. `record` keeps
    the solve itself differentiable; `free` gives back the rows' captures in the end; only rows in `reached`,
    if given, receive adjoints. Without `masks` zeros by structure are numbers like any other: who asks for that
    looks for NaN, which is what 0 · ∞ gives, and solves once more.
    """
    adjoints: dict[Row, Any] = _Kept() if keep else {}
    waiting: dict[int, Row] = {}
    heap: list[int] = []
    fresh: set[Row] = set()  # whose adjoint is an array made here, and may be added into
    stop = frozenset(wanted) if wanted is not None else frozenset()
    observe = hooks.observe_block
    may_reuse = not record and observe is None and not keep
    ndarray = np.ndarray
    g: Any
    old: Any
    held: Any = None
    done: list[Row] = []
    following = None  # a row known to be waiting, kept out of the heap: most rows lead to one

    def wait(row: Row) -> None:
        waiting[-row.index] = row
        heappush(heap, -row.index)

    warnings = ignore_warnings()
    try:
        for row, seed in seeds:
            if row in adjoints:
                adjoints[row] = masked.plus(adjoints[row], seed)
            else:
                adjoints[row] = seed
                if row not in stop:
                    if following is not None:
                        wait(following)
                    following = row
        while heap or following is not None:
            if following is None:
                row = waiting.pop(heappop(heap))
            elif heap and -heap[0] > following.index:
                row = waiting.pop(heappop(heap))
                wait(following)
            else:
                row = following
            following = None
            primitive = row.primitive
            if not primitive.is_walked:
                if primitive.adjoint is not None:
                    seed = adjoints.pop(row)
                    wanted_here = [_enters(p, oldest, stop, reached, record) for p in row.parents]
                    pairs = _direct_images(seed, row, record, wanted_here)
                    if observe is not None:
                        for _, g in pairs:
                            observe(row, masked.plain(g), seed)
                    if free:
                        done.append(row)
                elif primitive.is_joint:
                    pairs = _joint_images(adjoints.pop(row), row, record)
                elif primitive.is_component:
                    if _deposit(adjoints, row, adjoints.pop(row)):
                        wait(row.parents[0])
                    continue
                else:
                    continue
                for parent, g in pairs:
                    if _enters(parent, oldest, stop, reached, record):
                        g = fit_back(g, parent)
                        old = adjoints.get(parent)
                        adjoints[parent] = g if old is None else masked.plus(old, g)
                        if old is None and parent not in stop:
                            wait(parent)
                continue
            seed = adjoints.pop(row)
            is_large = may_reuse and seed.__class__ is ndarray and seed.size > LARGE
            is_plain = not is_large and seed.__class__ is not Masked
            if is_large or held is not None:  # what the last row left here holds arrays, too
                g = old = held = given = None
            saved = row.saved
            if saved is FREED:
                raise FreedGraphError("the rows of this result were freed; keep retain_graph=True")
            if record and saved:
                saved = row_values(row)
            blocks = primitive.blocks
            last = spare.last_row(row.parents) if is_large else -1
            i = -1
            for parent in row.parents:
                i += 1
                if parent.__class__ is not Row:
                    continue
                if (parent.index < oldest or reached is not None) and not _enters(
                    parent, oldest, stop, reached, record
                ):
                    continue
                if blocks is None:
                    block = primitive.block(row, i, saved)
                else:
                    block, k = blocks[i]
                    if k >= 0:
                        block = block(saved[k])
                    elif k == ASKS_MORE:
                        block = block(saved, row)
                kind = block.__class__
                if kind is Identity:
                    g = seed
                elif is_plain and kind not in _COMBINED and not block.adjoint_masks:
                    g = block.pull(seed)
                elif seed.__class__ is Masked and kind in (Product, OperatorSum):
                    g = masked.pull(block, seed)
                    if g is None:
                        continue
                    g = masked.plain(g) if parent.is_leaf else g
                elif block.adjoint_masks or seed.__class__ is Masked:
                    block = block.T
                    if _add_into(block, adjoints, seed, parent, fresh, record):
                        continue
                    g = _apply_masked(block, seed, parent, record, masks)
                elif kind is Scale and row.shape != parent.shape:
                    g = block.pull(sum_to(seed, parent.shape))  # fewer to multiply
                elif is_large or (may_reuse and kind is Product):
                    held, given, block, g = [block], [seed], None, None
                    if i == last:
                        seed = None
                    g = spare.pull(held, given)
                else:
                    g = block.pull(seed)
                if (row.shape is not parent.shape or row.dtype is not parent.dtype) and (
                    g.__class__ is Masked or g.shape != parent.shape or g.dtype != parent.dtype
                ):
                    g = fit_back(g, parent)
                if observe is not None:
                    observe(row, g, seed)
                old = adjoints.get(parent)
                if old is not None:
                    if old.__class__ is Masked or g.__class__ is Masked:
                        adjoints[parent] = masked.plus(old, g)
                    elif may_reuse and g.__class__ is ndarray and g.size > LARGE:
                        held, g, old, given = [g], None, None, None
                        if i == last:
                            seed = None
                        spare.add(adjoints, parent, held)
                    else:
                        adjoints[parent] = old + g
                    continue
                adjoints[parent] = g
                if parent not in stop:
                    if following is not None:
                        wait(following)
                    following = parent
            if free:
                done.append(row)
        for row in done:
            row.saved = FREED
        if wanted is None:
            single = [(r, g) for r, g in adjoints.items() if not r.primitive.is_joint]
            return {row: fit_back(masked.plain(g), row) for row, g in single}
        found = []
        for row in wanted:
            g = adjoints.get(row)
            if g.__class__ is Masked:
                g = g.value
            found.append(g if g is None else fit_back(g, row))
        return found
    finally:
        warn_again(warnings)


def _enters(
    parent: Any, oldest: int, stop: frozenset[Row], reached: set[Row] | None, record: bool
) -> bool:
    """Whether an adjoint goes on to `parent`: not to constants, outer rows, or rows nobody asks for."""
    if parent.__class__ is not Row:
        return False
    if parent.index < oldest and parent not in stop:
        if parent.saved is FREED:
            raise FreedGraphError(
                "a Tensor that belongs to an earlier, finished differentiation was used again; "
                "keep its value instead: bs.stop_gradient(x)"
            )
        if not record and not is_over(parent):
            raise OuterRow
        return False
    return reached is None or parent in reached


def _joint_images(seed: Any, row: Row, record: bool) -> list[tuple[Any, Any]]:
    if row.saved is FREED:
        raise FreedGraphError("the rows of this result were freed; keep retain_graph=True")
    saved = row_values(row) if record else row.saved
    operator = operator_of(row, saved, record)
    return [
        (p, g)
        for p, g in zip(row.parents, operator.T.apply(tuple(seed)), strict=True)
        if g is not None
    ]


def _direct_images(
    seed: Any, row: Row, record: bool, wanted: Sequence[bool]
) -> list[tuple[Any, Any]]:
    """By the formula that the row has for bare arrays; where that will not do, by its blocks."""
    saved, primitive = row.saved, row.primitive
    if saved is FREED:
        raise FreedGraphError("the rows of this result were freed; keep retain_graph=True")
    adjoint = primitive.adjoint
    if adjoint is not None and not record and _are_bare((masked.plain(seed), *saved)):
        images = adjoint(masked.plain(seed), saved, row.params or {}, wanted)
        if images is not None:
            return [(p, g) for p, g, w in zip(row.parents, images, wanted, strict=True) if w]
    saved = row_values(row) if record else saved
    pairs = []
    for i, (parent, enters) in enumerate(zip(row.parents, wanted, strict=True)):
        if enters:
            g = masked.pull(primitive.block(row, i, saved), seed)
            if g is not None:
                pairs.append((parent, masked.plain(g) if parent.is_leaf else g))
    return pairs


def _are_bare(values: Iterable[Any]) -> bool:
    """Whether a formula in plain NumPy runs on them at once, recording nothing."""
    return not any([v.__class__ is Var or isinstance(v, hooks.Tensor) for v in values])


def _apply_masked(block: Any, seed: Any, parent: Row, record: bool, masks: bool) -> Any:
    """A block that makes structural zeros. A leaf needs no mask: nothing will multiply its adjoint.

    Nor does a row with an adjoint of its own, which looks for zeros itself.
    """
    exact = (
        seed.__class__ is not Masked and block.__class__ is not Product
    )  # zeros of its own alone
    if parent.is_leaf and (exact or block.moves_entries):
        return block.apply(masked.plain(seed))
    if (
        parent.primitive.adjoint is not None
        and not record
        and block.__class__ in (Unslice, ScatterAdd, Mask)
        and _are_bare((masked.plain(seed),))
    ):
        return block.apply(masked.plain(seed))
    is_tracked = masks or not parent.primitive.is_walked  # others skip parts that are zero
    if not is_tracked or is_kept_entry_by_entry(block, parent):
        return block.apply(masked.plain(seed))
    g = masked.apply(block, seed)
    return masked.plain(g) if parent.is_leaf else g


def _add_into(
    block: Any, adjoints: dict[Row, Any], seed: Any, parent: Row, fresh: set[Row], record: bool
) -> bool:
    """Adjoints of single entries are added in place: n reads of an array cost O(n), not O(n²)."""
    if record or not parent.shape or block.__class__ not in (Unslice, ScatterAdd):
        return False
    old = adjoints.get(parent)
    if old is None:
        fresh.add(parent)  # what apply is about to make
        return False
    value, part = masked.plain(old), masked.plain(seed)
    if (
        isinstance(part, hooks.Tensor)
        or isinstance(value, hooks.Tensor)
        or part.dtype != value.dtype
    ):
        return False
    if parent not in fresh:
        value = np.array(value)
        mask = np.array(old.mask) if old.__class__ is Masked else None
        adjoints[parent] = value if mask is None else Masked(value, mask)
        fresh.add(parent)
        old = adjoints[parent]
    block.apply_add(value, part)
    if old.__class__ is Masked:
        old.mask |= block.support(seed.mask if seed.__class__ is Masked else None)
    return True


def _deposit(adjoints: dict[Row, Any], row: Row, seed: Any) -> bool:
    """One component's adjoint into the tuple of its joint row; True if it is the first."""
    base, k = row.parents[0], component_of(row)
    parts = adjoints.get(base)
    first = parts is None
    if parts is None:
        parts = adjoints[base] = [None] * base.params["outputs"]
    seed = masked.plain(seed)
    parts[k] = seed if parts[k] is None else parts[k] + seed
    return first
