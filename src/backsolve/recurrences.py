"""`bs.recurrence`: all states of h_t = step(h_{t−1}, x_t), by a loop, a scan, or Newton's method.

The step is staged once, on types, and so are its blocks ∂step/∂h, by elimination: which of their entries can
differ from zero, and whether they read h, is known before there is a number. For all t it is one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tree
from .batch import evaluate_batched
from .control import cond, scan, while_loop
from .control.calls import call_with_rule
from .control.regions import varies_outside
from .errors import (
    BacksolveError,
    ConvergenceError,
    NotScalarError,
    ShapeError,
    StructureError,
    UnsupportedError,
)
from .hooks import hooks
from .ir import Program, Type, Var, type_of
from .joint import held, record_joint
from .operators import Custom
from .primitive import wrap
from .primitives.chains import pays_for_blocks, pays_for_entries
from .recurrence_step import bare, opened, varies
from .row import ancestors, next_index
from .solve.forward import forward_substitute
from .solve.newton import largest, newton, shifted
from .solve.packing import plain
from .solve.reversal import row_of
from .solve.reverse import back_substitute
from .solve.reversed_row import own_row
from .solve.scan import scan_chain, solve_chain
from .tensor import Staged, Tensor
from .trace import evaluate, is_for_later, stage

_How = tuple[int, Any, Any, bool]  # rounds, tolerance, history, whether a Program is recorded

METHODS = ("auto", "sequential", "scan", "newton")
FEWEST_FOR_NEWTON = 256  # steps from where some ten rounds take less than a loop in Python
MOST_FOR_NEWTON = 8  # entries of a state whose blocks are full
TRIED = 20  # rounds after which "auto" goes back to the loop


def recurrence(
    step: Callable[[Any, Any], Any],
    h0: Any,
    inputs: Any,
    method: str = "auto",
    *,
    guess: Any = None,
    rounds: int = 50,
    tolerance: float | None = None,
    history: list[float] | None = None,
) -> Any:
    """All states of `h = step(h, x)` for each entry x of `inputs` along its first axis, stacked.

    "sequential" takes one step after the other (inside `jit`, a compiled loop). "scan" is for steps that are
    linear in h: their blocks are multiplied in pairs, in log depth. "newton" solves all steps at once, from a
    `guess` of the states; `history` receives the largest residual of every round. If `rounds` do not suffice it
    raises ConvergenceError; in compiled code the loop takes over. "auto" takes what pays. All can be
    differentiated in both modes and to any order.

    >>> import numpy as np
    >>> recurrence(lambda h, x: 0.5 * h + x, 0.0, np.ones(4), method="scan")
    array([1.   , 1.5  , 1.75 , 1.875])
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}")
    columns, structure = tree.flatten(inputs)
    lengths = sorted({np.shape(x)[0] if np.ndim(x) else -1 for x in columns})
    if len(lengths) != 1 or lengths[0] < 0:
        shapes = ", ".join(sorted({str(np.shape(x)) for x in columns}))
        raise ShapeError(
            "recurrence needs inputs with one first axis for the steps (of a list, np.array(…)); got shapes "
            f"{shapes}"
        )
    count = lengths[0]
    if count == 0:
        return tree.map(lambda h: np.zeros((0, *np.shape(h)), type_of(_value(h)).dtype), h0)
    first, form = tree.flatten(h0)
    shapes_before = [np.shape(v) for v in first]

    def one_step(h: Any, x: Any) -> tuple[Any, Any]:
        after = form.unflatten(_as_before(hooks.users(step)(h, x), form, shapes_before))
        return after, after

    in_order = lambda: scan(one_step, h0, inputs)[1]
    if method == "sequential" or (method == "auto" and not _may_pay(h0, columns)):
        return in_order()
    try:
        chain = Chain(step, h0, columns, structure)
    except (BacksolveError, TypeError, ValueError):
        if method == "auto":  # what cannot be staged runs, or fails, in the loop
            return in_order()
        raise
    if method == "auto":
        method = chain.choice()
        rounds = min(rounds, TRIED)
        if method == "sequential":
            return in_order()
        if method == "newton":
            try:
                return chain.newton(guess, rounds, tolerance, history)
            except ConvergenceError:
                return in_order()
    if method == "scan":
        if not chain.step.is_linear:
            raise StructureError(
                'method="scan" needs a step that is linear in h, but in this one h meets itself, a function, a '
                'comparison or a rounding; use method="newton" or "sequential"'
            )
        return chain.scan()
    return chain.newton(guess, rounds, tolerance, history)


def _as_before(state: Any, form: tree.Structure, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The leaves of a state after a step, in the order of those before it."""
    leaves, got = tree.flatten_like(state, form)
    found = [np.shape(x) for x in leaves]
    if got != form or found != shapes:
        raise StructureError(
            f"a step must return a state of the form and shapes of h0, {shapes}; got {found}"
            + f", of another form: {state!r:.80}" * (found == shapes)
        )
    return leaves


def _may_pay(h0: Any, columns: Sequence[Any]) -> bool:
    """Whether it is worth while to look at the step: a long chain of small states, in a loop of Python."""
    leaves = tree.flatten(h0)[0]
    width = sum(int(np.prod(np.shape(x))) for x in leaves)
    return (
        pays_for_entries(np.shape(columns[0])[0], width)
        and not any(isinstance(x, Staged) for x in [*leaves, *columns])
        and all(np.result_type(_value(x)).kind in "fc" for x in leaves)
    )


class Chain:
    """The chain of a step on vectors: its Programs, and what is fed into them."""

    def __init__(self, step: Any, h0: Any, columns: Sequence[Any], structure: tree.Structure):
        self.columns = [x if isinstance(x, Tensor) else np.asarray(x) for x in columns]
        self.count = self.columns[0].shape[0]
        leaves, self.form = tree.flatten(h0)
        types = [type_of(_value(x)) for x in leaves]
        self.shapes = [t.shape for t in types]
        self.sizes = [int(np.prod(s)) for s in self.shapes]
        self.size = sum(self.sizes)
        self.as_pairs = (
            False  # real and imaginary parts, where a step is linear over the reals alone
        )
        dtype = np.result_type(*[t.dtype for t in types])
        entering = [Type(x.shape[1:], x.dtype) for x in self.columns]

        def flat(h: Any, *entries: Any) -> list[Any]:
            after = hooks.rewritten(step)(self._parted(h), structure.unflatten(entries))
            return [self._vector(_as_before(after, self.form, self.shapes))]

        program, _ = stage(flat, [Type((self.size,), dtype), *entering], lasting=True)
        out = type_of(program.outputs[0]).dtype
        if out != dtype:  # an h0 of integers or of less precision becomes what a step makes of it
            dtype = np.result_type(dtype, out)
            program, _ = stage(flat, [Type((self.size,), dtype), *entering], lasting=True)
        if dtype.kind not in "fc" or type_of(program.outputs[0]).dtype != dtype:
            raise UnsupportedError(
                f'states of dtype {dtype} cannot be solved for at once; use method="sequential"'
            )
        if dtype.kind == "c" and not all(t.dtype.kind == "c" for t in types[len(types) == 1 :]):
            raise UnsupportedError(
                'states that are partly complex cannot be solved for at once; use method="sequential"'
            )
        self.dtype = dtype
        try:
            self.step = opened(program)
        except NotScalarError:
            self.as_pairs, self.size = True, 2 * self.size
            self.dtype = np.empty(0, dtype).real.dtype
            program, _ = stage(flat, [Type((self.size,), self.dtype), *entering], lasting=True)
            self.step = opened(program)
        self.start = self._vector(leaves).astype(self.dtype)

    def choice(self) -> str:
        """What pays, outside of compiled code: see benchmarks/scan.py."""
        if self.step.is_linear:
            small = self.step.is_diagonal or pays_for_blocks(self.count, self.size)
            return "scan" if small else "sequential"
        small = self.step.is_diagonal or self.size <= MOST_FOR_NEWTON
        return "newton" if small and self.count >= FEWEST_FOR_NEWTON else "sequential"

    def scan(self) -> Any:
        """By the blocks A_t and b_t = step(0, x_t)."""
        zero = np.zeros(self.size, self.dtype)
        factors = self._batched(self.step.blocks, zero, self.columns, self.step.free)[0]
        terms = self._batched(self.step.program, zero, self.columns, self.step.free)[0]
        return self._shaped(scan_chain(factors, terms, self.start))

    def newton(self, guess: Any, rounds: int, tolerance: Any, history: Any) -> Any:
        values = held([self.start, *self.columns, *self.step.free])
        if guess is None:
            first = np.zeros((self.count, self.size), self.dtype) + bare(self.start)
        else:
            first = self._stacked(guess)
        staged = [x for x in (*values, first) if isinstance(x, Staged)]
        for x in staged:  # a Program being recorded hears that the derivative is not its equations'
            x._v.recorder.has_own_derivative = True
        history = [] if history is None else history
        how = (rounds, tolerance, history, bool(staged))
        return self._shaped(self._solved(values, first, how))

    def _solved(self, values: list[Any], guess: Any, how: _How) -> Any:
        is_later = is_for_later(*values, guess) or varies_outside([*values, guess])
        return (self._call if is_later else self._solution)(values, guess, how)

    def _states(self, raw: list[Any], guess: Any, how: _How) -> Any:
        rounds, tolerance, history, staged = how
        n = 1 + len(self.columns)

        def linearised(before: Any) -> tuple[Any, Any]:
            factors, after = self._batched(self.step.both, before, raw[1:n], raw[n:], True)
            return after, factors

        if not staged:
            return newton(linearised, raw[0], guess, rounds, tolerance, history)
        return self._staged_newton(linearised, raw[0], guess, rounds, tolerance, raw)

    def _solution(self, values: list[Any], guess: Any, how: _How) -> Any:
        """The states; their rows are one joint row, whose block solves the linearised chain."""
        states = self._states([bare(x) for x in values], guess, how)
        places = [k for k, x in enumerate(values) if isinstance(x, Tensor) and x.row is not None]
        if not places:
            return states
        found = getattr(states, "_v", states)

        def operator_of(given: Sequence[Any], record: bool) -> Custom:
            full = [*values]
            for k, v in zip(places, given, strict=True):
                full[k] = v if isinstance(v, Tensor) or type(v) is not Var else wrap(v, None)
            return Custom(*self._rule(full, places, states, how, record), name="Chain")

        inputs, rows = [values[k]._v for k in places], [values[k].row for k in places]
        return record_joint("recurrence", operator_of, inputs, rows, [found])[0]

    def _call(self, values: list[Any], guess: Any, how: _How) -> Any:
        """The states in a Program that is derived later: a call that remembers the rule."""
        states = self._states([plain(x) for x in values], plain(guess), how)

        def rule(inputs: Sequence[Any], places: Sequence[int]) -> Any:
            *full, states = inputs
            record = any(map(varies, full))
            return self._rule(list(full), places, bare(states), how, record)

        return call_with_rule("recurrence", lambda *v: [v[-1]], [*values, states], rule)[0]

    def _rule(
        self, full: list[Any], places: Sequence[int], states: Any, how: _How, record: bool
    ) -> tuple[Any, Any]:
        """dp ↦ dh and its adjoint, at these values, of which those at `places` vary."""
        n = 1 + len(self.columns)
        if not record:
            full = [bare(x) for x in full]
        rounds, tolerance, _, staged = how
        again: _How = (rounds, tolerance, [], staged or any(isinstance(x, Staged) for x in full))
        h = self._solved(full, states, again) if record else states
        before = shifted(full[0], h)
        factors = self._batched(self.step.blocks, before, full[1:n], full[n:], True)[0]
        begin = next_index()
        fresh = list(full)
        for k in places:
            fresh[k] = own_row(full[k])
        before = shifted(fresh[0], h)
        after = self._batched(self.step.program, before, fresh[1:n], fresh[n:], True)[0]
        y = solve_chain(factors, after)
        if row_of(y) is None:  # of steps that give constants
            return lambda ts: (None,), lambda cts: (None,) * len(places)
        sources = [fresh[k].row for k in places]
        rows, _ = ancestors([y.row], begin)

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [(r, t) for r, t in zip(sources, ts, strict=True) if t is not None]
            return tuple(forward_substitute(rows, seeds, [y.row], record=record))

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [(y.row, cts[0])]
            return tuple(back_substitute(seeds, sources, oldest=begin, record=record))

        return push, pull

    def _staged_newton(
        self, linearised: Any, start: Any, guess: Any, rounds: int, tolerance: Any, raw: Any
    ) -> Any:
        """Inside a program that is being recorded; where it does not converge, the loop takes over."""
        small = float(np.finfo(self.dtype).eps) ** (2 / 3) if tolerance is None else tolerance

        def goes_on(state: Any) -> Any:
            return (state[3] > small) & (state[4] < rounds)

        def turn(state: Any) -> Any:
            states, after, factors, _, k = state
            states = states + solve_chain(factors, after - states)
            after, factors = linearised(shifted(start, states))
            return states, after, factors, largest(after - states, states, start), k + 1

        first = (guess, *linearised(shifted(start, guess)), np.inf, 0)
        states, after, factors, left, _ = while_loop(goes_on, turn, first)
        better = states + solve_chain(factors, after - states)
        n = 1 + len(self.columns)

        def loop(_: Any) -> Any:
            body = lambda h, x: (evaluate(self.step.program, [h, *x, *raw[n:]])[0],) * 2
            return scan(body, start, tuple(raw[1:n]))[1]

        return cond(left <= small, lambda y: y, loop, better)

    # ---- between the user's form and vectors

    def _batched(
        self, program: Program, h: Any, columns: Any, free: Any, per_step: bool = False
    ) -> list[Any]:
        flags = [per_step, *[True] * len(columns), *[False] * len(free)]
        return evaluate_batched(program, [h, *columns, *free], flags, self.count)

    def _vector(self, leaves: Sequence[Any]) -> Any:
        flat = [np.reshape(x if isinstance(x, Tensor) else np.asarray(x), (-1,)) for x in leaves]
        if self.as_pairs:
            flat = [*map(np.real, flat), *map(np.imag, flat)]
        return flat[0] if len(flat) == 1 else np.concatenate(flat)

    def _parted(self, h: Any) -> Any:
        return self._cut(h, ())

    def _shaped(self, states: Any) -> Any:
        return self._cut(states, (self.count,))

    def _cut(self, h: Any, lead: tuple[int, ...]) -> Any:
        if self.as_pairs:
            n = self.size // 2
            h = h[..., :n] + 1j * h[..., n:]
        parts, at = [], 0
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            part = h if len(self.sizes) == 1 else h[..., at : at + size]
            parts.append(part if part.shape == lead + shape else np.reshape(part, lead + shape))
            at += size
        return self.form.unflatten(parts)

    def _stacked(self, guess: Any) -> Any:
        leaves, form = tree.flatten_like(guess, self.form)
        wanted = [(self.count, *s) for s in self.shapes]
        if form != self.form or [np.shape(x) for x in leaves] != wanted:
            raise ShapeError(f"a guess must have the form of the states, of shapes {wanted}")
        flat = [np.reshape(bare(x), (self.count, -1)) for x in leaves]
        if self.as_pairs:
            flat = [*map(np.real, flat), *map(np.imag, flat)]
        return np.concatenate(flat, axis=1).astype(self.dtype)


def _value(x: Any) -> Any:
    return x._v if isinstance(x, Tensor) else np.asarray(x)
