"""Checkpointing: keep the inputs of a piece of program, not its rows, and run it again when needed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from .. import tree
from ..changes import Changes, put
from ..errors import BudgetError, RecomputeError
from ..hooks import hooks
from ..joint import held, record_joint
from ..module_state import State, carrying, refuse, state_in
from ..operators import Custom
from ..primitive import FUNCTIONS, P, wrap
from ..results import check_outputs
from ..row import Row, ancestors, next_index
from ..tensor import Staged, Tensor, leaf_row
from ..trace import is_recording, stage_region
from .budget import Report, budget_here, eager_budget, within
from .fingerprint import are_same, fingerprint, is_same, prints_of
from .forward import forward_substitute
from .reversal import closed_over
from .reverse import back_substitute
from .revolve import bytes_in
from .within import run_functions, run_within

_moving = threading.RLock()
_INSTEAD = "Take bs.checkpoint without a budget, which moves state once. "


def checkpoint(
    f: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    memory: int | str | None = None,
    slots: int | None = None,
) -> Callable[..., Any]:
    """A function with the values and derivatives of `f` that stores only its inputs.

    Tensors that `f` closes over are differentiated too. With `memory` (bytes, or "200MB") not all is computed
    again, but as little as the budget allows: of a sequence of functions, each of which is given what the one
    before returns, of the rounds of `bs.scan`, `bs.fori_loop` and `bs.while_loop`, and else of the operations
    of `f`. What is counted are arrays that are kept for the derivative. `slots` is a budget for chains of equal
    steps, as the number of states to keep. `.report` says what the last call kept and ran again. A budget that
    cannot be met is a BudgetError that says what can. Python's numbers among the arguments stay known: counts,
    flags, axes. Without `f` it decorates: `@checkpoint(memory="1GB")`.

    Inside `bs.jit` a loop computes its rounds again piece by piece, and other operations are computed again in
    stretches, both by one plan; the report says what was planned when it was compiled.

    >>> import numpy as np, backsolve as bs
    >>> bs.grad(lambda x: bs.checkpoint(lambda t: np.sin(np.sin(t)))(x))(1.0)
    0.36003948908962097
    """
    if f is None:
        return functools.partial(checkpoint, memory=memory, slots=slots)
    limit = None if memory is None else bytes_in(memory)
    if slots is not None and (memory is not None or int(slots) != slots or slots < 1):
        raise BudgetError(f"give either `memory` or a number of `slots` above 0, got {slots!r}")
    if not callable(f):
        if not isinstance(f, list | tuple) or not f or not all(callable(g) for g in f):
            raise TypeError("checkpoint takes a function or a sequence of functions, one at least")
        if memory is None and slots is None:
            raise BudgetError('a sequence of functions needs a budget: memory="200MB" or slots=10')
        return _InBudget(f[0], tuple(f), limit, slots)
    if memory is not None or slots is not None:
        return _InBudget(f, None, limit, slots)
    return _recomputed(f)


class _InBudget:
    """A function, or several one after the other, with a budget."""

    def __init__(self, f: Any, functions: Any, memory: int | None, slots: int | None):
        functools.update_wrapper(self, f)
        self._f, self._functions, self._memory, self._slots = f, functions, memory, slots
        self._plans: dict[
            Any, Any
        ] = {}  # what steps were measured to store, by the types of the inputs
        self.report = Report()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        users = [hooks.users(f) for f in self._functions or (self._f,)]
        whole = users[0] if len(users) == 1 else functools.partial(_one_after_another, users)
        if _are_staged(args, kwargs):
            return self._staged(users, whole, args, kwargs)
        self.report = Report()
        if is_recording() and self._memory is not None:
            found = _refusing_state(_of_known, whole, self._memory, self.report, args, kwargs)
            if found is not NotImplemented:
                return found
        elif is_recording() and _gives_staged(whole, args, kwargs):
            return self._staged(users, whole, args, kwargs)
        budget = budget_here(self._memory, self._slots, self.report)
        with Changes() as changes:
            if self._functions is not None:
                steps = [functools.partial(_of_leaves, f) for f in users]
                result = run_functions(steps, budget, self._plans, args, kwargs)
            else:
                result = run_within(whole, budget, self._plans, args, kwargs)
            outputs = tree.flatten(result)[0]
            varies = any(isinstance(y, Tensor) and y.row is not None for y in outputs)
            if varies or self._functions is not None:  # these run ahead, too, to be measured
                refuse(state_in(changes), "by a checkpoint that runs parts of it again", _INSTEAD)
        return result

    def _staged(self, users: Sequence[Any], whole: Any, args: Any, kwargs: Any) -> Any:
        if _is_written_out():
            return whole(*args, **kwargs)
        self.report = Report()
        staged: Any
        if self._memory is not None:
            staged = FUNCTIONS["checkpoint_staged"]
            return _refusing_state(staged, whole, self._memory, self.report, args, kwargs)
        if self._functions is None:  # slots are for loops on numbers
            return whole(*args, **kwargs)
        staged = FUNCTIONS["functions_staged"]
        return _refusing_state(staged, users, self._slots, self.report, args, kwargs)


def _of_leaves(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f's result, which is kept as its leaves alone."""
    result = f(*args, **kwargs)
    check_outputs("checkpoint", tree.flatten(result)[0])
    return result


def _refusing_state(run: Callable[..., Any], *given: Any) -> Any:
    with Changes() as changes:
        result = run(*given)
        refuse(state_in(changes), "by a checkpoint that runs parts of it again", _INSTEAD)
    return result


def _one_after_another(functions: Sequence[Callable[..., Any]], *args: Any, **kwargs: Any) -> Any:
    result = functions[0](*args, **kwargs)
    for f in functions[1:]:
        result = f(result)
    return result


def _are_staged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(isinstance(x, Staged) for x in tree.flatten((args, kwargs))[0])


def _is_written_out() -> bool:
    """Whether bs.source is at work, which has no place for a call."""
    return "checkpoint_staged" not in FUNCTIONS or hooks.tracer.value is not None


def _of_known(
    f: Callable[..., Any], memory: int | None, report: Report | None, args: Any, kwargs: Any
) -> Any:
    """While a program is recorded, f of arguments that are known; NotImplemented if it is to run by itself."""
    if _is_written_out():
        return f(*args, **kwargs)
    known: Any = FUNCTIONS["checkpoint_known"]
    return known(f, memory, report, args, kwargs)


def _gives_staged(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether f closes over what is staged."""
    found: list[Any] = []

    def run() -> list[Any]:
        found.extend(tree.flatten(f(*args, **kwargs))[0])
        return []

    with Changes() as changes:
        stage_region(run, [], None)  # what it records is dropped
        changes.undo()
    return any(isinstance(y, Staged) for y in found)


def _staged(how: str, f: Any, args: Any, kwargs: Any, state: State) -> Any:
    """A call of f that is computed again, and what its state holds then."""
    staged: Any = FUNCTIONS[how]
    held = state.held()
    carried = (len(tree.flatten(held)[0]),) if how == "checkpoint_staged" else ()
    return staged(state.pure(f), None, None, (held, *args), kwargs, *carried)


def _recomputed(f: Callable[..., Any]) -> Callable[..., Any]:
    """What keeps only the inputs of `f`, and runs it again."""

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        users = hooks.users(f)
        if _are_staged(args, kwargs):
            if _is_written_out():
                return users(*args, **kwargs)
            return carrying(functools.partial(_staged, "checkpoint_staged", users, args, kwargs))
        if is_recording():
            if _is_written_out():
                return users(*args, **kwargs)
            found = carrying(functools.partial(_staged, "checkpoint_known", users, args, kwargs))
            if found is not NotImplemented:
                return found
        places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor) and x.row is not None]
        budget = eager_budget()

        def call(values: Sequence[Any], record: bool) -> tuple[list[Row], int, Any]:
            """f on fresh rows: the rows of the inputs, where they begin, and what came out."""
            start = next_index()
            inner = list(leaves)
            fresh = []
            for k, v in zip(places, values, strict=True):
                inner[k] = P.alias(v) if record and isinstance(v, Tensor) else wrap(v, leaf_row(v))
                fresh.append(inner[k].row)
            a, k = structure.unflatten(inner)
            with within(budget):  # the same rows each time, whatever runs it
                return fresh, start, hooks.users(f)(*a, **k)

        raw = [leaves[k]._v for k in places]
        with Changes() as changes:
            _, start, result = call(raw, record=False)
        before = [change[:3] for change in changes.made()]
        outputs, out_structure = tree.flatten(result)
        if places:
            check_outputs("checkpoint", outputs)
        varying = [k for k, y in enumerate(outputs) if isinstance(y, Tensor) and y.row is not None]
        if not varying:
            return result
        ends = [outputs[k].row for k in varying]
        free = closed_over(ends, start)
        inner = prints_of(ancestors(ends, start)[0])
        leaves = held(leaves)
        types = [(outputs[k].shape, outputs[k].dtype) for k in varying]
        prints = [fingerprint([outputs[k]]) for k in varying]

        def operator_of(values: Sequence[Any], record: bool) -> Custom:
            # What it changes, it has changed: its state moves once, and is put back for that, by one at a time.
            with _moving if before else nullcontext(), Changes() as changes:
                for owner, name, value in before:
                    put(owner, name, value)
                fresh, begin, again = call(values[: len(places)], record)
                changes.undo()
            results = [tree.flatten(again)[0][k] for k in varying]
            outs = [y.row for y in results]
            rows, _ = ancestors([r for r in outs if r is not None], begin)
            read = closed_over([r for r in outs if r is not None], begin, fresh)
            same_rows = set(read) <= set(free) and are_same(inner, rows)
            if not same_rows or not all(map(_agrees, prints, results)):
                raise RecomputeError(
                    "a checkpointed function gave another result when it was run again: it reads "
                    "something that has changed (a loop variable, a buffer, a random generator, a Tensor "
                    "written into). Pass such things as arguments"
                )
            sources = [*fresh, *free]

            def push(ts: Sequence[Any]) -> tuple[Any, ...]:
                seeds = [(r, t) for r, t in zip(sources, ts, strict=True) if t is not None]
                return tuple(forward_substitute(rows, seeds, outs, record=record))

            def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
                seeds = [
                    (r, np.zeros(*t) if c is None else c)
                    for r, c, t in zip(outs, cts, types, strict=True)
                ]
                return tuple(back_substitute(seeds, sources, oldest=begin, record=record))

            return Custom(push, pull, name="Recomputed")

        parents = [*[leaves[k].row for k in places], *free]
        inputs = [*raw, *[None] * len(free)]
        made = record_joint(
            "checkpoint", operator_of, inputs, parents, [outputs[k]._v for k in varying]
        )
        for k, y in zip(varying, made, strict=True):
            outputs[k] = y
        return out_structure.unflatten(outputs)

    return run


def _agrees(before: float, y: Tensor) -> bool:
    return isinstance(y, Staged) or is_same(before, [y])
