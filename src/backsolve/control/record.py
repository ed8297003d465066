"""Loops, recorded: one equation, whose body is a region in the types that a round keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from .. import tree
from ..errors import CarriedTypeError, ShapeError, StructureError
from ..ir import Type
from ..primitives.checks import Messages
from ..primitives.control import LOOP
from ..regions import INDEX, Loop
from ..rewrite import rewrite
from ..rewrite.rounds import apart
from ..tensor import Staged, Tensor
from ..trace import evaluate, stage_region
from . import bind
from .checks import NONE, Failure, noted
from .pieces import limit, within_limit
from .regions import Form, Region, cast_to, join, outer_recorder, settle, type_of_leaf, widens

MOST_TRIES = 8  # to find the types of carried values


def record_loop(
    body: Callable[[Any, Any, Any], tuple[Any, Any]],
    goes_on: Callable[[Any], Any] | None,
    init: Any,
    sequences: Any,
    count: Any,
    reverse: bool = False,
    reads: Sequence[Any] = (),
) -> tuple[Any, Any]:
    form, items = Form.of(init), Form.of(sequences)
    values, columns = form.taken(), items.taken()
    counted = isinstance(count, Staged)
    outer = outer_recorder([*values, *columns, *([count] if counted else ()), *reads])
    types = [type_of_leaf(x) for x in values]
    entries = [Type(t.shape[1:], t.dtype) for t in [type_of_leaf(x) for x in columns]]
    made: list[Form] = []
    found = limit()

    def flat(k: Any, *rest: Any) -> list[Any]:
        state, parts = rest[: len(types)], rest[len(types) :]
        after, ys = body(k, form.filled(state), items.filled(parts))
        made[:] = [Form.of(ys)]
        return [*form.match(after, "a loop"), *made[0].taken()]

    def asked(k: Any, *state: Any) -> list[Any]:
        assert goes_on is not None
        truth = goes_on(form.filled(state))
        if isinstance(truth, Tensor) and truth.dtype != bool:
            truth = truth != 0
        if isinstance(truth, Tensor) and truth.shape != ():
            raise ShapeError(f"a condition must be one truth value, got shape {truth.shape}")
        return [truth if isinstance(truth, Tensor) else bool(truth)]

    names = names_in(form, "a carried value")
    for _ in range(MOST_TRIES):
        with nullcontext() if found is None else within_limit(found.within()):
            region = Region(_kept_types(flat, types), [INDEX, *types, *entries], outer)
        after = settle("a round of the loop", types, region.outputs[: len(types)], names)
        if after == types and _agree(region.outputs, types):
            break
        types = after
    if region.messages:
        again = _as_recorded(region, form, items, made[0])
        init = form.filled([cast_to(x, t) for x, t in zip(values, types, strict=True)])
        return _record_checked(again, goes_on, init, sequences, count, reverse, reads)
    regions = [region]
    if goes_on is not None:
        regions.append(Region(asked, [INDEX, *types], outer))
        if regions[1].messages:
            return _record_checked(body, goes_on, init, sequences, count, reverse, reads, True)
    captured, programs = join(regions)
    # The order of a body's inputs: what is carried, what is fixed, then the entries.
    first = programs[0]
    n = 1 + len(types)
    inputs = (
        *first.inputs[:n],
        *first.inputs[n + len(entries) :],
        *first.inputs[n : n + len(entries)],
    )
    loop = Loop(
        type(first)(inputs, first.constants, first.equations, first.outputs),
        carried=len(types),
        fixed=len(captured),
        sequences=len(entries),
        goes_on=programs[1] if goes_on is not None else None,
        count=None if counted else count,
        counted=counted,
        reverse=reverse,
        memory=None if found is None else found.memory,
        share=1 if found is None else found.share,
        report=None if found is None else found.report,
    )
    starts = [cast_to(x, t) for x, t in zip(values, types, strict=True)]
    args = [*([count] if counted else ()), *starts, *captured, *columns]
    if not any(isinstance(a, Staged) for a in args):  # nothing staged is read after all
        results = bind.run_loop(loop, args)
    else:
        loop = loop.with_programs([rewrite(p) for p in loop.programs()])
        # Within a budget it stays a loop: what is done for all rounds at once is held for all of them.
        simple = apart(loop) if loop.memory is None else None
        results = LOOP(*args, region=loop) if simple is None else evaluate(simple, args)
    return form.filled(results[: len(types)]), made[0].filled(results[len(types) : -1])


def _record_checked(
    body: Callable[[Any, Any, Any], tuple[Any, Any]],
    goes_on: Callable[[Any], Any] | None,
    init: Any,
    sequences: Any,
    count: Any,
    reverse: bool,
    reads: Sequence[Any],
    is_asked: bool = False,
) -> tuple[Any, Any]:
    """A loop with assertions in it: it carries the first failure along, and a `while` ends by it."""

    messages: Messages = ()

    def step(k: Any, state: Any, entries: Any) -> tuple[Any, Any]:
        nonlocal messages
        before, code = state
        after, ys = body(k, before, entries)
        now = noted()
        messages = now.messages or messages
        return (after, Failure(code, messages).before(now).code), ys

    def asked(state: Any) -> Any:
        before, code = state
        assert goes_on is not None
        truth = goes_on(before)
        truth = truth if isinstance(truth, Tensor) else bool(truth)
        now = noted()
        fine = code == 0 if not now.messages else np.logical_and(code == 0, now.code == 0)
        return np.logical_and(truth, fine)

    start = init, NONE.code
    test = None if goes_on is None else asked
    (state, code), ys = record_loop(step, test, start, sequences, count, reverse, reads)
    Failure(code, messages).report()
    if is_asked and goes_on is not None:
        goes_on(state)  # what failed in the condition ended the loop: it fails here again
    return state, ys


def _as_recorded(
    region: Region, form: Form, items: Form, made: Form
) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """A loop's body, once it was recorded: to run it again may take long, if there are loops inside."""
    whole, n = region.with_inputs(region.variables), len(form.values)

    def body(k: Any, state: Any, entries: Any) -> tuple[Any, Any]:
        values = [k, *form.match(state, "a loop"), *items.match(entries, "a loop")]
        results = region.results(evaluate(whole, [*values, *region.captured]))
        return form.filled(results[:n]), made.filled(results[n:])

    return body


def _kept_types(f: Callable[..., list[Any]], types: list[Type]) -> Callable[..., list[Any]]:
    """Carried results that are bare numbers, as the type that they are carried in."""

    def run(*args: Any) -> list[Any]:
        results = f(*args)
        for k, t in enumerate(types):
            have = type_of_leaf(results[k])
            if have.weak and have.shape == t.shape and have != t and widens(have, t):
                results[k] = cast_to(results[k], t)
        return results

    return run


def _agree(outputs: list[Type], types: list[Type]) -> bool:
    return all(
        (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(outputs, types, strict=False)
    )


def names_in(form: Form, otherwise: str) -> list[str]:
    """What to call the values of a state in a message: their keys, where it holds dicts."""
    names = _names(form.structure, otherwise)
    return [names[k] for k in form.values]


def _names(structure: tree.Structure, otherwise: str) -> list[str]:
    if structure.kind is dict:
        parts = zip(structure.meta, structure.children, strict=True)
        return [f"`{key}`" for key, child in parts for _ in range(child.size)]
    if structure.kind in (tuple, list):
        return [name for child in structure.children for name in _names(child, otherwise)]
    return [otherwise] * structure.size


def tried(round_: Callable[[], Any]) -> Any:
    """What a round gives; if that is staged, only its types can be used, for nothing is recorded."""
    found: list[Any] = []

    def run() -> list[Any]:
        found.append(round_())
        return []

    stage_region(run, [], None)
    return found[0]


def as_after(state: Any, after: Any) -> Any:
    """A known state in the types that the first round gives it; None if that is a state of another kind."""
    form = Form.of(state)
    values = form.taken()
    before = [type_of_leaf(x) for x in values]
    try:
        types = [type_of_leaf(x) for x in form.match(after, "a loop")]
        types = settle("a round of the loop", before, types, names_in(form, "a carried value"))
    except (StructureError, CarriedTypeError):
        return None
    return form.filled([cast_to(x, t) for x, t in zip(values, types, strict=True)])
