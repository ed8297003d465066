"""backsolve predict: what a trained model says about data."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..training import predict
from ..training.prediction import even_parts
from .datasets import divided, load
from .folder import read_description, read_model

HELP = "predict with a trained model"
ABOUT = """\
Predict with the model of a run, as lines of CSV.

  backsolve predict runs/houses --data new_houses.csv --out predictions.csv
  backsolve predict runs/digits                # on the part that was set apart to test on

New data have the columns (or the classes of images) that were trained on; the target may be missing.
For classes, each line has the prediction and the probability of each class.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument("--data", help="as for train; the test part of the run's own data")
    parser.add_argument("--out", type=Path, help="write here instead of on the screen")


def run(options: argparse.Namespace) -> int:
    description = read_description(options.run)
    model = read_model(options.run, description)
    settings = description["settings"]
    data = load(options.data or settings["data"], like=description)
    if list(data.x.shape[1:]) != description["shape"]:
        raise ValueError(
            f"the model takes inputs of shape {tuple(description['shape'])}, these have {data.x.shape[1:]}"
        )
    numbers = np.arange(len(data.x))
    if options.data is None:
        numbers = divided(data, settings["test_share"], settings["seed"])[1]
    output = predicted(model, data.x, numbers)
    classes = description["classes"]
    rows = _rows(numbers, output, classes)
    if options.out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
    else:
        with open(options.out, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    if data.y is not None:
        print(_score(output, data.y[numbers], classes), file=sys.stderr)
    return 0


def predicted(model: Any, x: Any, numbers: Any) -> Any:
    """What a model makes of some rows, no more of them at a time than a batch has."""
    parts = [numbers[low:high] for low, high in even_parts(len(numbers), 256)]
    return np.concatenate([predict(model, x[part]) for part in parts])


def _rows(numbers: Any, output: Any, classes: list[str]) -> list[list[Any]]:
    if not classes:
        return [
            ["example", "prediction"],
            *[[k, f"{v:.6g}"] for k, v in zip(numbers, output, strict=True)],
        ]
    shares = np.exp(output - output.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    head = ["example", "prediction", *[f"probability of {c}" for c in classes]]
    return [
        head,
        *[
            [k, classes[int(np.argmax(p))], *[f"{v:.6f}" for v in p]]
            for k, p in zip(numbers, shares, strict=True)
        ],
    ]


def _score(output: Any, y: Any, classes: list[str]) -> str:
    if classes:
        return f"accuracy {100 * np.mean(np.argmax(output, 1) == y):.1f} % of {len(y):,}"
    return f"mean absolute error {np.mean(np.abs(output - y)):.4g} of {len(y):,}"
