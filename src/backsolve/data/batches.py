"""Batches: a source in order or shuffled, batch by batch, from where one stopped, read ahead by threads."""

from __future__ import annotations

import inspect
import math
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import ShapeError
from .sources import as_source


class Batches:
    """Batches of a source, epoch after epoch; `for batch in batches` is one epoch, or what is left of it.

    The order of an epoch depends on `seed` and its number alone, and `state_dict` tells how many batches of it
    were handed out: after `load_state_dict` the next is the one that would have come. `transform` is a function
    of a batch, or of a batch and a NumPy Generator, which depends on seed, epoch and number of the batch alone.
    `prefetch` batches are made ahead, by a thread (2 if the source reads files, else 0).

    With `part=(index, count)` only that one of `count` equal parts of each batch is read, as the processes of
    one run do, in the same order everywhere; a last batch that does not divide is read whole. The Generator of
    `transform` then depends on `index`, too.

    >>> import numpy as np
    >>> batches = Batches(np.arange(5), 2)
    >>> [b.tolist() for b in batches]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        data: Any,
        batch_size: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        transform: Callable[..., Any] | None = None,
        prefetch: int | None = None,
        part: tuple[int, int] = (0, 1),
    ):
        self.source = as_source(data)
        if prefetch is None:
            prefetch = 2 if getattr(self.source, "reads_files", False) else 0
        if not isinstance(batch_size, int | np.integer) or batch_size < 1 or prefetch < 0:
            raise ValueError(
                f"batch_size={batch_size} must be a whole number from 1 on, prefetch={prefetch} from 0 on"
            )
        if not 0 <= part[0] < part[1]:
            raise ValueError(f"part={part} must be (index, count), with an index below the count")
        if batch_size % part[1]:
            raise ShapeError(
                f"a batch of {batch_size} examples does not divide among {part[1]} processes: take a "
                f"batch_size that is a multiple of {part[1]}"
            )
        self.batch_size, self.part = batch_size, part
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.transform, self.prefetch = transform, prefetch
        self.epoch, self.done = 0, 0

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        count = len(self.source) / self.batch_size
        return math.floor(count) if self.drop_last else math.ceil(count)

    def order(self, epoch: int) -> Any:
        """The numbers of the examples in the order of an epoch."""
        n = len(self.source)
        if not self.shuffle:
            return np.arange(n)
        return np.random.Generator(np.random.Philox(key=[self.seed, epoch])).permutation(n)

    def __iter__(self) -> Iterator[Any]:
        order, epoch = self.order(self.epoch), self.epoch
        batches = (self._batch(order, epoch, k) for k in range(self.done, len(self)))
        for batch in ahead(batches, self.prefetch) if self.prefetch else batches:
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def _batch(self, order: Any, epoch: int, k: int) -> Any:
        batch = self.source.take(self._own(order[k * self.batch_size : (k + 1) * self.batch_size]))
        if self.transform is None:
            return batch
        if not _takes_two(self.transform):
            return self.transform(batch)
        # The order of an epoch is drawn at counters that begin with 0.
        stream = np.random.Philox(key=[self.seed, epoch], counter=[0, 0, self.part[0], k + 1])
        return self.transform(batch, np.random.Generator(stream))

    def _own(self, numbers: Any) -> Any:
        """The part of a batch that is read here."""
        index, count = self.part
        size, rest = divmod(len(numbers), count)
        return numbers if rest else numbers[index * size : (index + 1) * size]

    def state_dict(self) -> dict[str, int]:
        """Where the reading stands, for checkpoints."""
        return {"epoch": self.epoch, "done": self.done, "seed": self.seed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self.epoch, self.done, self.seed = (int(state[k]) for k in ("epoch", "done", "seed"))


def _takes_two(f: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return False
    named = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(p.default is p.empty and p.kind in named for p in parameters) == 2


_END = object()


def ahead(batches: Iterator[Any], count: int) -> Iterator[Any]:
    """The same, made by a thread that is up to `count` ahead; its errors are raised here."""
    waiting: queue.Queue[Any] = queue.Queue(count)
    stopped = threading.Event()

    def put(item: Any) -> None:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for batch in batches:
                put((batch, None))
                if stopped.is_set():
                    return
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    thread = threading.Thread(target=work, daemon=True, name="backsolve batches")
    thread.start()
    try:
        while True:
            batch, error = waiting.get()
            if error is not None:
                raise error
            if batch is _END:
                return
            yield batch
    finally:
        stopped.set()
        thread.join()
