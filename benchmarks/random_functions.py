"""Random functions of one array, for the chooser: layers, stencils, gathers, running sums, products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Step = Callable[[Any], Any]
Case = tuple[str, Callable[[Any], Any], Any]
MOST = 600  # entries of an array


class Draw(np.random.Generator):
    """Random numbers, and sizes of arrays."""

    most = MOST

    def size(self) -> int:
        return int(np.exp(self.uniform(0, np.log(self.most))))


def random_cases(count: int, seed: int, most: int = MOST) -> Iterator[Case]:
    """The k-th one does not depend on how many there are."""
    for k in range(count):
        rng = Draw(np.random.PCG64([seed, k]))
        rng.most = most
        n = rng.size()
        steps = [_STEPS[rng.integers(len(_STEPS))] for _ in range(rng.integers(1, 6))]
        made, width = [], n
        for make in steps:
            step, width = make(rng, width)
            made.append(step)
        names = " ".join(make.__name__ for make in steps)
        yield f"{seed}/{k}: {n}→{width} {names}", _composed(made), rng.normal(size=n)


def _composed(steps: list[Step]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return f


# ---- steps: each takes the width and gives the next one


def wave(rng: Draw, n: int) -> tuple[Step, int]:
    functions = (np.sin, np.tanh, lambda x: np.exp(-x * x), lambda x: x / (1 + x * x))
    return functions[rng.integers(len(functions))], n


def layer(rng: Draw, n: int) -> tuple[Step, int]:
    W = rng.normal(size=(rng.size(), n)) / np.sqrt(n)
    return lambda x: np.tanh(W @ x), W.shape[0]


def residual(rng: Draw, n: int) -> tuple[Step, int]:
    W = rng.normal(size=(n, n)) / n
    return lambda x: x + np.sin(W @ x), n


def neighbours(rng: Draw, n: int) -> tuple[Step, int]:
    k = int(rng.integers(1, 4))
    return lambda x: x * np.roll(x, k) - 2 * np.roll(x, -1), n


def difference(rng: Draw, n: int) -> tuple[Step, int]:
    return (lambda x: (x[1:] - x[:-1]) * x[1:], n - 1) if n > 1 else (np.cos, n)


def gather(rng: Draw, n: int) -> tuple[Step, int]:
    at = rng.integers(n, size=min(rng.most, max(1, n * int(rng.integers(1, 4)) // 2)))
    return lambda x: x[at], at.size


def halves(rng: Draw, n: int) -> tuple[Step, int]:
    m = n // 2
    return (lambda x: x[:m] * np.sin(x[m : 2 * m]), m) if m else (np.exp, n)


def repeated(rng: Draw, n: int) -> tuple[Step, int]:
    if 2 * n > rng.most:
        return np.arctan, n
    return lambda x: np.concatenate([np.sin(x), x * x]), 2 * n


def running(rng: Draw, n: int) -> tuple[Step, int]:
    return lambda x: np.cumsum(x) / n, n


def softmax(rng: Draw, n: int) -> tuple[Step, int]:
    return lambda x: np.exp(x) / np.exp(x).sum(), n


def centred(rng: Draw, n: int) -> tuple[Step, int]:
    return lambda x: (x - x.mean()) ** 2, n


def blocks(rng: Draw, n: int) -> tuple[Step, int]:
    rows = next(r for r in (8, 5, 4, 3, 2, 1) if n % r == 0)
    W = rng.normal(size=(rows, rows))
    return lambda x: (W @ np.reshape(x, (rows, n // rows))).ravel(), n


def sums(rng: Draw, n: int) -> tuple[Step, int]:
    rows = next(r for r in (8, 5, 4, 3, 2, 1) if n % r == 0)
    return lambda x: np.reshape(x * x, (rows, n // rows)).sum(1), rows


_STEPS = (
    wave,
    wave,
    layer,
    layer,
    residual,
    neighbours,
    difference,
    gather,
    halves,
    repeated,
    running,
    softmax,
    centred,
    blocks,
    sums,
)
