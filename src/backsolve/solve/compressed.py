"""Compressed solves: a sparse Jacobian of known pattern from as many seeds as its colouring has colours.

    J S    by forward substitution on a stack of seeds, one for each colour of the columns
    Wᵀ J   by back substitution, one for each colour of the rows

All entries are read from these numbers by one gather. Needs nothing of the blocks but that they can be applied:
compiled calls, loops and complex functions have no entries to eliminate, but images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import StructureError, UnsupportedError
from ..operators.entries import Entries
from ..operators.entries.terms import Index, Listed, take
from ..primitive import P
from ..primitives.checks import stop_if
from ..system import System
from ..tensor import Staged, Tensor
from .colouring import Colouring, Pattern, coloured
from .eliminate import pattern_entries
from .many import beside, check_holomorphic, coarseness, forward_images, reverse_images
from .packing import plain
from .sparse import Layout, laid_out


@dataclass(frozen=True, eq=False)
class Whole:
    """All blocks [output][parameter] as one matrix: its pattern, and which of its entries each block has."""

    pattern: Pattern
    parts: tuple[Index, ...]

    @classmethod
    def of(cls, layouts: Sequence[Sequence[Layout]]) -> Whole:
        rows, cols = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        down = 0
        for line in layouts:
            right = 0
            for layout in line:
                height, width = layout.shape
                rows.append(down + np.repeat(np.arange(height), np.diff(layout.indptr)))
                cols.append(right + layout.indices.astype(np.intp))
                right += width
            down += line[0].shape[0] if line else 0
        shape = (down, sum(layout.shape[1] for layout in layouts[0]) if layouts else 0)
        i, j = np.concatenate(rows), np.concatenate(cols)
        if len(rows) <= 2:
            return cls(Pattern(shape, i, j), (np.arange(i.size),) * (len(rows) - 1))
        order = np.lexsort((j, i))
        place = np.empty(order.size, np.intp)
        place[order] = np.arange(order.size)
        ends = np.cumsum([x.size for x in rows[1:]])[:-1]
        return cls(Pattern(shape, i[order], j[order]), tuple(np.split(place, ends)))


def is_complex(system: System) -> bool:
    kinds = {p.dtype.kind for p in system.parameters} | {y.dtype.kind for y in system.out_types}
    return "c" in kinds


def compressed(system: System, colouring: Colouring, probes: Sequence[Any] = ()) -> list[Any]:
    """The sum that each entry is read from, in the order of the pattern; the images of probes.

    Of complex arguments the sums by i times the seeds come last, for `check_entries`.
    """
    ahead, back = colouring.counts
    if back and is_complex(system):
        raise UnsupportedError('of a complex function, colour the columns: colouring="column"')
    found: list[Any] = []
    images: list[Any] = []
    turned: list[Any] = []
    if ahead or probes:
        groups = colouring.columns[None] == np.arange(ahead)[:, None]
        S = np.concatenate([groups, *[np.asarray(p)[None] for p in probes]])
        is_turned = complex_columns(system)
        if ahead and is_turned.any():
            S = np.concatenate([S, np.where(is_turned, 1j * groups, 0)])
        stacks = forward_images(system, _cut(S, system.parameters))
        whole = _joined(stacks, len(S))
        found.append(np.reshape(whole[:ahead], (-1,)))
        images = [whole[ahead + k] for k in range(len(probes))]
        if len(S) > ahead + len(probes):
            turned = [take(np.reshape(whole[-ahead:], (-1,)), colouring.source)]
    if back:
        W = _cut(colouring.rows[None] == np.arange(back)[:, None], system.out_types)
        live = [w for w, y in zip(W, system.outputs, strict=True) if y is not None]
        if live:
            found.append(np.reshape(_joined(reverse_images(system, live), back), (-1,)))
        else:
            found.append(np.zeros(back * sum(p.size for p in system.parameters)))
    if not found:
        return [np.zeros(0), *images]
    numbers = found[0] if len(found) == 1 else np.concatenate(found)
    return [take(numbers, colouring.source), *images, *turned]


def complex_columns(system: System) -> Any:
    """Which columns of the whole are of complex arguments."""
    kinds = [np.full(p.size, p.dtype.kind == "c") for p in system.parameters]
    return np.concatenate(kinds) if kinds else np.zeros(0, bool)


def check_entries(
    pattern: Pattern, numbers: Any, turned: Any, is_turned: Any, dtypes: Sequence[Any]
) -> None:
    """Entries of complex arguments, and those found from i times the seeds: i times them, if holomorphic."""
    at = np.flatnonzero(is_turned)
    ahead, across = take(plain(numbers), at), take(plain(turned), at)
    scale = beside(np.abs(ahead), pattern.rows[at], pattern.cols[at])
    check_holomorphic(ahead, across, *dtypes, scale=scale)


def compressed_blocks(system: System) -> list[list[Entries]]:
    """[output][parameter] -> its Jacobian by entries, whose values come from one solve for each colour."""
    found = pattern_entries(system)
    layouts = [[laid_out(e)[0] for e in line] for line in found]
    whole = Whole.of(layouts)
    kind = "column" if is_complex(system) else "auto"
    numbers, *turned = compressed(system, coloured(whole.pattern, kind))
    if turned:
        dtypes = [p.dtype for p in system.parameters]
        is_turned = complex_columns(system)[whole.pattern.cols]
        check_entries(whole.pattern, numbers, turned[0], is_turned, dtypes)
    parts = iter(whole.parts)
    return [
        [_filled(e, layout, numbers[next(parts)]) for e, layout in zip(line, of, strict=True)]
        for line, of in zip(found, layouts, strict=True)
    ]


def _filled(e: Entries, layout: Layout, numbers: Any) -> Entries:
    rows = np.repeat(np.arange(layout.shape[0]), np.diff(layout.indptr))
    values = in_dtype(numbers, layout.template.dtype)
    return Entries(e.in_type, e.out_type, [Listed(rows, layout.indices.astype(np.intp), values)])


def in_dtype(numbers: Any, dtype: Any) -> Any:
    """Those of one block: others of the whole may be complex, and this one real."""
    if numbers.dtype.kind == "c" and dtype.kind != "c":
        numbers = np.real(numbers)
    return numbers if numbers.dtype == dtype else numbers.astype(dtype)


def _cut(whole: Any, like: Sequence[Any]) -> list[Any]:
    """Rows of a matrix as stacks of arrays, one of each type."""
    found, start = [], 0
    for t in like:
        part = whole[:, start : start + t.size]
        if t.dtype.kind != "c":
            part = part.real  # of seeds for complex arguments, which are zero here
        found.append(part.astype(t.dtype).reshape(len(whole), *t.shape))
        start += t.size
    return found


def _joined(stacks: Sequence[Any], count: int) -> Any:
    flat = [np.reshape(s, (count, int(np.prod(np.shape(s)[1:])))) for s in stacks]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)


def substituted(colouring: Colouring, sums: Any) -> Any:
    """The entries, given the sums that they are found from."""
    if colouring.tied is None:
        return sums
    if isinstance(sums, Tensor):
        raise UnsupportedError(
            "entries by an acyclic colouring are found from each other, on numbers alone: inside a derivative "
            'or compiled code use colouring="star"'
        )
    factor, first, off, edge = colouring.tied
    found = np.array(sums)
    found[off] = factor.solve(np.asarray(sums[first], float))[edge]
    return found


def lost_in_others(colouring: Colouring, sums: Any, found: Any) -> bool:
    """Whether an entry found from others is so small beside them that their rounding reaches its digits.

    An error of the sums goes through the same substitution; so do sums changed by random parts of themselves.
    """
    if colouring.tied is None:
        return False
    rng = np.random.default_rng(0)
    root = np.sqrt(np.finfo(sums.dtype).eps)
    with np.errstate(invalid="ignore"):
        moved = [np.abs(substituted(colouring, sums * rng.uniform(1, 2, sums.size))) for _ in "ab"]
        return bool(np.any(~np.isfinite(found) | (root * np.maximum(*moved) > np.abs(found))))


def check_pattern(
    pattern: Pattern, numbers: Any, probe: Any, image: Any, dtypes: Sequence[Any], is_given: bool
) -> None:
    """J · probe by the entries found is what the whole of J gives, or the pattern leaves one out.

    So it looks, too, where terms cancel until nothing but rounding is left.
    """
    bound = coarseness(image.dtype, *dtypes)
    terms = numbers * probe[pattern.cols]

    def summed(x: Any) -> Any:
        if isinstance(x, Staged):
            return P.scatter_add(x, pattern.rows, shape=pattern.shape[:1])
        return np.bincount(pattern.rows, x, minlength=pattern.shape[0])

    with np.errstate(invalid="ignore"):
        found = summed(terms.real) + (1j * summed(terms.imag) if terms.dtype.kind == "c" else 0)
        wrong = np.abs(found - image) > bound * (summed(np.abs(terms)) + np.abs(image))
    wrong = wrong & np.isfinite(image)
    if isinstance(wrong, Staged):
        stop_if(np.any(wrong), "TypeError", _left_out("a row", image.dtype, is_given))
    elif np.any(wrong):
        row = int(np.flatnonzero(wrong)[0])
        raise StructureError(_left_out(f"row {row}", image.dtype, is_given))


def _left_out(row: str, dtype: Any, is_given: bool) -> str:
    cancels = f"terms cancel there until {dtype} holds rounding alone"
    if np.finfo(dtype).eps > np.finfo(np.float64).eps:
        cancels += ": compute in float64 and see"
    if not is_given:
        return f"entries of {row}, found by a colouring, are not those of the whole: {cancels}"
    return (
        f"the pattern leaves out an entry of {row} that is not zero: complete it, or let bs.sparsity find it. "
        f"Or {cancels}"
    )
