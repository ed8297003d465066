"""Random structured programs: compiled against plain Python, values and derivatives; failures are made small.

Programs come from fuzz_control_source.py, by seed; their statements from fuzz_control_blocks.py and their
expressions from fuzz_control_values.py. `python -m backsolve.testing.fuzz_control 1000` checks a thousand.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..api import grad, jvp, value_and_grad, vmap
from ..compiled import Jitted
from ..errors import (
    BackendError,
    ControlFlowError,
    DroppedDerivativeError,
    InPlaceError,
    RecursionDepthError,
    UndefinedNameError,
)
from ..hooks import hooks
from .fuzz import search
from .fuzz_control_shrink import shrink
from .fuzz_control_source import Written, differences, interpreted, runs, slope, written
from .grads import CheckError

EXACT, NUMERIC = (
    1e-8,
    2e-5,
)  # what rounding may do, and what differences do, relative to the largest number
VARYING = (0, 1, 2)  # a, b and x; k and idx are whole numbers
# Clear ones, if they name the line.
REFUSALS = (BackendError, ControlFlowError, InPlaceError, RecursionDepthError, UndefinedNameError)


class RefusedError(Exception):
    """The program is refused, as it may be: no failure, but counted."""


refused: Counter[str] = Counter()  # programs of this process, by the kind of error


def check_function(
    f: Callable[..., Any],
    args: Sequence[Any],
    seed: int = 0,
    backend: str = "native",
    only: str | None = None,
) -> None:
    """Raises CheckError where the compiled function or a derivative of it is not what Python says.

    The seed says which derivatives are looked at, and in which ways; `only` leaves one of the checks.
    """
    p = Written(seed, "", tuple(args))
    slopes = differences(f, p)
    if slopes is None:
        raise CheckError("no program: it does not end, grows, or is not smooth here")
    run = Checks(f, p, slopes, backend)
    for name in [only] if only else run.names():
        try:
            getattr(run, name)()
        except CheckError:
            raise
        except REFUSALS as error:
            if "<random program" not in str(error):
                raise CheckError(
                    f"{name}: {type(error).__name__} without a line: {error}"
                ) from error
            raise RefusedError(type(error).__name__) from error
        except Exception as error:
            raise CheckError(f"{name}: {type(error).__name__}: {error}") from error


def _compare(what: str, got: Any, expected: Any, unit: float) -> None:
    x, y = (np.concatenate([np.ravel(v) for v in _parts(z)]) for z in (got, expected))
    if x.shape != y.shape:
        raise CheckError(f"{what}: is of shapes {x.shape}, should be {y.shape}")
    scale = unit * max(1.0, float(np.abs(y).max()))
    if not np.allclose(x, y, rtol=unit, atol=scale):
        raise CheckError(f"{what}: is\n{x}\nshould be\n{y}")


def _parts(x: Any) -> Any:
    return x if isinstance(x, list | tuple) else [x]


def _direction(p: Written) -> tuple[Any, ...]:
    rng = np.random.default_rng(p.seed)
    a, b, *x = (round(float(v), 2) for v in rng.uniform(0.4, 1.0, 2 + p.args[2].size))
    return a, b, np.array(x)


class Checks:
    """One method a check. The first one runs on the backend; the others take turns."""

    def __init__(self, f: Any, p: Written, slopes: Any, backend: str):
        self.f, self.p, self.slopes = f, p, slopes
        self.backend = backend
        self.turn = backend if p.seed % 2 else "numpy"
        self.derived = grad(f, argnums=VARYING)
        self.both = Jitted(value_and_grad(f, argnums=VARYING), (), self.backend)

    def names(self) -> list[str]:
        last = ["forward", "second", "batch", "forward"][self.p.seed % 4]
        return ["gradient", *(["value"] if self.p.seed % 3 == 0 else []), "eager", last]

    @functools.cached_property
    def result(self) -> Any:
        return self.both(*self.p.fresh())

    def gradient(self) -> None:
        value, gradient = self.result
        expected = interpreted(self.f, *self.p.fresh())
        _compare(f"gradient: value ({self.backend})", value, expected, EXACT)
        what = f"gradient: against differences ({self.backend})"
        _compare(what, gradient, self.slopes, NUMERIC)

    def value(self) -> None:
        got = Jitted(self.f, (), self.turn)(*self.p.fresh())
        expected = interpreted(self.f, *self.p.fresh())
        _compare(f"value: alone ({self.turn})", got, expected, EXACT)

    def eager(self) -> None:
        """Against the eager tape, unless the program writes into NumPy arrays, which eager mode refuses."""
        try:
            expected = self.derived(*self.p.fresh())
        except (InPlaceError, DroppedDerivativeError):
            return
        except ValueError as error:
            if not isinstance(error.__cause__, DroppedDerivativeError):
                raise
            return
        _compare("eager: gradient", self.result[1], expected, EXACT)

    def forward(self) -> None:
        v = _direction(self.p)
        along = lambda a, b, x, *whole: jvp(lambda *q: self.users(*q, *whole), (a, b, x), v)[1]
        pairs = zip(self.result[1], v, strict=True)
        expected = sum(np.sum(np.multiply(g, d)) for g, d in pairs)
        got = Jitted(along, (), self.turn)(*self.p.fresh())
        _compare(f"forward: mode ({self.turn})", got, expected, EXACT)

    def users(self, *args: Any) -> Any:
        return hooks.users(self.f)(*args)

    def second(self) -> None:
        """Of the gradient, which is right, the derivative along v; in one of the ways to nest the modes."""
        p, v = self.p, _direction(self.p)

        def gradient(q: Any) -> Any:
            _, g = self.both(*p.fresh(float(q[0]), float(q[1]), q[2:]))
            return np.concatenate([np.ravel(x) for x in g])

        point, direction = (np.concatenate([np.ravel(x) for x in q]) for q in (p.args[:3], v))
        try:
            expected = slope(gradient, point, direction)
        except ValueError:
            return  # it bends here
        ways = [forward_over_reverse, reverse_over_reverse, reverse_over_forward]
        way = ways[p.seed // 4 % 3]
        got = Jitted(way(self.users, v), (), self.turn)(*p.fresh())
        what = f"second: {way.__name__.replace('_', ' ')} ({self.turn})"
        _compare(what, got, expected, 10 * NUMERIC)

    def batch(self) -> None:
        """Examples that go other ways through the program, all at once."""
        rng = np.random.default_rng(self.p.seed)
        a, b, x, k, idx = self.p.args
        examples = [self.p]
        for j in range(2):
            moved = (a * 0.7 ** (j + 1), b + 0.1, x * rng.uniform(0.3, 1.2, x.shape))
            whole = ((k + j + 1) % 7, rng.permutation(idx))
            examples.append(Written(self.p.seed, "", (*moved, *whole)))
        values = [runs(self.f, e) for e in examples]
        if None in values:
            return  # it grows there
        found = [self.both(*e.fresh()) for e in examples]
        _compare("batch: values elsewhere", [value for value, _ in found], values, EXACT)
        stacked = [np.stack(column) for column in zip(*[e.args for e in examples], strict=True)]
        got = Jitted(vmap(self.f), (), self.turn)(*[s.copy() for s in stacked])
        _compare(f"batch: values ({self.turn})", got, values, EXACT)
        each = [np.stack(column) for column in zip(*[g for _, g in found], strict=True)]
        got = Jitted(vmap(self.derived), (), "numpy")(*[s.copy() for s in stacked])
        _compare("batch: gradients (numpy)", got, each, EXACT)


# ---- derivatives of derivatives, along v


def forward_over_reverse(f: Any, v: Any) -> Any:
    derived = grad(f, argnums=VARYING)
    return lambda a, b, x, *whole: jvp(lambda *q: derived(*q, *whole), (a, b, x), v)[1]


def reverse_over_forward(f: Any, v: Any) -> Any:
    def along(a: Any, b: Any, x: Any, *whole: Any) -> Any:
        return jvp(lambda *q: f(*q, *whole), (a, b, x), v)[1]

    return grad(along, argnums=VARYING)


def reverse_over_reverse(f: Any, v: Any) -> Any:
    derived = grad(f, argnums=VARYING)

    def along(*args: Any) -> Any:
        return sum(np.sum(g * d) for g, d in zip(derived(*args), v, strict=True))

    return grad(along, argnums=VARYING)


def failure(p: Written, backend: str = "native", only: str | None = None) -> str | None:
    """Why the check fails, or None. What is no program cannot fail."""
    try:
        f = p.function()
        if differences(f, p) is None:
            return None
    except Exception:
        return None
    try:
        check_function(f, p.args, p.seed, backend, only)
    except CheckError as error:
        return str(error)
    except RefusedError as error:
        refused[str(error)] += 1
    return None


def explain(seed: int, size: int = 6, backend: str = "native") -> str | None:
    """The failure of a seed, made small and printed to be run; None if there is none."""
    p = written(seed, size)
    found = failure(p, backend)
    if found is None:
        return None
    kind, name = found.partition("\n")[0][:50], found.partition(":")[0]
    small = shrink(p, lambda q: (failure(q, backend, name) or "").startswith(kind))
    return f"# seed {seed}: {failure(small, backend, name)}\n{small}"


def main(count: int, first: int = 0) -> int:
    return search(lambda seed: explain(seed, size=12), count, first, "structured programs")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
