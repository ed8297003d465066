"""Parameters declared on a manifold: their differentials are tangents, inside the solve.

`on(manifold, x)` is a container of one array. A transformation that varies it gives the function

    x + E t   at t = 0,   E the operator onto the tangents at x,

as one row whose block in D is E, made of x: outer solves, which differentiate x itself, see E turn.
A manifold is known here by what it does alone; `manifolds/` has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import containers, tree
from .errors import ShapeError, StructureError, UnsupportedError
from .hooks import hooks
from .operators import I
from .primitive import P, Primitive, wrap
from .primitives.checks import stop_if
from .row import Row
from .tensor import Staged, Tensor, leaf_row


class Point(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on a manifold; computes as the array does. Made by `on`."""

    def __init__(self, manifold: Any, x: Any, coordinates: bool = False, project: bool = False):
        self.manifold, self.x = manifold, x
        self.is_in_coordinates, self.projects = coordinates, project
        hooks.has_points = True

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def dtype(self) -> Any:
        return self.x.dtype

    @property
    def ndim(self) -> int:
        return len(self.x.shape)

    @property
    def T(self) -> Any:
        return self.x.T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.x, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*without_points(args), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*without_points(args), **without_points(kwargs))

    def __getitem__(self, key: Any) -> Any:
        return self.x[key]

    def __repr__(self) -> str:
        return f"on({self.manifold!r}, {self.x!r})"

    @property
    def declaration(self) -> tuple[Any, bool, bool]:
        """All but the array."""
        return self.manifold, self.is_in_coordinates, self.projects

    # ---- what a tangent is here

    @property
    def tangent_like(self) -> Any:
        """An array, or Tensor, of the form of a differential."""
        if not self.is_in_coordinates:
            return self.x
        return np.zeros(self.manifold.dimension(self.shape), self.x.real.dtype)

    def operator(self, x: Any) -> Any:
        return self.manifold.basis(x) if self.is_in_coordinates else self.manifold.projection(x)

    def vary(self) -> tuple[Tensor, Row]:
        """x as a Tensor that varies along tangents, and the row of these."""
        x = self.x if isinstance(self.x, Tensor) else wrap(np.array(self.x), None)
        own = self.tangent_like
        own = own._v if isinstance(own, Tensor) else own
        leaf = leaf_row(own)
        row = DISPLACED.record(x._v, [x.row, leaf], [x._v, own], {"point": self})
        if hooks.observe is not None:
            hooks.observe(DISPLACED, row, x._v, (x, wrap(own, leaf)))
        return wrap(x._v, row), leaf

    def projected(self, t: Any) -> Any:
        """The differential nearest to t; coordinates are of tangents already."""
        return t if self.is_in_coordinates else self.manifold.project(self.x, t)

    def checked(self, t: Any) -> Any:
        """A differential that was given; not one along a tangent is an error, unless it is to be projected."""
        if self.is_in_coordinates or isinstance(t, Tensor) or isinstance(self.x, Tensor):
            return t
        if np.shape(t) != self.shape:
            raise ShapeError(
                f"a direction at a point of shape {self.shape} has that shape, got {np.shape(t)}"
            )
        tangent = self.manifold.project(self.x, t)
        off = float(np.sqrt(np.sum(np.abs(t - tangent) ** 2)))
        if self.projects:
            return tangent
        if not off <= np.sqrt(np.finfo(self.x.dtype).eps) * float(np.sqrt(np.sum(np.abs(t) ** 2))):
            raise ShapeError(
                f"this direction is no tangent of {self.manifold}: {off:.3g} of it points off the manifold; "
                "give manifold.project(x, u), or declare bs.on(manifold, x, project=True)"
            )
        return t

    def check_parts(self, axis: int, what: str) -> None:
        """An error, if what stands beside each other along this axis are no points of their own."""
        manifold, shape = self.manifold, self.shape
        axis %= len(shape)
        if manifold.axes:
            are_points = axis < len(shape) - manifold.axes
        else:
            one = (*shape[:axis], *shape[axis + 1 :])
            are_points = manifold.dimension(shape) == shape[axis] * manifold.dimension(one)
        if not are_points:
            raise ShapeError(
                f"`{what}` goes along axis {axis} of an array of shape {shape} on {manifold}, whose parts are "
                "no points of it: pass a plain array, and declare its parts inside the function"
            )

    def gradient(self, g: Any) -> Any:
        """The Riemannian gradient from the adjoint of the differential; a basis is orthonormal already."""
        return g if self.is_in_coordinates else self.manifold.raised(self.x, g)


def on(manifold: Any, x: Any, *, coordinates: bool = False, project: bool = False) -> Point:
    """x, declared to lie on a manifold: derivatives go along its tangents.

    `grad` gives the Riemannian gradient, `hvp` and `hessian` the Riemannian Hessian; directions are tangents;
    others are an error, or with `project=True` projected. With `coordinates=True`, differentials are vectors of
    coordinates in an orthonormal basis of the tangents: n (n + 1) / 2 for symmetric matrices.

    >>> import numpy as np
    >>> import backsolve as bs
    >>> x = on(bs.manifolds.Symmetric(), np.eye(2))
    >>> bs.grad(lambda x: x[0, 1])(x)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    if isinstance(manifold, type) or not hasattr(manifold, "project"):
        raise StructureError(
            f"`on` takes a manifold such as bs.manifolds.Sphere() and then an array, got {manifold!r:.60}"
        )
    if isinstance(x, Point):
        x = x.x
    if not isinstance(x, Tensor):
        x = np.asarray(x)
    if x.dtype.kind not in "fc":
        raise ShapeError(f"a point is an array of floating-point numbers, got {x.dtype}")
    if isinstance(x, Staged):
        _check_in_compiled(manifold, x)
    else:
        manifold.check(np.asarray(x._v) if isinstance(x, Tensor) else x)
    return Point(manifold, x, coordinates, project)


def _check_in_compiled(manifold: Any, x: Staged) -> None:
    """Compiled code stops where x is farther from the manifold than rounding takes it, or not finite."""
    manifold.dimension(x.shape)  # looks at the axes
    if x.dtype.kind == "c":  # no points of most manifolds: one of theirs tells
        point = manifold.random_point(np.random.default_rng(0), x.shape)
        if point.dtype.kind != "c":
            raise ShapeError(f"{manifold} is of real arrays, got one of {x.dtype}")
    v = P.detach(x)
    axes = tuple(range(-manifold.axes, 0)) if manifold.axes else None
    off = np.max(np.abs(manifold.nearest(v) - v), axis=axes, initial=0)
    size = np.max(np.abs(v), axis=axes, initial=0)
    is_near = off <= np.sqrt(np.finfo(x.dtype).eps) * size
    stop_if(
        ~np.all(is_near & np.isfinite(size)),
        "ValueError",
        f"this array is no point of {manifold}; declare manifold.nearest(x) instead",
    )


DISPLACED = Primitive(
    "on_manifold",
    lambda x, t, *, point: x,
    blocks=(I, lambda y, *, point: point.operator(y)),
    text="{0} along {1}",
)

tree.register(
    Point,
    lambda p: (p.declaration, (p.x,)),
    lambda meta, xs: Point(meta[0], xs[0], *meta[1:]),
)


def without_points(x: Any) -> Any:
    """The same with arrays in the place of Points."""
    leaves, structure = tree.flatten(x)
    return plain_structure(structure).unflatten(leaves)


def plain_structure(s: tree.Structure) -> tree.Structure:
    if s.kind is Point:
        return s.children[0]
    if not s.children:
        return s
    return tree.Structure(s.kind, s.meta, tuple([plain_structure(c) for c in s.children]))


def points_in(s: tree.Structure, leaves: list[Any]) -> dict[int, Point]:
    """The Points of a tree by the number of their leaf. One that stands in several places of a module is a
    Point if any of these declares it."""
    search = _Search(leaves)
    search.walk(s, None)
    return search.found


def check_parts(structure: tree.Structure, leaves: list[Any], axes: list[Any], what: str) -> None:
    """An error for a Point among the leaves that is taken apart along an axis of a single point."""
    for k, point in points_in(structure, leaves).items() if hooks.has_points else ():
        if axes[k] is not None:
            point.check_parts(axes[k], what)


class _Search:
    def __init__(self, leaves: list[Any]):
        self.leaves = leaves
        self.found: dict[int, Point] = {}
        self.count = 0

    def declare(self, number: int, how: Any) -> None:
        if number in self.found and self.found[number].declaration != how:
            raise StructureError(
                f"an array that stands in two places is declared on {self.found[number].manifold} in one and "
                f"on {how[0]} in the other"
            )
        self.found[number] = Point(how[0], self.leaves[number], *how[1:])

    def walk(self, s: tree.Structure, made: list[int] | None) -> None:
        """`made` are numbers of leaves (or −1) in the order in which `tree` counts what may stand again."""
        if s.kind is tree.LEAF:
            if made is not None:
                made.append(self.count)
            self.count += 1
        elif s.kind is Point:
            again = s.children[0]
            number = self.count
            if made is not None and again.kind is tree.AGAIN:
                number = made[again.meta]
            self.walk(again, made)
            self.declare(number, s.meta)
        elif s.kind is tree.FIXED:
            if made is not None:
                made.append(-1)
        else:
            is_sharing = s.kind in containers.SHARED
            inside = [] if is_sharing and made is None else made
            for child in s.children:
                self.walk(child, inside)
            if is_sharing and inside is not None:
                inside.append(-1)


def manifold_of(points: dict[int, Point], number: int) -> Any:
    """The manifold of a leaf, or None."""
    return points[number].manifold if number in points else None


def no_points(x: Any, who: str) -> None:
    """An error of those that would leave a manifold in silence."""
    if points_in(*tree.flatten(x)[::-1]):
        raise UnsupportedError(
            f"{who} adds arrays and would leave the manifold that a parameter is declared on; "
            "use SGD, Adam and the like, LBFGS or RiemannianCG"
        )
