"""What is wrong with a gradient: where NaN and infinities are born, where it fades or explodes, what is dead.

NaN and infinities are followed to the row that made them, entry by entry where rows are element-wise. What
depth does to a gradient is read off the weights of the layers, in the order in which they are used,
and off the rounds of loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from ..operators import Operator
from ..row import Row
from ..system_text import expression, name_of
from .numbers import norm
from .places import Group
from .scene import Scene

_SMALL, _LARGE = 1e-8, 1e8  # of the norm of an adjoint, beside that of the outputs' seeds
_LAYERS, _ROUNDS = 3, 8  # from so many on, depth is looked at
_FADES = 1e-3  # of a gradient, from the last layer to the first
_FLAT = 1e-3  # a slope that lets nothing pass
_ROUNDING = 1e-12
_MANY = 0.5  # of the entries or units, before anything is said
LIMITS = {
    "small": _SMALL, "large": _LARGE, "fades": _FADES, "flat": _FLAT, "rounding": _ROUNDING, "many": _MANY,
}  # fmt: skip
_WORDS = {"nan": "NaN", "inf": "an infinity"}


@dataclass(frozen=True)
class Finding:
    kind: str  # "nan", "inf", "vanishing", "exploding", "saturated", "dead", "zero" or "unused"
    row: Row
    text: str


def findings(scene: Scene) -> list[Finding]:
    """The worst first; what was bad before does not count again."""
    with np.errstate(all="ignore"):
        return [
            *_births_ahead(scene), *_births_back(scene), *_depth(scene), *_sizes(scene),
            *_activations(scene),
        ]  # fmt: skip


# ---- NaN and infinities


def _births_ahead(scene: Scene) -> list[Finding]:
    found = []
    for row in scene.nodes:
        value = scene.values.get(row)
        bad = _badness(value)
        if not bad:
            continue
        if row in scene.system.parameters:
            found.append(Finding(bad, row, f"{_WORDS[bad]} was given"))
            continue
        read = [scene.values.get(p) for p in row.parents if p.__class__ is Row]
        given = [c for c in scene.system.constants.get(row, ()) if c is not None]
        if any(_badness(c) for c in given) and not any(_badness(v) for v in read):
            found.append(Finding(bad, row, f"a constant that it reads holds {_WORDS[bad]}"))
        elif _is_born(row, bad, value, read):
            but = "holds infinities" if any(_badness(v) == "inf" for v in read) else "does not"
            text = f"its value holds {_WORDS[bad]}, and what it reads {but}"
            found.append(Finding(bad, row, text))
    return found


def _is_born(row: Row, bad: str, value: Any, read: Sequence[Any]) -> bool:
    """Whether some entry that is NaN, or not finite, comes from others that are not."""
    troubles = [np.asarray(v) for v in read if _is_as_bad(v, bad)]
    if not troubles:
        return True
    if not row.primitive.elementwise:
        return False
    is_bad = np.isnan if bad == "nan" else lambda a: ~np.isfinite(a)
    is_new = is_bad(np.asarray(value))
    for v in troubles:
        is_new = is_new & ~np.broadcast_to(is_bad(v), is_new.shape)
    return bool(is_new.any())


def _is_as_bad(a: Any, bad: str) -> bool:
    """NaN may come from an infinity; then it is born all the same."""
    found = _badness(a)
    return found == "nan" or (found == "inf" and bad == "inf")


def _births_back(scene: Scene) -> list[Finding]:
    found = []
    readers: dict[Row, list[Any]] = {}
    for e in scene.edges:
        readers.setdefault(e.read, []).append(e)
    for row in reversed(scene.nodes):
        bad = _badness(scene.adjoints.get(row))
        above = [e for e in readers.get(row, ()) if e.reader in scene.adjoints]
        if not bad or any(_is_as_bad(scene.adjoints[e.reader], bad) for e in above):
            continue
        is_finite = not any(_badness(scene.adjoints[e.reader]) for e in above)
        but = "do not" if is_finite else "hold infinities"
        text = f"its gradient holds {_WORDS[bad]}, and those it comes from {but}"
        makers = [e for e in above if len(above) == 1 or _makes_trouble(scene, e)]
        if makers:
            maker = makers[0].reader
            name = name_of(scene.system, maker)
            line = f", line {scene.line[maker][1]}" if maker in scene.line else ""
            text += f": the slope of {name} = {expression(scene.system, maker)}{line} makes it"
            others = [p for p in maker.parents if p.__class__ is Row and p is not row]
            for spoilt in [p for p in others if _badness(scene.values.get(p))][:1]:
                held = _WORDS[_badness(scene.values[spoilt])]
                text += f", for {name_of(scene.system, spoilt)} holds {held}"
        found.append(Finding(bad, row, text))
    return found


def _makes_trouble(scene: Scene, e: Any) -> bool:
    if e.reader.primitive.is_joint or e.reader.primitive.is_component:
        return False
    block: Operator = e.block
    return bool(_badness(block.pull(scene.adjoints[e.reader])))


# ---- depth


def _depth(scene: Scene) -> list[Finding]:
    layers = [f for chain in _layers(scene) for f in _fading(scene, chain)]
    return layers or [f for chain in _rounds(scene) for f in _fading(scene, chain)]


@dataclass(frozen=True)
class Chain:
    """Rows whose gradients are compared, in the order of the run."""

    rows: list[Row]
    way: str  # in words
    unit: str  # "layer" or "round"


def chains(scene: Scene) -> list[Chain]:
    return [*_layers(scene), *_rounds(scene)]


def _layers(scene: Scene) -> list[Chain]:
    """The weights, from the first that is used to the last."""
    place = {row: k for k, row in enumerate(scene.nodes)}
    first: dict[Row, int] = {}
    for e in scene.edges:
        first[e.read] = min(first.get(e.read, len(place)), place[e.reader])
    weights = sorted(
        [
            p
            for p in scene.system.parameters
            if len(p.shape) >= 2 and p in scene.adjoints and p in first
        ],
        key=first.__getitem__,
    )
    if len(weights) < _LAYERS:
        return []
    return [Chain(weights, f"from {name_of(scene.system, weights[-1])} back to it", "layer")]


def _rounds(scene: Scene) -> list[Chain]:
    """The last row of each round of a loop."""
    last: dict[Group, dict[Group, Row]] = {}
    for row in scene.system.rows:
        group = scene.home.get(row)
        while group is not None:
            if group.kind == "round" and group.parent is not None and row in scene.adjoints:
                last.setdefault(group.parent, {})[group] = row
            group = group.parent
    found = []
    for loop, rounds in last.items():
        rows = list(rounds.values())
        if len(rows) >= _ROUNDS and len({row.shape for row in rows}) == 1:
            found.append(Chain(rows, f"back through {len(rows)} rounds of {loop.name}", "round"))
    return found


def _fading(scene: Scene, chain: Chain) -> list[Finding]:
    sizes = [norm(scene.adjoints[row]) / sqrt(max(row.size, 1)) for row in chain.rows]
    a, b = sizes[0], sizes[-1]
    if not (0 < a < np.inf and 0 < b < np.inf):
        return []
    ratio = a / b
    each = ratio ** (1 / (len(sizes) - 1))
    text = (
        f"{chain.way} the gradient becomes {ratio:.1e} of what it was: "
        f"×{each:.2g} in each {chain.unit}"
    )
    # From many small steps, not from one: half of them go the same way.
    steps = [y / x for x, y in zip(sizes[1:], sizes, strict=False) if x > 0]
    if ratio < _FADES and sum(s < 0.9 for s in steps) >= len(steps) / 2:
        return [Finding("vanishing", chain.rows[0], text)]
    if ratio > 1 / _FADES and sum(s > 1.1 for s in steps) >= len(steps) / 2:
        return [Finding("exploding", chain.rows[0], text)]
    return []


def _sizes(scene: Scene) -> list[Finding]:
    """Gradients that are tiny or huge beside the seeds, where they become so; those that are zero or absent."""
    found = []
    readers: dict[Row, list[Row]] = {}
    for e in scene.edges:
        readers.setdefault(e.read, []).append(e.reader)
    reference = max([norm(s) for s in scene.seeds], default=1.0) or 1.0
    norms = {row: norm(adjoint) for row, adjoint in scene.adjoints.items()}
    for row in reversed(scene.nodes):
        adjoint = scene.adjoints.get(row)
        if adjoint is None:
            if row in scene.system.parameters:
                found.append(Finding("unused", row, "the result does not depend on it"))
            continue
        if _badness(adjoint) or not np.size(adjoint):
            continue
        above = [norms[r] for r in readers.get(row, ()) if r in norms]
        size, before = norms[row] / reference, max(above, default=reference) / reference
        if 0 < size < _ROUNDING * before and adds_up(row, readers[row]):
            text = "its gradient is zero up to rounding: what comes back to it cancels"
            found.append(Finding("zero", row, text))
        elif 0 < size < _SMALL <= before:
            found.append(Finding("vanishing", row, f"its gradient has the norm {size:.1e}"))
        elif size > _LARGE >= before:
            found.append(Finding("exploding", row, f"its gradient has the norm {size:.1e}"))
        elif size == 0 and before >= _SMALL and above:
            text = "its gradient is zero everywhere: nothing passes back"
            found.append(Finding("zero", row, text))
    return found


def adds_up(row: Row, readers: Sequence[Row]) -> bool:
    """Whether single entries of what comes back could be large."""
    return len(readers) > 1 or any(
        not r.primitive.elementwise or r.shape != row.shape for r in readers
    )


# ---- activations


def _activations(scene: Scene) -> list[Finding]:
    found = []
    for row in scene.system.rows:
        value, watched = scene.values.get(row), watched_for(scene, row)
        if watched is None or value is None or not np.size(value) or _badness(value):
            continue
        a = np.asarray(value)
        if isinstance(watched, str):
            share = float((_SLOPES[watched](a) < _FLAT).mean())
            if share >= _MANY:
                text = f"{share:.0%} of {_entries(a)} saturated: slopes below {_FLAT:g}"
                found.append(Finding("saturated", row, text))
            continue
        dead = (a == 0).all(tuple(k for k in range(a.ndim) if k != watched))
        if dead.mean() >= _MANY:
            text = f"{int(dead.sum())} of {dead.size} units give zero for everything that came in"
            found.append(Finding("dead", row, text))
    return found


def watched_for(scene: Scene, row: Row) -> str | int | None:
    """The function that may saturate, or the axis of the units that may be dead."""
    if row.primitive.name in _SLOPES:
        return row.primitive.name
    # Channels of images stand behind the batch, other units last.
    return (1 if len(row.shape) >= 3 else len(row.shape) - 1) if _is_relu(scene, row) else None


_SLOPES = {
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
    "erf": lambda y: 1 - np.abs(y),
}


def _entries(a: Any) -> str:
    return "its one entry is" if a.size == 1 else f"its {a.size:,} entries are"


def _is_relu(scene: Scene, row: Row) -> bool:
    if row.primitive.name not in ("where", "maximum") or len(row.shape) < 1:
        return False
    given = [c for c in scene.system.constants.get(row, ()) if c is not None]
    return any(np.ndim(c) == 0 and np.asarray(c).dtype.kind in "fiu" and c == 0 for c in given)


def _badness(a: Any) -> str:
    if a is None:
        return ""
    a = np.asarray(getattr(a, "_v", a))
    if a.dtype.kind not in "fc" or bool(np.isfinite(a).all()):
        return ""
    return "nan" if bool(np.isnan(a).any()) else "inf"
