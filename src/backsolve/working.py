"""A bar on the terminal, or in a notebook, for what takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Self

from .cells import CellBar, is_notebook

_PATIENCE = 1.0  # seconds before something is shown
_REFRESH = 0.25  # between drawings in a notebook, each a message to the browser
_shown = threading.Lock()  # held by the bar that may be shown: there is one at a time


class Working:
    """`with Working("checking") as bar: bar.show(done, total)`; nothing is shown where nobody watches.

    It goes to the error stream, so that what a command prints can be piped, and leaves nothing behind. Inside
    of another one it shows nothing.
    """

    def __init__(self, title: str):
        self.state: dict[str, Any] = {"description": title, "total": None}
        self.progress: Any = None
        self.cell: CellBar | None = None
        self.drawn = 0.0
        self.timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        in_cell = is_notebook()
        if (in_cell or _is_watched()) and _shown.acquire(blocking=False):
            self.timer = threading.Timer(_PATIENCE, self._open_cell if in_cell else self._open)
            self.timer.daemon = True
            self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.timer is None:
            return
        self.timer.cancel()
        self.timer.join()
        if self.progress is not None:
            self.progress.stop()
        if self.cell is not None:
            self.cell.clear()
        _shown.release()

    def show(self, done: float, total: float, title: str | None = None) -> None:
        self.state |= {"completed": done, "total": total}
        self.state |= {"description": title} if title else {}
        if self.progress is not None:
            self.progress.update(self.progress.task_ids[0], **self.state)
        if self.cell is not None and time.monotonic() - self.drawn >= _REFRESH:
            self._draw(self.cell)

    def _open_cell(self) -> None:
        cell = CellBar()
        self._draw(cell)
        self.cell = cell

    def _draw(self, cell: CellBar) -> None:
        self.drawn = time.monotonic()
        total = self.state["total"]
        share = self.state["completed"] / total if total else None
        cell.show(self.state["description"], share, "")

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        progress.add_task(**self.state)
        progress.start()
        self.progress = progress


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
