"""What becomes of a function of flat numbers: pulled back, pushed forward, with its gradient, mapped.

>>> import numpy as np
>>> pulled(lambda x, y: x * y, (0,), (0,))(np.array([3.0]), np.array([2.0]), np.array([1.0]))
(array([2.]),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..api import jvp as push_forward
from ..api import vjp, vmap
from ..tensor import Tensor


def pulled(
    f: Callable[..., Any], places: Sequence[int], given: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    """(arguments, seeds of the results that are `given`) ↦ adjoints of the arguments at `places`."""

    def pull(*values: Any) -> tuple[Any, ...]:
        xs, seeds = values[: len(values) - len(given)], values[len(values) - len(given) :]
        part = restricted(f, xs, places, lambda y: _chosen(y, given))
        return tuple(vjp(part, *[xs[k] for k in places])[1](list(seeds)))

    return pull


def pushed(
    f: Callable[..., Any], places: Sequence[int], given: Sequence[int]
) -> Callable[..., tuple[Any, ...]]:
    """(arguments, differentials of those at `places`) ↦ differentials of the results that are `given`."""

    def push(*values: Any) -> tuple[Any, ...]:
        xs, along = values[: len(values) - len(places)], values[len(values) - len(places) :]
        part = restricted(f, xs, places, lambda y: _chosen(y, given))
        return tuple(push_forward(part, [xs[k] for k in places], list(along))[1])

    return push


def with_gradient(
    f: Callable[..., Any], places: Sequence[int]
) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
    """(result, its adjoints at `places`) where the result is one real number, else (result, ())."""

    def run(*xs: Any) -> tuple[Any, tuple[Any, ...]]:
        part = restricted(f, xs, places, lambda y: (smooth_of(y), y))
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


def restricted(
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


def smooth_of(result: Any) -> list[Any]:
    """The results that can have a derivative."""
    return [y for y in tree.flatten(result)[0] if is_smooth(y)]


def is_smooth(y: Any) -> bool:
    """Whether a result can have a derivative: one that varies has a type of its own."""
    return isinstance(y, Tensor | np.ndarray | np.generic) and y.dtype.kind in "fc"


def is_number(y: Any) -> bool:
    return isinstance(y, Tensor | np.ndarray | np.generic | float | int | complex)
