"""From a Python function to expressions: run it once on types and read the Program."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..errors import StructureError, UnsupportedError
from ..ir import Type
from ..trace import stage
from .derive import diff
from .expr import REAL, Expr, Symbol, as_expr, read

Shape = int | tuple[int, ...]


def trace(f: Callable[..., Any], /, *names: str, **shapes: Shape) -> Any:
    """The result of `f` as an expression (or a container of such, if it returns one).

    `f` is written in NumPy on scalars; its parameters become symbols of their names; those with a
    default keep it. Give `names` to use other names, or where Python does not know them; give a
    shape to a parameter that is an array, which `f` may then read by fixed indices.

    >>> trace(lambda x, n=3: np.tanh(x) ** n)
    tanh(x) ** 3
    >>> trace(np.hypot, "a", "b")
    hypot(a, b)
    >>> trace(lambda x: x[0] * np.exp(x[1]), x=(2,))
    x[0] * exp(x[1])
    """
    return _trace(f, names, shapes)[1]


def gradient(f: Callable[..., Any] | Expr, /, *names: str, **shapes: Shape) -> dict[str, Expr]:
    """The partial derivatives of `f` (a function as for `trace`, or an expression) by symbol.

    >>> gradient(lambda x: x[0] ** 2 * x[1], x=(2,))
    {'x[0]': 2 * x[0] * x[1], 'x[1]': x[0] ** 2}
    """
    if isinstance(f, Expr):
        expr: Any = f
        symbols = list(f.symbols)
    else:
        symbols, expr = _trace(f, names, shapes)
    if not isinstance(expr, Expr):
        raise StructureError(
            f"gradient needs a function that returns one scalar, got {expr!r}; take "
            "bs.symbolic.diff of each part of bs.symbolic.trace(f)"
        )
    return {s.label: diff(expr, s) for s in symbols}


def _trace(
    f: Callable[..., Any], names: tuple[str, ...], shapes: dict[str, Shape]
) -> tuple[list[Symbol], Any]:
    from .walk import share_all

    positional, keyword = _parameters(f, names, shapes)
    named = [*positional, *keyword]
    unknown = [n for n in shapes if n not in named]
    if unknown:
        raise StructureError(
            f"a shape was given for {', '.join(map(repr, unknown))}; the parameters are {named}"
        )
    inputs = [_input(n, shapes.get(n, ())) for n in named]
    results: list[Any] = []

    def staged(*tensors: Any) -> list[Any]:
        keywords = dict(zip(keyword, tensors[len(positional) :], strict=True))
        results[:] = tree.flatten(f(*tensors[: len(positional)], **keywords))
        return results[0]

    types = [Type(x.shape, REAL.dtype) for x in inputs]
    program, _ = stage(staged, types, named)
    outputs = read(program, inputs)
    for y in outputs:
        if isinstance(y, np.ndarray):
            raise UnsupportedError(
                f"the function returned an array of shape {y.shape}; return its entries, in a tuple"
            )
    symbols = [s for x in inputs for s in (x.flat if isinstance(x, np.ndarray) else [x])]
    return symbols, results[1].unflatten(share_all([as_expr(y) for y in outputs]))


def _input(name: str, shape: Shape) -> Any:
    if shape == ():
        return Symbol(name)
    array = np.empty(shape, object)
    for i in np.ndindex(array.shape):
        array[i] = Symbol(name, i)
    return array


def _parameters(
    f: Callable[..., Any], names: tuple[str, ...], shapes: dict[str, Shape]
) -> tuple[list[str], list[str]]:
    """Names of the positional arguments and of those passed by keyword."""
    if names:
        return list(names), []
    try:
        found = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        found = None
    if found is None or any(p.kind is p.VAR_POSITIONAL for p in found):
        raise StructureError(
            f"{getattr(f, '__name__', f)!r} does not tell the names of its parameters; give them: "
            'bs.symbolic.trace(f, "x", "y")'
        )
    wanted = [p for p in found if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    # A parameter with a default becomes a symbol when its shape is given.
    wanted += [p for p in found if p.default is not p.empty and p.name in shapes]
    by_keyword = [p for p in wanted if p.kind is p.KEYWORD_ONLY or p.default is not p.empty]
    return [p.name for p in wanted if p not in by_keyword], [p.name for p in by_keyword]
