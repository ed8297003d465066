"""Batches over many processes: each reads its own rows, and all rows are one global array.

The order of examples is the same everywhere (it depends on seed and epoch alone), so no process has to tell
another what it reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..backends.xla.library import jax, wide
from ..errors import ShapeError
from .start import place


def part_of(sharding: Any) -> tuple[int, int]:
    """Which of how many equal parts of a batch the devices of this process hold: (index, count).

    Processes whose devices differ in other axes of the mesh alone hold the same part.
    """
    rows = sharding.num_devices  # a number that every split of the batch divides
    taken = {_rows(s, rows) for s in sharding.addressable_devices_indices_map((rows,)).values()}
    low, high = min(a for a, _ in taken), max(b for _, b in taken)
    if sum(b - a for a, b in taken) != high - low or low % (high - low) or rows % (high - low):
        raise ShapeError(
            f"the devices of process {place().index} hold no one range of a batch: let the batch's axis come "
            "first in the mesh, so that neighbours hold neighbouring rows"
        )
    return low // (high - low), rows // (high - low)


def whole_batch(batch: Any, sharding: Any, part: tuple[int, int] = (0, 1)) -> Any:
    """A container of arrays, this process's part of a batch, as global arrays.

    `part` is what the arrays are of the batch: (index, count) as `part_of` gives it, or (0, 1) if they are the
    whole of it, of which only this process's rows are then taken.
    """
    with wide():
        return tree.map(lambda a: _global(np.asarray(a), sharding, part[1]), batch)


def _global(a: Any, sharding: Any, count: int) -> Any:
    if a.ndim == 0:
        raise ShapeError("a batch holds arrays with one row for each example, got a single number")
    shape = (a.shape[0] * count, *a.shape[1:])
    parts = part_count(sharding)
    if shape[0] % parts:
        raise ShapeError(
            f"a batch of {shape[0]} examples does not divide among {parts} parts: take a batch_size that does, "
            "and drop_last=True for a rest"
        )
    if count > 1:
        return jax().make_array_from_process_local_data(sharding, a, shape)
    return jax().make_array_from_callback(shape, sharding, lambda index: a[index])


def part_count(sharding: Any) -> int:
    """Parts that a sharding cuts the rows of an array into."""
    rows = sharding.num_devices
    return len({_rows(s, rows) for s in sharding.devices_indices_map((rows,)).values()})


def _rows(index: tuple[slice, ...], length: int) -> tuple[int, int]:
    low, high, _ = index[0].indices(length)
    return low, high
