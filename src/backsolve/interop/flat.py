"""A tree of numbers as one vector of float64, and the way back: what solvers written for vectors need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..compiled import jit
from ..errors import (
    DroppedDerivativeError,
    NotDifferentiableError,
    TracedValueError,
    UnsupportedError,
)
from ..tensor import Tensor


class Form:
    """How the numbers of a tree lie in a vector.

    >>> form = Form({"w": np.ones((2, 2)), "b": 0.5})
    >>> form.vector
    array([1. , 1. , 1. , 1. , 0.5])
    >>> form.tree(form.vector)["b"]
    0.5
    """

    def __init__(self, x: Any):
        self.leaves, self.structure = tree.flatten(x)
        arrays = [_reals(leaf) for leaf in self.leaves]
        self._shapes = [a.shape for a in arrays]
        self._ends = np.cumsum([a.size for a in arrays]).tolist()
        self._dtypes = [a.dtype for a in arrays]
        parts = [a.ravel().astype(float) for a in arrays]
        self.vector = np.concatenate(parts) if parts else np.zeros(0)
        self.is_vector = type(x) is np.ndarray and x.ndim == 1 and x.dtype == float

    def _cut(self, x: Any) -> list[Any]:
        starts = [0, *self._ends]
        return [
            np.reshape(x[a:b], shape)
            for a, b, shape in zip(starts, self._ends, self._shapes, strict=False)
        ]

    def inside(self, x: Any) -> Any:
        """The tree of a vector that varies or is staged, for the user's function."""
        if self.is_vector:
            return x
        parts = [
            p if d == x.dtype else p.astype(d)
            for p, d in zip(self._cut(x), self._dtypes, strict=True)
        ]
        return self.structure.unflatten(parts)

    def tree(self, x: Any) -> Any:
        """The tree of a solver's vector; numbers, arrays and Tensors as they were given."""
        parts = zip(self._cut(np.array(x, float)), self.leaves, self._dtypes, strict=True)
        return self.structure.unflatten([_like(p, leaf, dtype) for p, leaf, dtype in parts])

    def columns(self, y: Any) -> Any:
        """The tree of a matrix with one vector a column: every leaf gets that axis as its last."""
        starts = [0, *self._ends]
        return self.structure.unflatten(
            [
                y[a:b].reshape(*shape, -1)
                for a, b, shape in zip(starts, self._ends, self._shapes, strict=False)
            ]
        )


def joined(y: Any) -> Any:
    """What a function returned (a number, an array, a tree of them) as one vector."""
    leaves, _ = tree.flatten(y)
    parts = [np.reshape(leaf, (-1,)) for leaf in leaves]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _reals(leaf: Any) -> Any:
    a = np.asarray(leaf.value if isinstance(leaf, Tensor) else leaf)
    if a.dtype.kind != "f":
        raise NotDifferentiableError(
            f"a solver moves real numbers; the start has {a.dtype} of shape {a.shape}. Write 2.0 for 2, and "
            "pass what shall not move as args=(…); a complex unknown as its real and imaginary part"
        )
    return a


def _like(p: Any, leaf: Any, dtype: Any) -> Any:
    if isinstance(leaf, float):
        return float(p)
    p = p.astype(dtype)
    return Tensor(p) if isinstance(leaf, Tensor) else p[()]


def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    """f as native code; as written if the first call shows that it cannot be staged."""
    chosen: list[Any] = []

    def call(*args: Any) -> Any:
        if chosen:
            return chosen[0](*args)
        native = jit(f)
        try:
            result = native(*args)
            chosen.append(native)
        except (TracedValueError, UnsupportedError):
            result = f(*args)
            chosen.append(f)
        if any(isinstance(y, Tensor) and y.row is not None for y in tree.flatten(result)[0]):
            raise DroppedDerivativeError(
                "the function closes over a tensor that varies, and a solver of SciPy's loses its derivative. "
                "Differentiate what the solution fulfils, or solve it in a loop of your own"
            )
        return result

    return call
