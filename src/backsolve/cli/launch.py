"""backsolve launch: a script in many processes that are one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..distributed.launch import Many, free_address, launch

HELP = "run a script in many processes, on this machine or on several"
ABOUT = """\
Start a script several times as the processes of one run; `bs.distributed.start()` in it joins them.

  backsolve launch -n 4 train.py --epochs 10         four processes on this machine

On several machines, the same on each with its own number (process 0 listens at the coordinator):

  backsolve launch --coordinator node0:1234 --processes 8 --index 3 train.py --epochs 10

With -n as well, --index is the number of the first process here. Lines of each process begin with
its number. Ctrl-C reaches all of them. If one dies all end, and the last line says which and how.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-n", type=int, default=None, metavar="N", help="processes on this machine (1)")
    add(
        "--coordinator",
        metavar="HOST:PORT",
        help="where process 0 listens (this machine, any port)",
    )
    add("--processes", type=int, metavar="N", help="of the whole run, over all machines")
    add("--index", type=int, metavar="K", help="number of the first process here")
    add("script", type=Path, help="a Python file")
    add("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run(options: argparse.Namespace) -> int:
    if not options.script.is_file():
        raise FileNotFoundError(f"there is no script {options.script}")
    manual = (options.coordinator, options.processes, options.index)
    if any(x is not None for x in manual) and None in manual:
        raise ValueError("several machines need all of --coordinator, --processes and --index")
    local = 1 if options.n is None else options.n
    command = [str(options.script), *options.arguments]
    if options.coordinator is not None:
        many = Many(local, options.processes, options.index, options.coordinator)
        return launch(many, command)
    with free_address() as address:
        return launch(Many(local, local, 0, address), command)
