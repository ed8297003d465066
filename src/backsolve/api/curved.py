"""Second derivatives where arguments are declared on manifolds: Riemannian Hessians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..declared import Point, plain_structure, points_in, without_points
from ..errors import StructureError, UnsupportedError
from ..hooks import hooks
from ..tensor import Tensor
from ..vary import ArgNums, numbers_of
from .gradients import grad, jvp


def points_of(args: Any) -> dict[int, Point]:
    """What of the arguments is declared on a manifold."""
    if not hooks.has_points:
        return {}
    leaves, structure = tree.flatten(args)
    return points_in(structure, leaves)


def tangents_like(args: Any) -> Any:
    """Arguments with an array of the form of a differential for each Point."""
    leaves, structure = tree.flatten(args)
    points = points_of(args)
    return plain_structure(structure).unflatten(
        [points[k].tangent_like if k in points else x for k, x in enumerate(leaves)]
    )


def curved_hvp(f: Callable[..., Any], argnums: ArgNums, args: Any, v: Any, kwargs: Any) -> Any:
    """The Riemannian Hessian times v, from derivatives with respect to all entries."""
    single, numbers = numbers_of(argnums)
    points = points_of([args[n] for n in numbers])
    plain = [without_points(a) for a in args]
    like, structure = tree.flatten(tuple(plain[n] for n in numbers))
    ways, form = tree.flatten_like((v,) if single else tuple(v), structure)
    if form != structure:
        raise StructureError(f"the vector must have the form of what it goes with, got {v!r}")
    moves = list(ways)
    for k, point in points.items():
        w = ways[k] if isinstance(ways[k], Tensor) else np.asarray(ways[k])
        if point.is_in_coordinates:
            ways[k] = point.manifold.embed(point.x, w)
        else:
            ways[k] = point.checked(w)
        moves[k] = point.manifold.displacement(point.x, ways[k])

    def gradient(*parts: Any) -> Any:
        inner = list(plain)
        for n, part in zip(numbers, parts, strict=True):
            inner[n] = part
        return grad(f, tuple(numbers))(*inner, **kwargs)

    g, h = (
        tree.flatten(part)[0]
        for part in jvp(gradient, structure.unflatten(like), structure.unflatten(moves))
    )
    for k, point in points.items():
        h[k] = point.manifold.hessian(point.x, g[k], h[k], ways[k])
        if point.is_in_coordinates:
            h[k] = point.manifold.coordinates(point.x, h[k])
    parts = structure.unflatten(h)
    return parts[0] if single else parts


def curved_hessian(f: Callable[..., Any], argnums: ArgNums, args: Any, kwargs: Any) -> Any:
    """The Riemannian Hessian of one argument, a column for each coordinate, or entry, of a tangent."""
    single, numbers = numbers_of(argnums)
    point = args[numbers[0]]
    if not single or not isinstance(point, Point):
        raise UnsupportedError(
            "the dense Hessian on manifolds is of one argument that bs.on declared; for containers use hvp"
        )
    like = point.tangent_like
    _check_real("the dense Hessian", [like])
    if not like.size:
        return np.zeros((*like.shape, *like.shape), like.dtype)
    columns = []
    for k in range(like.size):
        unit = np.eye(1, like.size, k, dtype=like.dtype).reshape(like.shape)
        v = unit if point.is_in_coordinates else point.manifold.project(point.x, unit)
        columns.append(curved_hvp(f, argnums, args, v, kwargs))
    return np.reshape(np.stack(columns, axis=-1), (*like.shape, *like.shape))


def _check_real(what: str, tangents: list[Any]) -> None:
    if any(t.dtype.kind == "c" for t in tangents):
        raise UnsupportedError(
            f"{what} goes by real directions: declare a complex point with coordinates=True"
        )


def curved_laplacian(f: Callable[..., Any], argnums: ArgNums, args: Any, kwargs: Any) -> Any:
    """The trace of the Riemannian Hessian, Laplace's and Beltrami's operator; no metric changes it."""
    found, _ = tree.flatten(curved_diagonal("laplacian", f, argnums, args, kwargs))
    return sum([np.sum(x) for x in found], np.zeros(()))


def curved_diagonal(
    what: str, f: Callable[..., Any], argnums: ArgNums, args: Any, kwargs: Any
) -> Any:
    """That of the Riemannian Hessian behind the projection, in the form of the arguments: a product for each
    coordinate, or entry, of a tangent."""
    single, numbers = numbers_of(argnums)
    chosen = tuple(args[n] for n in numbers)
    points = points_of(chosen)
    leaves, structure = tree.flatten(without_points(chosen))
    zeros = [
        np.zeros_like(points[k].tangent_like if k in points else x) for k, x in enumerate(leaves)
    ]
    _check_real(what, zeros)
    diagonals = []
    for k, zero in enumerate(zeros):
        entries = []
        for place in np.ndindex(zero.shape):
            unit = zero.copy()
            unit[place] = 1
            if k in points and not points[k].is_in_coordinates:
                unit = points[k].manifold.project(points[k].x, unit)
            ways = structure.unflatten([unit if j == k else z for j, z in enumerate(zeros)])
            bent = curved_hvp(f, argnums, args, ways[0] if single else ways, kwargs)
            entries.append(tree.flatten(bent)[0][k][place])
        diagonals.append(np.reshape(np.stack(entries), zero.shape) if entries else zero)
    found = structure.unflatten(diagonals)
    return found[0] if single else found
