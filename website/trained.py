"""Pictures of what the examples that train for minutes learn: `python website/trained.py gpt cnn`, or all.

Each is trained at the size at which it runs alone and drawn into docs/trained/, where docs/learned.md shows it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
FOLDER = ROOT / "docs" / "trained"

from backsolve.training import Log  # noqa: E402 - after the path that leads to examples/
from examples import cnn as cnn_example  # noqa: E402
from examples import diffusion as diffusion_example  # noqa: E402
from examples import gpt as gpt_example  # noqa: E402
from examples import kfac as kfac_example  # noqa: E402
from examples import lstm_text as lstm_example  # noqa: E402


def gpt() -> Figure:
    return _reader(gpt_example, 600)


def lstm() -> Figure:
    return _reader(lstm_example, 300)


def _reader(example: Any, steps: int) -> Figure:
    """Bits a letter while it reads, and what it writes afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        model = example.train(steps, log=Log(folder, every_steps=5, tensorboard=False))
        lines = [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]
    logged = [line for line in lines if line["kind"] == "step"]
    figure = Figure((8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.3))
    left.plot([line["step"] for line in logged], [line["loss"] / np.log(2) for line in logged])
    left.set(xlabel="step", ylabel="bits a letter", ylim=(0, None))
    text = example.write(model, "The statement ", 600)
    wrapped = [part for line in text.splitlines() for part in textwrap.wrap(line, 52) or [""]]
    shown = "\n".join(wrapped[:18])
    right.text(0, 1, shown, family="monospace", size=8, va="top", transform=right.transAxes)
    right.axis("off")
    return figure


def cnn() -> Figure:
    """Accuracy by epoch, and all the digits that were not learned from and are read wrongly."""
    fitted, (_, test) = cnn_example.train(15), cnn_example.parts()
    truth = cnn_example.digits.target[test]
    guess = np.argmax(fitted.predict(cnn_example.x[test]), axis=1)
    wrong = test[guess != truth]
    figure = Figure((8.4, 3), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.2))
    axes = left.subplots()
    for name, label in (("accuracy", "seen, shifted"), ("val_accuracy", "not seen")):
        axes.plot(fitted.history["epoch"], fitted.history[name], label=label)
    axes.set(xlabel="epoch", ylabel="accuracy", ylim=(0.8, 1.005), xticks=range(3, 16, 3))
    axes.legend(frameon=False)
    right.suptitle(f"{len(wrong)} of {len(test)} read wrongly", size=10)
    for axes, k in zip(right.subplots(1, 4), wrong[:4], strict=False):
        axes.imshow(cnn_example.digits.images[k], cmap="gray_r")
        axes.set_title(f"{cnn_example.digits.target[k]}, as {guess[test == k][0]}", size=9)
    for axes in right.axes:
        axes.axis("off")
    return figure


def kfac() -> Figure:
    """Cross-entropy by step, and five digits beside what comes back of them through six numbers."""
    example, steps = kfac_example, 60
    figure = Figure((8.4, 3), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1))
    axes, rows = left.subplots(), [example.IMAGES[:6]]
    for name, way in (("Kronecker factors", example.by_factors), ("Adam", example.by_adam)):
        curve = []
        for p in way(steps):
            z = example.decode(p, example.IMAGES)
            curve.append(float(example.error(z, example.IMAGES)))
        axes.plot(range(1, steps + 1), curve, label=name)
        rows.append(1 / (1 + np.exp(-z[:6])))
    axes.set(xlabel="step", ylabel="cross-entropy of an image")
    axes.legend(frameon=False)
    names = ("digits", "factors", "Adam")
    for axes, images, name in zip(right.subplots(3, 1), rows, names, strict=True):
        axes.imshow(images.reshape(6, 8, 8).swapaxes(0, 1).reshape(8, 48), cmap="gray_r")
        axes.set(xticks=[], yticks=[], ylabel=name)
    return figure


def diffusion() -> Figure:
    """Noise on its way to two moons."""
    example, rng = diffusion_example, np.random.default_rng(0)
    model = example.train(4000, rng)
    shown = {0: "noise", 40: "40 steps", 46: "46 steps", 50: "50 steps"}
    figure = Figure((8.4, 2.4), layout="constrained")
    stages = example.stages(model, 500, rng)
    every = figure.subplots(1, 5, sharex=True, sharey=True)
    drawn = [(points, shown[k]) for k, points in enumerate(stages) if k in shown]
    for axes, (points, name) in zip(
        every, [*drawn, (example.moons(500, rng), "data")], strict=True
    ):
        colour = "C3" if name == "data" else "C0"
        axes.scatter(*points.T, s=2, color=colour, rasterized=True)
        axes.set(
            title=name, xticks=[], yticks=[], aspect="equal", xlim=(-2.2, 2.2), ylim=(-2.2, 2.2)
        )
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "gpt": gpt, "lstm": lstm, "cnn": cnn, "kfac": kfac, "diffusion": diffusion,
}  # fmt: skip


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    with rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "backsolve", "font.family": "sans-serif"}
    ):
        for name in names or PICTURES:
            path = FOLDER / f"{name}.svg"
            PICTURES[name]().savefig(path, dpi=144, metadata={"Date": None})
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
