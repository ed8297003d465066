"""A loop in pieces: for a derivative that may store little (bs.checkpoint with `memory`).

The rounds are done in pieces of L, as an inner loop of an outer one. Of the outer loop only what is carried is
stored; the inner one is computed again, piece by piece, and stores what its blocks ask for. So a tape of n
entries becomes n / L carried values and L entries. Where that is more than the budget, the pieces are done in
pieces, too. A loop without a count is planned for a million rounds; beyond, its outermost level grows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from ..errors import BudgetError
from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P
from ..primitives.control import LOOP
from ..regions import INDEX, Branches, Callee, Extends, Loop
from ..solve.budget import ChainReport
from ..solve.revolve import enough, text
from ..trace import evaluate, stage, stage_region

MOST_LEVELS = 5  # of pieces within pieces: each is compiled anew
LITTLE = 16  # times less than a budget
NESTED = 3  # the part of a budget that loops within a loop have
UNKNOWN = 1 << 20  # rounds that a loop without a count is taken to have


def bytes_of(values: Sequence[Var]) -> int:
    return sum(v.type.nbytes for v in values if not v.type.is_stack)


def programs_of(region: Any) -> tuple[Program, ...]:
    """Of branches, and of a call that is no recursion: what runs there runs here."""
    if isinstance(region, Branches):
        return region.branches
    is_plain = isinstance(region, Callee) and region.program and not region.is_recursive
    return (region.program,) if is_plain else ()


def least_budget(programs: Iterable[Program]) -> float:
    """The least budget of loops and calls in them; infinite if there is none."""
    regions = [e.params.get("region") for p in programs for e in p.equations]
    budgets = [getattr(x, "memory", None) or least_budget(programs_of(x)) for x in regions]
    return min(budgets, default=inf)


def room_of(equations: Iterable[Equation]) -> int:
    """About the bytes that loops in them, and in branches and calls, take at a time."""
    own, within = 0, 0
    for e in equations:
        region = e.params.get("region")
        programs = region.programs() if isinstance(region, Loop) else programs_of(region)
        inside = max([room_of(p.equations) for p in programs], default=0)
        own += bytes_of(e.outputs) if inside or isinstance(region, Loop) else 0
        within = max(within, inside)
    return own + within


def rounds_of(loop: Loop) -> int:
    return UNKNOWN if loop.count is None else loop.count


def levels(total: int, states: int, each: int, memory: int) -> tuple[tuple[int, ...], int]:
    """In how many pieces to do `total` rounds, each of them in how many, …; and the bytes that this stores.

    d levels run the rounds d times and store

        states · (n_1 + … + n_{d−1}) + each · n_d        where   n_1 n_2 … n_d ≥ total.

    The fewest levels that fit into the memory are taken; if none do, those that store least.
    """
    best: tuple[tuple[int, ...], int] = ((total,), total * each)
    for d in range(2, MOST_LEVELS + 1):
        m, inner, stored = _with_levels(d, total, states, each)
        fits = stored <= memory
        k = int(fits.argmax() if fits.any() else stored.argmin())  # as few pieces as fit
        if stored[k] < best[1]:
            best = (*[int(m[k])] * (d - 1), max(int(inner[k]), 1)), int(stored[k])
        if best[1] <= memory:
            break
    return best


def _with_levels(d: int, total: int, states: int, each: int) -> tuple[Any, Any, Any]:
    """Of all numbers m of pieces on d − 1 levels: m, the rounds in innermost pieces, and the bytes stored."""
    m = np.arange(2, max(int(total ** (1 / (d - 1))), 2) + 1)
    inner = np.ceil(total / m ** float(d - 1))
    return m, inner, states * (d - 1) * m + each * np.maximum(inner, 1)


@dataclass(frozen=True)
class Sizes:
    """Bytes of a round."""

    each: int  # stored to be reversed
    states: int  # stored to be run again
    beside: int  # there meanwhile: what loops within it give to be stored


def ways_to_store(loop: Loop, sizes: Sizes) -> list[tuple[int, int]]:
    """What the loop can store, and how often it is then run again: each time less."""
    total, each, states = rounds_of(loop), sizes.each, sizes.states
    found = [(total * each, 0)]
    if loop.count is not None or len(loop.body.outputs) == loop.carried:
        for d in range(2, MOST_LEVELS + 1):
            stored = int(_with_levels(d, total, states + INDEX.dtype.itemsize, each)[2].min())
            if stored < found[-1][0]:
                found.append((stored, d - 1))
    return [(stored + sizes.beside, runs) for stored, runs in found]


def _planned(loop: Loop, sizes: Sizes) -> tuple[int, ...]:
    """The pieces for a loop with a budget; what they store is told to its report."""
    assert loop.memory is not None
    total, each, states = rounds_of(loop), sizes.each, sizes.states + INDEX.dtype.itemsize
    pieces: tuple[int, ...] = (total,)
    memory, stored = loop.memory - sizes.beside, each * total
    if stored > memory and loop.count is None and len(loop.body.outputs) > loop.carried:
        raise BudgetError(
            "a loop whose number of rounds is not known and that makes a sequence stores as much as there are "
            "rounds: no budget can be met; give a number of rounds, or carry an array that is written into"
        )
    if stored > memory:
        pieces, stored = levels(total, states, each, memory)
    if stored > memory:
        least = _enough(loop, stored, sizes)
        rounds = f"{total:,} rounds" if loop.count is not None else "a number of rounds not known"
        raise BudgetError(
            f"{text(loop.memory * loop.share)} are not enough to differentiate this loop of {rounds} in, "
            f"inside jit: {least}, for states of {text(states)} and recorded rounds of {text(each)}"
        )
    if loop.report is not None:
        ahead = (len(pieces) - 1) * total
        told = ChainReport("loop", total, None, ahead, total, peak_bytes=stored + sizes.beside)
        told.is_planned = loop.count is None
        loop.report.chains.append(told)
    return pieces


def _enough(loop: Loop, stored: int, sizes: Sizes) -> str:
    """What to ask for instead. With more, loops within this one store more, too: up to their parts."""
    if loop.share > 1:
        return f"at least {enough(stored * loop.share)} are needed"
    if sizes.beside:
        return f"{enough(NESTED * (stored - sizes.beside) * loop.share)} are enough"
    return f"the least that can be met is {enough(stored * loop.share)}"


def in_pieces(loop: Loop, sizes: Sizes) -> Program | None:
    """A Program with the inputs and outputs of the loop, or None if it need not be cut."""
    made = loop.body.outputs[loop.carried :]
    pieces = loop.pieces or _planned(loop, sizes)
    if len(pieces) == 1:
        return None
    total = rounds_of(loop)
    size = int(np.prod(pieces[1:]))
    a, f = loop.carried, loop.fixed
    h = int(loop.counted)  # how many rounds, as a fixed input in front
    types = [type_of(o) for o in made]

    def step(
        k: Any, state: Sequence[Any], columns: Sequence[Any], fixed: Sequence[Any], xs: Any
    ) -> list[Any]:
        k = total - 1 - k if loop.reverse else k
        entries = [P.gather(x, k) for x in xs]
        results = evaluate(loop.body, [k, *state, *fixed, *entries])
        written = [P.scatter_set(c, y, k) for c, y in zip(columns, results[a:], strict=True)]
        return [*results[:a], *written]

    def inner_body(k: Any, *rest: Any) -> list[Any]:
        state, columns = rest[:a], rest[a : a + len(made)]
        start, *others = rest[a + len(made) :]
        return step(start + k, state, columns, others[:f], others[f:])

    def asks(k: Any, *rest: Any) -> list[Any]:
        start, *others = rest[a + len(made) :]
        assert loop.goes_on is not None
        return evaluate(loop.goes_on, [start + k, *rest[:a], *others[:f]])

    carried_types = [v.type for v in loop.body.inputs[1 : 1 + a]]
    column_types = [Type((total, *t.shape), t.dtype) for t in types]
    fixed_types = [v.type for v in loop.body.inputs[1 + a : 1 + a + f]]
    sequence_types = [Type((total, *v.shape), v.dtype) for v in loop.body.inputs[1 + a + f :]]
    inside = [INDEX, *carried_types, *column_types, INDEX, *fixed_types, *sequence_types]
    inner = Loop(
        stage_region(inner_body, inside, None),
        carried=a + len(made),
        fixed=1 + f + loop.sequences,
        sequences=0,
        goes_on=None if loop.goes_on is None else stage_region(asks, inside, None),
        count=size,
        counted=True,
        pieces=pieces[1:] if len(pieces) > 2 else (),
    )

    def outer_body(j: Any, *rest: Any) -> list[Any]:
        state, done, others = rest[: a + len(made)], rest[a + len(made)], rest[a + len(made) + 1 :]
        limit, others = (others[0] if h else loop.count), others[h:]
        left = size if limit is None else np.minimum(limit - done, size)
        rounds = j * 0 + size if limit is None else left
        results = LOOP(rounds, *state, done, *others, region=inner)
        return [*results[:-1], done + results[-1]]

    def goes_on(j: Any, *rest: Any) -> list[Any]:
        state, done, others = rest[:a], rest[a + len(made)], rest[a + len(made) + 1 + h :]
        assert loop.goes_on is not None
        return evaluate(loop.goes_on, [done, *state, *others[:f]])

    head = [INDEX] * h
    around = [INDEX, *carried_types, *column_types, INDEX, *head, *fixed_types, *sequence_types]
    is_open = loop.counted and loop.count is None
    first = a + len(made) + int(is_open)  # its input that says how many rounds are done
    places = (
        *range(first + 1, first + 1 + h),
        *range(int(is_open), int(is_open) + a),
        *range(first + 1 + h, first + 1 + h + f + loop.sequences),
    )
    outer = Loop(
        stage_region(outer_body, around, None),
        carried=a + len(made) + 1,
        fixed=h + f + loop.sequences,
        sequences=0,
        goes_on=None if loop.goes_on is None else stage_region(goes_on, around, None),
        count=None if loop.count is None else -(-loop.count // size),
        counted=is_open,
        extends=Extends(loop, places, tuple(range(a + len(made) + 1))),
        recompute=True,
    )

    def run(*args: Any) -> list[Any]:
        _, starts, fixed, xs = loop.split(args)
        given = args[:h]
        columns = [np.zeros(t.shape, t.dtype) for t in column_types]
        times = [(given[0] + (size - 1)) // size] if is_open else []
        results = LOOP(*times, *starts, *columns, 0, *given, *fixed, *xs, region=outer)
        return [*results[: a + len(made)], results[a + len(made)]]

    return stage(run, [*head, *carried_types, *fixed_types, *sequence_types])[0]


# ---- what a user asks for


@dataclass(frozen=True)
class Limit:
    memory: int
    report: Any  # where to tell what is stored
    share: int = 1

    def within(self) -> Limit:
        """Of loops within a loop: their tapes are there twice while a round is reversed, beside states."""
        return replace(self, memory=self.memory // NESTED, share=self.share * NESTED)


class _Current(threading.local):
    limit: Limit | None = None


_current = _Current()


def limit() -> Limit | None:
    """What loops recorded now may store for their derivatives."""
    return _current.limit


@contextmanager
def within_limit(given: Limit) -> Iterator[None]:
    before, _current.limit = _current.limit, given
    try:
        yield
    finally:
        _current.limit = before
