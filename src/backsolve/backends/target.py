"""What compiled code is made for: which backend, which device, how exact."""

from __future__ import annotations

from dataclasses import dataclass

BACKENDS = ("native", "numpy", "xla")
PRECISIONS = ("highest", "tf32")


@dataclass(frozen=True)
class Target:
    """`device` and `precision` are XLA's: "cpu", "gpu", "gpu:1"; and how products of float32 are computed."""

    backend: str = "native"
    device: str | None = None
    precision: str = "highest"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f'backend must be "native", "numpy" or "xla", got {self.backend!r}')
        if self.precision not in PRECISIONS:
            raise ValueError(
                f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}"
            )
        if self.backend != "xla" and (self.device, self.precision) != (None, "highest"):
            raise ValueError(
                f'device= and precision= are for backend="xla"; the {self.backend} backend runs on the CPU, '
                "in the precision of the arrays"
            )

    def for_derivatives(self) -> Target:
        """Where derivatives of what runs here are computed: compiled, too."""
        return NATIVE if self.backend == "numpy" else self


NATIVE = Target()
