"""What carries a gradient, and how exact it is: `bs.explain` and `bs.rounding`, by solve/semiring.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import tree
from .api import linearize, vjp
from .api.curved import points_of
from .errors import NotScalarError, TracedValueError, UnsupportedError
from .hooks import hooks
from .ir import Var
from .results import check_numbers
from .row import Row
from .solve.rounding import rounding_errors
from .solve.semiring import check_count, gains_of, path_entropy
from .solve.semiring import paths as count_paths
from .solve.strongest import Carried, carrying_most
from .system import System
from .system_text import expression, name_of, show_value
from .tensor import Staged
from .vary import ArgNums, numbers_of
from .working import Working

_INPUTS = 10  # entries of arguments that are printed
_LONG = 8  # rows of a path that are printed


@dataclass(frozen=True)
class Input:
    """An entry of an argument, its part of the gradient, and its share of Σ|gradient|."""

    name: str
    value: float
    gradient: float
    share: float


@dataclass(frozen=True)
class Carrier:
    """A path: the numbers of its rows, the sum of what it alone adds to the gradient, and Σ |that|."""

    parameter: str
    rows: tuple[int, ...]
    carries: float
    size: float


@dataclass(frozen=True)
class Explanation:
    inputs: tuple[Input, ...]  # those with the largest gradient first
    paths: tuple[Carrier, ...]
    count: int  # of all paths
    entropy: float
    system: System
    is_proven: bool  # that no other path carries more; else paths were chosen by a bound

    def __str__(self) -> str:
        return "\n".join([*_input_lines(self), "", *_path_lines(self), "", *_row_lines(self)])

    __repr__ = __str__


def explain(
    f: Callable[..., Any], *args: Any, argnums: ArgNums | None = None, paths: int = 5
) -> Explanation:
    """Which inputs, and which paths through the program, carry the gradient of a scalar function.

    What a path carries is measured by applying its blocks one after the other. Paths are searched until those
    that are left cannot carry more; where that would take long they are found by their strength (see
    `System.strongest_paths`), which is a bound, and `is_proven` is false.

    >>> import numpy as np
    >>> found = explain(lambda x: np.exp(x[0]) + 3 * x[1], np.array([0.0, 1.0]))
    >>> [(i.name, i.gradient) for i in found.inputs]
    [('x[1]', 3.0), ('x[0]', 1.0)]
    >>> [p.carries for p in found.paths]
    [3.0, 1.0]
    """
    check_count(paths)
    with hooks.as_written.holding(True):
        system = linearize(f, argnums)(*args)
    check_numbers("explain", system._raw_outputs)
    if len(system.outputs) != 1 or system.out_types[0].size != 1:
        shapes = ", ".join(str(t.shape) for t in system.out_types)
        raise NotScalarError(
            f"explain is of a function with one number as its result, got shape {shapes}; "
            "reduce it with .sum() or .mean()"
        )
    found = tree.flatten(system.backward())[0]
    _check_numbers("explain finds what carries a gradient", args, system, found)
    gradient = [g for g in found if _varies(g)]
    values = [x for x in _given(args, argnums) if _varies(x)]
    with Working("following paths"):
        return explanation(system, values, gradient, paths)


def explanation(
    system: System, values: Sequence[Any], gradient: Sequence[Any], paths: int = 5
) -> Explanation:
    """The same of a System with one number as its output, whose parameters have these values and gradients."""
    if any(p.dtype.kind == "c" for p in system.parameters):
        raise UnsupportedError(
            "explain is of real arguments: give real and imaginary parts as two of them"
        )
    total = sum(float(np.abs(g).sum()) for g in gradient) or 1.0
    entries = [
        Input(_entry(name, at), float(np.asarray(x)[at]), float(np.asarray(g)[at]), 0.0)
        for name, x, g in zip(system.names, values, gradient, strict=True)
        for at in _largest(np.asarray(g))
    ]
    entries.sort(key=lambda i: -abs(i.gradient))
    inputs = tuple(
        [Input(i.name, i.value, i.gradient, abs(i.gradient) / total) for i in entries[:_INPUTS]]
    )
    gains = gains_of(system)
    found, is_proven = carrying_most(system, paths, gains)
    carriers = tuple([_carrier(system, p) for p in found])
    count, entropy = count_paths(system, gains), path_entropy(system, gains)
    return Explanation(inputs, carriers, count, entropy, system, is_proven)


def _check_numbers(
    finds: str, args: Sequence[Any], system: System, found: Sequence[Any] = ()
) -> None:
    values = (*tree.flatten(args)[0], *system._raw_outputs, *found)
    if any(isinstance(x, Staged | Var) for x in values):
        raise TracedValueError(
            f"{finds} by its numbers, and inside `jit` and `vmap` there are types alone: call it outside, on "
            "one example"
        )


def _given(args: Sequence[Any], argnums: ArgNums | None) -> list[Any]:
    numbers = range(len(args)) if argnums is None else numbers_of(argnums)[1]
    return tree.flatten(tuple([args[n] for n in numbers]))[0]


def _varies(x: Any) -> bool:
    """Names and settings among the arguments stand for themselves."""
    return np.asarray(getattr(x, "_v", x)).dtype.kind in "fc"


def _largest(g: Any) -> list[tuple[int, ...]]:
    """Where the largest entries of an array stand."""
    flat = np.abs(g).reshape(-1)
    if flat.size > _INPUTS:
        least = np.partition(flat, -_INPUTS)[-_INPUTS]  # NaN stands last there, as the largest
        some = np.flatnonzero(~(flat < least))
    else:
        some = np.arange(flat.size)
    some = some[np.argsort(-flat[some], kind="stable")][:_INPUTS]
    return [tuple(int(i) for i in np.unravel_index(k, g.shape)) for k in some]


def _entry(name: str, at: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def _carrier(system: System, p: Carried) -> Carrier:
    name = system.names[p.parameter - 1]
    return Carrier(name, p.rows, float(np.asarray(p.gradient).sum()), p.size)


# ---- printing


def _table(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _input_lines(e: Explanation) -> list[str]:
    lines = [["input", "value", "gradient", "share"]]
    for i in e.inputs:
        lines.append([i.name, show_value(i.value), show_value(i.gradient), f"{i.share:.0%}"])
    return _table(lines)


def _path_lines(e: Explanation) -> list[str]:
    how = "" if e.is_proven else ", by a bound"
    lines = [[f"path (of {_many(e.count)}, as {np.exp(e.entropy):.3g} equal ones{how})", "carries"]]
    for p in e.paths:
        steps = [f"v{k}" for k in p.rows]
        if len(steps) > _LONG:
            steps = [*steps[: _LONG // 2], "…", *steps[-_LONG // 2 :]]
        lines.append([" → ".join([p.parameter, *steps]), show_value(p.carries)])
    return _table(lines)


def _many(n: int) -> str:
    return str(n) if n < 10**9 else f"{float(n):.3g}" if n < 10**300 else "more than 1e+300"


def _row_lines(e: Explanation) -> list[str]:
    """The rows of the strongest paths with their lines in the source."""
    numbers = sorted({k for p in e.paths for k in (*p.rows[: _LONG // 2], *p.rows[-_LONG // 2 :])})
    lines = [["row", "value", "at"]]
    for k in numbers:
        row = e.system.rows[k - 1]
        text = f"{name_of(e.system, row)} = {expression(e.system, row)}"
        lines.append([text, show_value(e.system.values.get(row)), e.system.lines.get(row, "")])
    return _table(lines)


# ---- rounding


@dataclass(frozen=True)
class Rounding:
    """A gradient as it was computed, and how far from the exact one it may be, entry by entry."""

    gradient: Any
    bound: Any


def _refuse_stopped(t: Any) -> None:
    """Errors pass where no derivative does; arguments have none."""
    row = t.row
    while row is not None and row.primitive.name == "alias":
        row = next((p for p in row.parents if p.__class__ is Row), None)
    if row is not None and not row.is_leaf:
        raise UnsupportedError(
            "rounding follows errors by derivatives, and stop_gradient has none: give what it stops as an "
            "argument, which is taken as exact"
        )


def rounding(f: Callable[..., Any], *args: Any, argnums: ArgNums = 0) -> Rounding:
    """The gradient of a scalar function and a first-order bound of its rounding error.

    From the system of the gradient program itself, whose rows are those of `f` and those of back
    substitution: the sum of what each row rounds, times the derivative of the gradient's entry in it; of many
    entries and rows, by one forward substitution with absolute values, a coarser bound. Arguments are taken as
    exact.

    >>> import numpy as np
    >>> found = rounding(lambda x: (1 - np.cos(x)) / x**2, 1e-4)  # cancels
    >>> bool(1e-6 < found.bound / abs(found.gradient))
    True
    """
    if points_of(args):
        raise UnsupportedError("rounding is of arrays: the errors of projections are not known")
    single, numbers = numbers_of(argnums)
    chosen = tuple([args[n] for n in numbers])

    def gradient(parts: Any, seed: Any) -> Any:
        inner = list(args)
        for n, part in zip(numbers, parts, strict=True):
            inner[n] = part

        def of_chosen(*varied: Any) -> Any:
            whole = list(inner)
            for n, part in zip(numbers, varied, strict=True):
                whole[n] = part
            return hooks.users(f)(*whole)

        value, pull = vjp(of_chosen, *parts)
        if np.shape(value) != ():
            raise NotScalarError(
                f"rounding is of a function with one number as its result, got shape {np.shape(value)}; "
                "reduce it with .sum() or .mean()"
            )
        return pull(seed)

    # The seed varies, too: so every step of back substitution is a row, even where only constants meet.
    stopped: list[Any] = []
    with hooks.stopped.holding(stopped.append):
        system = linearize(gradient, (0, 1))(chosen, np.float64(1.0))
    _check_numbers("rounding bounds the errors of a gradient", args, system)
    at = [*tree.flatten(chosen)[0], 1.0]
    bounds = [b[()] for b in rounding_errors(system, at)]
    for t in stopped:
        _refuse_stopped(t)
    found = [np.asarray(v)[()] for v in system._raw_outputs]
    form = tree.flatten(chosen)[1]
    values, limits = form.unflatten(found), form.unflatten(bounds)
    return Rounding(values[0], limits[0]) if single else Rounding(values, limits)
