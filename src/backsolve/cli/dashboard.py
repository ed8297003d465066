"""backsolve dashboard: a page over the logs of runs, also while they are under way."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from ..training.board import dashboard
from ..training.live import Live

HELP = "a page of curves, gradients, histograms and speed of runs"
ABOUT = """\
Make a page over the logs of runs: curves of loss and metrics, norms of gradients, histograms of
weights and activations, learning rate, speed, and what went wrong. Several runs are drawn together.

  backsolve dashboard runs/digits                        writes runs/digits/explore.html
  backsolve dashboard runs/1 runs/2 --out both.html      one file, to keep or to mail
  backsolve dashboard runs/digits --live --open          follows a run, until Ctrl-C

The page needs no network. A run that is stopped and goes on, or begins again, is followed, too.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", type=Path, help="folders of runs")
    add("--live", action="store_true", help="serve the page on this machine and follow the runs")
    add("--port", type=int, default=0, help="of the live page (any that is free)")
    add("--out", type=Path, help="the file to write (explore.html in the first folder)")
    add("--open", action="store_true", help="show the page in the browser")


def run(options: argparse.Namespace) -> int:
    if options.live:
        return _follow(options)
    page = dashboard(*options.runs, path=options.out or options.runs[0] / "explore.html")
    print(f"page: {page.path}")
    if options.open:
        page.open()
    return 0


def _follow(options: argparse.Namespace) -> int:
    if options.out is not None:
        raise ValueError("--live serves a page and writes none: leave out --out, or --live")
    live = Live(options.runs, options.port)
    print(f"{live.url}    (Ctrl-C ends it)", flush=True)
    if options.open:
        webbrowser.open(live.url)
    try:
        live.serve()
    except KeyboardInterrupt:
        print()
    return 0
