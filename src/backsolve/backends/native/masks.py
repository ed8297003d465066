"""Known masks, each truth as wide as the numbers that it chooses between.

Where a mask of bytes meets numbers of eight bytes, each vector of it is unpacked first, which takes longer than
to choose: so small masks that do nothing else are kept as integers of the numbers' width.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .kernel import Kernel
from .numbers.registers import real_dtype
from .schedule import Schedule
from .steps import Step
from .views import Buffer

SMALL = 1 << 14  # bytes, which stay in the first cache beside what they are read with


def widen_masks(schedule: Schedule) -> None:
    """Views count entries: they stay as they are where the dtype of a constant changes."""
    for k, (buffer, known) in enumerate(schedule.constants):
        if known.dtype != np.bool_ or buffer in schedule.read_inside:
            continue
        widths = {width for step in schedule.steps for width in _widths(step, buffer)}
        width = widths.pop() if len(widths) == 1 else None
        if width is not None and known.size * width <= SMALL:
            buffer.dtype = np.dtype(f"i{width}")
            schedule.constants[k] = buffer, known.astype(buffer.dtype)


def _widths(step: Step, buffer: Buffer) -> Iterator[int | None]:
    """Bytes of the numbers that a mask chooses between in a step; None for anything else it is read for."""
    if buffer not in step.buffers():
        return
    if not isinstance(step, Kernel):
        yield None
        return
    masks = {a for a, view in step.loads.items() if view.buffer is buffer}
    read = sum(view.buffer is buffer for view in step.views())
    kept = [*[a for a, _ in step.stores], *[a for _, a, _ in step.reductions]]
    kept += [write.value for write in step.writes]
    if read != len(masks) or any(a is mask for a in kept for mask in masks):
        yield None
    for e in step.statements:
        if any(a is mask for a in e.inputs for mask in masks):
            is_choice = e.primitive.name == "where" and e.inputs[0] in masks
            of = e.outputs[0].dtype
            yield real_dtype(of).itemsize if is_choice and of.kind in "fc" else None
