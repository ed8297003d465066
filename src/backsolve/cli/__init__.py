"""The command line: `backsolve train`, `explore`, `check` and others; also as `python -m backsolve`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import BacksolveError
from . import bench, check, completion, dashboard, explain, explore, predict, show, train

_COMMANDS = {
    "explore": explore,
    "explain": explain,
    "check": check,
    "bench": bench,
    "train": train,
    "predict": predict,
    "show": show,
    "dashboard": dashboard,
    "completion": completion,
}
_ABOUT = """\
See, explain, check and time the gradient of a function of yours:

  backsolve explore model.py:loss --args 'np.ones(3)' 2.0
  backsolve check model.py:loss --args 'np.ones(3)' 2.0

Train networks on tables and images, predict with them, look at their curves:

  backsolve train --data digits --model cnn --epochs 20 --out runs/digits
  backsolve show runs/digits
  backsolve dashboard runs/digits
  backsolve predict runs/digits --out predictions.csv

Each command explains itself: backsolve check --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all went well, 1 after a mistake that was explained, 130 after Ctrl-C."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        return _COMMANDS[options.command].run(options)
    except (BacksolveError, ValueError, KeyError, OSError, ModuleNotFoundError) as error:
        if options.debug:
            raise
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"backsolve {options.command}: {text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"\nbacksolve {options.command}: {error or 'stopped by Ctrl-C'}", file=sys.stderr)
        return 130


def make_parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("backsolve", description=_ABOUT, formatter_class=plain)
    parser.add_argument("--version", action="version", version=f"backsolve {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="")
    for name, module in _COMMANDS.items():
        command = commands.add_parser(
            name, help=module.HELP, description=module.ABOUT, formatter_class=plain
        )
        module.add_arguments(command)
        command.add_argument("--debug", action="store_true", help="show where an error was raised")
    return parser
