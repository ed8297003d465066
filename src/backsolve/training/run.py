"""Run: where a training stands, what callbacks get; and Fitted: what remains of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .history import History, is_higher_better
from .prediction import predict
from .step import State, Steps, as_given


class Run:
    """A training under way. Callbacks read all of it, may change `rate_factor` and `state`, and may `stop` it.

    `epoch` and `step` count what is done; `loss`, `metrics` and, where they are logged, `norms` of gradients
    are those of the latest step, `history` holds finished epochs.
    """

    def __init__(self, steps: Steps, batches: Any, epochs: int, best: str | None = None):
        self.steps, self.batches, self.epochs = steps, batches, epochs
        self.state: State = steps.first_state()
        self.epoch, self.step, self.examples = 0, 0, 0
        self.batches_done = 0  # of the epoch under way
        self.loss = math.nan
        self.metrics: dict[str, float] = {}
        self.norms: dict[str, Any] = {}
        self.history = History()
        self.sums: dict[
            str, float
        ] = {}  # of the epoch under way, each times its number of examples
        self.rate_factor = 1.0
        self.seconds = 0.0
        self.stopped: str | None = None
        self.monitored, self.best_value = best, math.nan
        self.best_arrays: dict[str, Any] | None = None
        self.callbacks: list[Any] = []

    @property
    def model(self) -> Any:
        """The model as it stands, in arrays of its own, ready to be used."""
        return as_given(self.steps.model_of(self.state).eval())

    def stop(self, reason: str = "a callback") -> None:
        """End the run after this step, or this epoch."""
        self.stopped = reason

    # ---- what the loop does

    def add(self, loss: Any, metrics: dict[str, Any], examples: int) -> None:
        """Count a step: its loss, metrics and number of examples."""
        self.loss = float(loss)
        self.metrics = {name: float(value) for name, value in metrics.items()}
        self.step += 1
        self.examples += examples
        self.batches_done += 1
        add_to(self.sums, {"loss": self.loss, **self.metrics}, examples)

    def means(self) -> dict[str, float]:
        """Of the epoch under way."""
        return means_of(self.sums, self.examples)

    def end_epoch(self, validated: dict[str, float]) -> dict[str, Any]:
        """Count an epoch, and give its row of the history."""
        self.epoch += 1
        named = {f"val_{name}": value for name, value in validated.items()}
        row = {"epoch": self.epoch, "step": self.step, **self.means(), **named}
        row["seconds"] = round(self.seconds, 3)
        self.history.rows.append(row)
        self.sums, self.examples, self.batches_done = {}, 0, 0
        return row

    def notice_best(self) -> bool:
        """Keep the arrays of the model if its latest epoch was the best one; says whether it was."""
        if self.monitored is None:
            return False
        row = self.history.last
        if self.monitored not in row:
            raise KeyError(f"best={self.monitored!r} is not measured; there are {', '.join(row)}")
        if not is_better(row[self.monitored], self.best_value, self.monitored):
            return False
        self.best_value = row[self.monitored]
        self.best_arrays = self.steps.model_of(self.state).state_dict()
        return True

    def tell(self, hook: str) -> None:
        """Call a hook of all callbacks that have it; a plain function is called after each epoch."""
        for callback in self.callbacks:
            f = getattr(callback, hook, None)
            if f is None and hook == "on_epoch" and callable(callback):
                f = callback
            if f is not None:
                f(self)


def add_to(sums: dict[str, float], values: dict[str, float], examples: int) -> None:
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value * examples


def means_of(sums: dict[str, float], examples: int) -> dict[str, float]:
    return {name: total / max(examples, 1) for name, total in sums.items()}


def is_better(value: float, best: float, name: str, least: float = 0.0) -> bool:
    """Whether a value improves on the best one (NaN: none yet) by more than `least`."""
    if math.isnan(value):
        return False
    if math.isnan(best):
        return True
    return value > best + least if is_higher_better(name) else value < best - least


@dataclass(frozen=True)
class Fitted:
    """What `bs.fit` returns: the trained model (in evaluation mode), its history, and where the run ended."""

    model: Any
    history: History
    epoch: int
    step: int
    seconds: float
    stopped: str | None = None  # why, if before the last epoch
    best_epoch: int | None = None  # with best=…: the one that the model is of

    @property
    def metrics(self) -> dict[str, Any]:
        """The numbers of the latest epoch, by name."""
        counts = ("epoch", "step", "seconds")
        return {name: v for name, v in self.history.last.items() if name not in counts}

    def predict(self, x: Any, batch_size: int = 256) -> Any:
        """What the model makes of many inputs, in compiled batches."""
        return predict(self.model, x, batch_size)

    def __repr__(self) -> str:
        shown = _shown(self.metrics.items())
        end = f", stopped by {self.stopped}" if self.stopped else ""
        best = f", model of epoch {self.best_epoch}" if self.best_epoch is not None else ""
        more = f", {shown}" if shown else ""
        return f"<Fitted: {self.epoch} epochs, {self.step} steps{more}{best}{end}>"


def fitted(run: Run) -> Fitted:
    model = run.steps.model_of(run.state)
    best = None
    if run.best_arrays is not None:
        model = model.replace(run.best_arrays)
        values = {row["epoch"]: row.get(run.monitored or "") for row in run.history.rows}
        best = next((epoch for epoch, value in values.items() if value == run.best_value), None)
    counts = run.epoch, run.step, run.seconds
    return Fitted(as_given(model.eval()), run.history, *counts, run.stopped, best)


def _shown(items: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in items)
