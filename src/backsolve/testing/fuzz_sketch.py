"""A random program as data: inputs, lines of NumPy code, and which of the values are returned.

It is made by a seed, line by line on concrete numbers, so that types fit and numbers stay tame.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import fuzz_matrices, fuzz_shapes, fuzz_steps
from .fuzz_steps import Pool

MAKERS = {**fuzz_steps.MAKERS, **fuzz_shapes.MAKERS, **fuzz_matrices.MAKERS}
NAMES = {**fuzz_steps.NAMES, **fuzz_shapes.NAMES, **fuzz_matrices.NAMES}
DTYPES = ["float64"] * 14 + ["float32"] * 12 + ["int64"] * 4 + ["int32"] * 2 + ["bool"] * 2
DTYPES += ["complex128", "complex64", "int8", "uint8", "int16", "uint32", "uint64", "float16"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (4,), (2, 3), (3, 1), (1, 4), (4, 4), (2, 3, 4)]
SHAPES += [
    (3,),
    (2, 3),
    (4, 3),
    (0,),
    (2, 0),
    (2, 1, 3),
    (2, 1, 2, 3),
    (17,),
    (5, 9),
    (70,),
]
LARGEST, MOST = 20.0, 300  # of a value; entries of an array


@dataclass(frozen=True)
class Step:
    """One line: code with {0}, {1} … in the place of the values `args` (inputs come first)."""

    code: str
    args: tuple[int, ...]


@dataclass(frozen=True)
class Sketch:
    seed: int
    inputs: tuple[Any, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def source(self) -> str:
        """The program as Python code."""
        n = len(self.inputs)
        name = lambda k: f"x{k}" if k < n else f"v{k - n}"
        lines = [f"def f({', '.join(map(name, range(n)))}):"]
        for k, step in enumerate(self.steps):
            lines.append(f"    {name(n + k)} = {step.code.format(*map(name, step.args))}")
        lines.append(f"    return {', '.join(map(name, self.outputs))},")
        return "\n".join(lines)

    def function(self) -> Callable[..., tuple[Any, ...]]:
        space: dict[str, Any] = {**NAMES, "np": np, "dtype": np.dtype}
        exec(self.source(), space)
        return space["f"]

    def __str__(self) -> str:
        """Runnable as it is."""
        args = [_literal(x) for x in self.inputs]
        return "\n".join(
            [
                "import numpy as np",
                "from numpy import dtype",
                "from backsolve.operators.windows import Cut",
                "from backsolve.primitive import P",
                "from backsolve.testing.fuzz import check_function",
                "from backsolve.testing.fuzz_shapes import put",
                "from backsolve.testing.fuzz_steps import inside",
                "",
                self.source(),
                "",
                f"check_function(f, [{', '.join(args)}], seed={self.seed})",
            ]
        )


def _literal(x: Any) -> str:
    if not x.size:
        return f"np.zeros({x.shape}, np.{x.dtype})"
    return f"np.array({x.tolist()}, np.{x.dtype})"


# ---- making


def sketch(seed: int, longest: int = 6) -> Sketch:
    """The random program of a seed, of up to `longest` lines."""
    rng = np.random.default_rng(seed)
    inputs = tuple(_input(rng) for _ in range(int(rng.integers(1, 4))))
    if not any(x.dtype.kind == "f" for x in inputs):
        inputs = (*inputs, np.asarray(rng.uniform(-1, 1, (3,))))
    values, steps = list(inputs), []
    makers, weights = list(MAKERS), np.array(list(MAKERS.values()))
    wanted = int(rng.integers(1, longest + 1))
    for _ in range(wanted * 6):
        maker = makers[int(rng.choice(len(makers), p=weights / weights.sum()))]
        made = maker(Pool(rng, values))
        if made is None:
            continue
        step = Step(*made)
        y = value(step, values)
        if y is not None:
            values.append(y)
            steps.append(step)
        if len(steps) == wanted:
            break
    used = {k for step in steps for k in step.args}
    loose = [k for k in range(len(inputs), len(values)) if k not in used]
    outputs = loose[:3] or [len(values) - 1]
    if rng.random() < 0.2:
        outputs.append(int(rng.integers(len(values))))
    return Sketch(seed, inputs, tuple(steps), tuple(outputs))


def _input(rng: np.random.Generator) -> Any:
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    dtype = DTYPES[int(rng.integers(len(DTYPES)))]
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.startswith("int"):
        return np.asarray(rng.integers(-3, 4, shape)).astype(dtype)
    if dtype.startswith("uint"):
        return np.asarray(rng.integers(0, 4, shape)).astype(dtype)
    x = np.asarray(np.round(rng.uniform(-1.5, 1.5, shape), 3))
    if dtype.startswith("complex"):
        x = x + 1j * np.round(rng.uniform(-1, 1, shape), 3)
    return np.asarray(x).astype(dtype)


def value(step: Step, values: Sequence[Any]) -> Any:
    """What a line computes, if it runs and its result is tame."""
    names = [f"a{k}" for k in range(len(step.args))]
    space = {**NAMES, "np": np, "dtype": np.dtype}
    space.update(zip(names, [values[k] for k in step.args], strict=True))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            y = np.asarray(eval(step.code.format(*names), space))
    except Exception:  # NumPy refuses it for these dtypes or shapes: not a program
        return None
    if y.dtype.kind not in "fcibu":
        return None
    if y.size > MOST or y.ndim > 4 or not np.isfinite(y).all():
        return None
    return y if not y.size or np.abs(y).max() <= LARGEST else None
