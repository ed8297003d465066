"""Batches: a source in order or shuffled, batch by batch, from where one stopped, read ahead by threads."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .sources import as_source


class Batches:
    """Batches of a source, epoch after epoch; `for batch in batches` is one epoch, or what is left of it.

    The order of an epoch depends on `seed` and its number alone, and `state_dict` tells how many batches of it
    were handed out: after `load_state_dict` the next is the one that would have come.

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
        transform: Callable[[Any], Any] | None = None,
        prefetch: int = 0,
    ):
        if batch_size < 1 or prefetch < 0:
            raise ValueError(
                f"batch_size={batch_size} must be at least 1, prefetch={prefetch} at least 0"
            )
        self.source, self.batch_size = as_source(data), batch_size
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
        order = self.order(self.epoch)
        numbers = [
            order[k * self.batch_size : (k + 1) * self.batch_size]
            for k in range(self.done, len(self))
        ]
        batches = map(self._batch, numbers)
        for batch in _ahead(batches, self.prefetch) if self.prefetch else batches:
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def _batch(self, numbers: Any) -> Any:
        batch = self.source.take(numbers)
        return batch if self.transform is None else self.transform(batch)

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "done": self.done, "seed": self.seed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.done, self.seed = (int(state[k]) for k in ("epoch", "done", "seed"))


_END = object()


def _ahead(batches: Iterator[Any], count: int) -> Iterator[Any]:
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
