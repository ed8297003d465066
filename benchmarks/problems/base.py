"""What a problem's module offers to the tool (benchmarks/gradbench.py) and to the table (run.py).

prepare(message)     the input of a message, a dict, as the arguments of the functions
functions            by name: what is timed, arrays to arrays, and how its result is written in JSON
derivative           which of them the table measures
on_gpus              which gpu.py measures, where one writes another there
generate(rng, size)  a message's input of that size, random but of the suite's form
sizes                "small", "middle", "large"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def plain(result: Any) -> Any:
    """Arrays and numbers as JSON has them."""
    return np.asarray(result).tolist()


@dataclass(frozen=True)
class Function:
    run: Callable[..., Any]
    answer: Callable[[Any], Any] = plain
