"""Feed: batches that a run can go on from in the middle of an epoch, whatever they come from."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import numpy as np

from .. import containers
from ..data import Batches, as_source
from ..data.batches import ahead
from ..distributed import part_of, whole_batch
from ..errors import StructureError
from .prediction import even_parts


class Feed:
    """Batches, or any iterable of batches that begins anew each epoch (what was done is then passed over)."""

    def __init__(self, batches: Any):
        self.batches = batches
        self.done = 0  # batches of the epoch under way that were handed out
        self.sharding: Any = None  # of batches over the devices of many processes

    def share_out(self, sharding: Any) -> None:
        """Let each process read its own part of batches, where these can be read in parts."""
        if isinstance(self.batches, Batches):
            self.sharding = sharding
            self.batches = copy.copy(self.batches)
            self.batches.part = part_of(sharding)

    def __len__(self) -> int:
        """Batches of an epoch; 0 if nobody knows."""
        return len(self.batches) if hasattr(self.batches, "__len__") else 0

    def __iter__(self) -> Generator[Any]:
        if isinstance(self.batches, Batches):
            for batch in self.batches:
                yield batch if self.sharding is None else self._joined(batch)
            return
        for k, batch in enumerate(self.batches):
            if k >= self.done:
                self.done += 1
                yield batch
        self.done = 0

    def _joined(self, batch: Any) -> Any:
        """A part of a batch as what it is in the whole; a rest that was not divided as it is."""
        batches = self.batches
        size = min(
            batches.batch_size, len(batches.source) - (batches.done - 1) * batches.batch_size
        )
        return batch if size % batches.part[1] else whole_batch(batch, self.sharding, batches.part)

    @property
    def full(self) -> int:
        """Examples of a batch; 0 if nobody knows."""
        return self.batches.batch_size if isinstance(self.batches, Batches) else 0

    def state_dict(self) -> dict[str, Any]:
        if isinstance(self.batches, Batches):
            return {**self.batches.state_dict(), **self._form()}
        own = self.batches.state_dict() if hasattr(self.batches, "state_dict") else None
        return {"done": self.done, "own": own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(self.batches, Batches):
            there = {name: state.get(name) for name in self._form()}
            if there != self._form():
                raise StructureError(
                    f"the checkpoint was made with {there}, now there are {self._form()}: "
                    "batches would be others"
                )
            self.batches.load_state_dict(state)
            return
        self.done = state["done"]
        if state["own"] is not None:
            self.batches.load_state_dict(state["own"])

    def _form(self) -> dict[str, int]:
        return {"batch_size": self.batches.batch_size, "examples": len(self.batches.source)}


def feed(data: Any, batch_size: int, shuffle: bool, seed: int) -> Feed:
    """Batches as they are; sources, arrays and containers of arrays in batches; other iterables as batches."""
    if isinstance(data, Batches) or _is_stream(data):
        return Feed(data)
    return Feed(Batches(as_source(data), batch_size, shuffle=shuffle, seed=seed))


def tests(data: Any, batch_size: int, step: int) -> Iterable[Any]:
    """Batches to measure on, in order, of nearly one size, a multiple of `step`."""
    if isinstance(data, Batches):
        return Batches(data.source, data.batch_size, transform=data.transform)
    if _is_stream(data):
        return data
    return Tests(as_source(data), batch_size, step)


class Tests:
    """A source in order, in batches of nearly one size, made anew each time one goes through them."""

    def __init__(self, source: Any, batch_size: int, step: int = 1):
        self.source, self.ranges = source, even_parts(len(source), batch_size, step)

    def __iter__(self) -> Iterator[Any]:
        batches = (self.source.take(np.arange(low, high)) for low, high in self.ranges)
        return ahead(batches, 2) if getattr(self.source, "reads_files", False) else batches


def _is_stream(data: Any) -> bool:
    """Whether something gives batches one after the other: no array, no container of arrays, no source."""
    if isinstance(data, list):
        return len(data) > 0 and all(isinstance(part, tuple | dict) for part in data)
    if hasattr(data, "take") or hasattr(data, "target") or hasattr(data, "__array__"):
        return False
    return hasattr(data, "__iter__") and containers.handlers(type(data)) is None
