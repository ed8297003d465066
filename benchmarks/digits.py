"""Epochs per second of `make run`, beside the same script in PyTorch.

    python benchmarks/digits.py [--epochs 8] [--threads 2]

Both train the same network on the same batches of handwritten digits, warped by the same function, with AdamW
on one cycle, test after each epoch and write the weights down. The two take turns; the median epoch counts,
without the first two of each turn (compiling, warming up).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import machine, text, versions

import backsolve as bs
from backsolve import nn
from backsolve.cli.datasets import Pairs, divided, load
from backsolve.cli.models import build, optimiser, warped
from backsolve.data import Batches, Part

BATCH, RATE, DROPOUT, SEED = 64, 0.01, 0.3, 3


def batches(data, train):
    return Batches(
        Part(Pairs(data), train), BATCH, shuffle=True, seed=SEED, drop_last=True, transform=warped
    )


def ours(data, train, test, epochs: int) -> tuple[list[float], float]:
    nn.init.manual_seed(SEED)
    model = build("cnn", data.x[:1], data.y, len(data.classes), (), DROPOUT)
    source = batches(data, train)
    ends = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as folder:
        done = bs.fit(
            model, nn.functional.cross_entropy, source,
            optimizer=optimiser("adamw", RATE, "one-cycle", len(source) * epochs),
            epochs=epochs, validation=Part(Pairs(data), test), metrics=["accuracy"],
            callbacks=[lambda run: ends.append(time.perf_counter())],
            checkpoint=folder, log=folder, progress=False,
        )  # fmt: skip
    return list(np.diff(ends)), float(done.metrics["val_accuracy"])


def pytorch(data, train, test, epochs: int) -> tuple[list[float], float]:
    import torch
    from torch.nn import functional

    torch.manual_seed(SEED)
    t = torch.nn
    model = t.Sequential(
        t.Conv2d(1, 32, 3, padding=1), t.ReLU(), t.Conv2d(32, 32, 3, padding=1), t.ReLU(),
        t.MaxPool2d(2), t.Conv2d(32, 64, 3, padding=1), t.ReLU(), t.MaxPool2d(2),
        t.Flatten(), t.Dropout(DROPOUT), t.Linear(64 * 2 * 2, len(data.classes)),
    )  # fmt: skip
    source = batches(data, train)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=len(source) * epochs
    )
    x_test, y_test = torch.from_numpy(data.x[test]), torch.from_numpy(data.y[test])
    ends, correct = [time.perf_counter()], 0.0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(epochs):
            model.train()
            for x, y in source:
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
                loss.backward()
                optimizer.step()
                schedule.step()
            model.eval()
            with torch.no_grad():
                correct = (model(x_test).argmax(1) == y_test).float().mean().item()
            torch.save((model.state_dict(), optimizer.state_dict()), Path(folder) / "weights.pt")
            ends.append(time.perf_counter())
    return list(np.diff(ends)), correct


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    bs.set_threads(options.threads)
    data = load("digits")
    train, test = divided(data, 0.2, SEED)
    contestants = {"backsolve": ours, "PyTorch eager": pytorch}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    reached: dict[str, float] = {}
    for _ in range(options.turns):
        for name, run in contestants.items():
            found, reached[name] = run(data, train, test, options.epochs)
            times[name] += found[2:]
    print(f"{machine()}; {options.threads} threads; {versions(('numpy', 'torch'))}\n")
    print("| make run | an epoch (median) | epochs a second | test accuracy |\n|---|---|---|---|")
    for name, found in times.items():
        middle = statistics.median(found)
        print(f"| {name} | {text(middle)} | {1 / middle:.2f} | {100 * reached[name]:.1f} % |")


if __name__ == "__main__":
    main()
