"""Arrays that lie as others do: what an optimiser keeps for a parameter, its gradient, its new value.

Names tell: the same one inside of another argument or result. Optimisers of `bs.optim` keep `slots`, by numbers
of parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .rules import Axes, Leaf

_SLOT = re.compile(r"(?:^|\.)slots\.(\d+)\.")


def is_slot(leaf: Leaf) -> bool:
    """Whether an optimiser keeps this array for a parameter."""
    return _SLOT.search(leaf.name) is not None


def follow(
    leaves: Sequence[Leaf], split: Sequence[Axes | None], others: Mapping[Leaf, Axes | None]
) -> list[Axes | None]:
    """Axes of all leaves that have none yet, as of those `others` of the same shape that they belong to."""
    named = {f".{_inside(leaf.name)}": leaf for leaf in others if _inside(leaf.name)}
    groups: dict[str, list[Leaf]] = {}
    for leaf in others:
        groups.setdefault(leaf.name.removesuffix(_inside(leaf.name)), []).append(leaf)

    def found(leaf: Leaf) -> Axes | None:
        same = [n for n in named if f".{leaf.name}".endswith(n) and named[n].shape == leaf.shape]
        if same:
            return others[named[max(same, key=len)]]
        slot = _SLOT.search(leaf.name)
        if slot is None:
            return None
        k = int(slot[1])
        parameters = [group[k] for group in groups.values() if k < len(group)]
        kin = [p for p in [*parameters, *others] if p.shape == leaf.shape]
        return others[kin[0]] if kin else None

    return [found(leaf) if axes is None else axes for leaf, axes in zip(leaves, split, strict=True)]


def _inside(name: str) -> str:
    """A dotted name without that of its argument, and without `parameters`, a part of a training's state."""
    return name.partition(".")[2].removeprefix("parameters.")
