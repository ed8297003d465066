"""Series through loops that stay loops, implicit functions, and functions whose derivative is written by hand.

A staged loop carries the coefficients of its values, and goes on as long as the first ones say so.

Of F(x(t), p(t)) = 0 the coefficient k is F_x x_k plus what x_0 … x_{k−1} and p make of it: so each order is one
solve with the same F_x, for the coefficient of F where x_k is left out.

A derivative by hand is a map (x, x') ↦ y', a program on series like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..errors import UnsupportedError
from ..ir import Program, Type, type_of
from ..primitives.checks import CHECK, CODE
from ..primitives.control import CALL, LOOP
from ..regions import Callee, ImplicitEquations, Loop
from ..trace import evaluate, innermost_region, stage, stage_region
from .rows import raw, type_of_value
from .series import FromSlope, Given, Series, Slope, Truncated

Pattern = tuple[int, ...]  # which coefficients are there; the first one is always


class Evaluates(Protocol):
    """What is asked of the rows on series."""

    order: int

    def afresh(self, order: int) -> Evaluates: ...
    def evaluate(self, program: Program, inputs: Sequence[Any]) -> list[Any]: ...
    def settle(self) -> None: ...
    def opaque(self) -> str: ...


# ---- loops


def loop_of_series(rows: Evaluates, loop: Loop, args: Sequence[Any]) -> list[Any]:
    count, carried, fixed, sequences = loop.split(args)
    made_types = loop.outputs()[loop.carried : -1]
    if any(t.is_stack for t in made_types) or any(_is_stack(x) for x in sequences):
        raise UnsupportedError(rows.opaque())
    starts = [_pattern(x, rows.order) for x in carried]
    others = [_pattern(x, rows.order) for x in (*fixed, *sequences)]
    while True:  # until no round adds a coefficient to those that are carried
        body = _Body(rows, loop, [*starts, *others])
        wider = [tuple(sorted({*a, *b})) for a, b in zip(starts, body.found, strict=False)]
        if wider == starts:
            break
        starts = wider
    c, f = loop.carried, loop.carried + loop.fixed
    sizes = [sum(map(len, body.patterns[part])) for part in (slice(c), slice(c, f), slice(f, None))]
    wide = replace(
        loop,
        body=body.program,
        goes_on=body.goes_on(),
        carried=sizes[0] + 1,
        fixed=sizes[1],
        sequences=sizes[2],
        extends=None,
    )
    types = [*body.types[:f], *[type_of_value(_first(x)) for x in sequences]]
    values = _flat([*carried, *fixed, *sequences], body.patterns, types)
    limit = [_first(count)] if loop.counted else []
    code, *flat, rounds = [raw(y) for y in LOOP(*limit, CODE.type(0), *values, region=wide)]
    if body.messages:
        CHECK(code, messages=tuple(sorted(body.messages.items())))
    return [*_series(flat, [*starts, *body.found[c:]], rows.order), rounds]


class _Body:
    """A round on coefficients, of which these are there; before them, which assertion has failed (0: none)."""

    def __init__(self, rows: Evaluates, loop: Loop, patterns: list[Pattern]):
        self.loop, self.patterns, self.order = loop, patterns, rows.order
        self.found: list[Pattern] = []
        self.messages: dict[int, tuple[str, str]] = {}
        self.types = [v.type for v in loop.body.inputs[1:]]
        self._rows, self._index = rows, loop.body.inputs[0].type
        self.program = self._staged(self._round, patterns)

    def _staged(self, f: Callable[..., list[Any]], patterns: Sequence[Pattern]) -> Program:
        types = _types(self.types[: len(patterns)], patterns)
        return stage_region(f, [self._index, Type((), CODE), *types], None)

    def _round(self, k: Any, code: Any, *flat: Any) -> list[Any]:
        inner, body, c = self._rows.afresh(self.order), self.loop.body, self.loop.carried
        ys = inner.evaluate(body, [k, *_series(flat, self.patterns, self.order)])
        inner.settle()
        self.found = [_pattern(y, self.order) for y in ys]
        wanted = [*self.patterns[:c], *self.found[c:]]
        results = _flat(ys, wanted, [type_of(a) for a in body.outputs])
        region = innermost_region()
        assert region is not None
        checks, region.checks = region.checks, []
        for number, messages in checks:
            code = np.where(code != 0, code, number)
            self.messages |= dict(messages)
        return [code, *results]

    def goes_on(self) -> Program | None:
        condition = self.loop.goes_on
        if condition is None:
            return None
        given = self.patterns[: self.loop.carried + self.loop.fixed]

        def asks(k: Any, code: Any, *flat: Any) -> list[Any]:
            return evaluate(condition, [k, *map(_first, _series(flat, given, self.order))])

        return self._staged(asks, given)


def _first(x: Any) -> Any:
    return x[0] if isinstance(x, Series) else x


def _is_stack(x: Any) -> bool:
    return type_of_value(_first(x)).is_stack


def _pattern(x: Any, order: int) -> Pattern:
    if not isinstance(x, Series):
        return (0,)
    return (0, *[k for k in range(1, order + 1) if x[k] is not None])


def _types(types: Sequence[Type], patterns: Sequence[Pattern]) -> list[Type]:
    """Those of the coefficients: the first of a value is what it was, weak if it was."""
    return [
        Type(t.shape, t.dtype) if k else t for t, p in zip(types, patterns, strict=True) for k in p
    ]


def _series(flat: Sequence[Any], patterns: Sequence[Pattern], order: int) -> list[Any]:
    """Values whose coefficients are these; a series if there is more than the first."""
    rest, made = iter(flat), []
    for p in patterns:
        known = {k: next(rest) for k in p}
        if len(p) == 1:
            made.append(known[0])
            continue
        made.append(Truncated([known.get(k) for k in range(order + 1)]))
    return made


def _flat(values: Sequence[Any], patterns: Sequence[Pattern], types: Sequence[Type]) -> list[Any]:
    flat: list[Any] = []
    for x, p, t in zip(values, patterns, types, strict=True):
        for k in p:
            term = x[k] if isinstance(x, Series) else None if k else x
            flat.append(_as(term, t) if k else term)
    return flat


def _as(x: Any, t: Type) -> Any:
    if x is None:
        return np.zeros(t.shape, t.dtype)
    x = x if x.dtype == t.dtype else x.astype(t.dtype)
    return x if x.shape == t.shape else np.broadcast_to(x, t.shape)


# ---- calls with a derivative of their own


def own_call(rows: Evaluates, callee: Callee, args: Sequence[Any]) -> list[Any]:
    firsts = [raw(a[0]) if isinstance(a, Series) else a for a in args]
    values = [raw(y) for y in CALL(*firsts, region=callee)]
    if callee.equations is not None:
        solution = _Solution(rows, callee.equations, args, firsts, values)
        return [_Component(y, solution, i) for i, y in enumerate(values)]
    places = [
        i
        for i, a in enumerate(args)
        if isinstance(a, Series) and type_of_value(a[0]).dtype.kind in "fc"
    ]
    n = len(args)

    def push(*traced: Any) -> list[Any]:
        ts = callee.own(list(traced[:n]), places)[0](list(traced[n:]))
        return [
            np.zeros(t.shape, t.dtype) if y is None else y
            for y, t in zip(ts, callee.types, strict=True)
        ]

    types = [type_of_value(v) for v in firsts]
    program, _ = stage(push, [*types, *[types[i] for i in places]], lasting=True)
    if not rows.order:
        return values
    slopes = rows.afresh(rows.order - 1).evaluate(
        program, [*args, *[Slope(args[i]) for i in places]]
    )
    return [
        FromSlope(y, s if isinstance(s, Series) else Series(s))
        if type_of_value(y).dtype.kind in "fc"
        else y
        for y, s in zip(values, slopes, strict=True)
    ]


class _Solution:
    """The coefficients of x, all unknowns together, order by order."""

    def __init__(
        self,
        rows: Evaluates,
        equations: ImplicitEquations,
        args: Sequence[Any],
        firsts: Sequence[Any],
        values: Sequence[Any],
    ):
        n = len(values)
        self._rows, self._program = rows, equations.program
        self._p = args[n:]
        self._x0, self._p0 = firsts[:n], [raw(v) for v in firsts[n:]]
        self._terms: list[list[Any]] = [[y] for y in values]
        self._correction = equations.correction

    def term(self, i: int, k: int) -> Any:
        terms = self._terms[i]
        while len(terms) <= k:
            self._advance(len(terms))
        return terms[k]

    def _advance(self, k: int) -> None:
        known = [Given([*terms, None]) for terms in self._terms]
        found = self._rows.afresh(k).evaluate(self._program, [*known, *self._p])
        rest = [y[k] if isinstance(y, Series) else None for y in found]
        steps: Sequence[Any] = [None] * len(known)
        if any(r is not None for r in rest):
            steps = self._correction(
                self._x0, self._p0, [None if r is None else raw(r) for r in rest]
            )
        for terms, x in zip(self._terms, steps, strict=True):
            terms.append(raw(x))


class _Component(Series):
    """One of the unknowns."""

    def __init__(self, first: Any, solution: _Solution, i: int):
        super().__init__(first)
        self._solution, self._i = solution, i

    def _next(self, k: int) -> Any:
        return self._solution.term(self._i, k)
