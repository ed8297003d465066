"""How `bs.fit` lies on a mesh: a rule for parameters, which what the optimiser keeps follows, and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ShapeError
from .devices import Mesh
from .ready import Ready, data
from .rules import Axes, Leaf, Rule, as_rule


class Training(Rule):
    """A rule for what is called `batch`, beside one for all else: examples are split along the first axis.

    Batches of `full` examples must divide; a shorter one, the last of an epoch, lies whole where it does not.
    So do all where `full` is None.
    """

    def __init__(self, rule: Rule, full: int | None = None):
        self.rule, self.full, self.batch_axis = rule, full, rule.batch_axis

    def is_batch(self, leaf: Leaf) -> bool:
        return leaf.name.partition(".")[0] == "batch"

    def axes(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        ready = isinstance(self.rule, Ready)
        asked = [leaf for leaf in leaves if not (ready and self.is_batch(leaf))]
        found = dict(zip(asked, self.rule.axes(asked, sizes), strict=True))
        return [
            self._of_batch(leaf, sizes)
            if found.get(leaf) is None and self.is_batch(leaf)
            else found[leaf]
            for leaf in leaves
        ]

    def results(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        return [None] * len(leaves)

    def used(self, axes: Axes) -> Axes | None:
        return self.rule.used(axes)

    def check(self, arguments: Sequence[Leaf], results: Sequence[Leaf]) -> None:
        if self.full is not None and not isinstance(self.rule, Ready):
            self.rule.check(arguments, results)

    def _of_batch(self, leaf: Leaf, sizes: Mapping[str, int]) -> Axes:
        parts = sizes.get(self.batch_axis, 1)
        if parts == 1 or not leaf.shape:
            return ()
        if leaf.shape[0] % parts == 0:
            return (self.batch_axis,)
        if self.full is None or leaf.shape[0] < self.full:
            return ()
        raise _not_equal(leaf.shape[0], parts, self.batch_axis)


class Devices:
    """What `bs.fit` asks: settings of `jit` for its `step` and for its `test`, into how many `parts` a batch is
    split. Batches have `full` examples, 0 if nobody knows."""

    def __init__(self, mesh: Mesh, shard: Any = None, full: int = 0):
        if not isinstance(mesh, Mesh):
            raise TypeError(f"mesh is one such as bs.mesh(data=-1), got {mesh!r}")
        rule = data() if shard is None else as_rule(shard)
        self.mesh = mesh
        self.parts = mesh.sizes.get(rule.batch_axis, 1)
        if full % self.parts:
            raise _not_equal(full, self.parts, rule.batch_axis)
        self.step: dict[str, Any] = {"mesh": mesh, "shard": Training(rule, full)}
        self.test: dict[str, Any] = {"mesh": mesh, "shard": Training(rule)}

    def shardings(self, shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
        """How arguments of the step, by dotted names, lie on the mesh."""
        placed = self.mesh.placement(self.test["shard"]).of(list(shapes.items()), [])
        return [placed.argument(k) or placed.whole for k in range(len(shapes))]

    @property
    def of_batches(self) -> Any:
        """How batches lie on the mesh."""
        rule = self.step["shard"]
        axes = (rule.batch_axis,) if rule.batch_axis in self.mesh.sizes else ()
        return self.mesh.sharding(axes)


def _not_equal(examples: int, parts: int, axis: str) -> ShapeError:
    return ShapeError(
        f"a batch of {examples} examples cannot be split into {parts} equal parts, the mesh's size along "
        f"{axis!r}: choose a multiple of {parts} as batch_size, or make the mesh smaller",
        at="",
    )
