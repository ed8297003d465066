"""A tree of numbers as one vector of float64, and the way back: what solvers written for vectors need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..compiled import jit
from ..declared import points_in
from ..errors import (
    DroppedDerivativeError,
    NotDifferentiableError,
    TracedValueError,
    UnsupportedError,
)
from ..tensor import Tensor


class Form:
    """How the numbers of a tree lie in a vector. A list of numbers, and whole numbers alone, are an array of
    floats, as SciPy takes them.

    >>> form = Form({"w": np.ones((2, 2)), "b": 0.5})
    >>> form.vector
    array([1. , 1. , 1. , 1. , 0.5])
    >>> form.tree(form.vector)["b"]
    0.5
    """

    def __init__(self, x: Any):
        x = _as_scipy_takes_it(x)
        self.leaves, self.structure = tree.flatten(x)
        for point in points_in(self.structure, self.leaves).values():
            raise UnsupportedError(
                f"a solver of SciPy's leaves {point.manifold}, on which the start is declared to lie; "
                "bs.optim.RiemannianCG().minimize(f, x) stays on it"
            )
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

    def bounds(self, given: Any) -> tuple[Any, Any] | None:
        """Bounds (lower, upper) in the form of the tree as two vectors; None if they are in another form."""
        if not (isinstance(given, list | tuple) and len(given) == 2):
            return None
        if self.structure.kind in (list, tuple) and self.vector.size == 2:
            return None  # these may be SciPy's, a pair for each unknown
        sides = [tree.flatten(side) for side in given]
        if any(form != self.structure for _, form in sides):
            return None
        lower, upper = [
            np.concatenate(
                [
                    np.ravel(np.broadcast_to(np.asarray(b, float), shape))
                    for b, shape in zip(leaves, self._shapes, strict=True)
                ]
            )
            for leaves, _ in sides
        ]
        return lower, upper

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
    return real(parts[0] if len(parts) == 1 else np.concatenate(parts))


def real(y: Any) -> Any:
    """What SciPy would make real by dropping its imaginary part is an error."""
    if y.dtype.kind == "c":
        raise NotDifferentiableError(
            f"a solver of SciPy's drops imaginary parts, and got {y.dtype}: write "
            "np.concatenate([r.real, r.imag]) for r"
        )
    return y


def _as_scipy_takes_it(x: Any) -> Any:
    if type(x) in (list, tuple) and x and all(_is_number(v) for v in x):
        return np.array(x, float)
    if _is_number(x) or (isinstance(x, np.ndarray) and x.dtype.kind in "iu"):
        return x if np.asarray(x).dtype.kind == "f" else np.asarray(x, float)[()]
    return x


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)


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
                "the function rests on a tensor that varies, and a solver of SciPy's loses its derivative. "
                "bs.root, bs.argmin, bs.implicit and bs.scipy.integrate.odeint have derivatives"
            )
        return result

    return call
