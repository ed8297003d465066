"""A training in as many processes as there are, for test_training.py: `trained.py <folder> <kill at step>`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import backsolve as bs
from backsolve import nn, optim
from backsolve.training import Checkpoints


def train(folder: Path, kill_at: int) -> None:
    me = bs.distributed.start()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(42, 8))
    y = np.tanh(x[:, :1] * x[:, 1:2])
    keys = bs.random.split(bs.random.key(0), 2)
    model = nn.Sequential(nn.Linear(8, 16, key=keys[0]), nn.Tanh(), nn.Linear(16, 1, key=keys[1]))
    model = bs.tree.map(lambda a: a.astype(np.float64), model)
    losses: dict[int, str] = {}

    class Tell:
        def on_step(self, run: Any) -> None:
            if run.step == kill_at and me.index == me.count - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            losses[run.step] = run.loss.hex()

    fitted = bs.fit(
        model,
        nn.functional.mse_loss,
        bs.data.Batches((x, y), 8, shuffle=True, seed=1),
        optimizer=optim.Adam(0.02),
        epochs=3,
        validation=(x[:10], y[:10]),
        callbacks=[Tell()],
        checkpoint=Checkpoints(folder / "run", every_steps=1),
        log=folder / "log",
        best="val_loss",
        mesh=bs.mesh(data=-1),
        shard=bs.sharding.fully(least=8),
        progress=False,
    )
    if me.is_first:
        arrays = {k: np.asarray(a).tolist() for k, a in fitted.model.state_dict().items()}
        (folder / "told.json").write_text(
            json.dumps({"losses": losses, "history": fitted.history.rows, "arrays": arrays})
        )


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
