"""What processes do together on the host: wait for each other, agree on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..backends.xla.library import wide
from ..sharding.placement import fetched
from .start import place


def wait(what: str) -> None:
    """Until all processes have come here."""
    if place().count > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(what)


def numbers_of_first(*numbers: int) -> tuple[int, ...]:
    """What process 0 was called with, in all processes."""
    if place().count == 1:
        return numbers
    from jax.experimental import multihost_utils

    with wide():
        found = multihost_utils.broadcast_one_to_all(np.array(numbers, np.int64))
    return tuple(int(k) for k in found)


def largest(*numbers: int) -> tuple[int, ...]:
    """The largest that any process was called with, place by place, in all processes."""
    if place().count == 1:
        return numbers
    from jax.experimental import multihost_utils

    with wide():
        found = multihost_utils.process_allgather(np.array(numbers, np.int64))
    return tuple(int(k) for k in np.max(found, axis=0))


def gather(arrays: Any) -> Any:
    """A container of arrays over many devices as NumPy's own, whole, in every process. All must call it."""
    return tree.map(fetched, arrays)
