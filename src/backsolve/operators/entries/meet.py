"""The product of two terms: pairs of entries that meet at an index of the array between them.

Both are loop nests. Along each axis of the array in the middle the left one reads, and the right one writes, an
arithmetic progression or one place; what both share is again a progression. So the product of two stencils is
found by arithmetic on a few integers. Axes that neither result index mentions are summed: a contraction.
Where a nest does not run along the axes, entries are listed and joined (joining.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ...primitive import P
from .joining import join
from .terms import Part, Shape, Steps, Term, compact, scaled, shape_of, shaped


def meet(a: Part, b: Part, middle: Shape) -> Part | None:
    """A @ B for one term of each; None if no entries meet."""
    if isinstance(a, Term) and isinstance(b, Term):
        is_summed = not any(a.rows.strides) and not any(b.cols.strides)
        if _is_line(a, a.cols) and _is_line(b, b.rows) and not is_summed:
            return _meet_on_a_line(a, b)
        left, right = _along_axes(a, a.cols, middle), _along_axes(b, b.rows, middle)
        if left is not None and right is not None:
            return _meet_evenly(*left, *right, len(middle))
    return join(a.listed(), b.listed(), prod(middle))


# ---- on a line: most terms have one counter, and run through the middle as it lies in memory


def _is_line(t: Term, through: Steps) -> bool:
    """Whether it has one counter, which moves through the middle, and a value for each place or one for all."""
    if len(t.counts) != 1 or not through.strides[0]:
        return False
    lengths = shape_of(t.values)
    return not lengths or lengths == t.counts


def _meet_on_a_line(a: Term, b: Term) -> Term | None:
    (length_a,), (length_b,) = a.counts, b.counts
    common = _intersection(
        _Run(a.cols.offset, a.cols.strides[0], length_a, 0),
        _Run(b.rows.offset, b.rows.strides[0], length_b, 0),
    )
    if common is None:
        return None
    first_a, step_a, first_b, step_b, n = common
    row, col = a.rows.strides[0], b.cols.strides[0]
    return compact(
        (n,),
        Steps(a.rows.offset + row * first_a, (row * step_a,)),
        Steps(b.cols.offset + col * first_b, (col * step_b,)),
        scaled(
            _read(a.values, [_part(first_a, step_a, n, length_a)]),
            _read(b.values, [_part(first_b, step_b, n, length_b)]),
        ),
    )


# ---- along axes


class _Run(NamedTuple):
    """Along one axis of the middle: where a nest begins, its step, and the counter that drives it (or None)."""

    start: int
    step: int
    length: int
    counter: int | None


def _along_axes(t: Term, through: Steps, middle: Shape) -> tuple[Term, list[_Run]] | None:
    """The term with its counters split so that each moves along one axis of the middle; and the runs."""
    strides = [prod(middle[k + 1 :]) for k in range(len(middle))]
    start = [int(x) for x in np.unravel_index(through.offset, middle)] if middle else []
    counts, origin = [], []  # the new counters: length and (old counter, factor)
    driver: dict[int, int] = {}
    steps: dict[int, int] = {}
    for k, (n, s) in enumerate(zip(t.counts, through.strides, strict=True)):
        if s == 0:
            counts.append(n)
            origin.append((k, 1))
            continue
        pieces = _split(n, s, start, middle, strides)
        if pieces is None:
            return None
        for axis, length, step, factor in pieces:
            if axis in driver:
                return None
            driver[axis], steps[axis] = len(counts), step
            counts.append(length)
            origin.append((k, factor))
    if len(counts) > len(t.counts):
        t = _resplit(t, counts, origin)
    runs = []
    for axis in range(len(middle)):
        if axis in driver:
            runs.append(_Run(start[axis], steps[axis], counts[driver[axis]], driver[axis]))
        else:
            runs.append(_Run(start[axis], 1, 1, None))
    return t, runs


def _split(
    n: int, stride: int, start: Sequence[int], middle: Shape, strides: Sequence[int]
) -> list[tuple[int, int, int, int]] | None:
    """A counter as counters along single axes, outermost first: (axis, length, step, factor of the old)."""
    for axis in range(len(middle)):
        if middle[axis] == 1 or stride % strides[axis]:
            continue
        step = stride // strides[axis]
        if 0 <= start[axis] + step * (n - 1) < middle[axis]:
            return [(axis, n, step, 1)]
        # It runs over the end of this axis: in whole rounds, or not at all.
        inner = middle[axis] // step if step > 0 and middle[axis] % step == 0 else 0
        if inner < 2 or start[axis] >= step or n % inner:
            continue
        outer = _split(n // inner, stride * inner, start, middle, strides)
        if outer is not None and all(o[0] != axis for o in outer):
            return [
                *[(x, m, s, f * inner) for x, m, s, f in outer],
                (axis, inner, step, 1),
            ]
    return None


def _resplit(t: Term, counts: list[int], origin: list[tuple[int, int]]) -> Term:
    rows, cols = (
        Steps(s.offset, tuple([s.strides[k] * f for k, f in origin])) for s in (t.rows, t.cols)
    )
    values = t.values
    lengths = shape_of(values)
    if lengths:
        shape = tuple(
            [n if lengths[k] != 1 else 1 for n, (k, _) in zip(counts, origin, strict=True)]
        )
        values = shaped(values, shape)
    return Term(tuple(counts), rows, cols, values)


def _meet_evenly(
    a: Term, runs_a: list[_Run], b: Term, runs_b: list[_Run], axes: int
) -> Term | None:
    key_a: list[Any] = [slice(None)] * len(a.counts)
    key_b: list[Any] = [slice(None)] * len(b.counts)
    row, col = a.rows.offset, b.cols.offset
    shared: list[tuple[int, int, int, int, int]] = []  # counters, length, strides of row and column
    for k in range(axes):
        x, y = runs_a[k], runs_b[k]
        common = _intersection(x, y)
        if common is None:
            return None
        ka, step_a, kb, step_b, n = common
        if x.counter is not None:
            row += a.rows.strides[x.counter] * ka
        if y.counter is not None:
            col += b.cols.strides[y.counter] * kb
        if x.counter is not None and y.counter is not None:
            key_a[x.counter] = _part(ka, step_a, n, x.length)
            key_b[y.counter] = _part(kb, step_b, n, y.length)
            shared.append(
                (
                    x.counter,
                    y.counter,
                    n,
                    a.rows.strides[x.counter] * step_a,
                    b.cols.strides[y.counter] * step_b,
                )
            )
        elif x.counter is not None:
            key_a[x.counter] = ka
        elif y.counter is not None:
            key_b[y.counter] = kb
    used_a = {x.counter for x in runs_a}
    used_b = {y.counter for y in runs_b}
    free_a = [k for k in range(len(a.counts)) if k not in used_a]
    free_b = [k for k in range(len(b.counts)) if k not in used_b]
    summed = [k for k, s in enumerate(shared) if s[3] == 0 and s[4] == 0]
    kept = [k for k in range(len(shared)) if k not in summed]
    # Axes of the product: what only the left one counts, what both do, what only the right one does.
    counts = (
        *[a.counts[k] for k in free_a],
        *[shared[k][2] for k in kept],
        *[b.counts[k] for k in free_b],
    )
    rows = Steps(
        row,
        (
            *[a.rows.strides[k] for k in free_a],
            *[shared[k][3] for k in kept],
            *[0] * len(free_b),
        ),
    )
    cols = Steps(
        col,
        (
            *[0] * len(free_a),
            *[shared[k][4] for k in kept],
            *[b.cols.strides[k] for k in free_b],
        ),
    )
    labels = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    name_a, name_b = {k: next(labels) for k in free_a}, {k: next(labels) for k in free_b}
    names = [next(labels) for _ in shared]
    for (ca, cb, *_), c in zip(shared, names, strict=True):
        name_a[ca], name_b[cb] = c, c
    output = (
        *[name_a[k] for k in free_a],
        *[names[k] for k in kept],
        *[name_b[k] for k in free_b],
    )
    length = {names[k]: shared[k][2] for k in summed}
    values = _multiply(
        _read(a.values, key_a),
        [name_a[k] for k in sorted(name_a)],
        _read(b.values, key_b),
        [name_b[k] for k in sorted(name_b)],
        output,
        length,
    )
    return compact(counts, rows, cols, values)


def _part(first: int, step: int, n: int, length: int) -> slice:
    if n == length and step == 1:
        return slice(None)
    stop = first + step * n
    return slice(first, stop if stop >= 0 else None, step)


def _read(values: Any, key: list[Any]) -> Any:
    """values[key], where an axis of length 1 stands for all; a plain number for itself."""
    lengths = shape_of(values)
    if not lengths:
        return values
    places = []
    for n, k in zip(lengths, key, strict=True):
        places.append((0 if isinstance(k, int) else slice(None)) if n == 1 else k)
    if places == [slice(None)] * len(places):
        return values
    return values[tuple(places)]


def _intersection(x: _Run, y: _Run) -> tuple[int, int, int, int, int] | None:
    """What two progressions share: for each its first place and step, and how many."""
    if x.step == 1 == y.step:
        first = max(x.start, y.start)
        n = min(x.start + x.length, y.start + y.length) - first
        return (first - x.start, 1, first - y.start, 1, n) if n > 0 else None
    step = abs(x.step * y.step // gcd(x.step, y.step))
    # Solve x.start + x.step·i = y.start + y.step·j.
    g = gcd(x.step, y.step)
    if (y.start - x.start) % g:
        return None
    m = abs(y.step) // g
    i = ((y.start - x.start) // g * pow(x.step // g, -1, m)) % m if m > 1 else 0
    value = x.start + x.step * i  # one solution; all others are `step` apart
    low = max(min(r.start, r.start + r.step * (r.length - 1)) for r in (x, y))
    high = min(max(r.start, r.start + r.step * (r.length - 1)) for r in (x, y))
    first = low + (value - low) % step
    if first > high:
        return None
    n = (high - first) // step + 1
    if x.step < 0:  # go the left one's way
        first, step = first + (n - 1) * step, -step
    return (
        (first - x.start) // x.step,
        step // x.step,
        (first - y.start) // y.step,
        step // y.step,
        n,
    )


def _multiply(
    x: Any,
    names_x: Sequence[str],
    y: Any,
    names_y: Sequence[str],
    output: Sequence[str],
    summed: dict[str, int],
) -> Any:
    """x · y over the counters of `output`, summed over the others."""
    x, names_x = _without_repeats(x, names_x)
    y, names_y = _without_repeats(y, names_y)
    factor, both = 1, []
    for c, n in summed.items():
        if c in names_x and c in names_y:
            both.append(c)
        elif c in names_x:
            x, names_x = np.sum(x, axis=names_x.index(c)), [k for k in names_x if k != c]
        elif c in names_y:
            y, names_y = np.sum(y, axis=names_y.index(c)), [k for k in names_y if k != c]
        else:
            factor *= n
    if both:
        names = [c for c in output if c in names_x or c in names_y]
        subscripts = f"{''.join(names_x)},{''.join(names_y)}->{''.join(names)}"
        z = _ordered(P.contract(x, y, subscripts=subscripts, sizes=()), names, output)
    else:
        z = scaled(_ordered(x, names_x, output), _ordered(y, names_y, output))
    return z if factor == 1 else z * float(factor)


def _without_repeats(x: Any, names: Sequence[str]) -> tuple[Any, list[str]]:
    """x without its axes of length 1, along which it repeats."""
    lengths = shape_of(x)
    if not lengths:
        return x, []
    kept = [c for c, n in zip(names, lengths, strict=True) if n != 1]
    return shaped(x, tuple([n for n in lengths if n != 1])), kept


def _ordered(x: Any, names: Sequence[str], output: Sequence[str]) -> Any:
    """x with its axes where `output` has them, of length 1 where it has none."""
    if not shape_of(x):
        return x
    have = [c for c in output if c in names]
    order = [list(names).index(c) for c in have]
    if order != sorted(order):
        x = np.transpose(x, order)
    shape = iter(shape_of(x))
    lengths = tuple([next(shape) if c in names else 1 for c in output])
    return shaped(x, lengths)
