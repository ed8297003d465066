"""Logs: a line of JSON for every few steps and every epoch, and the same for TensorBoard, in one folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..interop.safetensors import write_whole
from .events import EventFile
from .run import Run


@dataclass(frozen=True)
class Log:
    """Where to log, the loss of every how many steps, and whether to log histograms of parameters."""

    folder: Any
    every_steps: int = 10
    histograms: bool = False
    tensorboard: bool = True


class Logger:
    """An open log. What an earlier run logged beyond the step at which this one goes on is taken out."""

    def __init__(self, settings: Log, step: int):
        self.settings = settings
        folder = Path(settings.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        _cut(self.path, step)
        self._lines = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - open as long as the run
        self._events = EventFile(folder, step) if settings.tensorboard else None

    def step(self, run: Run) -> None:
        if run.step % self.settings.every_steps == 0:
            self._write("step", run.step, {"loss": run.loss, **run.metrics})

    def epoch(self, run: Run) -> None:
        row = {k: v for k, v in run.history.last.items() if k != "step"}
        self._write("epoch", run.step, row)
        if self.settings.histograms and self._events:
            for name, a in run.state["parameters"].items():
                self._events.histogram(f"parameters/{name}", a, run.step)
        self.flush()

    def _write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        self._lines.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        if self._events:
            named = {f"{kind}/{k}": float(v) for k, v in values.items() if k != "epoch"}
            self._events.scalars(named, step)

    def flush(self) -> None:
        self._lines.flush()
        if self._events:
            self._events.flush()

    def close(self) -> None:
        self._lines.close()
        if self._events:
            self._events.close()


def read_log(folder: Any) -> list[dict[str, Any]]:
    """The lines of a log; a last one that was cut off is left out."""
    path = Path(folder) / "log.jsonl"
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _cut(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = [row for row in read_log(path.parent) if row["step"] <= step and step]
    write_whole(path, "".join(json.dumps(row) + "\n" for row in kept).encode())
