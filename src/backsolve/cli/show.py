"""backsolve show: the settings of a run and its curves."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..training.curves import text
from . import pictures
from .folder import read_description, read_history

HELP = "show the curves of a run"
ABOUT = """\
Show what was trained and how it went, also while it is under way: settings, the last epoch, and
curves of loss and metrics (• training, ○ test). With matplotlib they are also written to curves.png.

  backsolve show runs/digits
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument("--width", type=int, default=60, help="of the curves (%(default)s)")
    parser.add_argument("--height", type=int, default=10, help="of the curves (%(default)s)")


def run(options: argparse.Namespace) -> int:
    settings = read_description(options.run)["settings"]
    print("  ".join(f"{name} {_short(value)}" for name, value in settings.items()))
    history = read_history(options.run) if (options.run / "log.jsonl").is_file() else None
    if history is None or not len(history):
        print("no epoch is done yet")
        return 0
    last = "  ".join(
        f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in history.last.items()
    )
    print(f"{last}\n\n{text(history, options.width, options.height)}")
    path = pictures.curves(history, options.run)
    if path is not None:
        print(f"\ncurves: {path}")
    return 0


def _short(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
