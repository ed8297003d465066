"""Pictures of a run, where matplotlib is there; None where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..training.curves import picture
from ..training.history import History
from .datasets import Dataset


def curves(history: History, folder: Path) -> Path | None:
    try:
        return picture(history, folder / "curves.png")
    except ModuleNotFoundError:
        return None


def predictions(
    folder: Path, data: Dataset, numbers: Any, found: Any, most: int = 40
) -> Path | None:
    """Images of these numbers with what was predicted, in red where it is wrong; wrong ones come first."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return None
    true, classes = data.y[numbers], data.classes
    order = np.argsort(found == true, kind="stable")[:most]
    images = data.x[numbers[order]]
    rows = -(-len(order) // 10)
    figure = Figure(figsize=(10, 1.25 * rows), layout="constrained")
    for place, k in enumerate(order):
        axes = figure.add_subplot(rows, 10, place + 1)
        image = np.moveaxis(images[place], 0, -1)
        axes.imshow(image[:, :, 0] if image.shape[-1] == 1 else image, cmap="gray_r")
        axes.set_axis_off()
        wrong = found[k] != true[k]
        title = f"{classes[found[k]]} not {classes[true[k]]}" if wrong else classes[found[k]]
        axes.set_title(title, fontsize=9, color="crimson" if wrong else "black")
    path = folder / "predictions.png"
    figure.savefig(path, dpi=110)
    return path
