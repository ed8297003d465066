"""A model on many inputs: compiled, in batches of nearly one size."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .. import tree
from ..compiled import jit
from ..nn.module import Module
from .step import in_precision_of


def predict(model: Any, x: Any, batch_size: int = 256) -> Any:
    """model(x), batch by batch, in evaluation mode; x is an array or a container of arrays of one length.

    >>> import numpy as np, backsolve as bs
    >>> predict(bs.nn.Linear(3, 2), np.zeros((5, 3))).shape
    (5, 2)
    """
    leaves, form = tree.flatten(x)
    arrays = [np.asarray(a) for a in leaves]
    n = len(arrays[0])
    found = []
    for low, high in even_parts(n, batch_size):
        part = form.unflatten([a[low:high] for a in arrays])
        found.append(
            _call(model)(model.state_dict(), part) if isinstance(model, Module) else model(part)
        )
    columns = [tree.flatten(y)[0] for y in found]
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    return tree.flatten(found[0])[1].unflatten(joined)


def even_parts(n: int, most: int, step: int = 1) -> list[tuple[int, int]]:
    """Ranges of at most this length that differ by one at most: two forms of code, no short last one.

    With a `step`, all but the last begin and end at its multiples.
    """
    most = max(most // step * step, 1)
    count = max(-(-n // most), 1)
    ends = [*[n * k // count // step * step for k in range(count)], n]
    return list(zip(ends, ends[1:], strict=False))


_compiled: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _call(model: Module) -> Any:
    if model not in _compiled:
        empty = model.replace({}).eval()

        def call(arrays: Any, x: Any) -> Any:
            parameters = [a for a in arrays.values() if a.dtype.kind == "f"]
            return empty.replace(arrays)(in_precision_of(parameters, x))

        _compiled[model] = jit(call)
    return _compiled[model]
