"""A function of flat numbers for another framework, and the functions it needs of it: pulled back, pushed
forward, mapped. Each is such a function again, so that whoever differentiates the outer one, to any order,
never meets anything else.

>>> import numpy as np
>>> square = Derived(lambda x: x * x)
>>> square.pulled((0,), (0,)).run(np.array([3.0]), np.array([1.0]))
(array([6.]),)
>>> square.pulled((0,), (0,)).pulled((0,), (0,)).run(np.array([3.0]), np.array([1.0]), np.array([1.0]))
(array([2.]),)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..compiled import Jitted, jit
from .parted import with_pullback
from .transformed import mapped, pulled, pushed

_numbers = itertools.count()


class Derived:
    """A function of numbers; what it returns is a tree of them.

    With `compiles` it runs as native code, else as it is written. The derived functions are made once.
    """

    def __init__(self, f: Callable[..., Any], compiles: bool = True, name: str = "f"):
        self.f, self.compiles = f, compiles
        self.name = f"{name}_{next(_numbers)}"
        self.run: Callable[..., Any] = jit(f) if compiles else f
        self._made: dict[Any, Derived] = {}

    def pulled(self, places: tuple[int, ...], given: tuple[int, ...]) -> Derived:
        """(arguments, seeds of the results that are `given`) ↦ adjoints of the arguments at `places`."""
        return self._derived(("pulled", places, given), lambda: pulled(self.f, places, given))

    def pushed(self, places: tuple[int, ...], given: tuple[int, ...]) -> Derived:
        """(arguments, differentials of those at `places`) ↦ differentials of the results that are `given`."""
        return self._derived(("pushed", places, given), lambda: pushed(self.f, places, given))

    def with_pullback(self, places: tuple[int, ...]) -> Derived:
        """(result, kept, pullback) for the arguments at `places`: see parted.py."""
        return self._derived(places, lambda: with_pullback(self.f, places))

    def mapped(self, axes: tuple[int | None, ...]) -> Derived:
        """Along these axes of the arguments; the first axes of the results count the examples."""
        return self._derived(("mapped", axes), lambda: mapped(self.f, axes))

    def holding(self, values: dict[int, Any]) -> Derived:
        """With the arguments at some places filled in: a function of the others."""

        def run(*others: Any) -> Any:
            rest = iter(others)
            total = len(others) + len(values)
            return self.f(*[values[k] if k in values else next(rest) for k in range(total)])

        exact = tuple([(k, type(v), repr(v)) for k, v in values.items()])
        return self._derived(("holding", exact), lambda: run)

    def results(self, arrays: Sequence[Any]) -> tuple[list[Any], tree.Structure]:
        """Types of the results for arguments like these, whose numbers are not looked at, and their form."""
        assert isinstance(self.run, Jitted)
        special = self.run._specialise(self.run._arguments(tuple(arrays), {}))
        assert special is not None
        return special.outputs, special.out_structure

    def _derived(self, key: Any, make: Callable[[], Callable[..., Any]]) -> Derived:
        found = self._made.get(key)
        if found is None:
            found = self._made.setdefault(key, Derived(make(), self.compiles, self.name))
        return found
