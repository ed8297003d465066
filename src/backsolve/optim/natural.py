"""Natural gradients: steps measured by what they change in the outputs, not in the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import grad, jvp, vjp, vmap
from ..curvature.blocks import Block, factors_of, on_blocks, solve_blocks, with_factors
from ..curvature.kronecker import kronecker_blocks
from ..errors import check_function
from ..hooks import hooks
from ..random import fold_in, key
from .linear import METHODS, check_method, conjugate_gradients, is_dense
from .solver import Solver
from .vectors import Space


@dataclass(frozen=True)
class NaturalState:
    """`value` and `error` (the largest entry of the gradient) are those before the step; `factors` are running
    means of K-FAC's, if there is a decay."""

    count: Any
    value: Any
    error: Any
    is_stuck: Any
    factors: Any = ()


@dataclass(frozen=True)
class NaturalGradient(Solver):
    """p − lr (F + λ)⁻¹ ∇ with F = Jᵀ H J: J of the outputs that f returns, H the Hessian of `loss` in them.

    Where loss is minus the logarithm of a probability in natural parameters (cross entropy of logits,
    squares), F is Fisher's information matrix. It is applied as an operator, by conjugate gradients or, for
    few parameters, column by column. What `bs.on` declared has F in its tangents, where the step is found, and
    moves along retractions.

    `method="kfac"` solves with K-FAC's approximation to it, a product of two small matrices for each layer, the
    weight and its bias together with `fold_biases`; the first axis of the outputs counts the examples. `decay`
    takes running means of these matrices over the steps. Of many outputs, `draws` seeds for each example, drawn
    anew at each step, take the place of two for each output.

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
    fold_biases: bool = True
    decay: float = 0.0
    draws: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_function("NaturalGradient", self.loss)
        check_method(self.method, (*METHODS, "kfac"))
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay of NaturalGradient is from 0 to 1, got {self.decay!r:.60}")

    def init(self, f: Callable[[Any], Any], parameters: Any) -> NaturalState:
        space = Space(parameters)
        x = space.vector
        one = np.ones((), x.dtype)
        value, no = self.loss(hooks.users(f)(space.plain(x))) * one, np.zeros((), bool)
        zero = np.zeros((), np.int64)
        known = (
            factors_of(self._blocks(f, space, zero)) if self.decay and self.method == "kfac" else ()
        )
        return NaturalState(zero, value, np.inf * one, no, known)

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

        factors = state.factors
        if self.method == "kfac":
            step, factors = self._by_factors(f, space, slope, state)
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
        done = NaturalState(state.count + 1, value * one, error, is_stuck, factors)
        return space.given(new), done

    def _blocks(self, f: Callable[[Any], Any], space: Space, count: Any) -> list[Block]:
        drawn = None if self.draws is None else (self.draws, fold_in(key(self.seed), count))
        at = space.plain(space.vector)
        return kronecker_blocks(f, self.loss, at, 0, self.fold_biases, drawn)

    def _by_factors(
        self, f: Callable[[Any], Any], space: Space, slope: Any, state: NaturalState
    ) -> tuple[Any, Any]:
        x = space.vector
        blocks, factors = self._blocks(f, space, state.count), state.factors
        if self.decay:
            # all steps weigh the same until there are enough of them (Martens and Grosse, 2015)
            kept = np.minimum(1 - 1 / (state.count + 1), self.decay).astype(x.dtype)
            pairs = zip(state.factors, factors_of(blocks), strict=True)
            factors = tuple(
                tuple(kept * old + (1 - kept) * new for old, new in zip(*pair, strict=True))
                for pair in pairs
            )
            blocks = with_factors(blocks, factors)
        if not space.is_curved:
            solved = solve_blocks(blocks, space.plain(slope), self.damping)
            return space.joined(solved), factors

        def times(u: Any) -> Any:
            image = on_blocks(blocks, lambda b, v: b.apply(v), space.plain(space.pushed(x, u)))
            return space.pulled(x, space.joined(image)) + self.damping * u

        return conjugate_gradients(times, slope, self.cg_tolerance, self.cg_steps), factors
