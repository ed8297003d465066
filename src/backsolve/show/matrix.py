"""The matrix I − L as a drawing: a row for each box, a block for each wire, coloured by its operator."""

from __future__ import annotations

from ..system_text import name_of, show_value
from .drawing import Drawing, Picture, Rectangle, Text
from .kinds import family_of, kind_of, short_kind
from .scene import Scene
from .visible import Visible, visible

_MARGIN = 56.0


def matrix_of(scene: Scene) -> Picture:
    seen = visible(scene)
    return Picture(_drawing(scene, seen), _text(scene, seen))


def _names(scene: Scene, seen: Visible) -> list[str]:
    return [b.name or name_of(scene.system, scene.nodes[b.first]) for b in seen.boxes]


def _drawing(scene: Scene, seen: Visible) -> Drawing:
    n = len(seen.boxes)
    side = max(8.0, min(40.0, 720 / max(n, 1)))
    is_written = side >= 24
    names = _names(scene, seen)
    families = {
        kind_of(e.block): family_of(e.block) for edges in seen.wires.values() for e in edges
    }
    height = _MARGIN + n * side + 24 * (1 + len(families) // 6)
    drawing = Drawing(2 * _MARGIN + n * side, height, f"I − L of {scene.title}")
    add = drawing.shapes.append
    for k, name in enumerate(names):
        x = y = k * side
        add(Rectangle(_MARGIN + x, 20 + y, side, side, "one", "one", 0, name))
        if is_written:
            add(Text(_MARGIN + x + side / 2, 20 + y + side / 2 + 4, "I", size=11))
            add(
                Text(
                    _MARGIN - 6 - 3.2 * min(len(name), 8),
                    20 + y + side / 2 + 4,
                    name[:8],
                    "soft",
                    10,
                )
            )
    for (a, b), edges in seen.wires.items():
        block = edges[0].block
        x, y = _MARGIN + a * side, 20 + b * side
        title = f"∂{names[b]}/∂{names[a]}: " + (
            f"{len(edges)} blocks" if len(edges) > 1 else f"{block!r}"
        )
        add(
            Rectangle(
                x + 1, y + 1, side - 2, side - 2, family_of(block), family_of(block), 3, title
            )
        )
        if is_written:
            words = str(len(edges)) if len(edges) > 1 else short_kind(block)
            add(Text(x + side / 2, y + side / 2 + 4, words, size=10))
    for k, (kind, family) in enumerate(families.items()):
        x, y = _MARGIN + (k % 6) * 110, height - 20 * (1 + (len(families) - 1) // 6 - k // 6)
        add(Rectangle(x, y - 9, 10, 10, family, family, 2))
        add(Text(x + 16, y, kind, "soft", 11, "start"))
    return drawing


def _text(scene: Scene, seen: Visible) -> str:
    """The same in letters."""
    names = _names(scene, seen)
    width = max([len(name) for name in names], default=0)
    cells = {
        place: str(len(e)) if len(e) > 1 else short_kind(e[0].block)
        for place, e in seen.wires.items()
    }
    wide = max([len(c) for c in cells.values()], default=1) + 1
    lines = []
    for b, name in enumerate(names):
        line = "".join(
            cells.get((a, b), "I" if a == b else "·" if a < b else "").rjust(wide)
            for a in range(b + 1)
        )
        value = (
            ""
            if seen.boxes[b].name
            else f"   {show_value(scene.values.get(scene.nodes[seen.boxes[b].first]))}"
        )
        lines.append(f"{name.rjust(width)} {line}{value if len(names) <= 20 else ''}".rstrip())
    return "\n".join(lines)
