"""Points whose metric is not Σ u v: there a matrix of second derivatives that takes tangents to tangents, as
gradients are, is S raised by the metric, S symmetric; so it is its own adjoint in the metric alone."""

from __future__ import annotations

from typing import Any

from .. import tree
from ..api.curved import points_of
from ..declared import Point


class Metrics:
    """The Points among parameters that have such a metric; of others nothing is changed."""

    def __init__(self, at: Any):
        found = points_of(at)
        self.points: dict[int, Point] = {
            k: p for k, p in found.items() if not p.is_in_coordinates and not p.manifold.is_embedded
        }

    def __bool__(self) -> bool:
        return bool(self.points)

    def raised(self, adjoint: Any) -> Any:
        """The tangent that an adjoint stands for."""
        return self._each(adjoint, lambda p, g: p.manifold.raised(p.x, g))

    def lowered(self, tangent: Any) -> Any:
        """The adjoint that a tangent stands for."""
        return self._each(tangent, lambda p, u: p.manifold.lowered(p.x, u))

    def checked(self, tangent: Any) -> Any:
        return self._each(tangent, Point.checked)

    def _each(self, form: Any, f: Any) -> Any:
        if not self.points:
            return form
        leaves, structure = tree.flatten(form)
        return structure.unflatten(
            [f(self.points[k], x) if k in self.points else x for k, x in enumerate(leaves)]
        )
