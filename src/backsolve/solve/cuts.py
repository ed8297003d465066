"""A straight-line program cut into segments: then it is a chain, whose states are what crosses the cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Program, Var


def cut_up(program: Program, most: int, alone: Sequence[int] = ()) -> list[Program]:
    """About `most` Programs, each of which is given what the one before returns, that compute the outputs.

    Cuts stand about evenly over the work, each at the place nearby where the fewest bytes cross. Equations
    `alone` are Programs of their own.
    """
    equations = program.equations
    n = len(equations)
    constants = {v for v, _ in program.constants}
    last = {v: -1 for v in program.inputs}
    for k, e in enumerate(equations):
        last.update({v: k for v in e.outputs})
        last.update({a: k for a in e.inputs if type(a) is Var})
    last.update({a: n for a in program.outputs if type(a) is Var})
    made = {v: k for k, e in enumerate(equations) for v in e.outputs}
    made.update({v: -1 for v in program.inputs})
    order = sorted((v for v in made if v not in constants), key=made.__getitem__)

    crossing = [0] * (n + 1)  # bytes before equation k
    for v in order:
        size = v.type.nbytes
        for k in range(made[v] + 1, last[v] + 1):
            crossing[k] += size
    fixed = sorted({0, n, *alone, *[k + 1 for k in alone]})
    places = [0]
    for begin, end in zip(fixed, fixed[1:], strict=False):
        share = round(most * (end - begin) / n)
        places += [begin + k for k in _places(crossing[begin:end], end - begin, share)[1:]]
    segments = []
    for begin, end in zip(places, places[1:], strict=False):
        ins = [v for v in order if made[v] < begin <= last[v]] if begin else list(program.inputs)
        outs: Sequence[Any] = (
            [v for v in order if made[v] < end <= last[v]] if end < n else program.outputs
        )
        segments.append(
            Program(tuple(ins), program.constants, tuple(equations[begin:end]), tuple(outs))
        )
    return segments


def keeping_step(program: Program, outputs: int) -> Program:
    """The Program with all that its first `outputs` do not rest on moved up to where it can first be computed.

    Tangents then keep step with the values, and a cut parts what comes before from what comes after in both.
    """
    needed = {a for a in program.outputs[:outputs] if type(a) is Var}
    for e in reversed(program.equations):
        if not needed.isdisjoint(e.outputs):
            needed.update(a for a in e.inputs if type(a) is Var)
    rank: dict[Var, int] = {}
    order = []
    for k, e in enumerate(program.equations):
        ready = max([rank.get(a, -1) for a in e.inputs if type(a) is Var], default=-1)
        mine = ready if needed.isdisjoint(e.outputs) else k
        rank.update(dict.fromkeys(e.outputs, mine))
        order.append((mine, k))
    equations = tuple(program.equations[k] for _, k in sorted(order))
    return Program(program.inputs, program.constants, equations, program.outputs)


def _places(crossing: Sequence[int], n: int, most: int) -> list[int]:
    parts = max(min(most, n), 1)
    places = [0]
    for p in range(1, parts):
        low = max(round((p - 0.5) * n / parts), places[-1] + 1)
        high = max(min(round((p + 0.5) * n / parts), n - 1), low)
        if low >= n:
            break
        places.append(min(range(low, high + 1), key=crossing.__getitem__))
    return [*places, n]
