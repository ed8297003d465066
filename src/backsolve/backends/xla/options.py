"""What XLA's compiler is told beside the program."""

from __future__ import annotations

import functools
from typing import Any

from ...ir import Program
from .library import jax

# Kernels and copies in a row that are started at once, as a graph, on GPUs. XLA's own least is five: rounds of
# short loops have fewer, and starting each by itself takes longer than it runs.
FEWEST = {"xla_gpu_graph_min_graph_size": 3}


def compiler_options(program: Program, kind: str, has_halves: bool) -> dict[str, Any]:
    """For a device of this kind, where its own way is not the best."""
    if kind == "cpu":
        return {}
    found: dict[str, Any] = {}
    if has_halves:
        # else what is rounded to 16 bits, only to be computed with, would be stored with 32
        found["xla_allow_excess_precision"] = False
    holds_loops = any(e.primitive.holds_regions for e in program.equations)
    if kind in ("gpu", "cuda") and holds_loops and _are_known(*FEWEST.items()):
        found.update(FEWEST)
    return found


@functools.cache
def _are_known(*options: tuple[str, Any]) -> bool:
    """Whether this XLA has them: they come and go with its versions, and an unknown one is an error."""
    cpu = jax().local_devices(backend="cpu")[0]
    try:
        with jax().default_device(cpu):
            jax().jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except Exception:  # of whatever type: it speaks of the option
        return False
    return True
