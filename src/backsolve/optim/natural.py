"""Natural gradients: steps measured by what they change in the outputs, not in the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import grad, jvp, vjp, vmap
from ..curvature.kronecker import kronecker_blocks, on_blocks, solve_blocks
from ..hooks import hooks
from .linear import conjugate_gradients, is_dense
from .solver import Solver
from .vectors import Space


@dataclass(frozen=True)
class NaturalState:
    """`value` and `error` (the largest entry of the gradient) are those before the step."""

    count: Any
    value: Any
    error: Any
    is_stuck: Any


@dataclass(frozen=True)
class NaturalGradient(Solver):
    """p − lr (F + λ)⁻¹ ∇ with F = Jᵀ H J: J of the outputs that f returns, H the Hessian of `loss` in them.

    Where loss is minus the logarithm of a probability in natural parameters (cross entropy of logits,
    squares), F is Fisher's information matrix. It is applied as an operator, by conjugate gradients or, for
    few parameters, column by column. `method="kfac"` solves with K-FAC's approximation to it, a product of two
    small matrices for each layer; the first axis of the outputs counts the examples. What `bs.on` declared
    has F in its tangents, where the step is found, and moves along retractions.

    >>> import numpy as np
    >>> x, y = np.linspace(-1, 1, 8), np.array([0, 1, 0, 0, 1, 0, 1, 1.0])
    >>> loss = lambda z: np.sum(np.logaddexp(0, z) - y * z)
    >>> p, state = NaturalGradient(loss).minimize(lambda p: p[0] + p[1] * x, np.zeros(2), tolerance=1e-9)
    >>> int(state.count)
    5
    """

    loss: Callable[[Any], Any]
    lr: float = 1.0
    damping: float = 0.0
    method: str = "auto"
    cg_tolerance: float = 1e-8
    cg_steps: int = 250

    def init(self, f: Callable[[Any], Any], parameters: Any) -> NaturalState:
        space = Space(parameters)
        x = space.vector
        one = np.ones((), x.dtype)
        value, no = self.loss(hooks.users(f)(space.plain(x))) * one, np.zeros((), bool)
        return NaturalState(np.zeros((), np.int64), value, np.inf * one, no)

    def update(
        self, f: Callable[[Any], Any], parameters: Any, state: NaturalState
    ) -> tuple[Any, NaturalState]:
        space = Space(parameters)
        x = space.vector
        here, at = space.around(x)
        outputs = lambda v: hooks.users(f)(space.plain(at(v)))
        z, pull = vjp(outputs, here)
        value, slope_of_outputs = self.loss(z), grad(self.loss)(z)
        slope = pull(slope_of_outputs)[0]

        def times(v: Any, pull: Any = pull) -> Any:
            change = jvp(outputs, (here,), (v,))[1]
            return pull(jvp(grad(self.loss), (z,), (change,))[1])[0] + self.damping * v

        if self.method == "kfac":
            step = self._by_factors(f, space, slope)
        elif is_dense(self.method, x.shape[0]):
            # pulled back through rows of the map's own, for those of z would stay with the result
            image = lambda v: times(v, vjp(outputs, here)[1])
            fisher = vmap(image)(np.eye(x.shape[0], dtype=x.dtype))
            if space.is_curved:
                fisher = fisher + space.normal(x)  # no step across the tangents
            step = np.linalg.solve(fisher, slope[:, None])[:, 0]
        else:
            step = conjugate_gradients(times, slope, self.cg_tolerance, self.cg_steps)
        one = np.ones((), x.dtype)
        error = np.max(np.abs(slope))
        is_stuck = np.logical_not(np.isfinite(error))
        new = space.moved(x, -self.lr * step)
        return space.given(new), NaturalState(state.count + 1, value * one, error, is_stuck)

    def _by_factors(self, f: Callable[[Any], Any], space: Space, slope: Any) -> Any:
        x = space.vector
        blocks = kronecker_blocks(f, self.loss, space.plain(x), 0)
        if not space.is_curved:
            return space.joined(solve_blocks(blocks, space.plain(slope), self.damping))

        def times(u: Any) -> Any:
            image = on_blocks(blocks, lambda b, v: b.apply(v), space.plain(space.pushed(x, u)))
            return space.pulled(x, space.joined(image)) + self.damping * u

        return conjugate_gradients(times, slope, self.cg_tolerance, self.cg_steps)
