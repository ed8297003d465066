"""Rules that evaluate the function themselves, along a line or by its differential.

    state = solver.init(f, parameters)
    parameters, state = solver.update(f, parameters, state)

Both are pure, and compile; a state has `count`, `value`, `error`, which is 0 at a solution, and `is_stuck`,
which says that rounding errors let no further step be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..control import while_loop


@dataclass(frozen=True)
class Solver:
    """Settings, as an Optimizer's; see the head of this file."""

    def init(self, f: Callable[[Any], Any], parameters: Any) -> Any:
        """The state before the first step."""
        raise NotImplementedError(f"{type(self).__name__}.init")

    def update(self, f: Callable[[Any], Any], parameters: Any, state: Any) -> tuple[Any, Any]:
        """Parameters and state after one more step."""
        raise NotImplementedError(f"{type(self).__name__}.update")

    def minimize(
        self, f: Callable[[Any], Any], parameters: Any, steps: int = 200, tolerance: float = 1e-6
    ) -> tuple[Any, Any]:
        """Steps until the error is at most the tolerance, at most so many; inside of jit, one loop.

        It also ends where it is stuck, or the error is no number.
        """

        def goes_on(now: tuple[Any, Any]) -> Any:
            state = now[1]
            is_far = np.logical_and(state.error > tolerance, np.logical_not(state.is_stuck))
            return np.logical_and(state.count < steps, is_far)

        start = (parameters, self.init(f, parameters))
        return while_loop(goes_on, lambda now: self.update(f, *now), start)
