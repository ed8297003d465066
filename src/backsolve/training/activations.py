"""What the modules of a model make of a batch: one evaluation, run as written, that is looked at from outside.

Each module of a copy gets a class of its own kind that tells what a call returns. The model that is trained,
and the compiled step, know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .. import tree
from ..nn.module import Module
from .step import State, Steps, in_precision_of, unheld

EXAMPLES = 16  # of a batch: enough to see how outputs are spread


def activations(steps: Steps, state: State, batch: Any) -> dict[str, list[Any]]:
    """By names and classes of modules, what their calls return, in evaluation mode, on the first examples.

    A module that passes on what another one returned is left out.
    """
    model = steps.model_of(state).eval()
    watched = {id(m): f"{name or 'model'} {type(m).__name__}" for name, m in model.modules()}
    found: dict[str, list[Any]] = {}
    seen: list[Any] = []

    def note(module: Any, result: Any) -> None:
        for a in tree.flatten(result)[0]:
            a = getattr(a, "value", a)
            if not isinstance(a, np.ndarray) or a.dtype.kind not in "fc":
                continue
            if id(module) in watched and not any(_is_same(a, b) for b in seen):
                seen.append(a)
                found.setdefault(watched[id(module)], []).append(a)
            return  # of several arrays, the first

    for _, module in list(model.modules()):
        object.__setattr__(module, "__class__", _telling(type(module)))  # type: ignore[arg-type]  # stubs
    _notes.append(note)
    try:
        parts = in_precision_of(state["parameters"], first_examples(batch))
        steps.objective.only_loss(unheld(model), parts)
    finally:
        _notes.remove(note)
    return found


def _is_same(a: Any, b: Any) -> bool:
    """Whether both are one array, perhaps in another shape."""
    return a.size == b.size and a.ctypes.data == b.ctypes.data


_notes: list[Callable[[Any, Any], None]] = []


@cache
def _telling(kind: type[Module]) -> type[Module]:
    """The same class, but for calls, whose results are told."""
    if not any("__call__" in vars(c) for c in kind.__mro__):
        return kind

    def call(self: Any, *args: Any, **options: Any) -> Any:
        result = kind.__call__(self, *args, **options)  # users define it
        for note in list(_notes):
            note(self, result)
        return result

    names = {"__call__": call, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), names)


def first_examples(batch: Any) -> Any:
    """The first examples of a batch whose arrays all have one length; any other batch as it is."""
    leaves, structure = tree.flatten(batch)
    lengths = {np.shape(a)[:1] for a in leaves}
    if len(lengths) != 1 or lengths == {()}:
        return batch
    return structure.unflatten([a[:EXAMPLES] for a in leaves])
