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

import numpy as np

from .. import tree
from ..api import jvp as push_forward
from ..api import vjp, vmap
from ..compiled import Jitted, jit
from ..tensor import Tensor

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

    def with_gradient(self, places: tuple[int, ...]) -> Derived:
        """(result, its adjoints at `places`) where the result is one real number, else (result, ())."""
        return self._derived(places, lambda: with_gradient(self.f, places))

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


# ---- what becomes of a function of numbers


def pulled(
    f: Callable[..., Any], places: Sequence[int], given: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    """(arguments, seeds of the results that are `given`) ↦ adjoints of the arguments at `places`."""

    def pull(*values: Any) -> tuple[Any, ...]:
        xs, seeds = values[: len(values) - len(given)], values[len(values) - len(given) :]
        part = _restricted(f, xs, places, lambda y: _chosen(y, given))
        return tuple(vjp(part, *[xs[k] for k in places])[1](list(seeds)))

    return pull


def pushed(
    f: Callable[..., Any], places: Sequence[int], given: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    """(arguments, differentials of those at `places`) ↦ differentials of the results that are `given`."""

    def push(*values: Any) -> tuple[Any, ...]:
        xs, along = values[: len(values) - len(places)], values[len(values) - len(places) :]
        part = _restricted(f, xs, places, lambda y: _chosen(y, given))
        return tuple(push_forward(part, [xs[k] for k in places], list(along))[1])

    return push


def with_gradient(
    f: Callable[..., Any], places: Sequence[int]
) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
    """(result, its adjoints at `places`) where the result is one real number, else (result, ())."""

    def run(*xs: Any) -> tuple[Any, tuple[Any, ...]]:
        part = _restricted(f, xs, places, lambda y: (_smooth(y), y))
        smooth, pull, result = vjp(part, *[xs[k] for k in places], has_aux=True)
        if len(smooth) != 1 or smooth[0].shape or smooth[0].dtype.kind == "c":
            return result, ()
        return result, tuple(pull([np.ones((), smooth[0].dtype)]))

    return run


def mapped(f: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """Along these axes of the arguments; the first axes of the results count the examples."""

    def run(*xs: Any) -> Any:
        forms: list[tree.Structure] = []

        def numbers(*example: Any) -> list[Any]:
            leaves, form = tree.flatten(f(*example))
            found, form = tree.without_fixed(form, leaves)
            forms.append(form)
            return found

        found = vmap(numbers, in_axes=axes)(*xs)
        return forms[0].unflatten(found)

    return run


def _restricted(
    f: Callable[..., Any], xs: Sequence[Any], places: Sequence[int], chosen: Callable[..., Any]
) -> Callable[..., Any]:
    """f of what varies at `places`, and what is `chosen` of its result."""

    def part(*varying: Any) -> Any:
        full = list(xs)
        for k, x in zip(places, varying, strict=True):
            full[k] = x
        return chosen(f(*full))

    return part


def _chosen(result: Any, given: Sequence[int]) -> list[Any]:
    numbers = [y for y in tree.flatten(result)[0] if is_number(y)]
    return [numbers[k] for k in given]


def _smooth(result: Any) -> list[Any]:
    """The results that can have a derivative: one that varies has a type of its own."""
    typed = [y for y in tree.flatten(result)[0] if isinstance(y, Tensor | np.ndarray | np.generic)]
    return [y for y in typed if y.dtype.kind in "fc"]


def is_number(y: Any) -> bool:
    return isinstance(y, Tensor | np.ndarray | np.generic | float | int | complex)
