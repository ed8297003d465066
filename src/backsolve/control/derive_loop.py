"""The block of a loop. Forward: the loop with tangents beside the values. Backward: two loops.

The first runs ahead and is the loop itself with what must be stored as further sequences. The second runs the
other way round: its carried values are the adjoints of the carried values, and the sums of the adjoints of what
is fixed. Its body is the part of `with_adjoints(body)` behind the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir import Equation, Program, Var
from ..primitive import P
from ..primitives.control import LOOP
from ..regions import INDEX, Extends, Loop
from ..rewrite import rewrite
from ..solve import back_substitute
from ..solve.reversal import raw
from ..solve.reversed_row import bare, own_row, reversed_row
from ..tensor import Tensor
from ..trace import evaluate
from .linear import Cut, cut, keep, must_be_stored, strong, with_adjoints, with_tangents, zeros_like
from .pieces import Sizes, bytes_of, in_pieces
from .reach import carried_that_vary, reach
from .regions import varies_outside

SMALL = 16  # entries of an array that a loop may store in each round


def pick(items: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [x for x, flag in zip(items, flags, strict=True) if flag]


def chosen(flags: Sequence[bool], among: Sequence[bool]) -> list[bool]:
    """Flags that were given for some of a list only, for all of it."""
    rest = iter(flags)
    return [flag and next(rest) for flag in among]


@dataclass
class _Parts:
    """What belongs to the carried values, to the fixed ones, and to the sequences."""

    carried: list[Any]
    fixed: list[Any]
    sequences: list[Any]

    @property
    def all(self) -> list[Any]:
        return [*self.carried, *self.fixed, *self.sequences]


@dataclass
class _Parted:
    """A round with its adjoints, parted where these come in."""

    program: Program
    parts: Cut
    ins: _Parts
    held: list[bool]  # carried values that have an adjoint in some round
    gets: _Parts  # flags of what gets one
    stored: list[Var]
    again: list[Equation]
    states: list[Var]  # carried values that a round needs to be run again

    def sizes(self) -> Sizes:
        inner = {v for e in self.parts.first if e.primitive.holds_regions for v in e.outputs}
        within = [v for v in self.stored if v in inner]
        return Sizes(bytes_of(self.stored), bytes_of(self.states), bytes_of(within))


class LoopBlock:
    def __init__(self, loop: Loop, args: list[Any], places: list[int]):
        self.loop, self.args, self.places = loop, args, places
        count, *parts = loop.split(args)
        self.head = [count] if loop.counted else []
        self.values = _Parts(*parts)
        self.made = len(loop.body.outputs) - loop.carried

    def _split(self, items: Sequence[Any]) -> _Parts:
        return _Parts(*self.loop.split(items)[1:])

    def _spread(self, given: Sequence[Any]) -> _Parts:
        """What was given for `places`, for all inputs; None elsewhere."""
        found = dict(zip(self.places, given, strict=True))
        return self._split([found.get(k) for k in range(len(self.args))])

    # ---- forward

    def push(self, tangents: Sequence[Any]) -> tuple[Any, ...]:
        return self.pairs(tangents)[1]

    def pairs(self, tangents: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """The outputs, and their tangents, of the loop with tangents beside the values."""
        loop, values = self.loop, self.values
        ts = self._spread(tangents)
        flags = _Parts(*[[t is not None for t in p] for p in (ts.carried, ts.fixed, ts.sequences)])
        flags.carried = carried_that_vary(loop, *vars(flags).values())
        varying = [False, *flags.all]
        made = reach(loop.body, varying)[loop.carried :]
        both = with_tangents(loop.body, varying, [*flags.carried, *made])
        if loop.memory is not None:  # loops within then make tangents and values as one
            both = rewrite(both)
        # The tangents stand behind the values, each kind behind its own.
        n = len(loop.body.inputs)
        ins = self._split([*self.head, *both.inputs[1:n]])
        rest = iter(both.inputs[n:])
        d = _Parts(*[[next(rest) for flag in p if flag] for p in vars(flags).values()])
        m = len(loop.body.outputs)
        outs, douts = list(both.outputs[:m]), list(both.outputs[m:])
        a, da, df, ds = loop.carried, *map(len, vars(d).values())
        body = Program(
            (both.inputs[0], *ins.carried, *d.carried, *ins.fixed, *d.fixed, *ins.sequences, *d.sequences),
            both.constants,
            both.equations,
            (*outs[:a], *douts[:da], *outs[a:], *douts[da:]),
        )  # fmt: skip
        goes_on = loop.goes_on
        if goes_on is not None:
            unread = [Var(v.type) for v in d.carried], [Var(v.type) for v in d.fixed]
            shown = goes_on.inputs
            goes_on = replace(
                goes_on, inputs=(*shown[: 1 + a], *unread[0], *shown[1 + a :], *unread[1])
            )
        h = len(self.head)
        f, s = loop.fixed, loop.sequences
        starts = [h, h + a + da, h + a + da + f + df]
        places = [
            *range(h),
            *[k + j for k, size in zip(starts, (a, f, s), strict=True) for j in range(size)],
        ]
        results = [*range(a), *range(a + da, da + m), m + len(douts)]
        wider = replace(
            loop,
            body=body,
            goes_on=goes_on,
            carried=a + da,
            fixed=f + df,
            sequences=s + ds,
            extends=Extends(loop, tuple(places), tuple(results)),
        )
        seeds = [
            zeros_like(x) if t is None else t
            for x, t in zip(
                pick(values.carried, flags.carried), pick(ts.carried, flags.carried), strict=True
            )
        ]
        found = LOOP(
            *self.head, *values.carried, *seeds, *values.fixed, *pick(ts.fixed, flags.fixed),
            *values.sequences, *pick(ts.sequences, flags.sequences), region=wider,
        )  # fmt: skip
        images = iter([*found[a : a + da], *found[da + m : -1]])
        moved = tuple([next(images) if flag else None for flag in [*flags.carried, *made, False]])
        return [found[k] for k in results], moved

    # ---- backward

    def pull(self, adjoints: Sequence[Any]) -> tuple[Any, ...]:
        given = [self.args[k] for k in self.places]
        if self.loop.memory is None or varies_outside([*given, *adjoints]):
            return self._pull(adjoints)

        def with_values(values: Sequence[Any]) -> LoopBlock:
            args = list(self.args)
            for k, x in zip(self.places, values, strict=True):
                args[k] = x
            return LoopBlock(self.loop, args, self.places)

        found = with_values([*map(bare, given)])._pull([*map(bare, adjoints)])
        return reversed_row(
            "loop, reversed",
            given,
            (),
            adjoints,
            [*map(raw, found)],
            lambda fresh, tangents: with_values(fresh).pairs(tangents),
        )

    def sizes(self, given: Sequence[bool]) -> Sizes:
        """What a round stores if these outputs have adjoints."""
        return self._parted(given).sizes()

    def _parted(self, given: Sequence[bool]) -> _Parted:
        loop, values = self.loop, self.values
        a, n, m = loop.carried, len(loop.body.inputs), len(loop.body.outputs)
        vary = self._split([k in self.places for k in range(len(self.args))])
        vary.carried = carried_that_vary(loop, vary.carried, vary.fixed, vary.sequences)
        # Which carried values have an adjoint in some round: those at the end, and what they rest on.
        held = [g and flag for g, flag in zip(given[:a], vary.carried, strict=True)]
        at_hand = [k >= a for k in range(n - 1)]  # all but what is carried
        while True:
            joint = with_adjoints(
                loop.body, [False, *vary.all], [*held, *given[a:-1]], [True, *at_hand]
            )
            gets = self._split([*self.head, *chosen(joint.received, vary.all)])
            wider = [x or y for x, y in zip(held, gets.carried, strict=True)]
            if wider == held:
                break
            held = wider
        program = joint.program
        parts = cut(program, n, m)
        k, ins = program.inputs[0], self._split([*self.head, *program.inputs[1:n]])
        free = {k, *ins.fixed, *ins.sequences, *[v for v, _ in program.constants]}
        stored, again = keep(parts.crossing, parts.first, free)
        arrays = [
            v
            for v, x in zip(ins.fixed, values.fixed, strict=True)
            if v.type.size > SMALL and must_be_stored(x)
        ]
        if arrays:
            entries_alone = self._entries_alone(parts, free, arrays)
            if entries_alone is not None:
                stored, again = entries_alone
        needed = {a for e in parts.first for a in e.inputs if type(a) is Var}
        states = [v for v in ins.carried if v in needed or v in parts.crossing]
        return _Parted(program, parts, ins, held, gets, stored, again, states)

    def _pull(self, adjoints: Sequence[Any]) -> tuple[Any, ...]:
        loop, values = self.loop, self.values
        a, n, m = loop.carried, len(loop.body.inputs), len(loop.body.outputs)
        at_end, made = list(adjoints[:a]), list(adjoints[a:-1])
        given_made = [g is not None for g in made]
        parted = self._parted([g is not None for g in adjoints])
        program, parts, ins, held, gets = (
            parted.program, parted.parts, parted.ins, parted.held, parted.gets,
        )  # fmt: skip
        k, stored, again = program.inputs[0], parted.stored, parted.again
        if loop.recompute:
            again, stored = parts.first, parted.states
        elif loop.pieces or loop.memory is not None:
            pieces = in_pieces(loop, parted.sizes())
            if pieces is not None:
                return pulled_through(pieces, self.args, self.places, adjoints)

        ahead = Program(
            program.inputs[:n],
            program.constants,
            tuple(parts.first),
            (*program.outputs[:m], *stored),
        )
        first = replace(
            loop,
            body=ahead,
            extends=Extends(loop, tuple(range(len(self.args))), (*range(m), m + len(stored))),
        )
        results = LOOP(*self.args, region=first)
        tapes, rounds = results[m:-1], results[-1]

        seeds = list(program.inputs[n:])
        at_ends, of_made = seeds[: sum(held)], seeds[sum(held) :]
        outs = iter(program.outputs[m:])
        back = _Parts(*[[next(outs) if flag else None for flag in p] for p in vars(gets).values()])
        equations = [*again, *parts.second]
        totals, sums = [], []
        for v, g in zip(ins.fixed, back.fixed, strict=True):
            if g is not None:
                total, summed = (Var(strong(v.type)) for _ in range(2))
                equations.append(Equation((summed,), P.add, (total, g), {}))
                totals.append(total)
                sums.append(summed)
        nothing = [
            (Var(v.type), zeros_like(v.type))
            for v, g in zip(at_ends, pick(back.carried, held), strict=True)
            if g is None
        ]
        blank = iter(nothing)
        carried = [next(blank)[0] if g is None else g for g in pick(back.carried, held)]
        entries = [g for g in back.sequences if g is not None]
        atoms = [x for e in equations for x in e.inputs] + carried + entries
        read = {x for x in atoms if type(x) is Var}
        fixed = [v in read for v in ins.fixed]
        sequences = [v in read for v in ins.sequences]
        body = Program(
            (
                k if k in read else Var(INDEX),
                *at_ends, *totals, *pick(ins.fixed, fixed), *pick(ins.sequences, sequences), *stored, *of_made,
            ),
            (*program.constants, *nothing),
            tuple(equations),
            (*carried, *sums, *entries),
        )  # fmt: skip
        dynamic = loop.goes_on is not None or loop.counted
        second = Loop(
            body,
            carried=len(at_ends) + len(totals),
            fixed=sum(fixed),
            sequences=sum(sequences) + len(stored) + len(of_made),
            count=loop.count,
            counted=dynamic,
            reverse=not loop.reverse,
            recompute=loop.recompute,
        )
        starts = [
            zeros_like(x) if g is None else g
            for x, g in zip(pick(values.carried, held), pick(at_end, held), strict=True)
        ]
        summed_fixed = pick(values.fixed, [g is not None for g in back.fixed])
        results = LOOP(
            *([rounds] if dynamic else ()), *starts, *[zeros_like(x) for x in summed_fixed],
            *pick(values.fixed, fixed), *pick(values.sequences, sequences), *tapes, *pick(made, given_made),
            region=second,
        )  # fmt: skip
        found = iter(results)
        answers = [
            *[None] * len(self.head),
            *[next(found) if flag else None for flag in held],
            *[None if g is None else next(found) for g in back.fixed],
            *[None if g is None else next(found) for g in back.sequences],
        ]
        return tuple(answers[k] for k in self.places)

    def _entries_alone(self, parts: Any, free: set[Var], arrays: list[Var]) -> Any:
        """What to keep if entries are stored, not arrays that the loop around changes; None if it is more."""
        while arrays:
            stored, again = keep(parts.crossing, parts.first, free - {*arrays})
            whole = [v for v in arrays if v in stored]
            if not whole:
                count = self.loop.count
                is_less = count is None or bytes_of(stored) * count <= bytes_of(arrays)
                return (stored, again) if is_less else None
            arrays = [v for v in arrays if v not in whole]
        return None


def pulled_through(
    program: Program, args: Sequence[Any], places: Sequence[int], adjoints: Sequence[Any]
) -> tuple[Any, ...]:
    """Adjoints of the inputs at `places`, of a Program that does the same piece by piece, some of it twice."""
    varying = [k in places for k in range(len(args))]
    xs = [own_row(x) if flag else x for x, flag in zip(args, varying, strict=True)]
    rows = [x.row for x in pick(xs, varying)]
    outputs = evaluate(program, xs)
    seeds = [
        (y.row, g)
        for y, g in zip(outputs, adjoints, strict=True)
        if g is not None and isinstance(y, Tensor) and y.row is not None
    ]
    oldest = min(r.index for r in rows)
    return tuple(back_substitute(seeds, rows, oldest=oldest, record=True))


def derive_loop(loop: Loop, args: list[Any], places: list[int], varies: list[bool]) -> Any:
    block = LoopBlock(loop, args, places)
    return block.push, block.pull
