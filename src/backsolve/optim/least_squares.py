"""Least squares: Gauss–Newton and Levenberg–Marquardt, with J dense or as an operator of the system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..api import jacobian, jvp, vjp
from ..hooks import hooks
from .linear import check_method, conjugate_gradients, is_dense
from .solver import Solver
from .vectors import Space


@dataclass(frozen=True)
class LeastSquaresState:
    """`value` is half the sum of squares, `error` the largest cosine of r with a column of J (dense), or the
    largest entry of Jᵀ r; `scales` are the columns' lengths, the largest so far."""

    count: Any
    value: Any
    error: Any
    is_stuck: Any
    damping: Any
    growth: Any
    scales: Any


@dataclass(frozen=True)
class LevenbergMarquardt(Solver):
    """Lowers half the sum of squares of what f returns: (JᵀJ + λ D²) δ = −Jᵀ r.

    D are the lengths of the columns of J, as Moré has it, so that units of parameters do not matter; by
    conjugate gradients (`method="cg"`, or "auto" beyond 256 parameters) it is 1, and J is never formed. λ
    follows how well the model foretold the step (Nielsen, 1999); a step that lowers nothing is not made. Of
    complex residuals the moduli are squared. What
    `bs.on` declared has its columns of J in the tangents, where δ is found, and moves along retractions.

    >>> import numpy as np
    >>> t = np.linspace(0, 1, 9)
    >>> f = lambda p: p["a"] * np.exp(p["b"] * t) - 2 * np.exp(-3 * t)
    >>> found, state = LevenbergMarquardt().minimize(f, {"a": 1.0, "b": -1.0})
    >>> round(float(found["a"]), 6), round(float(found["b"]), 6)
    (2.0, -3.0)
    """

    damping: float = 1e-3
    method: str = "auto"
    cg_tolerance: float = 1e-8
    cg_steps: int = 250

    def __post_init__(self) -> None:
        check_method(self.method)

    def init(self, f: Callable[[Any], Any], parameters: Any) -> LeastSquaresState:
        space = Space(parameters)
        x = space.vector
        one = np.ones((), x.dtype)
        value = _half_square(_residuals(f, space, x)) * one
        return LeastSquaresState(
            np.zeros((), np.int64), value, np.inf * one, np.zeros((), bool),
            self.damping * one, 2 * one, np.zeros_like(x),
        )  # fmt: skip

    def update(
        self, f: Callable[[Any], Any], parameters: Any, state: LeastSquaresState
    ) -> tuple[Any, LeastSquaresState]:
        space = Space(parameters)
        x = space.vector
        (delta, slope, error, scales), new, value = self._step(f, space, state)
        # what the model of least squares foretells: ½ δᵀ (λ D² δ − Jᵀ r)
        foretold = 0.5 * np.sum(delta * (state.damping * scales * scales * delta - slope))
        gain = (state.value - value) / np.where(foretold > 0, foretold, 1)
        is_better: Any = np.logical_and(value < state.value, foretold > 0)
        easier = state.damping * np.maximum(1 / 3, 1 - (2 * np.minimum(gain, 1) - 1) ** 3)

        def pick(a: Any, b: Any) -> Any:
            return np.where(is_better, a, b).astype(x.dtype)

        return space.given(np.where(is_better, new, x)), LeastSquaresState(
            state.count + 1,
            pick(value, state.value),
            error,
            np.logical_not(foretold > np.finfo(x.dtype).eps * state.value),
            pick(easier, state.damping * state.growth),
            pick(2.0, 2 * state.growth),
            scales,
        )

    def _step(
        self, f: Callable[[Any], Any], space: Space, state: LeastSquaresState
    ) -> tuple[tuple[Any, ...], Any, Any]:
        """(step, slope, error, scales), where it leads, and half the sum of squares there."""
        x = space.vector
        by = self._dense if is_dense(self.method, x.shape[0]) else self._by_operators
        here, at = space.around(x)
        made = by(lambda v: _residuals(f, space, at(v)), here, space, state)
        new = space.moved(x, made[0])
        return made, new, _half_square(_residuals(f, space, new))

    def _dense(
        self, r: Callable[[Any], Any], here: Any, space: Space, state: LeastSquaresState
    ) -> tuple[Any, ...]:
        """By orthogonal triangles of J above √λ D: the condition of J, not its square.

        On manifolds J is zero across the tangents; rows that are zero along them make δ one of them.
        """
        x = space.vector
        y, J = r(here), jacobian(r)(here)
        lengths = space.shared(np.sqrt(np.sum(J * J, axis=0)))
        scales = np.maximum(state.scales, lengths)
        scales = np.where(scales > 0, scales, 1).astype(x.dtype)
        slope = J.T @ y
        root = np.sqrt(np.maximum(state.damping, np.finfo(x.dtype).tiny))
        parts = [J / scales, root * np.eye(x.shape[0], dtype=x.dtype)]
        if space.is_curved:
            parts.append(space.normal(x))
        q, triangle = np.linalg.qr(np.concatenate(parts))
        turned = -q[: y.shape[0]].T @ y
        delta = np.linalg.solve(triangle, turned[:, None])[:, 0] / scales
        length = np.sqrt(np.sum(y * y))
        cosines = np.abs(slope) / np.where(lengths * length > 0, lengths * length, 1)
        return delta, slope, np.max(cosines), scales

    def _by_operators(
        self, r: Callable[[Any], Any], here: Any, space: Space, state: LeastSquaresState
    ) -> tuple[Any, ...]:
        y, pull = vjp(r, here)
        slope = pull(y)[0]

        def times(v: Any) -> Any:
            return pull(jvp(r, (here,), (v,))[1])[0] + state.damping * v

        delta = conjugate_gradients(times, -slope, self.cg_tolerance, self.cg_steps)
        return delta, slope, np.max(np.abs(slope)), np.ones_like(here)


@dataclass(frozen=True)
class GaussNewton(LevenbergMarquardt):
    """Levenberg–Marquardt with a damping that stays as it is, by default none: every step is made."""

    damping: float = 0.0

    def update(
        self, f: Callable[[Any], Any], parameters: Any, state: LeastSquaresState
    ) -> tuple[Any, LeastSquaresState]:
        space = Space(parameters)
        (_, _, error, scales), new, value = self._step(f, space, state)
        kept = (state.damping, state.growth, scales)
        no = np.zeros((), bool)
        return space.given(new), LeastSquaresState(state.count + 1, value, error, no, *kept)


def _residuals(f: Callable[[Any], Any], space: Space, x: Any) -> Any:
    leaves, _ = tree.flatten(hooks.users(f)(space.plain(x)))
    flat = [np.reshape(leaf, (-1,)) for leaf in leaves]
    # |r|² is the sum of two squares
    parts = [p for r in flat for p in ((np.real(r), np.imag(r)) if r.dtype.kind == "c" else (r,))]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _half_square(r: Any) -> Any:
    return 0.5 * np.sum(r * r)
