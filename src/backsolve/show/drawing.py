"""Shapes on a sheet, as SVG or PNG."""

from __future__ import annotations

import html
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COLOURS = {
    "ink": "#1f1e1c", "soft": "#6b6862", "line": "#8d8a84", "sheet": "#ffffff",
    "value": "#0a7a3b", "adjoint": "#b3261e", "bad": "#b3261e",
    "add": "#dcecf9", "multiply": "#f7e3d3", "max": "#efe0f5", "move": "#ecece8",
    "function": "#e2f1e4", "other": "#f3e7ea", "parameter": "#fff6d6", "group": "#ffffff",
    "one": "#ecece8", "identity": "#9bb8d3", "diagonal": "#62a870", "contraction": "#d08a4e",
    "mask": "#9b6bb3", "sum": "#4f8f9e", "movement": "#8a8a84", "else": "#b5677a",
}  # fmt: skip


@dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "soft"
    radius: float = 5.0
    title: str = ""


@dataclass(frozen=True)
class Circle:
    x: float
    y: float
    radius: float
    fill: str
    stroke: str = "soft"
    title: str = ""


@dataclass(frozen=True)
class Curve:
    """Through points, level at each of them."""

    points: tuple[tuple[float, float], ...]
    stroke: str = "line"
    arrow: bool = True


@dataclass(frozen=True)
class Text:
    x: float
    y: float
    words: str
    fill: str = "ink"
    size: float = 12.0
    anchor: str = "middle"  # or "start", "end"
    bold: bool = False


@dataclass
class Drawing:
    width: float
    height: float
    title: str
    shapes: list[Any] = field(default_factory=list)

    def svg(self) -> str:
        body = "\n".join(_svg(s) for s in self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" role="img" '
            f'aria-label="{html.escape(self.title)}" font-family="system-ui, sans-serif">\n'
            '<defs><marker id="bs-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{COLOURS["line"]}"/></marker></defs>\n'
            f'<rect width="100%" height="100%" fill="{COLOURS["sheet"]}"/>\n{body}\n</svg>\n'
        )

    def png(self, scale: float = 2.0) -> bytes:
        """Needs matplotlib."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "a PNG is drawn by matplotlib: pip install matplotlib, or save an SVG"
            ) from None
        from .raster import draw

        dpi = 72 * scale
        figure = Figure((self.width / 72, self.height / 72), dpi=dpi)
        canvas = FigureCanvasAgg(figure)
        draw(figure, self)
        out = io.BytesIO()
        canvas.print_png(out)
        return out.getvalue()


class Picture:
    """A picture of a program: shown as it is in notebooks, saved by the ending of a file's name."""

    def __init__(self, drawing: Drawing, text: str):
        self.drawing, self.text = drawing, text

    @property
    def svg(self) -> str:
        return self.drawing.svg()

    def save(self, path: Any) -> Path:
        """Write .svg, .png or .txt."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        kind = target.suffix.lower()
        if kind == ".svg":
            target.write_text(self.svg, encoding="utf-8")
        elif kind == ".png":
            target.write_bytes(self.drawing.png())
        elif kind == ".txt":
            target.write_text(self.text + "\n", encoding="utf-8")
        else:
            raise ValueError(f"a picture is saved as .svg, .png or .txt, got {target.name!r}")
        return target

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def _svg(s: Any) -> str:
    if isinstance(s, Rectangle):
        return (
            f'<rect x="{s.x:.1f}" y="{s.y:.1f}" width="{s.width:.1f}" height="{s.height:.1f}" '
            f'rx="{s.radius:.0f}" fill="{COLOURS[s.fill]}" stroke="{COLOURS[s.stroke]}">'
            f"{_title(s.title)}</rect>"
        )
    if isinstance(s, Circle):
        return (
            f'<circle cx="{s.x:.1f}" cy="{s.y:.1f}" r="{s.radius:.1f}" fill="{COLOURS[s.fill]}" '
            f'stroke="{COLOURS[s.stroke]}">{_title(s.title)}</circle>'
        )
    if isinstance(s, Curve):
        marker = ' marker-end="url(#bs-arrow)"' if s.arrow else ""
        return f'<path d="{_path(s)}" fill="none" stroke="{COLOURS[s.stroke]}"{marker}/>'
    weight = ' font-weight="600"' if s.bold else ""
    return (
        f'<text x="{s.x:.1f}" y="{s.y:.1f}" fill="{COLOURS[s.fill]}" font-size="{s.size:g}" '
        f'text-anchor="{s.anchor}"{weight}>{html.escape(s.words)}</text>'
    )


def _title(text: str) -> str:
    return f"<title>{html.escape(text)}</title>" if text else ""


def corners(curve: Curve) -> list[tuple[tuple[float, float], ...]]:
    """Bézier pieces: two controls and an end each."""
    return [
        (((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1), (x1, y1))
        for (x0, y0), (x1, y1) in zip(curve.points, curve.points[1:], strict=False)
    ]


def _path(curve: Curve) -> str:
    x, y = curve.points[0]
    pieces = [" ".join(f"{a:.1f} {b:.1f}" for a, b in piece) for piece in corners(curve)]
    return f"M{x:.1f} {y:.1f}" + "".join(f"C{piece}" for piece in pieces)
