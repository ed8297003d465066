"""What follows from the sums of a row, done as soon as they are known.

A mean, a variance, the reciprocal of a norm: a few operations on the total of each row, by a kernel of its own
over the rows, which is one more loop for LLVM to look at, and as long in compiling as one over everything.
Joined to the kernel of the sums it is a few instructions behind the innermost loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .elementwise import LONG
from .guard import condition_of_sums
from .kernel import Kernel
from .nests import LONG_LOOP, walk
from .steps import Step
from .views import Buffer, View

FEW = 16  # operations, which are done on one number at a time


def with_row_ends(
    steps: Sequence[Step], whole: Callable[[Buffer], Buffer] = lambda x: x
) -> list[Step]:
    """The same steps, with small kernels over rows joined to those before them.

    A buffer may be a part of a `whole` that other buffers are parts of, too.
    """
    out: list[Step] = []
    for step in steps:
        before = out[-1] if out else None
        joined = None
        if isinstance(before, Kernel) and isinstance(step, Kernel):
            joined = _joined(before, step, whole)
        if joined is None:
            out.append(step)
        else:
            out[-1] = joined
    return out


def _joined(before: Kernel, then: Kernel, whole: Callable[[Buffer], Buffer]) -> Kernel | None:
    """Both as one, if `then` is small and reads of what `before` writes only the totals of its own row."""
    if not before.reductions or before.adds or not _is_plain(before):
        return None
    if then.reductions or not _is_plain(then) or len(then.statements) > FEW:
        return None
    if {e.primitive.name for e in then.statements} & LONG:
        return None
    end = _spread(before, then)
    if end is None:
        return None
    both = replace(before, ends=[*before.ends, end])
    domain, strides = walk(both, both.views())
    if not domain or domain[-1] < LONG_LOOP:
        return None
    walks = {id(v): s for v, s in zip(both.views(), strides, strict=True)}
    totals = [v for _, _, v in before.reductions]
    if any(walks[id(v)][-1] for v in [*totals, *both.end_views()]):
        return None
    if not all(all(walks[id(v)][:-1]) for v in totals):
        return None  # more than one row adds to it
    if condition_of_sums(before, domain[-1], lambda v: walks[id(v)][-1]) is not None:
        return None  # some rows are skipped
    known = [*totals, *[v for e in before.ends for _, v in e.stores]]
    place = lambda v: (v.buffer, v.offset, walks[id(v)])
    written = {whole(v.buffer) for v in [*known, *[v for _, v in before.stores]]}
    for view in end.loads.values():
        if whole(view.buffer) in written and place(view) not in [place(v) for v in known]:
            return None
    touched = {whole(x) for x in before.buffers()}
    return None if any(whole(v.buffer) in touched for _, v in end.stores) else both


def _is_plain(kernel: Kernel) -> bool:
    return not (kernel.reads or kernel.writes or kernel.refusals)


def _spread(kernel: Kernel, then: Kernel) -> Kernel | None:
    """A kernel over the rows of another as one over all entries of that; None if those are not its rows."""
    axes = kernel.axes or ()
    kept = tuple([1 if k in axes else n for k, n in enumerate(kernel.domain)])
    dropped = tuple([n for k, n in enumerate(kernel.domain) if k not in axes])
    if then.domain not in (kept, dropped):
        return None

    def spread(view: View) -> View:
        rows = view.imaginary if then.domain == kept else np.expand_dims(view.imaginary, axes)
        return view.with_(rows).broadcast(kernel.domain)

    loads = {a: spread(v) for a, v in then.loads.items()}
    stores = [(a, spread(v)) for a, v in then.stores]
    return replace(then, domain=kernel.domain, loads=loads, stores=stores)
