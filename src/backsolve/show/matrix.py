"""The matrix I − L as a drawing: a row for each box, a block for each wire, coloured by its operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..operators import Operator
from ..system_text import name_of, show_value
from .drawing import Drawing, Picture, Rectangle, Text
from .kinds import family_of, kind_of, short_kind
from .scene import Scene
from .visible import Visible, visible

_TOP = 20.0
_LONG = 22  # letters of a name


def matrix_of(scene: Scene) -> Picture:
    seen = visible(scene)
    blocks = {place: [e.block for e in edges] for place, edges in seen.wires.items()}
    drawing = matrix_drawing(f"I − L of {scene.title}", _names(scene, seen), blocks)
    return Picture(drawing, _text(scene, seen))


def _names(scene: Scene, seen: Visible) -> list[str]:
    return [b.name or name_of(scene.system, scene.nodes[b.first]) for b in seen.boxes]


def matrix_drawing(
    title: str,
    names: Sequence[str],
    blocks: Mapping[tuple[int, int], Sequence[Operator]],
    room: float = 720.0,
) -> Drawing:
    """Names from above, blocks by (column, row): what stands below the diagonal."""
    n = len(names)
    side = max(8.0, min(40.0, room / max(n, 1)))
    is_written = side >= 24
    labels = [name if len(name) <= _LONG else f"{name[: _LONG - 1]}…" for name in names]
    left = 14 + 6.0 * max([len(label) for label in labels], default=0) if is_written else _TOP
    families = {kind_of(a): family_of(a) for found in blocks.values() for a in found}
    step = 34 + 6.6 * max([len(kind) for kind in families], default=0)
    width = max(left + n * side + _TOP, left + step)
    in_line = max(1, int((width - left) // step))
    lines = -(-len(families) // in_line)
    drawing = Drawing(width, _TOP + n * side + 14 + 20 * lines, title)
    add = drawing.shapes.append
    for k, name in enumerate(names):
        x, y = left + k * side, _TOP + k * side
        add(Rectangle(x, y, side, side, "one", "one", 0, name))
        if is_written:
            add(Text(x + side / 2, y + side / 2 + 4, "I", size=11))
            add(Text(left - 6, y + side / 2 + 4, labels[k], "soft", 10, "end"))
    for (a, b), found in blocks.items():
        x, y, family = left + a * side, _TOP + b * side, family_of(found[0])
        many = len(found) > 1
        says = f"{len(found)} blocks" if many else repr(found[0])
        about = f"∂{names[b]}/∂{names[a]}: {says}"
        add(Rectangle(x + 1, y + 1, side - 2, side - 2, family, family, 3, about))
        if is_written:
            words = str(len(found)) if many else short_kind(found[0])
            add(Text(x + side / 2, y + side / 2 + 4, words, size=10))
    for k, (kind, family) in enumerate(families.items()):
        x, y = left + (k % in_line) * step, _TOP + n * side + 22 + 20 * (k // in_line)
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
