"""Lists and dicts whose entries a region replaces or writes into.

An array in one may have other names. If a region writes into it, all of them see that: the Tensor object stays.
If a region puts another array in its place, they do not: the entry gets a new object. Which of the two a region
does is found when it is first staged; `changed` says that something new was found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import InPlaceError
from ..primitive import wrap
from ..tensor import Tensor
from .places import Array, is_number


class Container:
    def __init__(self, name: str, container: Any):
        self.name, self.container = name, container
        self.changed = False
        self.replaced: set[int] = set()  # leaves that the region puts other objects in place of
        self.originals, self.structure = tree.flatten(container)
        self.placed: list[Any] = [(x, getattr(x, "_v", None)) for x in self.originals]

    @property
    def parts(self) -> list[Any]:
        """It and the containers in it."""
        found, waiting = [], [self.container]
        while waiting:
            x = waiting.pop()
            found.append(x)
            inner = x if isinstance(x, list) else x.values()
            waiting.extend([y for y in inner if isinstance(y, list | dict)])
        return found

    def get(self) -> Any:
        leaves, structure = tree.flatten(self.container)
        if structure == self.structure:
            for k, (leaf, (placed, value)) in enumerate(zip(leaves, self.placed, strict=True)):
                if leaf is not placed:
                    self.changed |= self._is_kept(k)
                    self.replaced.add(k)
                elif isinstance(self.originals[k], np.ndarray) and leaf is not self.originals[k]:
                    _refuse_if(leaf._v is not value)
        return structure.unflatten([_content(x) for x in leaves])

    def put(self, value: Any) -> None:
        leaves, structure = tree.flatten(value)
        if structure == self.structure:
            for k, new in enumerate(leaves):
                if self._is_kept(k) and is_number(new):
                    Array(self.name, self.originals[k]).put(new)
                    leaves[k] = self.originals[k]
        self.placed = [(x, getattr(x, "_v", None)) for x in leaves]
        _refill(self.container, structure.unflatten(leaves))

    def restore(self, value: Any) -> None:
        leaves, structure = tree.flatten(value)
        for original, old in zip(self.originals, leaves, strict=True):
            if isinstance(original, Tensor):
                Array(self.name, original).put(old)
        self.placed = [(x, getattr(x, "_v", None)) for x in self.originals]
        _refill(self.container, structure.unflatten(self.originals))

    def _is_kept(self, k: int) -> bool:
        original = self.originals[k]
        return k not in self.replaced and isinstance(original, Tensor) and original.ndim > 0


def _content(x: Any) -> Any:
    return wrap(x._v, x.row) if isinstance(x, Tensor) else x


def _refuse_if(written: bool) -> None:
    if written:
        raise InPlaceError(
            "a traced value is written into a NumPy array in a list or dict that has other names too; they "
            "would not see the write. Make it a tensor where it is created: y = bs.tensor(y)"
        )


def _refill(old: Any, new: Any) -> None:
    """Give a container the contents of another, and so the containers in it."""
    pairs = enumerate(new) if isinstance(new, list) else new.items()
    known = dict(enumerate(old)) if isinstance(old, list) else dict(old)
    if isinstance(old, list):
        del old[len(new) :]
        old.extend([None] * (len(new) - len(old)))
    elif set(old) != set(new):
        old.clear()
    for key, value in pairs:
        before = known.get(key)
        if isinstance(value, list | dict) and type(before) is type(value):
            _refill(before, value)
            value = before
        old[key] = value
