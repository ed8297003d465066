"""Shapes on a sheet, as SVG or PNG."""

from __future__ import annotations

import html
import io
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Those of the page (web/src/page.css), in the light.
COLOURS = {
    "ink": "#1f1e1c", "soft": "#6b6862", "line": "#8d8a84", "sheet": "#ffffff",
    "value": "#076a31", "adjoint": "#a81f18", "bad": "#a81f18", "frame": "#f6f5f2",
    "add": "#dcecf9", "multiply": "#f7e3d3", "max": "#efe0f5", "move": "#ecece8",
    "function": "#e2f1e4", "other": "#f3e7ea", "parameter": "#fff6d6", "group": "#ffffff",
    "one": "#ecece8", "identity": "#a3c0dc", "diagonal": "#79bd87", "contraction": "#e0a168",
    "mask": "#bd98d1", "sum": "#78bccb", "movement": "#b3b2ab", "else": "#dc93a4",
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

    def printed(self, kind: str, scale: float = 2.0) -> bytes:
        """As "png" or "pdf", by matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f"a {kind.upper()} is drawn by matplotlib: pip install matplotlib, or save an SVG"
            ) from None
        from .raster import draw

        figure = Figure((self.width / 72, self.height / 72), dpi=72 * scale)
        draw(figure, self)
        out = io.BytesIO()
        figure.savefig(out, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)
        return out.getvalue()


class Picture:
    """A picture of a program: shown as it is in notebooks, saved by the ending of a file's name."""

    def __init__(self, drawing: Drawing, text: str):
        self.drawing, self.text = drawing, text

    @property
    def svg(self) -> str:
        return self.drawing.svg()

    def save(self, path: Any) -> Path:
        """Write .svg, .png, .pdf or .txt."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        kind = target.suffix.lower()
        if kind == ".svg":
            target.write_text(self.svg, encoding="utf-8")
        elif kind in (".png", ".pdf"):
            target.write_bytes(self.drawing.printed(kind[1:]))
        elif kind == ".txt":
            target.write_text(self.text + "\n", encoding="utf-8")
        else:
            raise ValueError(f"a picture is saved as .svg, .png, .pdf or .txt, got {target.name!r}")
        return target

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        """Lines that a terminal cannot hold are cut, not broken."""
        if not sys.stdout.isatty():
            return self.text
        width = shutil.get_terminal_size().columns
        lines = self.text.split("\n")
        return "\n".join(x if len(x) <= width else f"{x[: width - 1]}…" for x in lines)

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
