"""Parameters as one vector: what rules need that mix all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..api import vmap
from ..declared import manifold_of, no_points, plain_structure, points_in
from ..errors import DTypeError
from .base import _real


class Space:
    """All numbers of a container one behind the other; tangents likewise, each part on its own manifold.

    Where nothing is declared on one, moving is adding and carrying along does nothing.

    >>> import backsolve as bs
    >>> space = Space({"a": bs.on(bs.manifolds.Sphere(), np.array([1.0, 0.0])), "b": np.zeros(1)})
    >>> space.gradient(space.vector, np.ones(3))
    array([0., 1., 1.])
    """

    def __init__(self, parameters: Any):
        leaves, self._structure = tree.flatten(parameters)
        points = points_in(self._structure, leaves)
        self._manifolds = [manifold_of(points, k) for k in range(len(leaves))]
        self.is_curved = bool(points)
        leaves = [_real(p) for p in leaves]
        if any(p.dtype.kind == "c" for p in leaves):
            raise DTypeError(
                "this rule takes real parameters: a complex one as its real and imaginary part"
            )
        self.dtype: Any = np.result_type(*(p.dtype for p in leaves)) if leaves else np.dtype(float)
        self._shapes, self._dtypes = [np.shape(p) for p in leaves], [p.dtype for p in leaves]
        self._ends = np.cumsum([0, *[int(np.prod(s)) for s in self._shapes]]).tolist()
        self.vector = self._joined(leaves)

    def given(self, v: Any) -> Any:
        """A vector as the container that was given."""
        return self._structure.unflatten(self._leaves(v))

    def plain(self, v: Any) -> Any:
        """The same with arrays where points were declared, as functions get it."""
        return plain_structure(self._structure).unflatten(self._leaves(v))

    def joined(self, container: Any) -> Any:
        """A container of the form that `plain` gives, as a vector."""
        return self._joined(tree.flatten(container)[0])

    # ---- the geometry, of vectors

    def gradient(self, x: Any, g: Any) -> Any:
        return self._each("gradient", g, x, g)

    def pushed(self, x: Any, u: Any) -> Any:
        """How x changes along (the tangent part of) u: the blocks that points have in D."""
        return self._by_operator(x, u, lambda E: E)

    def around(self, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Where to differentiate for tangents: t, and the map v ↦ x + E (v − t)."""
        if not self.is_curved:
            return x, lambda v: v
        return np.zeros_like(x), lambda u: x + self.pushed(x, u)

    def pulled(self, x: Any, g: Any) -> Any:
        """The adjoint of `pushed`."""
        return self._by_operator(x, g, lambda E: E.T)

    def projected(self, x: Any, u: Any) -> Any:
        return self._each("project", u, x, u)

    def normal(self, x: Any) -> Any:
        """The matrix that takes the part of a vector along which no parameter moves."""
        one = np.eye(x.shape[0], dtype=x.dtype)
        return one - vmap(lambda u: self.projected(x, u))(one)

    def shared(self, lengths: Any) -> Any:
        """The same with one length, that of all of them together, for each part on a manifold: entries of
        tangents have no units of their own."""
        if not self.is_curved:
            return lengths
        parts = zip(self._manifolds, self._cut(lengths), strict=True)
        return self._joined(
            [p if m is None else np.sqrt(np.sum(p * p)) * np.ones_like(p) for m, p in parts]
        )

    def moved(self, x: Any, u: Any) -> Any:
        return self._each("retract", x + u, x, u)

    def carried(self, x: Any, y: Any, u: Any) -> Any:
        """A tangent at x as one at y."""
        return self._each("transport", u, x, y, u)

    def along(self, x: Any, t: Any, d: Any) -> tuple[Any, Any]:
        """The point reached at t along the way that starts with velocity d, and the velocity there."""
        if not self.is_curved:
            return x + t * d, d
        parts = [
            (a + t * u, u) if m is None else m.velocity(a, t.astype(u.dtype), u)
            for m, a, u in zip(self._manifolds, self._cut(x), self._cut(d), strict=True)
        ]
        return self._joined([y for y, _ in parts]), self._joined([v for _, v in parts])

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        if not self.is_curved:
            return np.sum(u * v)
        parts = [
            np.sum(b * c) if m is None else np.sum(m.inner(a, b, c))
            for m, a, b, c in zip(self._manifolds, *map(self._cut, (x, u, v)), strict=True)
        ]
        return sum(parts[1:], start=parts[0])

    # ---- parts

    def _each(self, method: str, flat: Any, *vectors: Any) -> Any:
        """A method of each part's manifold; where there is none, the part of `flat`."""
        if not self.is_curved:
            return flat
        rows = zip(self._manifolds, self._cut(flat), *map(self._cut, vectors), strict=True)
        return self._joined(
            [part if m is None else getattr(m, method)(*parts) for m, part, *parts in rows]
        )

    def _by_operator(self, x: Any, u: Any, way: Callable[[Any], Any]) -> Any:
        if not self.is_curved:
            return u
        rows = zip(self._manifolds, self._cut(x), self._cut(u), strict=True)
        return self._joined([t if m is None else way(m.projection(a)).apply(t) for m, a, t in rows])

    def _cut(self, v: Any) -> list[Any]:
        return [
            np.reshape(v[a:b], shape)
            for a, b, shape in zip(self._ends, self._ends[1:], self._shapes, strict=False)
        ]

    def _joined(self, parts: list[Any]) -> Any:
        flat = [np.reshape(p, (-1,)).astype(self.dtype) for p in parts]
        return flat[0] if len(flat) == 1 else np.concatenate(flat) if flat else np.zeros(0)

    def _leaves(self, v: Any) -> list[Any]:
        return [p.astype(dtype) for p, dtype in zip(self._cut(v), self._dtypes, strict=True)]


def as_vector(parameters: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All numbers of a container one behind the other, and the way back.

    >>> v, back = as_vector({"a": np.ones((2, 2)), "b": np.zeros(1)})
    >>> v, back(2 * v)["b"]
    (array([1., 1., 1., 1., 0.]), array([0.]))
    """
    no_points(parameters, "this rule")
    space = Space(parameters)
    return space.vector, space.given
