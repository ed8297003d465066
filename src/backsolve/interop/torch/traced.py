"""Functions of ours in graphs of PyTorch's: one operator, `backsolve::call`, that knows them by their names."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch._dynamo

from ... import tree
from ..derived import Derived
from .arrays import array_of, numpy_dtype, tensor_of, torch_dtype
from .operator import Operator

# Graphs that were kept on disk name functions that this process does not know: no two share names.
_PROCESS = uuid.uuid4().hex[:8]
_named: dict[str, Derived] = {}


@torch._dynamo.nonstrict_trace
def put_into_graph(number: int, args: Any, kwargs: Any) -> Any:
    return Operator._all[number]._call(args, kwargs)


@torch._dynamo.disable
def leave_graph(number: int, args: Any, kwargs: Any) -> Any:
    return Operator._all[number]._call(args, kwargs)


def run_in_graph(derived: Derived, numbers: Sequence[Any]) -> tuple[Any, tree.Structure]:
    """The results of a function on tensors that may have no numbers yet, and the form they have."""
    held = {k: x for k, x in enumerate(numbers) if not isinstance(x, torch.Tensor)}
    tensors = [x for x in numbers if isinstance(x, torch.Tensor)]
    if held:
        derived = derived.holding(held)
    name = f"{derived.name}_{_PROCESS}"
    _named[name] = derived
    structure = derived.results([_like(x) for x in tensors])[1]
    return tuple(torch.ops.backsolve.call(name, tensors)), structure


def _call(name: str, tensors: Sequence[Any]) -> list[Any]:
    result = _named[name].run(*[array_of(x) for x in tensors])
    return [tensor_of(y) for y in tree.flatten(result)[0]]


def _types(name: str, tensors: Sequence[Any]) -> list[Any]:
    types = _named[name].results([_like(x) for x in tensors])[0]
    return [tensors[0].new_empty(t.shape, dtype=torch_dtype(t.dtype)) for t in types]


def _like(x: Any) -> Any:
    """An array of the tensor's type; its numbers are not looked at."""
    return np.empty([int(n) for n in x.shape], numpy_dtype(x.dtype))


_library = torch.library.Library("backsolve", "DEF")
_library.define("call(str name, Tensor[] tensors) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
_library.impl("call", _call, "CPU")
torch.library.register_fake("backsolve::call", _types, lib=_library)
