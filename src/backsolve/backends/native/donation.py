"""Outputs in the memory of donated inputs.

An output may take an input's memory if all reads of the input come before the output is written, or happen
in the kernel that writes it, entry for entry: a kernel loads an entry before it stores one. Where neither
holds, the output is computed elsewhere and copied over the input as the last thing of all. So every output
that has the type of a donated input takes the memory of one, whatever the order of the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import type_of
from .kernel import Kernel
from .narrowing import narrow_dtypes
from .schedule import Schedule
from .steps import Step
from .views import Buffer, View


def donate(schedule: Schedule, donated: Sequence[int]) -> dict[int, int]:
    """Which output lives in which input. They are paired in order, the best fits first."""
    lives = _Lives(schedule.steps)
    inputs = [schedule.views[v].buffer for v in schedule.program.inputs]
    types = [v.type for v in schedule.program.inputs]
    free = [i for i in donated if types[i].shape]  # a number is a new object each time
    donors: dict[int, int] = {}
    for fits in (lives.is_copy, lives.entry_for_entry, lives.in_order, lambda *_: True):
        for k, a in enumerate(schedule.program.outputs):
            out = schedule.outputs[k]
            found = [i for i in free if types[i] == type_of(a) and fits(out, inputs[i])]
            if not found or k in donors:
                continue
            i = donors[k] = found[0]
            free.remove(i)
            if lives.may_share(out, inputs[i]):
                out.lives_in = inputs[i]
            else:
                _copy_at_the_end(schedule, out, View.whole(inputs[i], types[i].shape))
    schedule.steps = [s for s in schedule.steps if not _does_nothing(s)]
    return donors


def put_in_place(schedule: Schedule, pairs: dict[int, int]) -> None:
    """Output k of a region takes the memory of input pairs[k], whose value it replaces."""
    early = [s for s in schedule.steps if _keeps_an_input(schedule, s)]
    schedule.steps = [*early, *[s for s in schedule.steps if s not in early]]
    lives = _Lives(schedule.steps)
    for k, i in pairs.items():
        out, given = schedule.outputs[k], schedule.views[schedule.program.inputs[i]]
        if out is given.buffer:
            continue
        if lives.may_share(out, given.buffer):
            out.lives_in = given.buffer
        else:
            _copy_at_the_end(schedule, out, given)
    schedule.steps = [s for s in schedule.steps if not _does_nothing(s)]


def _keeps_an_input(schedule: Schedule, step: Step) -> bool:
    """A copy of an input as it came, which may be made before all else: then it can be overwritten."""
    if not isinstance(step, Kernel) or not _copies(step):
        return False
    source, target = step.views()
    kinds = (source.buffer.kind, target.buffer.kind)
    if kinds != ("input", "output") or source.buffer in schedule.overwritten:
        return False
    return next(s for s in schedule.steps if target.buffer in s.buffers()) is step


def _copy_at_the_end(schedule: Schedule, out: Buffer, target: View) -> None:
    out.kind = "arena"
    if out not in schedule.arena:
        schedule.arena.append(out)
    schedule.copy(View.whole(out, target.shape), target)


class _Lives:
    """When buffers are touched, and what that allows."""

    def __init__(self, steps: Sequence[Step]):
        self.first: dict[Buffer, int] = {}
        self.last: dict[Buffer, int] = {}
        for at, step in enumerate(steps):
            for buffer in step.buffers():
                self.first.setdefault(buffer, at)
                self.last[buffer] = at
        self.steps = list(steps)

    def may_share(self, out: Buffer, given: Buffer) -> bool:
        return self.in_order(out, given) or self.entry_for_entry(out, given)

    def in_order(self, out: Buffer, given: Buffer) -> bool:
        """Whether the input is done with before the output is first written."""
        return self.last.get(given, -1) < self.first.get(out, len(self.steps))

    def entry_for_entry(self, out: Buffer, given: Buffer) -> bool:
        """Whether a kernel, its last reader, reads the input only where it then writes the output."""
        kernel = self.writer(out)
        if type(kernel) is not Kernel or self.last.get(given, -1) != self.first[out]:
            return False
        if narrow_dtypes(kernel):  # such a kernel may do a block twice; in place it would be slower
            return False
        stores = [v for _, v in kernel.stores if v.buffer is out]
        loads = [v for v in kernel.loads.values() if v.buffer is given]
        touching = [v for v in kernel.views() if v.buffer in (out, given)]
        return (
            len(stores) == 1
            and len(touching) == 1 + len(loads)
            and all(_places(v) == _places(stores[0]) for v in loads)
        )

    def is_copy(self, out: Buffer, given: Buffer) -> bool:
        return _copies(self.writer(out)) and self.entry_for_entry(out, given)

    def writer(self, out: Buffer) -> Step | None:
        return self.steps[self.first[out]] if out in self.first else None


def _copies(step: Step | None) -> bool:
    return (
        type(step) is Kernel
        and not (step.statements or step.reductions or step.writes)
        and len(step.stores) == len(step.loads) == 1
    )


def _does_nothing(step: Step) -> bool:
    """A copy of memory onto itself."""
    if not isinstance(step, Kernel) or not _copies(step):
        return False
    source, target = step.views()
    return source.buffer is target.buffer and _places(source) == _places(target)


def _places(view: View) -> tuple[int, tuple[int, ...]]:
    return view.offset, view.strides
