"""Control flow as functions: cond, while_loop, fori_loop, scan, map.

On numbers they are plain Python. On staged values (inside `bs.jit` and `bs.vmap`) they record one equation
with a region (regions.py), whatever the number of rounds. Inside `bs.jit`, Python's own `if`, `for` and `while`
become these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import ShapeError, StructureError
from ..ir import Type
from ..primitive import hooks
from ..primitives.checks import Messages
from ..primitives.control import BRANCH, LOOP
from ..regions import INDEX, Branches, Loop
from ..rewrite import rewrite
from ..rewrite.rounds import apart
from ..tensor import Staged, Tensor
from ..trace import evaluate
from . import batch as batch
from . import bind as bind
from . import stacks as stacks
from .calls import Unfinished
from .calls import call as call
from .calls import is_in_recursion as is_in_recursion
from .checks import NONE, Failure, noted
from .pieces import budget
from .regions import (
    Form,
    Region,
    cast_to,
    common,
    join,
    outer_recorder,
    settle,
    type_of_leaf,
    widens,
)

MOST_TRIES = 8  # to find the types of carried values


def cond(
    pred: Any, on_true: Callable[..., Any], on_false: Callable[..., Any], *operands: Any
) -> Any:
    """`on_true(*operands)` if `pred` holds, else `on_false(*operands)`; only that one runs.

    >>> import backsolve as bs
    >>> f = bs.jit(lambda x: bs.cond(x > 0, lambda t: t * t, lambda t: -t, x))
    >>> f(3.0), f(-2.0), bs.grad(f)(3.0)
    (9.0, 2.0, 6.0)
    """
    on_true, on_false = hooks.body(on_true), hooks.body(on_false)
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
    wanted: list[Type] = []
    messages: Messages = ()
    for _ in range(MOST_TRIES):
        del forms[1:]
        try:
            yes, no = (
                Region(_casting(flat(f), wanted), types, outer, messages)
                for f in (on_true, on_false)
            )
        except Unfinished:  # what the other branch gives tells the type of a recursive call
            return _finished(on_true, on_false, operands)
        messages = tuple(sorted({*yes.messages, *no.messages}))
        if bool(yes.messages) != bool(no.messages):
            forms.clear()
            continue
        if yes.outputs == no.outputs:
            break
        names = _names(forms[0], "a result of `cond`")
        wanted = common(yes.outputs, no.outputs, names)
        forms.clear()
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


def _casting(f: Callable[..., list[Any]], types: list[Type]) -> Callable[..., list[Any]]:
    def run(*values: Any) -> list[Any]:
        results = f(*values)
        return [cast_to(x, t) for x, t in zip(results, types, strict=True)] if types else results

    return run


def _names(form: Form, otherwise: str) -> list[str]:
    """What to call the values of a state in a message: their keys, where it is a dict."""
    if form.structure.kind is dict:
        names = []
        for key, child in zip(form.structure.meta, form.structure.children, strict=True):  # type: ignore[call-overload]
            names += [f"`{key}`"] * child.size
        return [names[k] for k in form.values]
    return [otherwise] * len(form.values)


def while_loop(goes_on: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """`state = init; while goes_on(state): state = body(state)`; the state is any tree.

    >>> import backsolve as bs
    >>> def root(a):  # Newton's method
    ...     return bs.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    >>> round(float(bs.jit(bs.grad(root))(4.0)), 12)
    0.25
    """
    goes_on, body = hooks.body(goes_on), hooks.body(body)
    form = Form.of(init)
    if not any(isinstance(x, Staged) for x in form.taken()):
        # A condition or a body may still rest on staged values that it closes over.
        state, truth = init, goes_on(init)
        while not isinstance(truth, Staged):
            if not bool(truth):
                return state
            state = body(state)
            if any(isinstance(x, Staged) for x in Form.of(state).taken()):
                break
            truth = goes_on(state)
        init = state
    return _loop(lambda k, state: body(state), lambda state: goes_on(state), init, None)


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

    >>> import backsolve as bs
    >>> float(bs.jit(lambda x: bs.fori_loop(0, 5, lambda i, s: s + x**i, 0.0))(2.0))
    31.0
    """
    body, goes_on = hooks.body(body), goes_on and hooks.body(goes_on)
    known = not isinstance(start, Staged) and not isinstance(stop, Staged)
    if known and not any(isinstance(x, Staged) for x in [*Form.of(init).taken(), *reads]):
        state = init
        for i in range(int(start), int(stop)):
            if any(isinstance(x, Staged) for x in Form.of(state).taken()):
                return _loop(_shifted(body, i), goes_on, state, int(stop) - i)
            truth = True if goes_on is None else goes_on(state)
            if isinstance(truth, Staged):
                return _loop(_shifted(body, i), goes_on, state, int(stop) - i)
            if not bool(truth):
                break
            state = body(i, state)
        return state
    if known:
        count: Any = max(int(stop) - int(start), 0)
    else:
        count = np.maximum(stop - start, 0)
    return _loop(_shifted(body, start), goes_on, init, count, reads)


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

    def flat(k: Any, *rest: Any) -> list[Any]:
        state, parts = rest[: len(types)], rest[len(types) :]
        after, ys = body(k, form.filled(state), items.filled(parts))
        made[:] = [Form.of(ys)]
        return [*form.match(after, "a loop"), *made[0].taken()]

    def asked(k: Any, *state: Any) -> list[Any]:
        truth = goes_on(form.filled(state))  # type: ignore[misc]
        if isinstance(truth, Tensor) and truth.dtype != bool:
            truth = truth != 0
        if isinstance(truth, Tensor) and truth.shape != ():
            raise ShapeError(f"a condition must be one truth value, got shape {truth.shape}")
        return [truth if isinstance(truth, Tensor) else bool(truth)]

    names = _names(form, "a carried value")
    for _ in range(MOST_TRIES):
        region = Region(_kept_types(flat, types), [INDEX, *types, *entries], outer)
        if region.messages:
            return _record_checked(body, goes_on, init, sequences, count, reverse, reads)
        after = settle("a round of the loop", types, region.outputs[: len(types)], names)
        if after == types and _agree(region.outputs, types):
            break
        types = after
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
        memory=budget(),
    )
    starts = [cast_to(x, t) for x, t in zip(values, types, strict=True)]
    args = [*([count] if counted else ()), *starts, *captured, *columns]
    if not any(isinstance(a, Staged) for a in args):  # nothing staged is read after all
        results = bind.run_loop(loop, args)
    else:
        loop = loop.with_programs([rewrite(p) for p in loop.programs()])
        simple = apart(loop)
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
        truth = goes_on(before)  # type: ignore[misc]
        truth = truth if isinstance(truth, Tensor) else bool(truth)
        now = noted()
        fine = code == 0 if not now.messages else np.logical_and(code == 0, now.code == 0)
        return np.logical_and(truth, fine)

    start = init, NONE.code
    test = None if goes_on is None else asked
    (state, code), ys = record_loop(step, test, start, sequences, count, reverse, reads)
    Failure(code, messages).report()
    if is_asked:  # what failed in the condition ended the loop: it fails here again
        goes_on(state)  # type: ignore[misc]
    return state, ys


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


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = body(carry, x)` for each entry x of `xs` along its first axis; the ys are stacked.

    >>> import numpy as np, backsolve as bs
    >>> total, sums = bs.scan(lambda s, x: (s + x, s + x), 0.0, np.arange(4.0))
    >>> sums
    array([0., 1., 3., 6.])
    """
    body = hooks.body(body)
    columns, structure = tree.flatten(xs)
    lengths = {np.shape(x)[0] for x in columns}
    if length is not None:
        lengths.add(length)
    if len(lengths) != 1:
        raise ShapeError(f"scan needs sequences of one length, got {sorted(lengths)}")
    count = lengths.pop()
    leaves = [*Form.of(init).taken(), *columns]
    if any(isinstance(x, Staged) for x in leaves):

        def step(k: Any, state: Any, entries: Any) -> tuple[Any, Any]:
            result = body(state, entries)
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise StructureError("the body of a scan must return (carry, y)")
            return result[0], result[1]

        return record_loop(step, None, init, xs, count, reverse)
    state, rows = init, []
    for k in reversed(range(count)) if reverse else range(count):
        state, y = body(state, structure.unflatten([x[k] for x in columns]))
        rows.append(y)
    rows = rows[::-1] if reverse else rows
    if not rows:
        return state, None
    return state, tree.map(lambda *ys: np.stack(ys), rows[0], *rows[1:])


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """f of each entry along the first axis, stacked; one after the other (`vmap` does them at once).

    >>> import numpy as np, backsolve as bs
    >>> bs.map(lambda x: x * x, np.arange(3.0))
    array([0., 1., 4.])
    """
    f = hooks.body(f)
    return scan(lambda carry, x: (carry, f(x)), (), xs)[1]
