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
from ..changes import Changes, held, put
from ..hooks import hooks
from ..module_state import Cells, state_in
from ..row import is_over
from ..tensor import Staged, Tensor
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
        _put(self.cells, structure.unflatten([_plain(x) for x in leaves]))
        return result

    def held(self) -> list[Any]:
        return _held(self.cells)


def with_state(f: Callable[..., Any], cells: Cells) -> Callable[..., Any]:
    """(what the cells hold, arguments) ↦ (f's result, what they hold then)."""

    @functools.wraps(f)
    def run(state: Sequence[Any], /, *args: Any, **kwargs: Any) -> Any:
        before = [held(*cell) for cell in cells]
        _put(cells, state)
        try:
            result = hooks.users(f)(*args, **kwargs)
            return result, _held(cells)
        finally:
            _put(cells, before)

    first = inspect.Parameter("_state", inspect.Parameter.POSITIONAL_ONLY)
    try:
        parameters = inspect.signature(f).parameters.values()
        run.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]  # inspect looks for it
    except (TypeError, ValueError):  # a built-in function that does not tell
        pass
    return run


def _held(cells: Cells) -> list[Any]:
    return tree.map(_plain, [held(*cell) for cell in cells])


def _plain(x: Any) -> Any:
    """A Tensor that nobody differentiates, as its array."""
    constant = isinstance(x, Tensor) and not isinstance(x, Staged)
    return x._v if constant and (x.row is None or is_over(x.row)) else x


def _put(cells: Cells, values: Sequence[Any]) -> None:
    for (owner, name), value in zip(cells, values, strict=True):
        put(owner, name, value)
