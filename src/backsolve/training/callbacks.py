"""Callbacks that many runs want. A callback is a function of the run, called after each epoch, or an object
with some of

    on_start(run)   on_step(run)   on_epoch(run)   on_end(run)

and, if it remembers something, `state_dict()` and `load_state_dict(state)` in terms of JSON, for checkpoints.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from ..optim.schedules import Plateau
from .history import is_higher_better
from .run import Run, is_better


@dataclass
class EarlyStopping:
    """Stop when a measure has not improved by more than `least` for `patience` epochs."""

    monitor: str = "val_loss"
    patience: int = 5
    least: float = 0.0
    best: float = math.nan
    waited: int = 0

    def on_epoch(self, run: Run) -> None:
        """Look at the measure, and stop the run if it has waited long enough."""
        value = _value(run, self.monitor, "EarlyStopping")
        if is_better(value, self.best, self.monitor, self.least):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            run.stop(f"early stopping: {self.monitor} did not improve for {self.waited} epochs")

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, for checkpoints."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember it again."""
        self.best, self.waited = state["best"], state["waited"]


class ReduceOnPlateau:
    """Lower the learning rate where a measure stops improving; settings of `optim.schedules.Plateau`."""

    def __init__(self, monitor: str = "val_loss", **settings: Any):
        mode = "max" if is_higher_better(monitor) else "min"
        self.monitor, self.plateau = monitor, Plateau(**{"mode": mode, **settings})

    def on_epoch(self, run: Run) -> None:
        """Look at the measure, and set the factor of the learning rate."""
        run.rate_factor = self.plateau(_value(run, self.monitor, "ReduceOnPlateau"))

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, for checkpoints."""
        return dataclasses.asdict(self.plateau)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember it again."""
        self.plateau = Plateau(**state)


def _value(run: Run, name: str, who: str) -> float:
    row = run.history.last
    if name not in row:
        hint = "; give fit a validation=" if name.startswith("val_") else ""
        raise KeyError(f"{who} watches {name!r}, but measured are {', '.join(row)}{hint}")
    return float(row[name])
