"""Calls of functions of networks, and PyTorch's figures for them.

A call names a function that both libraries have, the arrays it takes and the rest of its arguments.
`figures` asks one library for its value, its gradients and a second derivative; make_references.py keeps
PyTorch's in data/, and the tests compare.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"
FEW = 8  # numbers that are kept of an array


@dataclass(frozen=True)
class Draw:
    """How an array is drawn: normal numbers of a shape, unless `of` says otherwise."""

    shape: tuple[int, ...]
    of: Callable[[np.random.Generator, tuple[int, ...]], Any] | None = None
    varies: bool = True  # whether a derivative is asked for
    keyword: str | None = None  # passed by this name, behind all others

    def __call__(self, rng: np.random.Generator) -> Any:
        return rng.normal(size=self.shape) if self.of is None else self.of(rng, self.shape)


@dataclass(frozen=True)
class Call:
    """`name(*arrays, **options)`; a shape stands for normal numbers."""

    name: str
    arrays: Sequence[Any]
    options: dict[str, Any] = field(default_factory=dict)
    second: bool = True  # whether PyTorch has its second derivatives
    first: str | None = None  # what is applied to the first array, along its last axis

    @property
    def label(self) -> str:
        shapes = [d.shape if isinstance(d, Draw) else d for d in self.arrays]
        options = ", ".join(f"{k}={v!r}" for k, v in self.options.items())
        return f"{self.name}({', '.join(map(str, shapes))}{', ' if options else ''}{options})"

    @property
    def draws(self) -> list[Draw]:
        return [d if isinstance(d, Draw) else Draw(d) for d in self.arrays]

    def drawn(self) -> list[Any]:
        rng = np.random.default_rng(zlib.crc32(self.label.encode()))
        return [draw(rng) for draw in self.draws]

    def of(self, find: Callable[[str], Callable[..., Any]], arrays: Sequence[Any]) -> Any:
        """The function of one library, found by its name, on its arrays."""
        if self.first is not None:
            arrays = [find(self.first)(arrays[0], dim=-1), *arrays[1:]]
        names = [draw.keyword for draw in self.draws]
        named = {k: a for k, a in zip(names, arrays, strict=True) if k is not None}
        plain = [a for k, a in zip(names, arrays, strict=True) if k is None]
        return find(self.name)(*plain, **named, **self.options)

    @property
    def varying(self) -> tuple[int, ...]:
        return tuple(k for k, draw in enumerate(self.draws) if draw.varies)


def combined(name: str, arrays: list[Any], **options: list[Any]) -> list[Call]:
    """One call for each combination of options."""
    names = list(options)
    return [
        Call(name, arrays, dict(zip(names, values, strict=True)))
        for values in product(*options.values())
    ]


def integers(high: int, *shape: int, low: int = 0) -> Draw:
    return Draw(shape, lambda rng, s: rng.integers(low, high, s), varies=False)


def positive(*shape: int) -> Draw:
    return Draw(shape, lambda rng, s: rng.uniform(0.3, 2, s))


def shares(*shape: int) -> Draw:
    """Numbers between 0 and 1."""
    return Draw(shape, lambda rng, s: rng.uniform(0.05, 0.95, s))


def tied(*shape: int) -> Draw:
    """Few different numbers, so that some are equal."""
    return Draw(shape, lambda rng, s: rng.integers(-3, 4, s).astype(float))


def signs(*shape: int) -> Draw:
    return Draw(shape, lambda rng, s: rng.choice([-1.0, 1.0], s), varies=False)


def weights_of(shape: tuple[int, ...], k: int = 0) -> Any:
    """Fixed numbers that turn a result into a single one."""
    return np.random.default_rng(100 + k).normal(size=shape)


def sketch(a: Any) -> Any:
    """All numbers of a small array, or few that depend on all of a large one."""
    flat = np.asarray(a, float).ravel()
    if flat.size <= FEW:
        return flat
    return np.random.default_rng(flat.size).normal(size=(FEW, flat.size)) @ flat / flat.size**0.5


def flattened(result: Any) -> list[Any]:
    """The arrays of a result."""
    return list(result) if isinstance(result, tuple | list) else [result]


def save(group: str, figures: dict[str, Any]) -> Path:
    """All figures of a group in one file: names, where each ends, and the numbers."""
    path = DATA / f"{group}.npz"
    ends = np.cumsum([f.size for f in figures.values()])
    numbers = np.concatenate(list(figures.values()))
    np.savez_compressed(path, names=np.array(list(figures)), ends=ends, numbers=numbers)
    return path


def load(group: str) -> dict[str, dict[str, Any]]:
    """By label of the call: its figures by name."""
    with np.load(DATA / f"{group}.npz") as kept:
        parts = np.split(kept["numbers"], kept["ends"][:-1])
        found: dict[str, dict[str, Any]] = {}
        for name, figure in zip(kept["names"], parts, strict=True):
            label, _, which = str(name).rpartition("|")
            found.setdefault(label, {})[which] = figure
    return found
