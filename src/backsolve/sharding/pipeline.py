"""Pipeline: equal layers in stages, one after the other, through which parts of a batch pass (GPipe).

Stages are an axis: weights are stacked along it, a round runs all stages at once (`vmap`), each on the part
that it has, and hands each result to the next stage. So the schedule is a Program like any other. Split along
the axis of stages, each device has one; what is handed on becomes a message between neighbours; and the
derivative, which runs the rounds backwards, is split likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..api import stop_gradient, vmap
from ..control import scan
from ..errors import ShapeError, StructureError
from ..nn.module import Module
from ..numpy._register import array, dtype_of, shape_of
from .rules import Axes, ByPattern


class Pipeline(Module):
    """Equal layers, each of which takes and gives arrays of one shape, in `stages` of as many layers each.

    A batch passes in `parts`: of parts + stages − 1 rounds, stages − 1 go to filling and draining. With
    `shard=bs.sharding.stages()` each stage has its own device along the mesh's axis "stage".

    >>> import numpy as np, backsolve as bs
    >>> layers = [bs.nn.Linear(3, 3) for _ in range(4)]
    >>> x = np.ones((6, 3), np.float32)
    >>> y = bs.sharding.Pipeline(layers, stages=2, parts=3)(x)
    >>> bool(np.allclose(y, bs.nn.Sequential(*layers)(x), atol=1e-6))
    True
    """

    def __init__(self, layers: Sequence[Module], stages: int, parts: int):
        layers = _checked(layers, stages, parts)
        taken = [tree.flatten(layer) for layer in layers]
        forms = {form for _, form in taken}
        shapes = {tuple((np.shape(a), np.dtype(a.dtype)) for a in arrays) for arrays, _ in taken}
        if len(forms) > 1 or len(shapes) > 1:
            raise StructureError(
                "the layers of a pipeline must be equal in all but the numbers of their arrays"
            )
        state = [name for layer in layers for name in layer.named_buffers()]
        if state:
            raise StructureError(
                f"the layers of a pipeline cannot hold state, such as {state[0]}: leave dropout and batch norm "
                "out"
            )
        self.layer, self.parts = taken[0][1], parts
        self.count, self.depth = stages, len(layers) // stages
        names = tree.dotted_names(self.layer)
        self.stages = {
            name: np.stack(of).reshape(stages, -1, *np.shape(of[0]))
            for name, of in zip(
                names, zip(*[arrays for arrays, _ in taken], strict=True), strict=True
            )
        }

    def __call__(self, x: Any) -> Any:
        x = array(x)
        if not shape_of(x):
            raise ShapeError(
                "a pipeline takes a batch, an array with an axis of examples; got a number"
            )
        rows, *shape = shape_of(x)
        if rows % self.parts:
            raise ShapeError(
                f"a batch of {rows} examples cannot pass a pipeline in {self.parts} equal parts: make it a "
                f"multiple of {self.parts}, or change the pipeline's parts"
            )
        dtype = np.result_type(dtype_of(x), *[dtype_of(w) for w in self.stages.values()])
        count, size = self.count, rows // self.parts
        # Neighbouring examples go into different parts, so that a batch split over devices stays where it is.
        waiting = np.swapaxes(np.reshape(x.astype(dtype), (size, self.parts, *shape)), 0, 1)
        # Stages that have nothing to do work on examples, for zeros may have infinite slopes.
        idle = stop_gradient(waiting[:1])
        waiting = np.concatenate([waiting, *[idle] * (count - 1)])

        def stage(weights: Any, h: Any) -> Any:
            for k in range(self.depth):
                h = self.layer.unflatten([w[k] for w in weights.values()])(h)
            if shape_of(h) != (size, *shape):
                raise ShapeError(
                    f"a layer of a pipeline makes {shape_of(h)} of {(size, *shape)}: it must keep the shape"
                )
            return h

        def one_round(held: Any, entering: Any) -> Any:
            made = vmap(stage)(self.stages, np.concatenate([entering[None], held[:-1]]))
            return made, made[-1]

        held = np.broadcast_to(idle, (count, size, *shape))
        _, left = scan(one_round, held, waiting)
        return np.reshape(np.swapaxes(left[count - 1 :], 0, 1), (rows, *shape))


def _checked(layers: Any, stages: Any, parts: Any) -> list[Module]:
    for name, n in (("stages", stages), ("parts", parts)):
        if type(n) is not int or n < 1:
            raise ValueError(f"{name}={n!r} must be a whole number from 1 on")
    if not isinstance(layers, Iterable) or not all(isinstance(x, Module) for x in layers):
        raise TypeError(f"the layers of a pipeline are a list of modules, got {layers!r}")
    found = list(layers)
    if not found or len(found) % stages:
        raise ValueError(
            f"{len(found)} layers cannot make {stages} equal stages: take a multiple of {stages} layers, or "
            "another number of stages"
        )
    return found


def stages(axis: str = "stage", also: Mapping[str, Axes] | None = None) -> ByPattern:
    """The layers of a Pipeline along an axis of the mesh, and `also` other arrays by patterns of names."""
    return ByPattern({"stages.*": (axis,), **(also or {})})
