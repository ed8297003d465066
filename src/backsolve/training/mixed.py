"""Mixed precision: parameters in float32, the network in 16 bits.

    p₁₆ = cast(p),  ℓ(p₁₆),  p̄ = cast(p̄₁₆)        the adjoint of a cast brings gradients back to float32

Losses and statistics compute in float32 (nn.functional). float16 has few exponents: small gradients would be 0.
So the loss is multiplied by a scale, and gradients divided by it. If they overflow, the step is left out and
the scale halved; after many steps without, it is doubled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import BackendError

PRECISIONS = ("bfloat16", "float16")
FIRST_SCALE = 2.0**16
STEPS_TO_DOUBLE = 2000


class Mixed:
    """What a precision does to a step; `None` changes nothing."""

    def __init__(self, precision: str | None):
        if precision not in (None, *PRECISIONS):
            names = " or ".join(f'"{name}"' for name in PRECISIONS)
            raise ValueError(
                f"precision must be {names}, or None for that of the model, got {precision!r}"
            )
        self.precision = precision
        self.scales = precision == "float16"

    def compiling(self, compile: bool) -> dict[str, Any]:
        """What `jit` is told: bfloat16 is XLA's."""
        if self.precision != "bfloat16":
            return {}
        if not compile:
            raise BackendError(
                'precision="bfloat16" is for compiled steps: NumPy, which computes them as written with '
                'compile=False, has no bfloat16; precision="float16" it has'
            )
        return {"backend": "xla", "half": "bfloat16"}

    def first_state(self) -> dict[str, Any]:
        if not self.scales:
            return {}
        return {
            "scale": {"factor": np.array(FIRST_SCALE, np.float32), "good": np.array(0, np.int32)}
        }

    def narrow(self, arrays: Any) -> Any:
        return arrays if self.precision is None else tree.map(_half, arrays)

    def inputs(self, batch: Any) -> Any:
        """A batch whose first part, what the model reads, has 16 bits."""
        if isinstance(batch, tuple | list) and len(batch) > 1:
            return type(batch)([self.narrow(batch[0]), *batch[1:]])
        return self.narrow(batch)

    # ---- scales

    def factor(self, state: Any) -> Any:
        return state["scale"]["factor"] if self.scales else None

    def next_scale(self, scale: Any, fits: Any) -> Any:
        """The scale after a step whose gradients fitted, or did not."""
        factor, good = scale["factor"], scale["good"] + 1
        is_due = good >= STEPS_TO_DOUBLE
        grown = np.where(is_due, factor * np.float32(2), factor)
        shrunk = np.maximum(factor * np.float32(0.5), np.float32(1))
        return {
            "factor": np.where(fits, grown, shrunk),
            "good": np.where(np.logical_and(fits, np.logical_not(is_due)), good, 0).astype(
                np.int32
            ),
        }

    def may_leave_out(self, scale: Any, loss: Any) -> Any:
        """Whether gradients that are not finite may be so for their scale alone."""
        return np.logical_and(scale["factor"] > 1, np.isfinite(loss))


def _half(a: Any) -> Any:
    dtype = getattr(a, "dtype", None)
    is_wide = dtype is not None and dtype.kind == "f" and dtype.itemsize > 2
    return a.astype(np.float16) if is_wide else a
