"""What a rule does to a model, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..nn.module import Module
from .devices import Mesh, aligned, shown
from .rules import Axes, Leaf, as_rule, bytes_per_device, checked


@dataclass(frozen=True)
class Row:
    """A parameter: how its axes are split, and what one device holds of it."""

    name: str
    shape: tuple[int, ...]
    axes: Axes
    bytes_whole: int
    bytes_per_device: int


@dataclass(frozen=True)
class Description:
    """`print` it; `rows` has the numbers."""

    rows: tuple[Row, ...]
    sizes: Mapping[str, int]

    @property
    def bytes_whole(self) -> int:
        return sum(row.bytes_whole for row in self.rows)

    @property
    def bytes_per_device(self) -> int:
        return sum(row.bytes_per_device for row in self.rows)

    def __str__(self) -> str:
        table = [["parameter", "shape", "split along", "per device", "of"]]
        for row in self.rows:
            shape = " × ".join(map(str, row.shape)) or "number"
            table.append(
                [
                    row.name,
                    shape,
                    _split(row),
                    _bytes(row.bytes_per_device),
                    _bytes(row.bytes_whole),
                ]
            )
        total = f"all, on {shown(self.sizes)}"
        table.append([total, "", "", _bytes(self.bytes_per_device), _bytes(self.bytes_whole)])
        return "\n".join(aligned(table))

    __repr__ = __str__


def describe(model: Any, mesh: Mesh | Mapping[str, int], shard: Any = None) -> Description:
    """The parameters of a model: how a rule splits them, and what each device of a mesh holds of them.

    A mesh may be one on paper, its sizes by name.

    >>> import backsolve as bs
    >>> bs.sharding.describe(bs.nn.Linear(64, 32), {"data": 8}, bs.sharding.fully())
    parameter      shape    split along   per device  of
    weight         32 × 64  whole × data  1.0 KiB     8.0 KiB
    bias           32       whole         128 B       128 B
    all, on data=8                        1.1 KiB     8.1 KiB
    """
    sizes = mesh.sizes if isinstance(mesh, Mesh) else dict(mesh)
    arrays = parameters_of(model)
    leaves = [Leaf(name, np.shape(a)) for name, a in arrays.items()]
    rule = as_rule(shard)
    rows = []
    for leaf, axes in zip(leaves, rule.axes(leaves, sizes), strict=True):
        axes = checked(axes or (), leaf, sizes)
        itemsize = np.dtype(arrays[leaf.name].dtype).itemsize
        whole, part = (bytes_per_device(leaf, itemsize, a, sizes) for a in ((), axes))
        rows.append(Row(*leaf, axes, whole, part))
    return Description(tuple(rows), sizes)


def parameters_of(model: Any) -> dict[str, Any]:
    """The arrays of a model or of another container, by dotted names."""
    if isinstance(model, Module):
        return model.named_parameters()
    leaves, form = tree.flatten(model)
    return dict(zip(tree.dotted_names(form), leaves, strict=True))


def _split(row: Row) -> str:
    axes = [a for a in (*row.axes, *[None] * (len(row.shape) - len(row.axes)))]
    if not any(axes):
        return "whole"
    return " × ".join(
        "whole" if a is None else a if isinstance(a, str) else "+".join(a) for a in axes
    )


def _bytes(n: int) -> str:
    if n < 1024:
        return f"{n} B"
    power = min((n.bit_length() - 1) // 10, 4)
    return f"{n / 1024**power:.1f} {'KMGT'[power - 1]}iB"
