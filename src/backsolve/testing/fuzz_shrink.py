"""From a random program that fails to a small one that still does.

Outputs and lines are dropped, lines are replaced by their arguments or by inputs, axes are cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .fuzz_sketch import Sketch, Step, value


def shrink(s: Sketch, fails: Callable[[Sketch], Any]) -> Sketch:
    """The smallest sketch on the way down that still fails."""
    while True:
        for smaller in _smaller(s):
            if fails(smaller):
                s = smaller
                break
        else:
            return s


def _smaller(s: Sketch) -> Iterator[Sketch]:
    for k in range(len(s.outputs)):
        if len(s.outputs) > 1:
            yield _pruned(replace(s, outputs=(*s.outputs[:k], *s.outputs[k + 1 :])))
    n = len(s.inputs)
    for k in range(len(s.steps)):  # only what leads to one value
        if s.outputs != (n + k,):
            yield _pruned(replace(s, outputs=(n + k,)))
    for k in reversed(range(len(s.steps))):  # an earlier value in the place of this one
        yield from (_pruned(_renamed(s, n + k, a)) for a in dict.fromkeys(s.steps[k].args))
    for k in reversed(range(len(s.steps))):  # an input in the place of this step
        smaller = _as_input(s, k)
        if smaller is not None:
            yield _pruned(smaller)
    for k, x in enumerate(s.inputs):
        for axis in range(x.ndim):
            for length in {1, x.shape[axis] // 2, x.shape[axis] - 1}:
                if 0 < length < x.shape[axis]:
                    part = x[(slice(None),) * axis + (slice(length),)]
                    yield replace(s, inputs=(*s.inputs[:k], part, *s.inputs[k + 1 :]))
    shapes = {len(x.shape): x.shape for x in s.inputs}
    for shape in shapes.values():  # all inputs of a shape at once: element-wise programs
        for axis in range(len(shape)):
            if shape[axis] > 1:
                key = (slice(None),) * axis + (slice(1),)
                cut = tuple(x[key] if x.shape == shape else x for x in s.inputs)
                yield replace(s, inputs=cut)


def _renamed(s: Sketch, old: int, new: int) -> Sketch:
    swap = lambda places: tuple(new if p == old else p for p in places)
    steps = tuple(replace(step, args=swap(step.args)) for step in s.steps)
    return replace(s, steps=steps, outputs=swap(s.outputs))


def _as_input(s: Sketch, k: int) -> Sketch | None:
    """Step k's value given as one more input, if all before it computes."""
    n = len(s.inputs)
    values = list(s.inputs)
    for step in s.steps[: k + 1]:
        y = value(step, values)
        if y is None:
            return None
        values.append(y)
    up = lambda p: p if p < n else p + 1
    move = lambda places: tuple(n if p == n + k else up(p) for p in places)
    steps = tuple(Step(step.code, move(step.args)) for step in s.steps)
    return Sketch(s.seed, (*s.inputs, values[-1]), steps, move(s.outputs))


def _pruned(s: Sketch) -> Sketch:
    """Without the steps and inputs that no output rests on."""
    n = len(s.inputs)
    needed = set(s.outputs)
    for k in reversed(range(len(s.steps))):
        if n + k in needed:
            used = {int(i) for i in re.findall(r"\{(\d)\}", s.steps[k].code)}
            needed.update(s.steps[k].args[i] for i in used)
    kept = [k for k in range(n + len(s.steps)) if k in needed]
    place = {old: new for new, old in enumerate(kept)}
    steps = [
        Step(s.steps[k - n].code, tuple(place.get(a, 0) for a in s.steps[k - n].args))
        for k in kept
        if k >= n
    ]
    inputs = tuple(s.inputs[k] for k in kept if k < n)
    return Sketch(s.seed, inputs, tuple(steps), tuple(place[k] for k in s.outputs))
