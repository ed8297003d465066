"""backsolve bench: how long a function and its gradient take, eager, compiled, and beside other libraries."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from .. import tree
from ..api import value_and_grad
from ..compiled import jit
from ..errors import BacksolveError
from ..hooks import hooks
from ..working import Working
from . import calling, peers
from .calling import Call
from .timing import Timing, clock, measured

HELP = "time a function and its gradient"
ABOUT = f"""\
Time a function, and its value with its gradient (that of the sum of its results), eagerly and compiled by
bs.jit. The same code runs on the arrays of autograd, JAX (jax.jit) and PyTorch, where these are installed and
can run it; if their numbers differ from ours they are left out. All take turns; a time is the median of them
with half the width of their middle half as its noise; ratios are to the compiled gradient of Backsolve's.

  backsolve bench model.py:loss --args 'np.random.default_rng(0).normal(size=1000)'
  backsolve bench model.py:loss --seconds 10 --no-peers

{calling.TEACHING}"""
_BOTH = "value and gradient"
_NOISY = 0.25  # share of a time that it varies by, above which it is said


def add_arguments(parser: argparse.ArgumentParser) -> None:
    calling.add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=3.0, help="to measure for (%(default)s)")
    parser.add_argument("--no-peers", action="store_true", help="time Backsolve alone")


def run(options: argparse.Namespace) -> int:
    if not 0 < options.seconds <= 3600:
        raise ValueError(f"--seconds must be above 0 and at most 3600, got {options.seconds}")
    call = calling.call_of(options)
    with calling.blaming(call), Working("compiling") as bar:
        contestants, compiling, left_out = _ours(call)
        with nullcontext() if options.no_peers else peers.in_64_bits():
            if not options.no_peers:
                _add_peers(contestants, left_out, call)
            runs = {f"{a}\t{what}": go for a, of in contestants.items() for what, go in of.items()}
            times = measured(
                runs,
                options.seconds,
                lambda done, total: bar.show(done, total, "timing"),
            )
    print(f"{call}\n\n{_table(contestants, times)}")
    noisiest = max(t.share for t in times.values())
    if noisiest > _NOISY:
        print(
            f"\nTimes vary by up to {noisiest:.0%}: other programs run here; measure longer with --seconds."
        )
    if compiling is not None:
        print(f"\ncompiling value and gradient took {clock(compiling)}")
    for name, why in left_out.items():
        print(f"{name} is left out: {why}")
    return 0


def _ours(call: Call) -> tuple[dict[str, peers.Timed], float | None, dict[str, str]]:
    total = _total(call)
    eager = value_and_grad(total, call.argnums)
    found: dict[str, peers.Timed] = {
        "NumPy": {"value": lambda: call.f(*call.args)},
        "backsolve": {_BOTH: lambda: eager(*call.args)},
    }
    expected = eager(*call.args)
    fixed = tuple([n for n in peers.fixed_numbers(call.args) if not hasattr(call.args[n], "dtype")])
    value = jit(total, static_argnums=fixed)
    both = jit(value_and_grad(total, call.argnums), static_argnums=fixed)
    start = time.perf_counter()
    try:
        got = both(*call.args)
        seconds = time.perf_counter() - start
        value(*call.args)
    except BacksolveError as error:
        return found, None, {"backsolve.jit": _first_line(error)}
    if not peers.agrees(expected, got):
        return found, None, {"backsolve.jit": "its numbers differ from the eager ones"}
    found["backsolve.jit"] = {
        "value": lambda: value(*call.args),
        _BOTH: lambda: both(*call.args),
    }
    return found, seconds, {}


def _total(call: Call) -> Callable[..., Any]:
    """The function itself if it gives one number, else the sum of all that it gives."""
    results = tree.flatten(call.f(*call.args))[0]
    if not results:
        raise ValueError("it gives no numbers: is a `return` missing?")
    if len(results) == 1 and np.ndim(results[0]) == 0:
        return call.f
    f = hooks.users(call.f)

    def total(*args: Any) -> Any:
        leaves = tree.flatten(f(*args))[0]
        return sum(np.sum(y) if np.ndim(y) else y for y in leaves)

    return total


def _add_peers(found: dict[str, peers.Timed], left_out: dict[str, str], call: Call) -> None:
    expected = found["backsolve"][_BOTH]()
    for name in peers.installed():
        try:
            timed = peers.peer(name, call.f, call.args, call.argnums)
            is_same = peers.agrees(expected, timed[_BOTH]())
            timed["value"]()
        except (
            Exception
        ) as error:  # whatever another library makes of code that was not written for it
            left_out[name] = f"{type(error).__name__}: {_first_line(error)}"
            continue
        if is_same:
            found[name] = timed
        else:
            left_out[name] = "it computes other numbers"


def _first_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return text if len(text) <= 100 else text[:99] + "…"


def _table(contestants: dict[str, peers.Timed], times: dict[str, Timing]) -> str:
    reference = times.get(f"backsolve.jit\t{_BOTH}") or times[f"backsolve\t{_BOTH}"]
    lines = [["", "value", _BOTH, "gradient beside ours"]]
    for name in contestants:
        value, both = (times.get(f"{name}\t{what}") for what in ("value", _BOTH))
        lines.append([name, _cell(value), _cell(both), _ratio(both, reference)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cell(t: Timing | None) -> str:
    return "–" if t is None else f"{clock(t.seconds)} ± {t.share:.0%}"


def _ratio(t: Timing | None, reference: Timing) -> str:
    if t is None or t is reference:
        return ""
    noise = float(np.hypot(t.share, reference.share))
    ratio = t.seconds / reference.seconds
    return f"{_short(ratio)} ×" + (f" ± {_short(noise * ratio)}" if noise > 0.05 else "")


def _short(x: float) -> str:
    return f"{x:,.0f}" if x >= 10 else f"{x:.1f}" if x >= 1 else f"{x:.2f}"
