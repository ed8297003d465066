"""Batching without a Program: a function of one example, whose calls run on all examples as they are met.

For what runs but once, on numbers: nothing is written down, and no value is held here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .batch import spread_any
from .hooks import hooks
from .ir import Type, Var
from .primitive import Primitive, coerce
from .primitives.batching import one_by_one
from .trace import BARE, Recorder, is_recording


class NeedsProgram(BaseException):
    """A loop, a branch or a call was met, or a value that varies. Not an Exception: users catch those."""


def run_at_once(
    f: Callable[..., Any],
    args: Sequence[Any],
    size: int,
    batched: Sequence[bool] | None = None,
) -> list[Any] | None:
    """f of each example, stacked; None if that needs a Program.

    `args` carry a leading axis over the examples, or those of them that are `batched`.
    """
    if is_recording():
        return None
    by, given = _Examples(size), []
    for a, is_stack in zip(args, batched or [True] * len(args), strict=True):
        if is_stack and not (isinstance(a, np.ndarray) or getattr(a, "row", a) is None):
            return None
        given.append(by.staged(a) if is_stack else a)
    try:
        found = f(*given)
    except BaseException:
        if by.needs_program:
            return None
        raise
    finally:
        by.is_done = True  # what users keep of it is refused from here on
    if by.needs_program:  # and a user's rule went on without that
        return None
    flat = found if isinstance(found, list | tuple) else [found]
    results = [(y, by.stack(y)) for y in flat]
    return [spread_any(y, size) if stack is None else stack for y, stack in results]


class _Examples(Recorder):
    """Stands where a function is staged on one example; what is staged holds the stack of all."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size
        self.needs_program = False  # it was met: users' rules may catch what is raised then

    def staged(self, stack: Any) -> Any:
        var = Var(Type(stack.shape[1:], stack.dtype), self)
        var.stack = stack
        return hooks.wrap_var(var, None)

    def stack(self, a: Any) -> Any:
        """None if `a` is the same for all examples."""
        v = getattr(a, "_v", None)
        return v.stack if type(v) is Var and v.recorder is self else None

    def at_once(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if prim.holds_regions:
            self._give_up()
        values, flags = [], []
        for a in args:
            v, is_stack = a, False
            if isinstance(a, hooks.Tensor):
                if a.row is not None:
                    self._give_up()
                v = a._v
                if type(v) is Var:  # of a stack around this one, if it is not ours
                    is_stack = v.recorder is self
                    v = v.stack if is_stack else a
            elif type(a) not in BARE:
                v = coerce(a)
            values.append(v)
            flags.append(is_stack)
        rule = prim.batch_rule or one_by_one
        return self.staged(rule(prim, self.size, values, flags, params))

    def _give_up(self) -> NoReturn:
        self.needs_program = True
        raise NeedsProgram
