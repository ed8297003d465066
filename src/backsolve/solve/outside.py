"""A user's solver that cannot be staged, as one row: Python calls it when the program runs.

Its result is one flat vector, of a size that is known beforehand. It has no blocks: an implicit function's
derivatives are those of its equations. Of many examples each is solved by itself, in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import Primitive


@dataclass(frozen=True, eq=False)
class Outside:
    """f, of arrays, which gives an array of this type."""

    f: Callable[..., Any]
    type: Type

    def __repr__(self) -> str:
        return f"<{getattr(self.f, '__name__', 'solver')}>"


def _type(*types: Type, call: Outside) -> Type:
    return call.type


def _run(*values: Any, call: Outside) -> Any:
    return call.f(*values)


def _each(
    prim: Primitive, size: int, args: Sequence[Any], batched: Sequence[bool], params: Any
) -> Any:
    one: Outside = params["call"]

    def all_of_them(*values: Any) -> Any:
        rows = [
            one.f(*[v[k] if b else v for v, b in zip(values, batched, strict=True)])
            for k in range(size)
        ]
        return np.stack(rows) if rows else np.zeros((0, *one.type.shape), one.type.dtype)

    return prim(*args, call=Outside(all_of_them, Type((size, *one.type.shape), one.type.dtype)))


OUTSIDE = Primitive("solver", _run, type=_type, batch=_each)
OUTSIDE.raises_its_own = True
