"""A training with all kinds of state that test_resume.py kills: `python killed_run.py <folder> <last step>`.

At that step it waits for its end: however late that comes, the run is not over by then.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

import backsolve as bs
from backsolve import nn, optim
from backsolve.training import Checkpoints, EarlyStopping, Log, ReduceOnPlateau


def noisy(batch: Any, rng: np.random.Generator) -> Any:
    x, y = batch
    return x + 0.1 * rng.normal(size=x.shape).astype(np.float32), y


class Wait:
    def __init__(self, last: int):
        self.last = last

    def on_step(self, run: Any) -> None:
        if run.step >= self.last:
            threading.Event().wait()


def train(folder: str, last: int) -> Any:
    nn.init.manual_seed(3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 6)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    model = nn.Sequential(
        *(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
    )
    rate = optim.schedules.warmup(optim.schedules.cosine(3e-2, 40), 5)
    return bs.fit(
        model,
        nn.functional.cross_entropy,
        bs.data.Batches((x, y), 8, shuffle=True, seed=5, transform=noisy, prefetch=2),
        optimizer=optim.AdamW(rate),
        epochs=6,
        validation=(x[:30], y[:30]),
        metrics=["accuracy"],
        callbacks=[ReduceOnPlateau(patience=0), EarlyStopping(patience=50), Wait(last)],
        checkpoint=Checkpoints(folder, every_steps=1),
        log=Log(folder, every_steps=1),
        best="val_loss",
        accumulate=2,
        clip=1.0,
        ema=0.9,
        progress=False,
    )


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]))
