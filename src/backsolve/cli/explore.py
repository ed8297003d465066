"""backsolve explore: the page about a function."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..show import show
from ..working import Working
from . import calling

HELP = "see a function, its gradient and its system on a page"
ABOUT = f"""\
Write the page about a function at its arguments, and open it: the graph with values and gradients, the
matrix I − L, both substitutions step by step, inputs to edit, gradient code, prices, strongest paths. The
page is one file that needs nothing else.

  backsolve explore model.py:loss --args 'np.ones(3)' 2.0
  backsolve explore mypackage.model:loss --out loss.html --no-open

{calling.TEACHING}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    calling.add_arguments(parser)
    parser.add_argument("--out", type=Path, help="write the page here (a temporary file)")
    parser.add_argument("--no-open", action="store_true", help="do not open it in the browser")


def run(options: argparse.Namespace) -> int:
    call = calling.call_of(options)
    if options.out is not None and options.out.is_dir():
        raise ValueError(
            f"--out {options.out} is a folder: name a file in it, such as {options.out / 'page.html'}"
        )
    with calling.blaming(call), Working("drawing"):
        page = show(call.f, *call.args, argnums=call.argnums)
    if options.out is not None or options.no_open:
        page.save(options.out or Path(f"{page.title}.html"))
    if not options.no_open:
        page.open()
    print(page.path)
    return 0
