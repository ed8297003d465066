"""The parameters of the code to write: names, leaves, and how containers are taken apart."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..errors import StructureError
from ..ir import Type, type_of
from ..tensor import Tensor
from ..tree import LEAF, Structure
from .spell import value_text

_FLOAT = np.float64(0.0)
_PLAIN_KINDS = (dict, list, tuple, type(None))


@dataclass(frozen=True, slots=True)
class Parameter:
    """One positional parameter: an example of it, flattened."""

    name: str
    leaves: list[Any]
    structure: Structure

    @property
    def is_plain(self) -> bool:
        return is_plain(self.structure)

    def paths(self) -> Iterator[tuple[str, str]]:
        """Per leaf how to read it and what to call it: (`params["w"]`, `params_w`)."""
        if self.is_plain:
            yield from _paths(self.structure, self.name, self.name)
        else:
            for k in range(len(self.leaves)):
                yield f"{self.name}_leaves[{k}]", f"{self.name}_{k}"

    @property
    def prelude(self) -> tuple[str, str]:
        """The line that takes apart what Python has no brackets for."""
        return f"{self.name}_leaves", f"tree.flatten({self.name})[0]"

    def rebuilt(self, leaves: Sequence[str]) -> str:
        """An expression of this parameter's form around other leaves."""
        if self.is_plain:
            return rebuild(self.structure, leaves)
        return f"tree.flatten({self.name})[1].unflatten([{', '.join(leaves)}])"


def parameters_of(
    f: Callable[..., Any], args: Sequence[Any], reserved: set[str]
) -> list[Parameter]:
    """The parameters that `args` are examples of; without examples, float64 scalars."""
    names = _names(f, len(args))
    examples = args or [_FLOAT] * len(names)
    found = []
    for name, example in zip(names, examples, strict=True):
        while name in reserved:
            name += "_"
        found.append(Parameter(name, *tree.flatten(example)))
    return found


def _names(f: Callable[..., Any], given: int) -> list[str]:
    who = getattr(f, "__name__", type(f).__name__)
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        count = given or getattr(f, "nin", 0)  # a ufunc tells
        if count:
            return [f"x{k}" for k in range(count)]
        raise StructureError(
            f"source cannot see the parameters of {who}; pass example arguments: source(f, x, y)"
        ) from None
    positional, rest = [], None
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            rest = p.name
        elif p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            raise StructureError(
                f"source writes functions of positional arguments; {who}{signature} needs the "
                f"keyword {p.name!r}: fix it with functools.partial or a lambda"
            )
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            positional.append(p)
    required = [p.name for p in positional if p.default is p.empty]
    every = [p.name for p in positional]
    if not given:
        if rest is not None and not every:
            raise StructureError(
                f"{who}{signature} takes any number of arguments; pass examples: source(f, x, y)"
            )
        return required or every  # what has a default keeps it
    if given < len(required) or (given > len(every) and rest is None):
        raise StructureError(
            f"source got {given} example argument{'s' * (given > 1)} for {who}{signature}; "
            "pass one for each parameter, or none for scalars"
        )
    return [*every, *[f"{rest}_{k}" for k in range(given - len(every))]][:given]


def leaf_type(x: Any) -> Type | None:
    """The Type of a leaf that is a number or an array; None for what the code is fixed to."""
    if isinstance(x, Tensor):
        return Type(x.shape, x.dtype)
    if isinstance(x, np.ndarray | np.generic):
        return type_of(x) if x.dtype.kind in "biufc" else None
    return type_of(x) if type(x) in (float, complex, int, bool) else None


def is_plain(structure: Structure) -> bool:
    """Only dicts, lists and tuples: what Python has brackets for."""
    if structure.kind is LEAF:
        return True
    return structure.kind in _PLAIN_KINDS and all(map(is_plain, structure.children))


def _paths(structure: Structure, path: str, name: str) -> Iterator[tuple[str, str]]:
    if structure.kind is LEAF:
        yield path, name
        return
    keys: Any = structure.meta if structure.kind is dict else range(len(structure.children))
    for key, child in zip(keys, structure.children, strict=False):
        word = re.sub(r"\W", "_", str(key))
        yield from _paths(child, f"{path}[{value_text(key)}]", f"{name}_{word}")


def rebuild(structure: Structure, leaves: Sequence[str]) -> str:
    """A tree of expressions as one expression.

    >>> rebuild(tree.flatten({"w": 0, "b": (0,)})[1], ["grad_w", "grad_b"])
    '{"w": grad_w, "b": (grad_b,)}'
    """
    return _rebuild(structure, iter(leaves))


def _rebuild(structure: Structure, leaves: Iterator[str]) -> str:
    if structure.kind is LEAF:
        return next(leaves)
    parts = [_rebuild(child, leaves) for child in structure.children]
    if structure.kind is dict:
        keys: Any = structure.meta
        pairs = [f"{value_text(key)}: {part}" for key, part in zip(keys, parts, strict=True)]
        return f"{{{', '.join(pairs)}}}"
    if structure.kind is list:
        return f"[{', '.join(parts)}]"
    if structure.kind is tuple:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if structure.kind is type(None):
        return "None"
    raise StructureError(
        f"source can write dicts, lists and tuples of arrays, but the function returned a "
        f"{structure.kind.__name__}; return one of those"
    )


def identifier(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else "f"
