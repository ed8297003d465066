"""A loop in pieces: for a derivative that may store little (bs.checkpoint with `memory`).

The rounds are done in pieces of L, as an inner loop of an outer one. Of the outer loop only what is carried is
stored; the inner one is computed again, piece by piece, and stores what its blocks ask for. So a tape of n
entries becomes n / L carried values and L entries. Where that is more than the budget, the pieces are done in
pieces, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..ir import Program, Type, Var, type_of
from ..primitive import FUNCTIONS, P
from ..primitives.control import CALL, LOOP
from ..regions import INDEX, Callee, Loop
from ..trace import evaluate, innermost_region, stage, stage_region
from .regions import Form, Region, outer_recorder, type_of_leaf

UNKNOWN = 1 << 20  # rounds that a loop without a count is taken to have


def bytes_of(values: Sequence[Var]) -> int:
    return sum(v.type.size * v.dtype.itemsize for v in values if not v.type.is_stack)


def rounds_of(loop: Loop) -> int:
    return UNKNOWN if loop.count is None else loop.count


def in_pieces(loop: Loop, each: int) -> Program | None:
    """A Program with the inputs and outputs of the loop, or None if it cannot be cut. `each`: bytes a round."""
    made = loop.body.outputs[loop.carried :]
    if (
        loop.reverse
        or (loop.counted and loop.count is None)
        or (made and loop.count is None)
        or not each
        or loop.memory is None
    ):
        return None
    total = rounds_of(loop)
    carried = bytes_of(loop.body.inputs[1 : 1 + loop.carried]) or 8
    # As many rounds in a piece as half of the memory holds; more if the carried values need the other half.
    most = max(loop.memory // (2 * each), 1)
    within = None
    least = -(-2 * total * carried // max(loop.memory, 1))
    size = int(min(max(most, 2), max(total // 2, 2)))
    if loop.count is None:
        size = int(min(max(most, 2), 1 << 16))
    elif most < least:  # the budget cannot be met: the least there is
        size = int(min(max(round((total * carried / each) ** 0.5), 2), max(total // 2, 2)))
        pieces = loop.memory // (2 * carried)
        if 2 <= pieces < total // 2:  # half of it for states here, and pieces of pieces in the rest
            size, within = -(-total // pieces), loop.memory // 2
    a, f = loop.carried, loop.fixed
    h = int(loop.counted)  # how many rounds, as a fixed input in front
    types = [type_of(o) for o in made]

    def step(
        k: Any, state: Sequence[Any], columns: Sequence[Any], fixed: Sequence[Any], xs: Any
    ) -> list[Any]:
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
        memory=within,
    )

    def outer_body(j: Any, *rest: Any) -> list[Any]:
        state, done, others = rest[: a + len(made)], rest[a + len(made)], rest[a + len(made) + 1 :]
        limit, others = (others[0] if h else loop.count), others[h:]
        left = size if limit is None else np.minimum(limit - done, size)
        results = LOOP(
            left if loop.count is not None else j * 0 + size, *state, done, *others, region=inner
        )
        return [*results[:-1], done + results[-1]]

    def goes_on(j: Any, *rest: Any) -> list[Any]:
        state, done, others = rest[:a], rest[a + len(made)], rest[a + len(made) + 1 + h :]
        assert loop.goes_on is not None
        return evaluate(loop.goes_on, [done, *state, *others[:f]])

    head = [INDEX] * h
    around = [INDEX, *carried_types, *column_types, INDEX, *head, *fixed_types, *sequence_types]
    outer = Loop(
        stage_region(outer_body, around, None),
        carried=a + len(made) + 1,
        fixed=h + f + loop.sequences,
        sequences=0,
        goes_on=None if loop.goes_on is None else stage_region(goes_on, around, None),
        count=None if loop.count is None else -(-loop.count // size),
        recompute=True,
    )

    def run(*args: Any) -> list[Any]:
        _, starts, fixed, xs = loop.split(args)
        given = args[:h]
        columns = [np.zeros(t.shape, t.dtype) for t in column_types]
        results = LOOP(*starts, *columns, 0, *given, *fixed, *xs, region=outer)
        return [*results[: a + len(made)], results[a + len(made)]]

    return stage(run, [*head, *carried_types, *fixed_types, *sequence_types])[0]


# ---- what a user asks for


class _Budget(threading.local):
    memory: int | None = None


_budget = _Budget()


def budget() -> int | None:
    """The bytes that loops recorded now may store for their derivatives."""
    return _budget.memory


@contextmanager
def _within(memory: int) -> Iterator[None]:
    before, _budget.memory = _budget.memory, memory
    try:
        yield
    finally:
        _budget.memory = before


def checkpoint_staged(f: Callable[..., Any], memory: int | None, args: Any, kwargs: Any) -> Any:
    """Inside a Program that is being recorded: loops with a budget, or a call that is computed again."""
    if memory is not None:
        with _within(memory):
            return f(*args, **kwargs)
    form = Form.of((args, kwargs))
    forms: list[Form] = []

    def flat(*values: Any) -> list[Any]:
        inner_args, inner_kwargs = form.filled(values)
        forms[:] = [Form.of(f(*inner_args, **inner_kwargs))]
        return forms[0].taken()

    values = form.taken()
    outer = innermost_region() or outer_recorder(values)
    region = Region(flat, [type_of_leaf(x) for x in values], outer)
    callee = Callee(
        getattr(f, "__name__", "f"),
        region.outputs,
        region.with_inputs(region.variables),
        recompute=True,
    )
    results = CALL(*values, *region.captured, region=callee)
    return forms[0].filled(region.results(results))


FUNCTIONS["checkpoint_staged"] = checkpoint_staged
