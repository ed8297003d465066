"""The command line: `backsolve train`, `explore`, `check` and others; also as `python -m backsolve`."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..errors import BacksolveError, describe_line
from . import (
    bench,
    check,
    completion,
    dashboard,
    explain,
    explore,
    export,
    launch,
    predict,
    show,
    train,
)
from .targets import near

_COMMANDS = {
    "explore": explore,
    "explain": explain,
    "check": check,
    "bench": bench,
    "export": export,
    "train": train,
    "predict": predict,
    "show": show,
    "dashboard": dashboard,
    "launch": launch,
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

Run a script in many processes:

  backsolve launch -n 4 train.py

Each command explains itself: backsolve check --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all went well, 1 after a mistake that was explained, 130 after Ctrl-C."""
    parser = make_parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.prog = f"backsolve {options.command}" if options.command else parser.prog
        word = next((w for w in unknown if w.startswith("-") and not w.startswith("--")), None)
        hint = f"; write '({word})' if it belongs to --args" if word else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if options.command is None:
        parser.print_help()
        return 0
    try:
        with warnings.catch_warnings():  # of NumPy's, those at lines of the user's
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"backsolve\.")
            return _COMMANDS[options.command].run(options)
    except (BacksolveError, ValueError, KeyError, OSError, ModuleNotFoundError) as error:
        if options.debug:
            raise
        text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        caller = sys._getframe(1)  # what started the command is no place in the user's function
        here = f"\n    at {describe_line(caller.f_code.co_filename, caller.f_lineno)}"
        print(f"backsolve {options.command}: {text.replace(here, '')}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"\nbacksolve {options.command}: {error or 'stopped by Ctrl-C'}", file=sys.stderr)
        return 130


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """What is wrong comes last, with what to type next; the help has the rest."""
        named = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        guess = near(named[1], re.findall(r"[^\s',]+", named[2])) if named else ""
        self.exit(2, f"{self.prog}: {message}{guess}\nSee `{self.prog} --help`.\n")


def make_parser() -> Parser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser("backsolve", description=_ABOUT, formatter_class=plain)
    parser.add_argument("--version", action="version", version=f"backsolve {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="command")
    for name, module in _COMMANDS.items():
        command = commands.add_parser(
            name, help=module.HELP, description=module.ABOUT, formatter_class=plain
        )
        module.add_arguments(command)
        command.add_argument("--debug", action="store_true", help="show where an error was raised")
    return parser
