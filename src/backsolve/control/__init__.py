"""Control flow as functions: cond, while_loop, fori_loop, scan, map.

What they are given may change attributes of modules: that is made a part of what is carried (module_state.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..hooks import hooks
from ..module_state import State, carrying
from ..quiet import are_large, writes_nothing
from ..tensor import Staged, lent
from ..trace import is_recording
from . import batch as batch
from . import bind as bind
from . import checkpoints as checkpoints
from . import implicit as implicit
from . import once as once
from . import stacks as stacks
from . import staged
from .calls import call as call
from .calls import is_in_recursion as is_in_recursion
from .record import record_loop as record_loop


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
        taken = on_true if bool(pred) else on_false
        return taken(*_lent_to((taken,), operands))

    def run(state: State) -> tuple[Any, Any]:
        yes, no = state.pure(on_true), state.pure(on_false)
        found: tuple[Any, Any] = staged.cond(pred, yes, no, state.held(), *operands)
        return found

    return carrying(run, "a branch of `bs.cond`")


def while_loop(goes_on: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """`state = init; while goes_on(state): state = body(state)`; the state is any tree.

    >>> import backsolve as bs
    >>> def root(a):  # Newton's method
    ...     return bs.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    >>> round(float(bs.jit(bs.grad(root))(4.0)), 12)
    0.25
    """
    goes_on, body = hooks.body(goes_on), hooks.body(body)
    if not is_recording():
        return staged.while_loop(goes_on, body, _lent_to((goes_on, body), init))

    def run(state: State) -> tuple[Any, Any]:
        first = state.joined(init, state.held())
        return state.parted(staged.while_loop(state.asking(goes_on), state.carried(body), first))

    return carrying(run, "a round of `bs.while_loop`")


def fori_loop(
    start: Any,
    stop: Any,
    body: Callable[[Any, Any], Any],
    init: Any,
    goes_on: Callable[[Any], Any] | None = None,
) -> Any:
    """`for i in range(start, stop): state = body(i, state)`, as long as `goes_on(state)` if that is given.

    >>> import backsolve as bs
    >>> float(bs.jit(lambda x: bs.fori_loop(0, 5, lambda i, s: s + x**i, 0.0))(2.0))
    31.0
    """
    body, goes_on = hooks.body(body), goes_on and hooks.body(goes_on)
    if not is_recording():
        return staged.fori_loop(start, stop, body, _lent_to((body,), init), goes_on)

    def run(state: State) -> tuple[Any, Any]:
        first, test = state.joined(init, state.held()), goes_on and state.asking(goes_on)
        return state.parted(staged.fori_loop(start, stop, state.carried(body), first, test))

    return carrying(run, "a round of `bs.fori_loop`")


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
    if not is_recording():
        return staged.scan(body, _lent_to((body,), init), xs, length, reverse)

    def run(state: State) -> tuple[Any, Any]:
        pure = state.pure(body)

        def step(joined: Any, x: Any) -> tuple[Any, Any]:
            carry, values = state.parted(joined)
            result, values = pure(values, carry, x)
            carry, y = staged.pair(result)
            return state.joined(carry, values), y

        joined, ys = staged.scan(step, state.joined(init, state.held()), xs, length, reverse)
        carry, values = state.parted(joined)
        return (carry, ys), values

    found: tuple[Any, Any] = carrying(run, "a round of `bs.scan`")
    return found


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """f of each entry along the first axis, stacked; one after the other (`vmap` does them at once).

    >>> import numpy as np, backsolve as bs
    >>> bs.map(lambda x: x * x, np.arange(3.0))
    array([0., 1., 4.])
    """
    f = hooks.body(f)
    return scan(lambda carry, x: (carry, f(x)), (), xs)[1]


def _lent_to(functions: Sequence[Callable[..., Any]], given: Any) -> Any:
    """What these may write into, on numbers as well as staged: the caller's arrays stay as they are."""
    leaves = tree.flatten(given)[0]
    if are_large(leaves) and all(writes_nothing(f, leaves) for f in functions):
        return given
    return tree.map(lent, given)


hooks.while_loop = while_loop
