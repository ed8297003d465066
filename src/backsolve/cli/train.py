"""backsolve train: a model from data, in a folder that `predict` and `show` understand."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from .. import nn
from ..data import Batches, Part
from ..data.sources import columns_of
from ..errors import NaNError
from ..training import EarlyStopping, Log, dashboard, fit
from . import pictures
from .datasets import BUNDLED, MOST_BYTES, Dataset, Pairs, divided, load
from .folder import describe, read_description, write_description
from .models import build, optimiser, warped
from .predict import predicted

HELP = "train a model"
ABOUT = f"""\
Train a model and keep everything about it in a folder.

  backsolve train --data digits --model cnn --epochs 20 --out runs/digits
  backsolve train --data houses.csv --target price --model mlp --out runs/houses
  backsolve train --data photos/ --size 32 --model cnn --out runs/photos

--data is a .csv or .parquet file (words are numbered, columns are standardised), a folder with one
folder of images for each class, or a set that comes with scikit-learn:
  {", ".join(BUNDLED)}
Images of up to {MOST_BYTES >> 20} MB, as they are trained on, are held in memory; more are read batch by batch.
A part of the data, the same share of every class, is set apart to test on; it does not influence the
training (but for --patience). A target of words, or of at most 20 whole numbers, is taken as classes.

Stopped by Ctrl-C or killed, the same command goes on where it stopped, to the same result bit for
bit; with more --epochs it trains on. The folder has model.safetensors (the weights), run.json (what
they mean), log.jsonl and TensorBoard's events, curves.png, explore.html (a page of curves, gradients
and histograms, see `backsolve dashboard`), and checkpoints.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", required=True, help="a file, a folder of images, or the name of a bundled set")
    add("--out", required=True, type=Path, help="the folder of the run, such as runs/1")
    add("--model", choices=["linear", "mlp", "cnn"], help="cnn for images, else mlp")
    add("--epochs", type=int, default=20, help="passes over the data (%(default)s)")
    add("--batch-size", type=int, default=64, help="examples a step (%(default)s)")
    add("--lr", type=float, default=None, help="learning rate (0.01; sgd 0.05; lion 0.001)")
    add("--optimizer", choices=["adamw", "adam", "sgd", "lion"], default="adamw")
    add("--schedule", choices=["one-cycle", "cosine", "constant"], default="one-cycle",
        help="how the learning rate moves (%(default)s: up, then far down)")  # fmt: skip
    add("--hidden", default="64,64", help="widths of an mlp's layers (%(default)s)")
    add("--dropout", type=float, default=None, help="share of entries left out (cnn 0.3, mlp 0)")
    add("--target", help="the column of a table to predict (the last one)")
    add("--task", choices=["auto", "classes", "numbers"], default="auto")
    add("--size", type=int, default=32, help="height and width of images of a folder (%(default)s)")
    add("--warp", action=argparse.BooleanOptionalAction, default=None,
        help="turn, stretch and move images a little at random while training (cnn: yes)")  # fmt: skip
    add("--test-share", type=float, default=0.2, help="set apart to test on (%(default)s)")
    add("--patience", type=int, help="stop after so many epochs without improvement of the test")
    add("--seed", type=int, default=0, help="of split, weights and order (%(default)s)")
    add("--fresh", action="store_true", help="begin anew, even if the folder holds a run")


def run(options: argparse.Namespace) -> int:
    data = load(options.data, options.target, options.task, options.size)
    if data.y is None:
        raise ValueError(f"{options.data} has no targets to learn")
    settings = _settings(options, data)
    description = describe(data, _columns(options.data, data), settings)
    if not options.fresh:
        _check_same(options.out, description)
    write_description(options.out, description)
    train, test = divided(data, options.test_share, options.seed)
    print(f"{data.name} · {settings['model']} · {len(train):,} train · {len(test):,} test")
    try:
        done = _fit(options, settings, data, train, test)
    except NaNError as error:
        text = f"{error}\n    here: --fresh --lr {min(settings['lr'] / 10, 0.001):g}"
        raise NaNError(text, at="") from error
    print(_result(options, data, done, test))
    return 0


def _settings(options: argparse.Namespace, data: Dataset) -> dict[str, Any]:
    """What decides about the result, with defaults filled in."""
    if options.epochs < 1 or options.batch_size < 1:
        raise ValueError("--epochs and --batch-size must be at least 1")
    if options.lr is not None and not options.lr > 0:
        raise ValueError(f"--lr must be above 0, got {options.lr}")
    model = options.model or ("cnn" if data.is_image else "mlp")
    rates = {"adamw": 0.01, "adam": 0.01, "sgd": 0.05, "lion": 0.001}
    dropout = options.dropout if options.dropout is not None else 0.3 if model == "cnn" else 0.0
    return {
        "data": options.data,
        "model": model,
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "lr": options.lr or rates[options.optimizer],
        "optimizer": options.optimizer,
        "schedule": options.schedule,
        "hidden": [int(n) for n in options.hidden.split(",") if n],
        "dropout": dropout,
        "warp": data.is_image and (model == "cnn" if options.warp is None else options.warp),
        "test_share": options.test_share,
        "seed": options.seed,
    }


def _fit(
    options: argparse.Namespace, settings: dict[str, Any], data: Dataset, train: Any, test: Any
) -> Any:
    nn.init.manual_seed(settings["seed"])
    shown = train[:1] if data.is_image else train
    model = build(
        settings["model"], data.x[shown], data.y[train], len(data.classes), tuple(settings["hidden"]),
        settings["dropout"],
    )  # fmt: skip
    size = settings["batch_size"]
    source = Pairs(data)
    batches = Batches(
        Part(source, train),
        min(size, len(train)),
        shuffle=True,
        seed=settings["seed"],
        drop_last=len(train) >= 8 * size,  # a last, short batch would be compiled for itself
        transform=warped if settings["warp"] else None,
    )
    steps = len(batches) * settings["epochs"]
    loss = nn.functional.cross_entropy if data.classes else nn.functional.mse_loss
    watched = "val_loss" if len(test) else "loss"
    return fit(
        model, loss, batches,
        optimizer=optimiser(settings["optimizer"], settings["lr"], settings["schedule"], steps),
        epochs=settings["epochs"],
        validation=Part(source, test) if len(test) else None,
        metrics=["accuracy"] if data.classes else ["mae"],
        callbacks=[EarlyStopping(watched, options.patience)] if options.patience else [],
        checkpoint=options.out,
        resume=not options.fresh,
        log=Log(options.out, histograms=True),
        progress="lines",
    )  # fmt: skip


def _result(options: argparse.Namespace, data: Dataset, done: Any, test: Any) -> str:
    metrics = done.metrics
    head = "val_" if len(test) else ""
    where = "test" if len(test) else "training"
    if data.classes:
        parts = [f"{where} accuracy {100 * metrics[f'{head}accuracy']:.1f} %"]
    else:
        parts = [f"{where} mean absolute error {metrics[f'{head}mae']:.4g}"]
    if done.stopped:
        parts.append(f"(stopped: {done.stopped})")
    path = pictures.curves(done.history, options.out)
    if path is not None:
        parts.append(f"curves: {path}")
    if data.is_image and data.classes and len(test):
        found = np.argmax(predicted(done.model, data.x, test), 1)
        shown = pictures.predictions(options.out, data, test, found)
        parts += [f"predictions: {shown}"] if shown is not None else []
    page = dashboard(options.out, path=options.out / "explore.html")
    parts.append(f"page: {page.path}")
    return "    ".join(parts)


def _columns(name: str, data: Dataset) -> list[str]:
    if data.target is None:
        return []
    return [column for column in columns_of(name) if column != data.target]


def _check_same(folder: Path, description: dict[str, Any]) -> None:
    """A folder goes on with the run that it holds, not with another."""
    if not (folder / "run.json").is_file():
        return
    there = read_description(folder)["settings"]
    here = description["settings"]
    other = [
        f"{name} {there.get(name)} there, {here[name]} now"
        for name in here
        if name != "epochs" and there.get(name) != here[name]
    ]
    if other:
        raise ValueError(
            f"{folder} holds another run ({'; '.join(other)}); choose another --out, or --fresh to begin anew"
        )
