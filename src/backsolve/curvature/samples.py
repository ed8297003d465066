"""Gradients of single examples, and their norms without them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..api import grad, vmap
from ..api.curved import points_of
from ..errors import NotScalarError, StructureError, UnsupportedError
from ..hooks import hooks
from ..primitive import P
from ..solve.rows import type_of_value
from ..solve.taps import Tap, square_size, tapped
from ..trace import stage
from ..vary import not_smooth


def per_sample_grad(loss: Callable[..., Any], in_axes: Any = None) -> Callable[..., Any]:
    """Gradients by the first argument for each example: `loss(parameters, *example)` is of one example.

    `in_axes` has the axis that counts the examples for each of the other arguments, 0 by default; None for one
    that all share. The gradients have the examples along their first axis.

    >>> loss = lambda w, x: np.sum(w * x) ** 2
    >>> per_sample_grad(loss)(np.ones(2), np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([[ 2.,  0.],
           [ 6., 12.]])
    """

    @functools.wraps(loss)
    def run(parameters: Any, *examples: Any) -> Any:
        return vmap(grad(loss), in_axes=_axes(in_axes, examples))(parameters, *examples)

    return run


def per_sample_norms(
    loss: Callable[..., Any], in_axes: Any = None, *, squared: bool = False
) -> Callable[..., Any]:
    """The norms of what `per_sample_grad` gives, over all parameters: one number for each example.

    The gradient of a dense layer is an outer product; its norm is had from the two factors, and no gradient of
    a single example is formed.

    >>> loss = lambda w, x: np.sum(w * x) ** 2
    >>> per_sample_norms(loss, squared=True)(np.ones(2), np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([  4., 180.])
    """

    def of_one(parameters: Any, *example: Any) -> Any:
        taps, rest = _tapped(loss, parameters, example)
        if squared:
            squares = [t.square_norm() for t in taps.values()]
            return sum([*squares, *map(square_size, rest.values())])
        norms = [t.norm() for t in taps.values()]
        norms += [P.norm(g, axis=tuple(range(g.ndim)), keepdims=False) for g in rest.values()]
        return norms[0] if len(norms) == 1 else P.norm(np.stack(norms), axis=(0,), keepdims=False)

    @functools.wraps(loss)
    def run(parameters: Any, *examples: Any) -> Any:
        if points_of((parameters,)):
            raise UnsupportedError(
                "per_sample_norms is of arrays: of a parameter that is declared on a manifold, take "
                "manifold.norm of what bs.per_sample_grad gives"
            )
        return vmap(of_one, in_axes=_axes(in_axes, examples))(parameters, *examples)

    return run


def _tapped(
    loss: Callable[..., Any], parameters: Any, example: tuple[Any, ...]
) -> tuple[dict[int, Tap], dict[int, Any]]:
    leaves, structure = tree.flatten(parameters)
    for dtype in [type_of_value(x).dtype for x in leaves]:
        if dtype.kind not in "fc":
            raise not_smooth("per_sample_norms", dtype, len(leaves) > 1)

    def flat(*parts: Any) -> Any:
        y = hooks.rewritten(loss)(structure.unflatten(parts), *example)
        if np.shape(y) != ():
            raise NotScalarError(
                f"the loss of one example must be one number, got shape {np.shape(y)}"
            )
        return y

    program, _ = stage(flat, [type_of_value(x) for x in leaves], lasting=True)
    return tapped(program, leaves)


def _axes(in_axes: Any, examples: tuple[Any, ...]) -> tuple[Any, ...]:
    if not examples:
        raise StructureError(
            "gradients of single examples need examples: call with (parameters, *examples)"
        )
    if in_axes is None:
        return (None, *[0] * len(examples))
    given = tuple(in_axes) if isinstance(in_axes, tuple | list) else (in_axes,) * len(examples)
    if len(given) != len(examples):
        raise StructureError(
            f"in_axes has {len(given)} entries for {len(examples)} arguments after the parameters"
        )
    return (None, *given)
