"""Ready rules: batches alone, dense layers by columns and rows, everything.

They split what divides and leave whole what does not; `describe` shows which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..errors import StructureError
from .rules import Axes, Leaf, Rule, fits

# By the names that layers have here and in PyTorch. Weights are (outputs, inputs); those of GPT-2 are not.
_COLUMNS = (
    "in_proj_weight", "[qkv]_proj_weight", "[qkv]_proj.weight", "query.weight", "key.weight", "value.weight",
    "linear1.weight", "fc1.weight", "gate_proj.weight", "up_proj.weight",
)  # fmt: skip
_ROWS = ("out_proj.weight", "o_proj.weight", "linear2.weight", "fc2.weight", "down_proj.weight")
_COLUMNS_LAST = ("c_attn.weight", "c_fc.weight")
_ROWS_LAST = ("c_proj.weight",)
_TABLES = ("*emb*.weight", "wte.weight", "wpe.weight")


class Ready(Rule):
    """Arguments that hold examples are split along the first axis; all others as `parameters` says."""

    def __init__(self, *batch: str, batch_axis: str = "data"):
        self.batch = batch or ("batch",)
        self.batch_axis = batch_axis

    def is_batch(self, leaf: Leaf) -> bool:
        return any(fits(pattern, leaf.name.split(".")[0]) for pattern in self.batch)

    def axes(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        rest = iter(self.parameters([leaf for leaf in leaves if not self.is_batch(leaf)], sizes))
        return [
            self._of_batch(leaf, sizes) if self.is_batch(leaf) else next(rest) for leaf in leaves
        ]

    def results(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> list[Axes | None]:
        return [None] * len(leaves)

    def _of_batch(self, leaf: Leaf, sizes: Mapping[str, int]) -> Axes:
        return (self.batch_axis,) if leaf.shape and self.batch_axis in sizes else ()

    def parameters(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> Sequence[Axes | None]:
        raise NotImplementedError


class _Data(Ready):
    def parameters(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> Sequence[Axes | None]:
        _check_axis("data", self.batch_axis, sizes)
        return [None] * len(leaves)

    def check(self, arguments: Sequence[Leaf], results: Sequence[Leaf]) -> None:
        if arguments and not any(map(self.is_batch, arguments)):
            names = ", ".join(dict.fromkeys(leaf.name.split(".")[0] for leaf in arguments))
            raise StructureError(
                f"data() splits {', '.join(self.batch)}, but the arguments are {names}: name those that hold "
                'examples, as in bs.sharding.data("x", "y")'
            )


class _Tensor(Ready):
    def __init__(self, *batch: str, axis: str, batch_axis: str):
        super().__init__(*batch, batch_axis=batch_axis)
        self.axis = axis

    def parameters(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> Sequence[Axes | None]:
        _check_axis("tensor", self.axis, sizes)
        found: dict[str, Axes] = {}
        dense: dict[str, int] = {}  # layers so far, by what holds them
        for leaf in leaves:
            if len(leaf.shape) == 2:
                axes = self._matrix(leaf, sizes[self.axis], dense)
                found |= {} if axes is None else {leaf.name: axes}
        for leaf in leaves:
            if len(leaf.shape) == 1 and leaf.name.endswith("bias"):
                found[leaf.name] = self._bias(leaf, found)
        return [found.get(leaf.name) for leaf in leaves]

    def _matrix(self, leaf: Leaf, parts: int, dense: dict[str, int]) -> Axes | None:
        columns, rows = (self.axis, None), (None, self.axis)
        if _is(leaf, _TABLES):
            wishes = [columns, rows]
        elif _is(leaf, _COLUMNS) or _is(leaf, _ROWS_LAST):
            wishes = [columns]
        elif _is(leaf, _ROWS) or _is(leaf, _COLUMNS_LAST):
            wishes = [rows]
        elif leaf.name.split(".")[-1] == "weight":
            holder = ".".join(leaf.name.split(".")[:-2])
            dense[holder] = dense.get(holder, -1) + 1
            wishes = [rows if dense[holder] % 2 else columns]
        else:
            return None
        return next((w for w in wishes if leaf.shape[w.index(self.axis)] % parts == 0), ())

    def _bias(self, leaf: Leaf, found: Mapping[str, Axes]) -> Axes:
        """As the outputs of its layer are split."""
        of = leaf.name[: -len("bias")] + "weight"
        axes = found.get(of, ())
        outputs = axes[1:] if any(fits(p, of) for p in _COLUMNS_LAST + _ROWS_LAST) else axes[:1]
        return () if outputs == (None,) else outputs


class _Fully(Ready):
    def __init__(self, *batch: str, axis: str, within: Rule | None, least: int):
        super().__init__(*batch, batch_axis=axis)
        self.axis, self.within, self.least = axis, within, least

    def parameters(self, leaves: Sequence[Leaf], sizes: Mapping[str, int]) -> Sequence[Axes | None]:
        _check_axis("fully", self.axis, sizes)
        before = self.within.axes(leaves, sizes) if self.within else [()] * len(leaves)
        return [
            self._of(leaf, axes or (), sizes[self.axis])
            for leaf, axes in zip(leaves, before, strict=True)
        ]

    def used(self, axes: Axes) -> Axes | None:
        """Gathered along the axis of examples, lest XLA gather these."""
        return tuple(None if a == self.axis else a for a in axes) if self.axis in axes else None

    def _of(self, leaf: Leaf, axes: Axes, parts: int) -> Axes:
        """Along the longest axis that is whole as yet and divides."""
        axes = (*axes, *[None] * (len(leaf.shape) - len(axes)))
        free = [k for k, n in enumerate(leaf.shape) if axes[k] is None and n and n % parts == 0]
        if not free or math.prod(leaf.shape) < self.least:
            return axes
        longest = max(free, key=lambda k: leaf.shape[k])
        return (*axes[:longest], self.axis, *axes[longest + 1 :])


def _check_axis(rule: str, axis: str, sizes: Mapping[str, int]) -> None:
    if axis not in sizes:
        raise ValueError(
            f"{rule}() splits along {axis!r}, and the mesh has {list(sizes)}: name an axis of the mesh so, or "
            f"give the rule another, {rule}(axis={next(iter(sizes))!r})"
        )


def _is(leaf: Leaf, patterns: Sequence[str]) -> bool:
    return any(fits(p, leaf.name) for p in patterns)


def data(*batch: str, axis: str = "data") -> Rule:
    """Each device has a part of the examples and all parameters; gradients are summed over devices.

    `batch` names the arguments that hold examples along their first axis; in `bs.fit` it is known.
    """
    return _Data(*batch, batch_axis=axis)


def tensor(*batch: str, axis: str = "model", batch_axis: str = "data") -> Rule:
    """Dense layers are split along `axis`, as Megatron does: one by its outputs, the next by its inputs, so
    that two need one sum; the heads of attention likewise, tables by their rows. Examples are split along
    `batch_axis`, where the mesh has it.

    Layers are told apart by the names that PyTorch's, Hugging Face's and our own have; others take turns.
    """
    return _Tensor(*batch, axis=axis, batch_axis=batch_axis)


def fully(*batch: str, axis: str = "data", within: Rule | None = None, least: int = 1024) -> Rule:
    """Parameters and what the optimiser keeps are split along `axis`, as examples are (FSDP, ZeRO-3): each
    device holds a part, and gathers what a layer needs when it needs it.

    Arrays of fewer than `least` entries stay whole. `within=bs.sharding.tensor()` splits along both axes.
    """
    return _Fully(*batch, axis=axis, within=within, least=least)
