"""A function that is exported: what its arguments are called, which of them are weights, and its Program."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import tree
from ..compiled import Jitted
from ..compiled.arguments import Arguments
from ..ir import Program
from ..nn.module import Module
from ..tensor import Tensor


@dataclass(frozen=True)
class Leaf:
    name: str
    value: Any
    is_weight: bool


@dataclass(frozen=True)
class Named:
    """A call: the function, its arguments, and what each of their numbers is called."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: tuple[Leaf, ...]

    def recorded(self) -> tuple[Program, tree.Structure]:
        """Its Program, rewritten, and the form of what it returns."""
        special = Jitted(self.f, (), "numpy")._specialise(Arguments(self.args, self.kwargs, set()))
        if special is None:
            raise TypeError(
                "this function closes over a value that an enclosing transformation varies"
            )
        return special.program, special.out_structure

    def with_batch(self, free: Mapping[str, int], n: int) -> Named:
        """The same for another length of the batch; what the arrays hold does not matter."""
        flat, structure = tree.flatten((list(self.args), self.kwargs))
        given = iter(self.leaves)
        leaves = []
        for x in flat:
            leaf = next(given) if _is_number(x) else None
            if leaf is not None and not leaf.is_weight and leaf.name in free:
                shape = list(np.shape(x))
                shape[free[leaf.name]] = n
                x = np.zeros(shape, x.dtype)
            leaves.append(x)
        args, kwargs = structure.unflatten(leaves)
        return replace(self, args=tuple(args), kwargs=kwargs)


def _is_number(x: Any) -> bool:
    return 0 not in Arguments([x], {}, set()).fixed


def named(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], weights: Any
) -> Named:
    """The call of a function; arguments may be arrays or whatever has a shape and a dtype."""
    own = f._f if isinstance(f, Jitted) else f
    args = [tree.map(_stand_in, a) for a in args]
    kwargs = {name: tree.map(_stand_in, a) for name, a in kwargs.items()}
    called = _parameters(own, args)
    if isinstance(own, Module):
        module, inner = own, type(own).__name__
        own = lambda module, *given, **more: module(*given, **more)
        own.__name__ = inner
        args, called = (module, *args), ["", *called]
    if weights is None:
        chosen = {k for k, a in enumerate(args) if isinstance(a, Module)}
    else:
        chosen = {weights} if isinstance(weights, int) else set(weights)
        strange = [k for k in chosen if k not in range(len(args))]
        if strange:
            raise ValueError(
                f"weights= has places of arguments, 0 to {len(args) - 1}; got {weights!r}"
            )
    leaves = []
    positional = [
        (name, a, k in chosen) for k, (name, a) in enumerate(zip(called, args, strict=True))
    ]
    keywords = [(name, a, isinstance(a, Module)) for name, a in kwargs.items()]
    for name, a, is_weight in [*positional, *keywords]:
        flat, structure = tree.flatten(a)
        names = [plain_name(x) for x in tree.leaf_names(structure, name)]
        numbers = Arguments([a], {}, set())
        kept = [k for k in range(len(flat)) if k not in numbers.fixed]
        leaves += [Leaf(names[k], numbers.leaves[k], is_weight) for k in kept]
    return Named(own, tuple(args), dict(kwargs), tuple(leaves))


def require_function_and_path(f: Any, path: Any) -> None:
    """An error where they come in another order, or one of them is missing."""
    if not callable(f):
        is_path = isinstance(f, str | os.PathLike)
        hint = "; the function comes first, then the path" if is_path else ""
        raise TypeError(f"save(f, path, *example) writes a function, got {f!r:.60} as f{hint}")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"save(f, path, *example) needs a path to write to, got {type(path)}")


def _stand_in(x: Any) -> Any:
    """An array of zeros, which takes no memory, for something that has types alone."""
    if isinstance(x, np.ndarray | np.generic | Tensor) or hasattr(x, "__array__"):
        return x
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return x
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def plain_name(name: str) -> str:
    """params['w'][0] as params.w.0"""
    for mark in ("['", "']", "[", "]"):
        name = name.replace(mark, "." if mark[0] == "[" else "")
    return name.strip(".")


def _parameters(f: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    try:
        found = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        found = []
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [p.name for p in found if p.kind in kinds]
    rest = next((p.name for p in found if p.kind is inspect.Parameter.VAR_POSITIONAL), "input")
    return [*names[: len(args)], *[f"{rest}_{k}" for k in range(len(args) - len(names))]]
