"""State that a compiled function closes over: attributes of modules that its calls change.

Batch norm's running figures, or where dropout's random numbers stand. They are taken out of the function: what
they hold is one more argument of each call, what they hold afterwards one more result, and is put back.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..changes import Changes, put
from ..hooks import hooks
from ..module_state import Cells, held_in, plain, put_into, state_in, without_effect
from ..trace import Recorder
from .arguments import is_on_device
from .defaults import settle

if TYPE_CHECKING:
    from . import Jitted


def taken_back(changes: Changes, recorders: Sequence[Recorder]) -> Cells:
    """The state among what has changed, which holds again what it held; all else stays as it is."""
    before = {(id(owner), name): value for owner, name, value, _ in changes.made()}
    found = state_in(changes, recorders)
    for owner, name in found:
        put(owner, name, before[id(owner), name])
    return found


class Stateful:
    """A compiled function, called with what its cells hold."""

    def __init__(self, cells: Cells, compiled: Jitted):
        self.cells, self.compiled = cells, compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result, new = self.compiled(self.held(), *args, **kwargs)
        leaves, structure = tree.flatten(new)
        if any(map(is_on_device, leaves)):
            settle()
            leaves = [np.asarray(x)[()] if is_on_device(x) else x for x in leaves]
        put_into(self.cells, structure.unflatten([plain(x) for x in leaves]))
        return result

    def held(self) -> list[Any]:
        return held_in(self.cells)


def with_state(f: Callable[..., Any], cells: Cells) -> Callable[..., Any]:
    """(what the cells hold, arguments) ↦ (f's result, what they hold then)."""

    users = lambda *args, **kwargs: hooks.users(f)(*args, **kwargs)
    run = functools.wraps(f)(without_effect(users, cells))
    first = inspect.Parameter("_state", inspect.Parameter.POSITIONAL_ONLY)
    try:
        parameters = inspect.signature(f).parameters.values()
        vars(run)["__signature__"] = inspect.Signature([first, *parameters])
    except (TypeError, ValueError):  # a built-in function that does not tell
        pass
    return run
