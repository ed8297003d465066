"""What compiled code is made for: which backend, which device, how exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

BACKENDS = ("native", "numpy", "xla")
PRECISIONS = ("highest", "tf32")
HALVES = ("float16", "bfloat16")

Named = Sequence[tuple[str, tuple[int, ...]]]


class Placed(Protocol):
    """Where the arrays of one program lie: `results` has a sharding for each, or None for XLA's choice.

    `used` is how argument number k lies where all of it is needed; None: as ever.
    """

    whole: Any
    results: list[Any] | None

    def argument(self, k: int) -> Any: ...
    def used(self, k: int) -> Any: ...
    def put(self, leaves: Sequence[Any]) -> list[Any]: ...


class Placement(Protocol):
    """Where arrays lie on many devices, by their names and shapes; see backsolve.sharding."""

    def of(self, arguments: Named, results: Named) -> Placed: ...
    def nowhere(self) -> Placed: ...


@dataclass(frozen=True)
class Target:
    """The rest is XLA's: `device` "cpu" or "gpu:1", how products of float32 are computed, what float16 is."""

    backend: str = "native"
    device: str | None = None
    precision: str = "highest"
    placement: Placement | None = None  # where arrays lie, on many devices
    half: str = "float16"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f'backend must be "native", "numpy" or "xla", got {self.backend!r}')
        if self.precision not in PRECISIONS:
            raise ValueError(
                f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}"
            )
        if self.backend != "xla" and self.placement is not None:
            raise ValueError(f'mesh= is for backend="xla", got backend={self.backend!r}')
        if self.placement is not None and self.device is not None:
            raise ValueError(
                f"the mesh says which devices there are: leave device={self.device!r} out, or give it to `mesh`"
            )
        if self.half not in HALVES:
            raise ValueError(f"half must be one of {', '.join(HALVES)}, got {self.half!r}")
        own = self.device, self.precision, self.half
        if self.backend != "xla" and own != (None, "highest", "float16"):
            raise ValueError(
                f'device=, precision= and half= are for backend="xla"; the {self.backend} backend runs on the '
                "CPU, in the precision of the arrays"
            )

    def for_derivatives(self) -> Target:
        """Where derivatives of what runs here are computed: compiled, too."""
        return NATIVE if self.backend == "numpy" else self


NATIVE = Target()
