"""backsolve explain: what carries a gradient, what it costs, how it is computed, how exact it is."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import tree
from ..api import grad
from ..costs import explain_cost
from ..errors import NotScalarError
from ..explaining import explain, rounding
from ..show import show
from ..source import source
from ..testing.grads import leaf_paths
from ..working import Working
from . import calling
from .calling import Call

HELP = "say in words what carries a gradient, what it costs, how exact it is"
ABOUT = f"""\
Print what is known about the gradient of a function at its arguments.

  backsolve explain model.py:loss --args 'np.ones(3)' 2.0
  backsolve explain model.py:loss --what trace,source

--what is one or more of:
  paths      inputs and paths through the program that carry most of the gradient
  cost       what each way to the Jacobian costs, and which one is chosen
  trace      the two columns: values ahead, adjoints back
  rounding   the gradient and how far rounding may have moved it, entry by entry
  source     the gradient as flat Python code
  all        everything

{calling.TEACHING}"""
_MOST = 12  # entries of a gradient whose rounding is printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    calling.add_arguments(parser)
    parser.add_argument(
        "--what", default="paths,cost,trace", metavar="PARTS",
        help="parts to print, with commas (%(default)s)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    wanted = [part.strip() for part in options.what.split(",")]
    parts = list(PARTS) if "all" in wanted else wanted
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"--what {part!r} is none of {', '.join([*PARTS, 'all'])}")
    call = calling.call_of(options)
    print(call)
    for part in parts:
        with calling.blaming(call), Working(part):
            text = _told(PARTS[part], call, of_many=len(parts) > 1)
        text = text.replace(f"{Path.cwd()}{os.sep}", "")  # places in files of this folder
        print(f"\n── {part}\n{text}" if len(parts) > 1 else f"\n{text}")
    return 0


def _told(part: Callable[[Call], str], call: Call, of_many: bool) -> str:
    """One of many parts may have no meaning for this function; the others have."""
    try:
        return part(call)
    except NotScalarError as error:
        if not of_many:
            raise
        return str(error.args[0]).partition("\n")[0]


def _paths(call: Call) -> str:
    return str(explain(call.f, *call.args, argnums=call.argnums))


def _cost(call: Call) -> str:
    return str(explain_cost(call.f, *call.args, argnums=call.argnums))


def _trace(call: Call) -> str:
    return str(show.trace(call.f, *call.args, argnums=call.argnums))


def _source(call: Call) -> str:
    return str(source(grad(call.f, call.argnums), *call.args)).rstrip()


def _rounding(call: Call) -> str:
    found = rounding(call.f, *call.args, argnums=call.argnums)
    leaves = tree.flatten(found.gradient)[0]
    names = [
        path
        for n, part in zip(call.argnums, found.gradient, strict=True)
        for path in leaf_paths(tree.flatten(part)[1], call.names[n])
    ]
    lines = []
    for name, g, bound in zip(names, leaves, tree.flatten(found.bound)[0], strict=True):
        for at in np.ndindex(np.shape(g)):
            value, limit = np.asarray(g)[at], np.asarray(bound)[at]
            share = limit / abs(value) if value else np.inf if limit else 0.0
            place = f"{name}[{', '.join(map(str, at))}]" if at else name
            lines.append((share, f"{place:<12}  {value:<24.16g}  ± {limit:<8.1e}  {digits(share)}"))
    lines.sort(key=lambda line: -line[0])
    more = f"\n… {len(lines) - _MOST:,} more, known better" if len(lines) > _MOST else ""
    head = f"{'by':<12}  {'gradient':<24}  {'rounding':<10}  digits"
    return "\n".join([head, *[text for _, text in lines[:_MOST]]]) + more


def digits(share: Any) -> str:
    """
    >>> digits(2e-9), digits(0.0), digits(3.0)
    ('8', 'all', '0')
    """
    return "all" if share == 0 else str(max(0, int(-np.log10(share))))


PARTS: dict[str, Callable[[Call], str]] = {
    "paths": _paths,
    "cost": _cost,
    "trace": _trace,
    "rounding": _rounding,
    "source": _source,
}
