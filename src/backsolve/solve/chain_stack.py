"""A chain solved for a stack of seeds at once: for dense Jacobians, whose solve is staged on one seed.

Staged step by step, a chain would be written out whole, and stored whole. Instead its solve is one equation of
the seed; on a stack of them each step that the schedule records is staged by itself, batched, and forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..batch import evaluate_batched
from ..ir import Type
from ..primitive import Primitive
from ..trace import stage

# (seeds, how many in a stack or None) -> images; None stands for a zero in both
Solve = Callable[[Sequence[Any], int | None], Sequence[Any]]


class _Current(threading.local):
    is_on = False


_current = _Current()


def seed_is_stacked() -> bool:
    """Whether a solve is being staged to be run on a stack of bare seeds, and for nothing else."""
    return _current.is_on


@contextmanager
def for_a_stack(seeds: Sequence[Any]) -> Iterator[None]:
    before, _current.is_on = _current.is_on, all(isinstance(s, np.ndarray) for s in seeds)
    try:
        yield
    finally:
        _current.is_on = before


@dataclass(frozen=True, eq=False)
class _Call:
    solve: Solve
    entering: tuple[int, ...]  # which of the seeds there are
    seeds: int
    types: tuple[Type, ...]  # of the images
    size: int | None = None

    @property
    def type(self) -> Type:
        """All images as one vector."""
        length = sum(prod(t.shape) for t in self.types)
        shape = (length,) if self.size is None else (self.size, length)
        return Type(shape, self.types[0].dtype)

    def run(self, *given: Any) -> Any:
        seeds: list[Any] = [None] * self.seeds
        for k, seed in zip(self.entering, given, strict=True):
            seeds[k] = seed
        lead = () if self.size is None else (self.size,)
        images = []
        for y, t in zip(self.solve(seeds, self.size), self.types, strict=True):
            shape = (*lead, prod(t.shape))
            images.append(np.zeros(shape, t.dtype) if y is None else np.reshape(y, shape))
        return np.concatenate(images, axis=-1)


def _batched(
    prim: Primitive, size: int, args: Sequence[Any], batched: Sequence[bool], params: Any
) -> Any:
    one: _Call = params["call"]
    stacks = [
        a if flag else np.broadcast_to(a, (size, *np.shape(a)))
        for a, flag in zip(args, batched, strict=True)
    ]
    return prim(*stacks, call=_Call(one.solve, one.entering, one.seeds, one.types, size))


SOLVE = Primitive(
    "chain",
    lambda *given, call: call.run(*given),
    type=lambda *types, call: call.type,
    batch=_batched,
)


def staged_solve(solve: Solve, seeds: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """The images of staged seeds, by one equation. All types have one dtype."""
    entering = tuple(k for k, s in enumerate(seeds) if s is not None)
    call = _Call(solve, entering, len(seeds), tuple(types))
    whole = SOLVE(*[seeds[k] for k in entering], call=call)
    ends = np.cumsum([prod(t.shape) for t in types])
    return [
        np.reshape(whole[end - prod(t.shape) : end], t.shape)
        for end, t in zip(ends, types, strict=True)
    ]


def over_stack(
    solve: Callable[[Sequence[Any]], Sequence[Any]], seeds: Sequence[Any], size: int | None
) -> list[Any]:
    """A solve of arrays, or of stacks of `size` arrays."""
    if size is None:
        return list(solve(seeds))
    given = [k for k, s in enumerate(seeds) if s is not None]
    present: list[bool] = []

    def run(*staged: Any) -> list[Any]:
        spread = dict(zip(given, staged, strict=True))
        found = solve([spread.get(k) for k in range(len(seeds))])
        present[:] = [y is not None for y in found]
        return [y for y in found if y is not None]

    stacks = [np.asarray(seeds[k]) for k in given]
    program, _ = stage(run, [Type(s.shape[1:], s.dtype) for s in stacks], lasting=True)
    images = iter(evaluate_batched(program, stacks, [True] * len(stacks), size))
    for v in program.inputs:  # a recorder and its variables are a cycle: what it captured goes now
        if v.recorder is not None:
            v.recorder.constants.clear()
            v.recorder.order.clear()
    return [next(images) if flag else None for flag in present]
