"""Places for buffers whose lives do not overlap, in one piece of memory."""

from __future__ import annotations

from collections.abc import Sequence

from .entry import ALIGNMENT
from .steps import Step
from .views import Buffer


def lay_out(steps: Sequence[Step], buffers: Sequence[Buffer]) -> int:
    """Give each of `buffers` its offset, reused once no step reads it any more; returns the size."""
    for buffer in buffers:
        buffer.first = buffer.last = -1
    for at, step in enumerate(steps):
        for buffer in step.buffers():
            buffer.first = at if buffer.first < 0 else buffer.first
            buffer.last = at
    live: list[Buffer] = []
    size = 0
    for buffer in sorted(buffers, key=lambda x: x.first):
        live = [x for x in live if x.last >= buffer.first]
        offset = 0
        for other in sorted(live, key=lambda x: x.offset):
            if offset + buffer.nbytes <= other.offset:
                break
            offset = max(offset, -(-(other.offset + other.nbytes) // ALIGNMENT) * ALIGNMENT)
        buffer.offset = offset
        live.append(buffer)
        size = max(size, offset + buffer.nbytes)
    return size
