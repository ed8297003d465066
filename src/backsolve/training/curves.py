"""Curves of a history: as text for any terminal, as a picture if matplotlib is there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from .history import History

_LEFT_OUT = ("epoch", "step", "seconds")


def groups(history: History) -> dict[str, list[str]]:
    """Columns that belong into one picture: each measure with that of the validation."""
    names = [name for name in history.names if name not in _LEFT_OUT]
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.removeprefix("val_"), []).append(name)
    return found


def text(history: History, width: int = 60, height: int = 10) -> str:
    """All curves, one below the other.

    >>> print(text(History([{"epoch": k, "loss": 1 / k} for k in range(1, 9)]), width=16, height=4))
    loss  • loss
           1 ┤•
             │ •
             │  ••••
       0.125 ┤      ••••••••••
             └────────────────
              1              8
    """
    epochs = history["epoch"] if len(history) else []
    parts = [
        _drawn(title, {n: history[n] for n in names}, epochs, width, height)
        for title, names in groups(history).items()
    ]
    return "\n\n".join(parts) if parts else "no epoch is done yet"


def _drawn(
    title: str, columns: dict[str, list[float]], epochs: Any, width: int, height: int
) -> str:
    values = [v for column in columns.values() for v in column if math.isfinite(v)]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    field = [[" "] * width for _ in range(height)]
    for mark, column in zip("•○+×", columns.values(), strict=False):
        for k in range(width):
            v = _at(column, k * (len(column) - 1) / max(width - 1, 1))
            if math.isfinite(v):
                share = (v - low) / (high - low) if high > low else 0.5
                field[height - 1 - round(share * (height - 1))][k] = mark
    names = "  ".join(f"{mark} {n}" for mark, n in zip("•○+×", columns, strict=False))
    labels = {0: f"{high:.4g}", height - 1: f"{low:.4g}"}
    lines = [f"{title}  {names}"]
    for k, row in enumerate(field):
        lines.append(f"{labels.get(k, ''):>8} {'┤' if k in labels else '│'}{''.join(row)}".rstrip())
    lines.append(" " * 9 + "└" + "─" * width)
    first, last = str(epochs[0]), str(epochs[-1])
    lines.append(" " * 10 + first + last.rjust(width - len(first)))
    return "\n".join(lines)


def _at(column: list[float], place: float) -> float:
    """A value between two, on the line that joins them."""
    low = min(int(place), max(len(column) - 2, 0))
    high = min(low + 1, len(column) - 1)
    return column[low] + (place - low) * (column[high] - column[low])


def picture(history: History, path: Any) -> Path:
    """The same as a picture, by matplotlib; ModuleNotFoundError without it."""
    from matplotlib.figure import Figure

    shown = groups(history)
    figure = Figure(figsize=(5 * max(len(shown), 1), 3.6), layout="constrained")
    for k, (title, names) in enumerate(shown.items(), 1):
        axes = figure.add_subplot(1, len(shown), k)
        for name in names:
            label = "validation" if name.startswith("val_") else "training"
            axes.plot(history["epoch"][-len(history[name]) :], history[name], label=label)
        axes.set_xlabel("epoch")
        axes.set_title(title)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)
    return Path(path)
