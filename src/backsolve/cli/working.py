"""A bar on the terminal for what takes longer than a second."""

from __future__ import annotations

import threading
from types import TracebackType

_PATIENCE = 1.0  # seconds before something is shown


class Working:
    """`with Working("checking") as bar: bar.show(done, total)`; nothing is shown where nobody watches.

    It goes to the error stream, so that what a command prints can be piped, and leaves nothing behind.
    """

    def __init__(self, title: str):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self.task = self.progress.add_task(title, total=None)
        self.timer = threading.Timer(_PATIENCE, self.progress.start)
        self.timer.daemon = True

    def __enter__(self) -> Working:
        self.timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.timer.cancel()
        self.timer.join()
        self.progress.stop()

    def show(self, done: float, total: float, title: str | None = None) -> None:
        self.progress.update(self.task, completed=done, total=total, description=title)
