"""Choices and loops over functions that have no effect but their results.

On numbers they are plain Python. On staged values (inside `bs.jit` and `bs.vmap`) they record one equation
with a region (regions.py), whatever the number of rounds. Inside `bs.jit`, Python's own `if`, `for` and `while`
become these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..declared import check_parts
from ..errors import BacksolveError, BudgetError, ShapeError, StructureError
from ..ir import Type, type_of
from ..primitives.checks import Messages
from ..primitives.control import BRANCH
from ..regions import Branches
from ..solve import eager_budget
from ..tensor import Staged, lent
from ..trace import is_recording, stage
from . import within
from .calls import Unfinished
from .record import as_after, names_in, record_loop, tried
from .regions import Form, Region, common, join, outer_recorder, type_of_leaf

UNROLLED = 8  # rounds of a scan over known values that are written out one by one
MOST_TRIES = 2  # a branch without assertions is staged again if the other has some


def cond(
    pred: Any, on_true: Callable[..., Any], on_false: Callable[..., Any], *operands: Any
) -> Any:
    """`on_true(*operands)` if `pred` holds, else `on_false(*operands)`; only that one runs."""
    if not isinstance(pred, Staged):
        return (on_true if bool(pred) else on_false)(*operands)
    if pred.shape != ():
        raise ShapeError(f"a condition must be one truth value, got shape {pred.shape}")
    forms: list[Form] = []
    given = Form.of(operands)

    def flat(f: Callable[..., Any]) -> Callable[..., list[Any]]:
        def run(*values: Any) -> list[Any]:
            result = f(*given.filled(values))
            if not forms:
                forms.append(Form.of(result))
                return forms[0].taken()
            return forms[0].match(result, "the two branches of `cond`")

        return run

    values = given.taken()
    types = [type_of_leaf(x) for x in values]
    outer = outer_recorder([pred, *values])
    messages: Messages = ()
    for _ in range(MOST_TRIES):
        forms.clear()
        try:
            yes, no = (Region(flat(f), types, outer, messages) for f in (on_true, on_false))
        except Unfinished:  # what the other branch gives tells the type of a recursive call
            return _finished(on_true, on_false, operands)
        messages = tuple(sorted({*yes.messages, *no.messages}))
        if bool(yes.messages) == bool(no.messages):
            break
    names = names_in(forms[0], "a result of `cond`")
    while yes.outputs != no.outputs:
        wanted = common(yes.outputs, no.outputs, names)
        yes.cast(wanted)
        no.cast(wanted)
    if not yes.outputs:  # a branch has no effect but its results
        return forms[0].filled([])
    captured, (first, second) = join([yes, no])
    which = pred if pred.dtype == bool else pred != 0
    results = BRANCH(which, *values, *captured, region=Branches((second, first)))
    yes.messages = messages
    return forms[0].filled(yes.results(results))


def _finished(on_true: Callable[..., Any], on_false: Callable[..., Any], operands: Any) -> Any:
    try:
        return on_false(*operands)
    except Unfinished:
        return on_true(*operands)


def while_loop(goes_on: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """`state = init; while goes_on(state): state = body(state)`; the state is any tree."""
    budget = eager_budget()
    if budget is not None and not _is_staged(init):
        return within.loop(budget, lambda k, s: body(s), init, None, goes_on, "while_loop")
    state = init
    while not _is_staged(state):  # yet what it closes over may be
        truth = goes_on(state)
        if isinstance(truth, Staged):
            break
        if not bool(truth):
            return state
        after = tried(lambda: body(state))  # noqa: B023 - it is called at once
        if _is_staged(after):
            wide = as_after(state, after)
            state = body(state) if wide is None else wide
            break
        state = after
    return _loop(lambda k, state: body(state), lambda state: goes_on(state), state, None)


def fori_loop(
    start: Any,
    stop: Any,
    body: Callable[[Any, Any], Any],
    init: Any,
    goes_on: Callable[[Any], Any] | None = None,
    reads: Sequence[Any] = (),
) -> Any:
    """`for i in range(start, stop): state = body(i, state)`, as long as `goes_on(state)` if that is given.

    If one of `reads`, values that the body reads besides its state, is staged, no round runs in Python first.
    """
    known = not isinstance(start, Staged) and not isinstance(stop, Staged)
    if known and not any(isinstance(x, Staged) for x in [*Form.of(init).taken(), *reads]):
        budget = eager_budget()
        if budget is not None:
            first, rounds = int(start), max(int(stop) - int(start), 0)
            shifted = lambda k, s: body(first + k, s)
            return within.loop(budget, shifted, init, rounds, goes_on, "fori_loop")
        state = init
        for i in range(int(start), int(stop)):
            truth = True if goes_on is None else goes_on(state)
            if isinstance(truth, Staged):
                return _loop(_shifted(body, i), goes_on, state, int(stop) - i)
            if not bool(truth):
                break
            after = tried(lambda: body(i, state))  # noqa: B023 - it is called at once
            if _is_staged(after):
                wide = as_after(state, after)
                if wide is None:
                    return _loop(_shifted(body, i + 1), goes_on, body(i, state), int(stop) - i - 1)
                return _loop(_shifted(body, i), goes_on, wide, int(stop) - i)
            state = after
        return state
    if known:
        count: Any = max(int(stop) - int(start), 0)
    else:
        count = np.maximum(stop - start, 0)
    return _loop(_shifted(body, start), goes_on, init, count, reads)


def _is_staged(state: Any) -> bool:
    return any(isinstance(x, Staged) for x in Form.of(state).taken())


def _shifted(body: Callable[[Any, Any], Any], start: Any) -> Callable[[Any, Any], Any]:
    if not isinstance(start, Staged) and int(start) == 0:
        return body
    return lambda k, state: body(start + k, state)


def _loop(
    body: Callable[[Any, Any], Any],
    goes_on: Callable[[Any], Any] | None,
    init: Any,
    count: Any,
    reads: Sequence[Any] = (),
) -> Any:
    """A staged loop over a state without sequences."""
    step = lambda k, state, entries: (body(k, state), ())
    return record_loop(step, goes_on, init, (), count, reads=reads)[0]


def scan(body: Any, init: Any, xs: Any, length: int | None, reverse: bool) -> tuple[Any, Any]:
    """As the public function, which gives it a body with the state of modules in its carry, if there is any."""
    columns, structure = tree.flatten(xs)
    if any(np.shape(x) == () for x in columns):
        raise ShapeError(
            "scan and map go along the first axis of arrays, and a number has none: of a list make np.array(…)"
        )
    check_parts(structure, columns, [0] * len(columns), "scan")
    lengths = {np.shape(x)[0] for x in columns}
    if length is not None:
        lengths.add(length)
    if len(lengths) != 1:
        raise ShapeError(f"scan needs sequences of one length, got {sorted(lengths)}")
    count = lengths.pop()

    def step(k: Any, state: Any, entries: Any) -> tuple[Any, Any]:
        return pair(body(state, entries))

    entry = lambda k: structure.unflatten([lent(x[k]) for x in columns])
    if any(isinstance(x, Staged) for x in [*Form.of(init).taken(), *columns]):
        return record_loop(step, None, init, xs, count, reverse)
    if count > UNROLLED and is_recording() and _is_staged(tried(lambda: body(init, entry(0)))):
        try:  # what it closes over is staged
            return record_loop(step, None, init, xs, count, reverse)
        except BudgetError:
            raise
        except (BacksolveError, TypeError, ValueError):
            pass  # what cannot be staged runs, or fails, in Python
    budget = eager_budget()
    if budget is not None and count:
        return within.scan(budget, body, init, columns, structure, count, reverse)
    state, rows = init, []
    for k in reversed(range(count)) if reverse else range(count):
        state, y = step(k, state, entry(k))
        rows.append(tree.map(lent, y))  # the next round may write into its state
    rows = rows[::-1] if reverse else rows
    if not rows:
        return state, _no_results(body, Form.of(init), columns, structure)
    return state, tree.map(lambda *ys: np.stack(ys), rows[0], *rows[1:])


def _no_results(
    body: Callable[[Any, Any], tuple[Any, Any]],
    state: Form,
    columns: Sequence[Any],
    entries: tree.Structure,
) -> Any:
    """What no rounds of a scan stack: empty arrays of the types that a round would give."""
    forms: list[tree.Structure] = []

    def one(*given: Any) -> list[Any]:
        n = len(state.values)
        _, y = pair(body(state.filled(given[:n]), entries.unflatten(given[n:])))
        leaves, form = tree.flatten(y)
        forms.append(form)
        return leaves

    entering = [type_of_leaf(x) for x in columns]
    types = [
        *[type_of_leaf(x) for x in state.taken()],
        *[Type(t.shape[1:], t.dtype) for t in entering],
    ]
    program, _ = stage(one, types)
    made = [type_of(a) for a in program.outputs]
    return forms[-1].unflatten([np.zeros((0, *t.shape), t.dtype) for t in made])


def pair(result: Any) -> tuple[Any, Any]:
    """What a round of a scan returns."""
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise StructureError("the body of a scan must return (carry, y)")
    return result[0], result[1]
