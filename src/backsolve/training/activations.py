"""What the modules of a model make of a batch, and what comes back: looked at from outside, beside the run.

Each module of a copy gets a class of its own kind that tells what a call returns. The model that is trained,
and the compiled step, know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .. import tree
from ..api import grad
from ..compiled import jit
from ..hooks import hooks
from ..ir import Var
from ..nn.module import Module
from ..tensor import Tensor
from .step import State, Steps, in_precision_of, unheld

EXAMPLES = 16  # of a batch: enough to see how numbers are spread

Arrays = dict[str, Any]


class Looks:
    """Looks at a model on the first examples of a batch: run as written, compiled where it cannot be."""

    def __init__(self, steps: Steps):
        self.steps = steps
        self._ways: dict[Any, Callable[..., Any]] = {}  # that went well

    def activations(self, state: State, batch: Any) -> dict[str, list[Any]]:
        """By names and classes of modules, what their calls return, in evaluation mode.

        A module that passes on what another one returned is left out. Of several results all but the first
        have numbers.
        """
        model = self.steps.model_of(state).eval()
        return self._run(self._told, model.named_parameters(), model.named_buffers(), batch)

    def slopes(self, state: State, batch: Any) -> Arrays:
        """By names of parameters, the gradient of the loss, in training mode."""
        state = {**state, "average": state["parameters"]}  # not those of averages
        model = self.steps.model_of(state)
        found = self._run(self._sloped, model.named_parameters(), model.named_buffers(), batch)
        return {
            name: g for name, g in found.items() if hasattr(g, "dtype")
        }  # no factors of tangents

    def _run(
        self, what: Callable[..., Any], parameters: Arrays, buffers: Arrays, batch: Any
    ) -> Any:
        parts = in_precision_of(parameters, first_examples(batch))
        if what not in self._ways:
            try:
                found = what(parameters, buffers, parts)
            except Exception:  # a model may be for `jit` alone
                self._ways[what] = jit(what)
            else:
                self._ways[what] = what
                return found
        return self._ways[what](parameters, buffers, parts)

    def _sloped(self, parameters: Arrays, buffers: Arrays, batch: Any) -> Arrays:
        def loss(p: Arrays) -> Any:
            model = self.steps.template.replace({**p, **buffers}).train()
            return self.steps.objective.only_loss(unheld(model), batch)

        return grad(loss)(parameters)

    def _told(self, parameters: Arrays, buffers: Arrays, batch: Any) -> dict[str, list[Any]]:
        model = self.steps.template.replace({**parameters, **buffers}).eval()
        watched = {id(m): f"{name or 'model'} {type(m).__name__}" for name, m in model.modules()}
        found: dict[str, list[Any]] = {}
        seen: list[Any] = []

        here = _recorder(next(iter(parameters.values())))

        def note(module: Any, result: Any) -> None:
            leaves = [a for a in tree.flatten(result)[0] if _is_plain(a) and _recorder(a) is here]
            for k, a in enumerate(leaves, 1):
                if id(module) in watched and not any(_is_same(a, b) for b in seen):
                    seen.append(a)
                    name = watched[id(module)]
                    found.setdefault(name if k == 1 else f"{name}, result {k}", []).append(a)

        for _, module in list(model.modules()):
            object.__setattr__(module, "__class__", _telling(type(module)))  # type: ignore[arg-type]  # stubs
        _notes.append(note)
        try:
            self.steps.objective.only_loss(unheld(model), batch)
        finally:
            _notes.remove(note)
        return found


def _is_plain(a: Any) -> bool:
    return isinstance(a, np.ndarray | Tensor) and a.dtype.kind in "fc"


def _recorder(a: Any) -> Any:
    """Of a staged value, whose: those inside of a loop or a branch have no value outside of it."""
    return a._v.recorder if isinstance(a, Tensor) and type(a._v) is Var else None


def _is_same(a: Any, b: Any) -> bool:
    """Whether both are one array, perhaps in another shape."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b
    return a.size == b.size and a.ctypes.data == b.ctypes.data


_notes: list[Callable[[Any, Any], None]] = []


@cache
def _telling(kind: type[Module]) -> type[Module]:
    """The same class, but for calls, whose results are told."""
    if not any("__call__" in vars(c) for c in kind.__mro__):
        return kind

    def call(self: Any, *args: Any, **options: Any) -> Any:
        plain: Any = kind.__call__  # users define it
        is_staged = any(_recorder(a) for a in tree.flatten((args, options))[0])
        result = (hooks.rewritten(plain) if is_staged else plain)(self, *args, **options)
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
