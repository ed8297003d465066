"""A random structured program as data: Python source and the arguments to call it with.

It is made by a seed. What does not end soon, grows, or jumps or bends near its arguments is no program: there
differences say nothing.
"""

from __future__ import annotations

import itertools
import linecache
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .fuzz_control_blocks import Helper, helper, main_function
from .fuzz_control_values import Scope

LINES = 3000  # that a call may run
LARGEST, STEEPEST = 100.0, 1e3  # of the value; of the gradient
STEP = 2e-4
_numbers = itertools.count()


class EndlessError(Exception):
    """More lines were run than a program may."""


@dataclass(frozen=True)
class Written:
    """f(a, b, x, k, idx), with the functions it calls before it."""

    seed: int
    source: str
    args: tuple[Any, ...]

    def function(self) -> Callable[..., Any]:
        """Compiled from a file that is not there, but that `inspect.getsource` can read."""
        name = f"<random program {next(_numbers)}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        space: dict[str, Any] = {"np": np, "__name__": "random_program"}
        exec(compile(self.source, name, "exec"), space)
        return space["f"]

    def fresh(self, *moved: Any) -> list[Any]:
        """The arguments, or these in the place of the first ones; arrays are copies, to be written into."""
        args = [*moved, *self.args[len(moved) :]]
        return [a.copy() if isinstance(a, np.ndarray) else a for a in args]

    def __str__(self) -> str:
        """Runnable as it is, from a file."""
        words = [
            f"np.array({a.tolist()})" if isinstance(a, np.ndarray) else repr(a) for a in self.args
        ]
        return "\n".join(
            [
                "import numpy as np",
                "from backsolve.testing.fuzz_control import check_function",
                "",
                self.source,
                f"check_function(f, ({', '.join(words)}), seed={self.seed})",
            ]
        )


# ---- making


def written(seed: int, size: int = 8) -> Written:
    """The random program of a seed, of about `size` statements."""
    for attempt in itertools.count():
        p = _draw(seed, attempt, size)
        if differences(p.function(), p) is not None:
            return p
    raise AssertionError


def _draw(seed: int, attempt: int, size: int) -> Written:
    rng = np.random.default_rng([seed, attempt])
    n = int(rng.integers(3, 10))
    a, b = (round(float(v), 3) for v in rng.uniform(-1.2, 1.2, 2))
    x = np.round(rng.uniform(-1, 1, n), 3)
    idx = rng.integers(0, n, int(rng.integers(2, 12)))
    k = int(rng.integers(0, 7))
    s = Scope(
        rng, floats=["a", "b"], whole={"k": 7}, vectors={"x": n}, indices={"idx": (len(idx), n)}
    )
    helpers: list[Helper] = []
    lines: list[str] = []
    for number in range(int(rng.choice([0, 0, 1, 2]))):
        made, text = helper(s, number, helpers, size // 3)
        helpers.append(made)
        lines += [*text, "", ""]
    s.helpers = helpers
    lines += main_function(s, 1 + int(rng.integers(2, size)))
    return Written(seed, "\n".join(lines) + "\n", (a, b, x, k, idx))


# ---- the meaning, in plain Python


def interpreted(f: Callable[..., Any], *args: Any) -> float:
    """The value, by Python and NumPy alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return float(f(*args))


def runs(f: Callable[..., Any], p: Written) -> float | None:
    """The value if the function ends in time, without warnings, and its value is tame."""
    left = LINES

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise EndlessError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        y = interpreted(f, *p.fresh())
    except Exception:
        return None
    finally:
        sys.settrace(before)
    return y if abs(y) <= LARGEST else None


def differences(f: Callable[..., Any], p: Written) -> list[Any] | None:
    """The gradient by a, b and x from differences; None where they do not settle."""
    if runs(f, p) is None:
        return None
    a, b, x = p.args[:3]
    point = np.concatenate([[a, b], x])

    def value(q: Any) -> float:
        return interpreted(f, *p.fresh(float(q[0]), float(q[1]), q[2:]))

    try:
        gradient = np.array([slope(value, point, row) for row in np.eye(len(point))])
    except (ValueError, ArithmeticError, LookupError, Warning):
        return None
    if not np.abs(gradient).max() <= STEEPEST:
        return None
    return [gradient[0], gradient[1], gradient[2:]]


def slope(f: Callable[[Any], Any], q: Any, v: Any) -> Any:
    """The derivative along v, with Richardson's extrapolation; ValueError where f jumps or bends."""
    h = STEP
    low, lower, here, higher, high = (f(q + t * v) for t in (-h, -h / 2, 0.0, h / 2, h))
    wide, near = (high - low) / (2 * h), (higher - lower) / h
    bend = np.abs(higher - 2 * here + lower) / h  # of the order of h, where f is smooth
    size = np.maximum(1.0, np.abs(near))
    if not np.all((np.abs(wide - near) <= 1e-4 * size) & (bend <= 0.05 * size)):
        raise ValueError("not smooth")
    return (4 * near - wide) / 3
