"""The graph of a program as a drawing: values in green above each wire, gradients in red below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..row import Row
from ..system_text import expression, name_of, show_value
from .drawing import Circle, Curve, Drawing, Picture, Rectangle, Text
from .gates import gate_of
from .layered import layered
from .numbers import norm
from .scene import Scene
from .visible import Box, Visible, visible

_SIGNS = {
    "add": "+",
    "subtract": "−",
    "multiply": "×",
    "divide": "÷",
    "contract": "@",
    "negative": "−",
    "sum": "Σ",
}
_MARGIN = 32.0


def graph_of(scene: Scene) -> Picture:
    return Picture(_drawing(scene), _text(scene))


def stub_text(a: Any) -> str:
    """A number, or the shape and the norm of an array."""
    if a is None:
        return show_value(None)
    a = np.asarray(a)
    if a.ndim == 0 or (a.ndim == 1 and a.size <= 2):
        return show_value(a)
    return f"{'×'.join(map(str, a.shape))} ‖{norm(a):.3g}‖"


def label_of(row: Row) -> str:
    name = str((row.params or {}).get("name", row.primitive.name))
    return _SIGNS.get(name, name)


def _drawing(scene: Scene) -> Drawing:
    seen = visible(scene)
    boxes = [_Shape(scene, box) for box in seen.boxes]
    layout = layered([(b.width + b.stub, 38.0 + 26.0) for b in boxes], list(seen.wires))
    at = [
        (x - b.stub / 2 + _MARGIN, y + _MARGIN)
        for (x, y), b in zip(layout.centres, boxes, strict=True)
    ]
    drawing = Drawing(layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN, scene.title)
    drawing.shapes += _frames(seen, boxes, at)
    for (a, b), bends in zip(seen.wires, layout.bends, strict=True):
        (x0, y0), (x1, y1) = at[a], at[b]
        start = (x0 + boxes[a].width / 2 + boxes[a].stub, y0)
        inner = [(x + _MARGIN, y + _MARGIN) for x, y in bends]
        drawing.shapes.append(Curve((start, *inner, (x1 - boxes[b].width / 2, y1))))
    read = {a for a, _ in seen.wires}
    for k, (shape, (x, y)) in enumerate(zip(boxes, at, strict=True)):
        drawing.shapes += shape.drawn(x, y, k in read)
    return drawing


def _frames(seen: Visible, boxes: Sequence[_Shape], at: Sequence[tuple[float, float]]) -> list[Any]:
    """Around the boxes of each open group, where nothing else stands between them."""
    reach = [
        (x - b.width / 2, y - 32, x + b.width / 2 + b.stub, y + 21)
        for (x, y), b in zip(at, boxes, strict=True)
    ]
    deepest = max([f.depth for f in seen.frames], default=0)
    found: list[Any] = []
    for f in seen.frames:
        pad = 4.0 + 5 * (deepest - f.depth)
        x0, y0 = (
            min(reach[k][0] for k in f.boxes) - pad,
            min(reach[k][1] for k in f.boxes) - pad - 13,
        )
        x1, y1 = max(reach[k][2] for k in f.boxes) + pad, max(reach[k][3] for k in f.boxes) + pad
        others = [r for k, r in enumerate(reach) if k not in f.boxes]
        if any(r[0] < x1 and r[2] > x0 and r[1] < y1 and r[3] > y0 for r in others):
            continue
        found.append(Rectangle(x0, y0, x1 - x0, y1 - y0, "frame", "line", 8, f.name))
        found.append(Text(x0 + 6, y0 + 11, f.name, "soft", 9, "start"))
    return found


class _Shape:
    """One box: its size, and how it is drawn."""

    def __init__(self, scene: Scene, box: Box):
        self.box = box
        self.row = scene.nodes[box.first]
        self.is_parameter = self.row in scene.system.parameters
        self.value = self.adjoint = self.formula = ""
        if box.name:
            self.kind, self.label = "group", box.name
        else:
            self.kind = "parameter" if self.is_parameter else gate_of(self.row)
            name = name_of(scene.system, self.row)
            self.label = name if self.is_parameter else label_of(self.row)
            self.formula = (
                name if self.is_parameter else f"{name} = {expression(scene.system, self.row)}"
            )
            self.value = stub_text(scene.values.get(self.row))
            self.adjoint = stub_text(scene.adjoints[self.row]) if self.row in scene.adjoints else ""
            self.name = "" if self.is_parameter else name
        self.is_round = self.kind in ("add", "multiply") and len(self.label) <= 2
        self.width = 38.0 if self.is_round else max(44.0, 18 + 7.4 * len(self.label))
        self.stub = 0.0 if box.name else 10 + 6.4 * max(len(self.value), len(self.adjoint))

    def drawn(self, x: float, y: float, is_read: bool) -> list[Any]:
        half = self.width / 2
        title = (
            f"{self.formula}: {self.value}, gradient {self.adjoint or 'none'}"
            if self.formula
            else self.label
        )
        found: list[Any] = []
        if is_read:
            found.append(Curve(((x + half, y), (x + half + self.stub, y)), arrow=False))
        if self.is_round:
            found.append(Circle(x, y, 19.0, self.kind, title=title))
        else:
            found.append(Rectangle(x - half, y - 19, self.width, 38.0, self.kind, title=title))
        if self.box.name:
            found.append(Text(x, y - 1, self.label, bold=True))
            found.append(Text(x, y + 13, f"{self.box.count} rows", "soft", 10))
            return found
        found.append(Text(x, y + 4, self.label, bold=True))
        if self.name:
            found.append(Text(x, y - 24, self.name, "soft", 10))
        found.append(Text(x + half + 5, y - 5, self.value, "value", 11, "start"))
        if self.adjoint:
            found.append(Text(x + half + 5, y + 14, self.adjoint, "adjoint", 11, "start"))
        return found


def _text(scene: Scene) -> str:
    """A line for each box, with what it reads and who reads it."""
    seen = visible(scene)
    names = [
        f"⟨{b.name}⟩" if b.name else name_of(scene.system, scene.nodes[b.first]) for b in seen.boxes
    ]
    lines = []
    for k, box in enumerate(seen.boxes):
        row = scene.nodes[box.first]
        if box.name:
            what, value, adjoint = f"{box.count} rows", "", ""
        else:
            what = "" if row in scene.system.parameters else expression(scene.system, row)
            value = stub_text(scene.values.get(row))
            adjoint = stub_text(scene.adjoints[row]) if row in scene.adjoints else "–"
        readers = ", ".join(names[b] for a, b in seen.wires if a == k)
        lines.append((names[k], what, value, adjoint, f"→ {readers}" if readers else "→ result"))
    lines.insert(0, ("", "", "value", "gradient", ""))
    widths = [max(len(line[k]) for line in lines) for k in range(5)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )
