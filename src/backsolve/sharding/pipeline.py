"""Pipeline: equal layers in stages, one after the other, through which parts of a batch pass (GPipe).

Stages are an axis: weights are stacked along it, a round runs all stages at once (`vmap`), each on the part
that it has, and hands each result to the next stage. So the schedule is a Program like any other. Split along
the axis of stages, each device has one; what is handed on becomes a message between neighbours; and the
derivative, which runs the rounds backwards, is split likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..api import vmap
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
        if stages < 1 or parts < 1 or not layers or len(layers) % stages:
            raise ValueError(
                f"{len(layers)} layers cannot make {stages} equal stages for {parts} parts of a batch"
            )
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
        names = tree.dotted_names(self.layer)
        self.stages = {
            name: np.stack(of).reshape(stages, -1, *np.shape(of[0]))
            for name, of in zip(
                names, zip(*[arrays for arrays, _ in taken], strict=True), strict=True
            )
        }

    def __call__(self, x: Any) -> Any:
        x = array(x)
        rows, *shape = shape_of(x)
        if rows % self.parts:
            raise ShapeError(
                f"a batch of {rows} examples cannot pass a pipeline in {self.parts} equal parts"
            )
        count, depth = shape_of(next(iter(self.stages.values())))[:2]
        size = rows // self.parts
        # Neighbouring examples go into different parts, so that a batch split over devices stays where it is.
        waiting = np.swapaxes(np.reshape(x, (size, self.parts, *shape)), 0, 1)
        nothing = np.zeros((count - 1, size, *shape), dtype_of(x))
        waiting = np.concatenate([waiting, nothing])

        def stage(weights: Any, h: Any) -> Any:
            for k in range(depth):
                h = self.layer.unflatten([w[k] for w in weights.values()])(h)
            if shape_of(h) != (size, *shape):
                raise ShapeError(
                    f"a layer of a pipeline makes {shape_of(h)} of {(size, *shape)}: it must keep the shape"
                )
            return h

        def one_round(held: Any, entering: Any) -> Any:
            made = vmap(stage)(self.stages, np.concatenate([entering[None], held[:-1]]))
            return made, made[-1]

        held = np.zeros((count, size, *shape), dtype_of(x))
        _, left = scan(one_round, held, waiting)
        return np.reshape(np.swapaxes(left[count - 1 :], 0, 1), (rows, *shape))


def stages(axis: str = "stage", also: Mapping[str, Axes] | None = None) -> ByPattern:
    """The layers of a Pipeline along an axis of the mesh, and `also` other arrays by patterns of names."""
    return ByPattern({"stages.*": (axis,), **(also or {})})
