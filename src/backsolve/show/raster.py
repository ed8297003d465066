"""A Drawing on a figure of matplotlib's, for PNG."""

from __future__ import annotations

from typing import Any

from .drawing import COLOURS, Circle, Curve, Drawing, Rectangle, corners


def draw(figure: Any, drawing: Drawing) -> None:
    from matplotlib import patches
    from matplotlib.path import Path

    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for k, s in enumerate(drawing.shapes):
        if isinstance(s, Rectangle):
            round_ = f"round,pad=0,rounding_size={s.radius}"
            shape: Any = patches.FancyBboxPatch((s.x, s.y), s.width, s.height, boxstyle=round_)
            shape.set(
                facecolor=COLOURS[s.fill], edgecolor=COLOURS[s.stroke], linewidth=0.9, zorder=k
            )
            axes.add_patch(shape)
        elif isinstance(s, Circle):
            shape = patches.Circle((s.x, s.y), s.radius)
            shape.set(
                facecolor=COLOURS[s.fill], edgecolor=COLOURS[s.stroke], linewidth=0.9, zorder=k
            )
            axes.add_patch(shape)
        elif isinstance(s, Curve):
            points = [s.points[0], *[p for piece in corners(s) for p in piece]]
            codes = [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)]
            style = "-|>" if s.arrow else "-"
            wire = patches.FancyArrowPatch(
                path=Path(points, codes), arrowstyle=style, mutation_scale=8
            )
            wire.set(
                facecolor=COLOURS[s.stroke], edgecolor=COLOURS[s.stroke], linewidth=0.9, fill=False
            )
            wire.set(zorder=k)
            axes.add_patch(wire)
        else:
            where = {"middle": "center", "start": "left", "end": "right"}[s.anchor]
            weight = "bold" if s.bold else "normal"
            words = s.words.replace("$", r"\$")
            axes.text(
                s.x, s.y, words, color=COLOURS[s.fill], fontsize=s.size, ha=where, va="baseline", weight=weight,
                zorder=k,
            )  # fmt: skip
