"""What is wrong with a gradient: NaN, infinities, and where it vanishes or explodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..row import Row
from .scene import Scene

_SMALL, _LARGE = 1e-8, 1e8  # of the norm of an adjoint, beside that of the outputs' seeds


@dataclass(frozen=True)
class Finding:
    kind: str  # "nan", "inf", "vanishing", "exploding", "zero" or "unused"
    row: Row
    text: str


def findings(scene: Scene) -> list[Finding]:
    """Where trouble starts: what was bad before does not count again."""
    found: list[Finding] = []
    read: dict[Row, list[Row]] = {}
    for e in scene.edges:
        read.setdefault(e.reader, []).append(e.read)
    for row in scene.nodes:
        bad = _badness(scene.values.get(row))
        if bad and not any(_badness(scene.values.get(p)) for p in read.get(row, ())):
            found.append(
                Finding(bad, row, f"its value holds {_WORDS[bad]}, and what it reads does not")
            )
    readers: dict[Row, list[Row]] = {}
    for e in scene.edges:
        readers.setdefault(e.read, []).append(e.reader)
    reference = max([_norm(s) for s in scene.seeds], default=1.0) or 1.0
    for row in reversed(scene.nodes):
        adjoint = scene.adjoints.get(row)
        if adjoint is None:
            if row in scene.system.parameters:
                found.append(Finding("unused", row, "the result does not depend on it"))
            continue
        bad = _badness(adjoint)
        above = [scene.adjoints[r] for r in readers.get(row, ()) if r in scene.adjoints]
        if bad:
            if not any(_badness(g) for g in above):
                found.append(
                    Finding(
                        bad,
                        row,
                        f"its gradient holds {_WORDS[bad]}, and those it comes from do not",
                    )
                )
            continue
        size = _norm(adjoint) / reference
        before = max([_norm(g) / reference for g in above], default=1.0)
        if 0 < size < _SMALL <= before:
            found.append(Finding("vanishing", row, f"its gradient has the norm {size:.1e}"))
        elif size > _LARGE >= before:
            found.append(Finding("exploding", row, f"its gradient has the norm {size:.1e}"))
        elif size == 0 and before > 0 and above:
            found.append(
                Finding("zero", row, "its gradient is zero everywhere: nothing passes back")
            )
    return found


_WORDS = {"nan": "NaN", "inf": "an infinity"}


def _badness(a: Any) -> str:
    if a is None:
        return ""
    a = np.asarray(a)
    if a.dtype.kind not in "fc":
        return ""
    if bool(np.isnan(a).any()):
        return "nan"
    return "inf" if bool(np.isinf(a).any()) else ""


def _norm(a: Any) -> float:
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.square(np.abs(np.asarray(a, np.complex128))).sum()))
