"""What one sees of a run: a bar in terminals and notebooks, lines elsewhere if asked for."""

from __future__ import annotations

import time
from typing import Any

from ..cells import CellBar
from .run import Run


class Quiet:
    """Shows nothing."""

    def start(self, run: Run) -> None: ...

    def step(self, run: Run) -> None: ...

    def epoch(self, run: Run) -> None: ...

    def say(self, text: str) -> None: ...

    def end(self, run: Run) -> None: ...


class Lines(Quiet):
    """A line for every epoch."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False)

    def epoch(self, run: Run) -> None:
        row = run.history.last
        self.say(f"epoch {run.epoch}/{run.epochs}  {shown(row)}  {clock(run.seconds)}")

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False)


class Bar(Lines):
    """One line that moves: epoch, share, loss, metrics, examples a second, time left (in the end: taken)."""

    refresh = 0.1  # seconds

    def start(self, run: Run) -> None:
        self.open(self._title(run))
        self.drawn = self.began = self.at = time.perf_counter()
        self.first_step = run.step
        self.rate, self.examples_before = 0.0, run.examples
        self.made, self.seconds = 0, 0.0  # by steps since it was drawn, and in what time

    def step(self, run: Run) -> None:
        now = time.perf_counter()
        if run.step == self.first_step + 1:  # compiling does not count
            self.began = self.drawn = now
        else:
            self.made += run.examples - self.examples_before
            self.seconds += now - self.at
        self.at, self.examples_before = now, run.examples
        if now - self.drawn >= self.refresh:
            self._draw(run, now, f"{clock(self._left(run, now))} left")

    def epoch(self, run: Run) -> None:
        self.at, self.examples_before = time.perf_counter(), 0  # validation is no part of a step
        if run.epoch < run.epochs and not run.stopped:
            return
        self._draw(run, self.at, clock(run.seconds), ended=True)

    def _draw(self, run: Run, now: float, when: str, ended: bool = False) -> None:
        if self.made and self.seconds:
            new = self.made / self.seconds
            self.rate = 0.7 * self.rate + 0.3 * new if self.rate else new
        self.drawn, self.made, self.seconds = now, 0, 0.0
        values = run.history.last if ended or not run.sums else {**run.history.last, **run.means()}
        speed = f"{self.rate:,.0f} examples/s" if self.rate else ""
        if self.is_narrow:
            values, speed = few(values), speed.replace(" examples", "")
        total = len(run.batches)
        share = 1.0 if ended else run.batches_done / total if total else None
        parts = [part for part in (shown(values), speed, when) if part]
        self.show(self._title(run), share, "  ".join(parts))

    # ---- how it is drawn, in a terminal

    @property
    def is_narrow(self) -> bool:
        return self.console.width < 130

    def open(self, title: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10 if self.is_narrow else 24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[numbers]}"),
            console=self.console,
            auto_refresh=False,
        )
        self.progress.start()
        self.task = self.progress.add_task(title, total=None, numbers="compiling …")
        self.progress.refresh()

    def show(self, title: str, share: float | None, numbers: str) -> None:
        total = None if share is None else 1.0
        self.progress.update(
            self.task, description=title, total=total, completed=share or 0.0, numbers=numbers
        )
        self.progress.refresh()

    def say(self, text: str) -> None:
        console = self.progress.console if hasattr(self, "progress") else self.console
        console.print(text, soft_wrap=True, markup=False)

    def end(self, run: Run) -> None:
        self.progress.stop()

    def _title(self, run: Run) -> str:
        return f"epoch {min(run.epoch + 1, run.epochs) if run.sums else max(run.epoch, 1)}/{run.epochs}"

    def _left(self, run: Run, now: float) -> float:
        steps = run.step - self.first_step - 1
        if not len(run.batches) or not steps:
            return 0.0
        left = len(run.batches) * (run.epochs - run.epoch) - run.batches_done
        return (now - self.began) / steps * left


class Cell(Bar):
    """The same in the output of a notebook's cell."""

    refresh = 0.25  # each drawing is a message to the browser
    is_narrow = False

    def __init__(self) -> None:
        self.output = CellBar()

    def open(self, title: str) -> None:
        self.show(title, None, "compiling …")

    def show(self, title: str, share: float | None, numbers: str) -> None:
        self.output.show(title, share, numbers)
        self.last = title, share, numbers

    def say(self, text: str) -> None:
        print(text)

    def end(self, run: Run) -> None:
        title, share, numbers = self.last
        if share is None:  # no bar stays in motion after an error
            self.show(title, 0.0, numbers.replace("compiling …", "stopped"))


def display(progress: Any) -> Quiet:
    """True: a bar where somebody watches; "lines": a line an epoch, wherever; False: nothing."""
    if progress not in (True, False, "lines"):
        raise ValueError(f'progress must be True, False or "lines", got {progress!r}')
    if not progress:
        return Quiet()
    from rich.console import Console

    console = Console()
    if console.is_jupyter:
        return Cell()
    return Bar() if console.is_terminal else Lines() if progress == "lines" else Quiet()


def shown(values: dict[str, Any]) -> str:
    """Numbers by name, short."""
    left_out = ("epoch", "step", "seconds")
    return "  ".join(f"{k} {v:.4g}" for k, v in values.items() if k not in left_out)


def few(values: dict[str, Any]) -> dict[str, Any]:
    """The loss, and of each other measure that of the validation if there is one: for narrow terminals.

    >>> few({"loss": 0.5, "accuracy": 0.8, "val_loss": 0.6, "val_accuracy": 0.7})
    {'loss': 0.5, 'val_accuracy': 0.7}
    """
    hidden = {name.removeprefix("val_") for name in values if name.startswith("val_")} - {"loss"}
    return {k: v for k, v in values.items() if k not in hidden and k != "val_loss"}


def clock(seconds: float) -> str:
    """
    >>> clock(3723.4)
    '1:02:03'
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
