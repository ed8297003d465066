"""Loops, sequences of functions and straight-line programs as chains within a budget, on numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..changes import Changes
from ..errors import BudgetError
from ..ir import Program, type_of
from ..regions import Branches
from ..row import Row, ancestors, next_index
from ..tensor import Tensor
from ..trace import evaluate, stage
from .budget import Budget, ChainReport, LargerStepError, within
from .chain_row import joint_of
from .cuts import cut_up
from .reversal import Chain, State, StepOf, bytes_of_rows, raw, row_of
from .revolve import Binomial, Planned, RecordAll, Step, enough, text

MOST_ALONE = 10  # rounds of a loop that are measured, if each makes other values vary
MOST_STEPS = 40  # that a plan by dynamic programming tells apart


def _state(leaves: Sequence[Any]) -> State:
    is_tensor = [isinstance(x, Tensor) for x in leaves]
    return State(
        [x._v if t else x for x, t in zip(leaves, is_tensor, strict=True)],
        [t and x.row is not None for x, t in zip(leaves, is_tensor, strict=True)],
    )


# ---- loops


def loop_within(
    budget: Budget,
    step: StepOf,
    leaves: list[Any],
    columns: list[Any],
    count: int | None,
    goes_on: Callable[[list[Any]], bool] | None = None,
    reverse: bool = False,
    name: str = "loop",
) -> tuple[list[Any], list[Any]]:
    """The last state and what was made, of a loop that runs on numbers; its rounds are taken to be alike."""
    report = ChainReport(name, slots=budget.slots)
    at = (lambda k: count - 1 - k) if reverse and count is not None else (lambda k: k)
    start, sequences = _state(leaves), _state(columns)
    vary = sequences.varies
    chain = Chain(step, start, sequences.values, vary, report, at, budget.shelves)
    budget.report.chains.append(report)
    again = lambda step, leaves, columns: loop_within(
        budget, step, leaves, columns, chain.count, None, reverse, f"{name} with tangents"
    )
    runs_at_all = goes_on is None or goes_on(start.values)
    if count == 0 or not runs_at_all:
        return leaves, []
    if budget.slots is None:
        tape, size = _of_a_round(chain, count, goes_on)
    if goes_on is None:
        assert count is not None
        report.steps = count
        while True:
            if budget.slots is None:
                plan = _plan(budget, count, tape, size, name)
            else:
                plan = Binomial(min(budget.slots, count))
            report.slots = plan.budget if isinstance(plan, Binomial) else None
            try:
                chain.run(count, plan, budget.memory)
                break
            except LargerStepError as found:  # than the first rounds
                tape = found.size if found.size > tape else 2 * tape  # or states grow
                chain.forget()
    else:
        most = float("inf") if count is None else count
        ask = goes_on
        slots = budget.slots or _slots(budget, tape, size, name)
        slots = slots if count is None else min(slots, count)
        chain.run_while(lambda s: len(chain.prints) < most and ask(s), slots)
        report.steps = chain.count
        report.slots = min(slots, chain.count)
    return joint_of(chain, leaves, columns, again)


def _plan(budget: Budget, count: int, tape: int, size: int, name: str) -> RecordAll | Binomial:
    """For so many rounds, each of which stores a tape, between states of a size."""
    assert budget.memory is not None
    if count * tape + size <= budget.memory:
        return RecordAll()
    return Binomial(min(_slots(budget, tape, size, name), count))


def _slots(budget: Budget, tape: int, size: int, name: str) -> int:
    """How many states may be kept beside a recorded round and the state that it starts from."""
    assert budget.memory is not None
    slots = (budget.memory - tape - size) // size
    if slots < 1:
        raise BudgetError(
            f"{text(budget.memory)} are not enough to differentiate this {name} in: the least that can "
            f"be met is {enough(tape + 2 * size)}, for two states of {text(size)} and a recorded round "
            f"of {text(tape)}, as the first ones are"
        )
    return slots


def _of_a_round(
    chain: Chain, count: int | None, goes_on: Callable[[list[Any]], bool] | None
) -> tuple[int, int]:
    """The most bytes that a recorded round stores, and a state. Rounds are alike once the same values vary."""
    state, tape, size = chain.start, 0, max(chain.start.size, 1)
    for k in range(MOST_ALONE if count is None else min(count, MOST_ALONE)):
        begin = next_index()
        done = chain.record(k, state)
        chain.report.measured_steps += 1
        tape = max(tape, bytes_of_rows(done.outputs, begin, state.values))
        before, state = state, done.state()
        size = max(size, state.size)
        is_over = goes_on is not None and not goes_on(state.values)
        if is_over or state.varies == before.varies:
            break
    chain.forget()
    return tape, size


# ---- functions, one after the other


def run_functions(
    functions: Sequence[Callable[..., Any]],
    budget: Budget,
    plans: dict[Any, Any],
    args: Any,
    kwargs: Any,
    name: str = "functions",
    key: tuple[Any, ...] = (),
) -> Any:
    """The first function has the arguments, each further one what the one before returns."""
    leaves, structure = tree.flatten((args, kwargs))
    structures: dict[int, Any] = {0: structure}
    groups = _grouped(len(functions), budget)

    def step(k: int, state: list[Any], entries: list[Any]) -> tuple[list[Any], list[Any]]:
        given = structures[k].unflatten(state)
        for n in groups[k]:
            f = functions[n]
            result = f(*given[0], **given[1]) if n == 0 else f(given)
            given = result
        after, structures[k + 1] = tree.flatten(result)
        return after, []

    outs, _ = _steps_within(budget, step, leaves, len(groups), plans, (structure, *key), name)
    return structures[len(groups)].unflatten(outs)


def _steps_within(
    budget: Budget,
    step: StepOf,
    leaves: list[Any],
    count: int,
    plans: dict[Any, Any],
    key: tuple[Any, ...],
    name: str,
) -> tuple[list[Any], list[Any]]:
    """A chain of steps that differ, without sequences; what they store is measured once for each `key`."""

    def new() -> Chain:
        report = ChainReport(name, count, budget.slots)
        return Chain(step, _state(leaves), [], [], report, shelves=budget.shelves)

    chain = new()
    if budget.slots is not None:
        chain.run(count, Binomial(budget.slots))
    else:
        assert budget.memory is not None
        types = [
            (np.shape(v), np.asarray(v).dtype, f) for v, f in zip(*_parts(leaves), strict=True)
        ]
        found = (*key, name, count, *types)
        if found in plans:
            chain.run(count, plans[found])
        if (
            chain.report.peak_bytes > budget.memory
        ):  # they store more than the steps that were measured
            chain = new()
            del plans[found]
        if found not in plans:
            plans[found] = plan_for(_measured(chain, count), budget.memory)
            chain.run(count, plans[found])
    budget.report.chains.append(chain.report)

    def again(step: StepOf, leaves: list[Any], columns: list[Any]) -> tuple[list[Any], list[Any]]:
        return _steps_within(budget, step, leaves, count, plans, key, f"{name} with tangents")

    return joint_of(chain, leaves, [], again)


def _parts(leaves: Sequence[Any]) -> tuple[list[Any], list[bool]]:
    state = _state(leaves)
    return state.values, state.varies


def _grouped(n: int, budget: Budget) -> list[range]:
    """Functions that are one step of the chain: no more steps than a plan can tell apart."""
    size = 1 if budget.slots is not None else -(-n // MOST_STEPS)
    return [range(k, min(k + size, n)) for k in range(0, n, size)]


def plan_for(steps: Sequence[Step], memory: int, room: int = 0) -> Any:
    """The best plan for steps that differ, in a number of bytes, some of which one step takes as room."""
    if sum(s.tape for s in steps) + room <= memory:
        return RecordAll()
    return Planned(steps, memory, room)


def _measured(chain: Chain, count: int) -> list[Step]:
    """Every step recorded once, to see what it stores and makes."""
    steps = []
    state = chain.start
    for k in range(count):
        begin = next_index()
        done = chain.record(k, state)
        chain.report.measured_steps += 1
        tape = bytes_of_rows(done.outputs, begin, state.values)
        steps.append(Step(state.size, tape, _work(done, begin)))
        state = done.state()
    chain.forget()
    return steps


def _work(done: Any, begin: int) -> float:
    """About what a step costs: the entries that its rows made, those of products times what is summed."""
    outs = [y.row for y in done.outputs if isinstance(y, Tensor) and y.row is not None]
    total = 1.0
    for row in ancestors(outs, begin)[0]:
        entries = float(row.size)
        if row.primitive.name in ("matmul", "contract", "dot"):
            ins = [p.size for p in row.parents if p.__class__ is Row]
            ins += [np.size(v) for v in row.saved[1:] if v is not None]
            if len(ins) > 1:  # √(m k · k n · m n) = m k n
                entries = float(np.sqrt(float(max(ins)) * sorted(ins)[-2] * max(row.size, 1)))
        total += entries
    return total


# ---- any function


def run_within(
    f: Callable[..., Any], budget: Budget, plans: dict[Any, Any], args: Any, kwargs: Any
) -> Any:
    """A function whose loops, or else whose operations, keep to a budget."""
    segments = None
    leaves, structure = tree.flatten((args, kwargs))
    numbers = [k for k, x in enumerate(leaves) if isinstance(x, Tensor | np.ndarray)]
    varies = any(isinstance(x, Tensor) and x.row is not None for x in leaves)
    if budget.memory is not None and varies and numbers:
        results: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            full = list(leaves)
            for k, v in zip(numbers, values, strict=True):
                full[k] = v
            a, k = structure.unflatten(full)
            found, form = tree.flatten(f(*a, **k))
            results[:] = [form, found]
            return found

        try:
            types = [
                type_of(x._v if isinstance(x, Tensor) else x)
                for x in map(leaves.__getitem__, numbers)
            ]
            with Changes() as changes:
                program, _ = stage(flat, types, lasting=True)
        except (
            Exception
        ):  # it looks at numbers: its loops alone can be seen; or the error is its own
            program = None
        if program is not None and _is_straight(program):
            segments = [_function(part) for part in cut_up(program, MOST_STEPS) or [program]]
            steps = [(e.primitive.name, *[v.type for v in e.outputs]) for e in program.equations]
        elif program is not None:
            changes.undo()  # it will run again
    if segments is None:
        begin = next_index()
        with within(budget):
            result = f(*args, **kwargs)
        if budget.memory is not None and varies and not budget.report.chains:
            _told_as_a_whole(budget, tree.flatten(result)[0], begin, leaves, program is None)
        return result
    state = [leaves[k] for k in numbers]
    outs = run_functions(segments, budget, plans, (state,), {}, "segments", tuple(steps))
    return results[0].unflatten(outs)


def _is_straight(program: Program) -> bool:
    """Whether it has neither loops nor calls: of branches one runs, as if it stood there."""
    regions = [e.params.get("region") for e in program.equations if e.primitive.holds_regions]
    inside = [p for x in regions if isinstance(x, Branches) for p in x.branches]
    return all(isinstance(x, Branches) for x in regions) and all(map(_is_straight, inside))


def _told_as_a_whole(
    budget: Budget, outs: list[Any], begin: int, leaves: list[Any], decides: bool
) -> None:
    """Of a function that was not cut, and has no loop that could have been; an error if it stores too much."""
    tape = bytes_of_rows([y for y in outs if row_of(y) is not None], begin, [*map(raw, leaves)])
    assert budget.memory is not None
    if tape > budget.memory:
        why = (
            "for Python decides here by numbers that vary, so operations cannot be told apart before they run: "
            "write such branches with np.where or bs.cond, or loops with bs.while_loop"
            if decides
            else "for what stands beside a compiled, checkpointed or recursive call is not cut: give "
            "the parts before and after it budgets of their own"
        )
        raise BudgetError(
            f"{text(budget.memory)} are not enough to differentiate this in: the least that can be met is "
            f"{enough(tape)}, {why}"
        )
    chain = ChainReport("as a whole", 1, recorded_steps=1)
    chain.hold(tape)
    budget.report.chains.append(chain)


def _function(part: Program) -> Callable[[list[Any]], list[Any]]:
    return lambda values: evaluate(part, values)
