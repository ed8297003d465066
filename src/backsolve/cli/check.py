"""backsolve check: the derivatives of a function beside differences of its values."""

from __future__ import annotations

import argparse

from ..testing.report import grad_report
from ..working import Working
from . import calling

HELP = "check the derivatives of a function against differences"
ABOUT = f"""\
Compare derivatives of a function, forward and reverse, with differences of its values, entry by entry: of
which result, by which input, what differences say, what was computed, and the error beside what the
difference's own error and rounding allow. Points where the function has a kink, a jump or the edge of its
domain are named as such. The exit status is 1 if a derivative is wrong.

  backsolve check model.py:loss --args 'np.ones(3)' 2.0
  backsolve check model.py:loss --order 2
  backsolve check model.py:loss --args weights.npy --all

A function of NumPy's that Backsolve differentiates should pass; what is checked above all are derivatives
written by hand (bs.Function, bs.primitive, bs.implicit), and where a value was taken out of the program.

{calling.TEACHING}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    calling.add_arguments(parser)
    parser.add_argument(
        "--order", type=int, default=1, help="2: second derivatives too (%(default)s)"
    )
    parser.add_argument(
        "--mode",
        choices=["forward", "reverse", "both"],
        default="both",
        help="which derivatives (%(default)s)",
    )
    parser.add_argument(
        "--all", action="store_true",
        help="check every entry of large arguments; else 64 of each and a random direction",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (%(default)s)")


def run(options: argparse.Namespace) -> int:
    if not 1 <= options.order <= 4:
        raise ValueError(f"--order must be 1, 2, 3 or 4, got {options.order}")
    call = calling.call_of(options)
    modes = ("forward", "reverse") if options.mode == "both" else (options.mode,)
    with calling.blaming(call), Working("checking") as bar:
        report = grad_report(
            call.f, call.args, names=call.names, argnums=call.argnums, order=options.order,
            modes=modes, most=None if options.all else 64, seed=options.seed, progress=bar.show,
        )  # fmt: skip
    print(f"{call}\n\n{report}")
    return 0 if report.is_right else 1
