"""Who computes a call: SciPy's own function on plain arrays, ours on Tensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from ... import tree
from ...tensor import Tensor


def module(name: str) -> Any:
    """scipy.<name>, loaded when first asked for."""
    return importlib.import_module(f"scipy.{name}")


def has_tensor(*values: Any) -> bool:
    return any(isinstance(x, Tensor) for x in tree.flatten(values)[0])


def for_tensors(room: str) -> Callable[[Any], Any]:
    """A function of ours under SciPy's name, which computes if no argument is a Tensor."""

    def decorate(f: Any) -> Any:
        @wraps(f)
        def call(*args: Any, **options: Any) -> Any:
            if has_tensor(args, options):
                return f(*args, **options)
            return getattr(module(room), f.__name__)(*args, **options)

        return call

    return decorate
