"""Lists and dicts whose entries a region replaces or writes into.

An array in one may have other names. If a region writes into it, all of them see that: the Tensor object stays.
If a region puts another array in its place, they do not: the entry gets a new object. Which of the two a region
does is found when it is first staged; `changed` says that something new was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import ref

import numpy as np

from .. import tree
from ..errors import InPlaceError
from ..links import link
from ..primitive import wrap
from ..tensor import Tensor
from .places import Array, is_number


class Container:
    def __init__(self, name: str, container: Any):
        self.name, self.container = name, container
        self.changed = False
        self.replaced: set[int] = set()  # leaves that the region puts other objects in place of
        self.swapped: set[tuple[Any, ...]] = (
            set()
        )  # containers in it that the region does this with
        self.sources: dict[int, list[Any]] = {}  # by leaf: Tensors that the region has put there
        self.may_stay = (
            True  # whether the region may leave it as it is, whatever it does when it runs
        )
        self.inner = dict(_inside(container, ()))
        self.originals, self.structure = tree.flatten(container)
        self.placed: list[Any] = [(x, getattr(x, "_v", None)) for x in self.originals]

    @property
    def parts(self) -> list[Any]:
        """It and the containers in it."""
        return [self.container, *self.inner.values()]

    def get(self) -> Any:
        leaves, structure = tree.flatten(self.container)
        for path, x in _inside(self.container, ()):
            if path in self.inner and x is not self.inner[path] and path not in self.swapped:
                self.changed = True
                self.swapped.add(path)
        if structure == self.structure:
            for k, (leaf, (placed, value)) in enumerate(zip(leaves, self.placed, strict=True)):
                if leaf is not placed:
                    self.changed |= self._is_kept(k)
                    self.replaced.add(k)
                    if isinstance(leaf, Tensor):
                        self.sources.setdefault(k, []).append(ref(leaf))
                elif isinstance(self.originals[k], np.ndarray) and leaf is not self.originals[k]:
                    _refuse_if(leaf._v is not value)
        return structure.unflatten([_content(x) for x in leaves])

    def put(self, value: Any) -> None:
        leaves, structure = tree.flatten(value)
        links: list[tuple[Any, Any]] = []
        if structure == self.structure:
            for k, new in enumerate(leaves):
                if self._is_kept(k) and is_number(new):
                    Array(self.name, self.originals[k]).put(new)
                    leaves[k] = self.originals[k]
                elif k in self.replaced and isinstance(new, Tensor):
                    links += [(new, source()) for source in self.sources.get(k, ())]
                    links += [(new, self.originals[k])] if self.may_stay else []
        for new, old in links:
            link(new, old)
        self.placed = [(x, getattr(x, "_v", None)) for x in leaves]
        self._refill(self.container, structure.unflatten(leaves), (), self.swapped)

    def restore(self, value: Any) -> None:
        leaves, structure = tree.flatten(value)
        for original, old in zip(self.originals, leaves, strict=True):
            if isinstance(original, Tensor):
                Array(self.name, original).put(old)
        self.placed = [(x, getattr(x, "_v", None)) for x in self.originals]
        self._refill(self.container, structure.unflatten(self.originals), (), set())

    def _refill(self, old: Any, new: Any, path: tuple[Any, ...], swapped: set[Any]) -> None:
        """Give a container the contents of another, and so those in it, unless they are `swapped`."""
        pairs = enumerate(new) if isinstance(new, list) else new.items()
        if isinstance(old, list):
            del old[len(new) :]
            old.extend([None] * (len(new) - len(old)))
        elif set(old) != set(new):
            old.clear()
        for key, value in pairs:
            way = (*path, key)
            before = self.inner.get(way)
            if (
                isinstance(value, list | dict)
                and type(before) is type(value)
                and way not in swapped
            ):
                self._refill(before, value, way, swapped)
                value = before
            old[key] = value

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


def _inside(container: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The lists and dicts in one, by the way to them."""
    pairs = enumerate(container) if isinstance(container, list) else container.items()
    for key, x in pairs:
        if isinstance(x, list | dict):
            yield (*path, key), x
            yield from _inside(x, (*path, key))
