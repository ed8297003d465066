"""Logs: lines of JSON, and the same numbers for TensorBoard, in one folder.

Every line of log.jsonl has a `kind` and the `step` after which it was written:

    start        time (of the day, in seconds), epochs, host (held.py): a process begins, or goes on
    step         loss, metrics, learning_rate, seconds (of the run), step_seconds, examples_per_second
    epoch        epoch, means of loss and metrics, those of the validation (val_…), seconds
    gradients    norms: the norm of the gradient of each parameter, before clipping
    weights      epoch, arrays: a histogram (histograms.py) of each parameter
    activations  epoch, arrays: one of what each module returns, in evaluation mode
    slopes       epoch, arrays: one of the gradient of each parameter, of the loss on the same examples
    nan          epoch, text: the step after this one was not finite, and why
    note         text
    end          epoch, stopped: why, if before the last epoch; an error, too

`gradients`, `weights`, `activations` and `slopes` are there with histograms=True. Where an optimiser has
groups, each has its rate, `learning_rate/pattern`.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import tree
from ..interop.safetensors import write_whole
from .activations import Looks
from .events import EventFile
from .held import hold
from .histograms import histogram, short
from .run import Run
from .step import learning_rates

FILE = "log.jsonl"
_FLUSHED = 1.0  # seconds between writes to disk: who watches sees a run move


@dataclass(frozen=True)
class Log:
    """Where to log, and the loss of every how many steps.

    With `histograms`, also norms of gradients at those steps and, after epochs, histograms of weights, of their
    gradients and of what modules return; these take at most `share` of the run's time, but for the first and
    the last epoch.
    """

    folder: Any
    every_steps: int = 10
    histograms: bool = False
    tensorboard: bool = True
    share: float = 0.02


class Logger:
    """An open log. What an earlier run logged beyond the step at which this one goes on is taken out.

    `with logger: …` closes it in the end, and notes an error that ends the run.
    """

    def __init__(self, settings: Log, run: Run):
        self.settings = settings
        folder = Path(settings.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        _cut(self.path, run.step, run.epoch)
        self._lines = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - open as long as the run
        self._events = EventFile(folder, run.step) if settings.tensorboard else None
        self._pace = _Pace(run)
        self._looking, self._latest_look = 0.0, 0.0
        self._looks, self._unseen = Looks(run.steps), set[str]()
        self._norms: dict[str, float] = {}
        self._run, self._has_end = run, False
        began = {"time": round(time.time(), 3), "epochs": run.epochs, "host": hold(self._lines)}
        self._write("start", run.step, began)
        self.flush()

    def step(self, run: Run) -> None:
        self._pace.add(run)
        if run.step % self.settings.every_steps:
            return
        rates = learning_rates(run.steps.rule, run.step, run.rate_factor)
        named = {f"learning_rate/{k}" if k else "learning_rate": v for k, v in rates.items()}
        values = {**named, **self._pace.taken(), "loss": run.loss, **run.metrics}
        self._write("step", run.step, values, scalars=True)
        if run.norms:
            self._norms = {name: short(norm) for name, norm in run.norms.items()}
            self._write("gradients", run.step, {"norms": self._norms})
        if time.perf_counter() - self._flushed >= _FLUSHED:
            self.flush()

    def wants_norms(self, run: Run) -> bool:
        """Of gradients, in the step that comes."""
        return self.settings.histograms and (run.step + 1) % self.settings.every_steps == 0

    def epoch(self, run: Run, batch: Any) -> None:
        """`batch` is the latest one, which modules are shown."""
        row = {k: v for k, v in run.history.last.items() if k != "step"}
        self._write("epoch", run.step, row, scalars=True)
        if self.settings.histograms and self._may_look(run):
            began = time.perf_counter()
            self._look(run, batch)
            self._latest_look = time.perf_counter() - began
            self._looking += self._latest_look
        self.flush()
        self.restart_clock()

    def nan(self, run: Run, text: str) -> None:
        self._write("nan", run.step, {"epoch": run.epoch + 1, "text": text})
        self._has_end = True
        self.flush()

    def end(self, run: Run, stopped: str | None = None) -> None:
        self._write("end", run.step, {"epoch": run.epoch, "stopped": stopped or run.stopped})
        self._has_end = True
        self.flush()

    # ---- histograms

    def _may_look(self, run: Run) -> bool:
        if not self._looking or run.epoch == run.epochs:
            return True
        return self._looking + self._latest_look <= self.settings.share * run.seconds

    def _look(self, run: Run, batch: Any) -> None:
        parts = {name: tree.flatten(a)[0] for name, a in run.state["parameters"].items()}
        self._spread("weights", run, {n: p[0] for n, p in parts.items() if len(p) == 1})
        if self._events:
            norms = {f"gradients/{name}": norm for name, norm in self._norms.items()}
            self._events.scalars(norms, run.step)
        self._look_by("activations", self._looks.activations, run, batch)
        self._look_by("slopes", self._looks.slopes, run, batch)

    def _look_by(self, kind: str, look: Any, run: Run, batch: Any) -> None:
        if kind in self._unseen:
            return
        try:
            found = {name: tree.flatten(a)[0] for name, a in look(run.state, batch).items()}
            whole = {
                n: np.concatenate([np.reshape(a, -1) for a in parts]) for n, parts in found.items()
            }
        except Exception as error:  # training goes on
            self._unseen.add(kind)
            text = f"{kind} are not logged, the model cannot be run aside: {error}"
            self._write("note", run.step, {"text": text})
            return
        self._spread(kind, run, whole)

    def _spread(self, kind: str, run: Run, arrays: dict[str, Any]) -> None:
        if not arrays:
            return
        spread = {name: histogram(a) for name, a in arrays.items()}
        self._write(kind, run.step, {"epoch": run.epoch, "arrays": spread})
        if self._events:
            head = "parameters" if kind == "weights" else kind
            for name, found in spread.items():
                self._events.histogram(f"{head}/{name}", found, run.step)

    # ---- the file

    def _write(self, kind: str, step: int, values: dict[str, Any], scalars: bool = False) -> None:
        self._lines.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        if scalars and self._events:
            named = {f"{kind}/{k}": float(v) for k, v in values.items() if k != "epoch"}
            self._events.scalars(named, step)

    def flush(self) -> None:
        self._flushed = time.perf_counter()
        self._lines.flush()
        if self._events:
            self._events.flush()

    def restart_clock(self) -> None:
        """What was done since the latest step is no part of the next one's time."""
        self._pace.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not self._has_end:
            message = str(error).partition("\n")[0]
            self.end(self._run, f"{type(error).__name__}: {message}".removesuffix(": "))
        self._lines.close()
        if self._events:
            self._events.close()


class _Pace:
    """The time of steps, and of nothing between; the first of each size, which compiles, does not count."""

    def __init__(self, run: Run):
        self._epoch, self._before = run.epoch, run.examples
        self._at: float | None = None
        self._sizes = set[int]()  # of batches
        self._began = time.perf_counter() - run.seconds
        self._clear()

    def _clear(self) -> None:
        self._seconds, self._steps, self._examples = 0.0, 0, 0

    def add(self, run: Run) -> None:
        now = time.perf_counter()
        if run.epoch != self._epoch:
            self._epoch, self._before = run.epoch, 0
        size = run.examples - self._before
        if self._at is not None and size in self._sizes:
            self._seconds += now - self._at
            self._steps += 1
            self._examples += size
        self._sizes.add(size)
        self._at, self._before = now, run.examples

    def restart(self) -> None:
        if self._at is not None:
            self._at = time.perf_counter()

    def taken(self) -> dict[str, float]:
        """Since it was last asked for."""
        found = {"seconds": round(time.perf_counter() - self._began, 3)}
        if self._steps and self._seconds > 0:
            found["step_seconds"] = short(self._seconds / self._steps)
            found["examples_per_second"] = short(self._examples / self._seconds)
        self._clear()
        return found


def read_log(folder: Any) -> list[dict[str, Any]]:
    """The lines of a log; a last one that was cut off is left out."""
    text = (Path(folder) / FILE).read_text(encoding="utf-8")
    return [row for line in text.splitlines() if (row := parsed(line)) is not None]


def parsed(line: str) -> dict[str, Any] | None:
    """A line of a log; None if it is not whole."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "kind" in row and "step" in row else None


def _cut(path: Path, step: int, epoch: int) -> None:
    """Leave what was logged up to a step and an epoch: the next epoch may end at that very step."""
    if not path.exists():
        return
    rows = [row for row in read_log(path.parent) if row["step"] <= step and step]
    kept = [row for row in rows if row.get("epoch", 0) <= epoch]
    write_whole(path, "".join(json.dumps(row) + "\n" for row in kept).encode())
