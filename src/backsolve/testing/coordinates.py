"""A function of nested arguments as one of a real vector, with a name for every coordinate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import tree
from ..api import jvp, vjp
from ..hooks import hooks
from ..tensor import Tensor
from .grads import leaf_paths, random_like, refuse_points, varies


@dataclass(frozen=True)
class Coordinates:
    """`flat` takes the leaves `xs` that vary and gives those results that do."""

    flat: Callable[..., list[Any]]
    xs: list[Any]
    names: list[str]  # of xs
    results: list[str] | None = None  # names of the results, if they have some

    @classmethod
    def of(
        cls,
        f: Callable[..., Any],
        args: Sequence[Any],
        names: Sequence[str] | None = None,
        argnums: Sequence[int] | None = None,
    ) -> Coordinates:
        leaves, structure = tree.flatten(tuple(args))
        refuse_points(structure, leaves)
        leaves = [x.value[()] if isinstance(x, Tensor) else x for x in leaves]
        paths, numbers = [], []
        for n, argument in enumerate(args):
            found = list(leaf_paths(tree.flatten(argument)[1], names[n] if names else str(n)))
            paths += found
            numbers += [n] * len(found)
        chosen = range(len(args)) if argnums is None else argnums
        places = [k for k, x in enumerate(leaves) if varies(x) and numbers[k] in chosen]

        def flat(*xs: Any) -> list[Any]:
            inner = list(leaves)
            for k, x in zip(places, xs, strict=True):
                inner[k] = x
            outputs = tree.flatten(hooks.users(f)(*structure.unflatten(inner)))[0]
            return [y for y in outputs if varies(y)]

        return cls(flat, [leaves[k] for k in places], [paths[k] for k in places])

    def derived(self, mode: str, seed: int) -> Coordinates:
        """x ↦ Jᵀ v or x ↦ J u for fixed v (1 for one number) or u."""
        rng = np.random.default_rng(seed)
        ys = self.ys
        if mode == "forward":
            us = [random_like(x, rng) for x in self.xs]
            ahead = lambda *xs: list(jvp(self.flat, xs, _like(us, xs))[1])
            names = [f"d {name}" for name in self.result_names]
            return Coordinates(ahead, self.xs, self.names, names)
        is_one = len(ys) == 1 and np.size(ys[0]) == 1
        vs = [np.ones_like(y)[()] if is_one else random_like(y, rng) for y in ys]

        def back(*xs: Any) -> list[Any]:
            y, pull = vjp(self.flat, *xs)
            return list(pull(_like(vs, y)))

        of = self.result_names[0] if is_one else "(weighted results)"
        return Coordinates(back, self.xs, self.names, [f"∂ {of} / ∂ {n}" for n in self.names])

    def double(self) -> Coordinates:
        return replace(self, xs=[_wide(x) for x in self.xs])

    # ---- the arguments

    @cached_property
    def start(self) -> Any:
        return self.coordinates(self.xs)

    @cached_property
    def eps(self) -> float:
        """The precision of the derivative."""
        return max(_eps(z) for z in (*self.xs, *self.ys))

    @cached_property
    def value_eps(self) -> float:
        """The precision of results where arguments are doubles."""
        return max(_eps(y) for y in self.flat(*self.double().xs))

    @cached_property
    def input_names(self) -> list[str]:
        return _entry_names(self.names, self.xs)

    @cached_property
    def ranges(self) -> list[tuple[str, int, int]]:
        """Which coordinates are those of a leaf."""
        found, start = [], 0
        for name, x in zip(self.names, self.xs, strict=True):
            size = np.size(x) * _parts(x)
            found.append((name, start, start + size))
            start += size
        return found

    def unit(self, j: int) -> Any:
        return (np.arange(len(self.start)) == j).astype(float)

    def leaves(self, z: Any) -> list[Any]:
        """A vector of coordinates as leaves of the types of xs."""
        return _apart(z, self.xs)

    def coordinates(self, leaves: Sequence[Any]) -> Any:
        return _together(leaves, self.xs)

    # ---- the results

    @cached_property
    def ys(self) -> list[Any]:
        return [_value(y) for y in self.flat(*self.xs)]

    @cached_property
    def result_names(self) -> list[str]:
        count = len(self.ys)
        return self.results or (["result"] if count == 1 else [f"result {k}" for k in range(count)])

    def output_names(self) -> list[str]:
        return _entry_names(self.result_names, self.ys)

    def values(self, z: Any) -> Any:
        """The results at a vector of coordinates, computed in double precision."""
        return self.output_coordinates(self.flat(*_apart(z, [_wide(x) for x in self.xs])))

    def output_coordinates(self, ys: Sequence[Any]) -> Any:
        return _together(ys, self.ys)

    def seeds(self, w: Any) -> list[Any]:
        return _apart(w, self.ys)


def _like(vs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
    """Directions in the precision of what they move."""
    return [np.asarray(v).astype(_dtype(y))[()] for v, y in zip(vs, ys, strict=True)]


def _dtype(x: Any) -> np.dtype[Any]:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def _value(y: Any) -> Any:
    return y.value[()] if isinstance(y, Tensor) else y


def _parts(x: Any) -> int:
    return 2 if _dtype(x).kind == "c" else 1


def _wide(x: Any) -> Any:
    return np.asarray(x).astype(np.complex128 if _parts(x) == 2 else np.float64)[()]


def _eps(x: Any) -> float:
    return float(np.finfo(_dtype(x)).eps)


def _together(leaves: Sequence[Any], like: Sequence[Any]) -> Any:
    """Leaves as one vector; of complex ones, the real parts and then the imaginary ones."""
    parts = [np.zeros(0)]
    for x, form in zip(leaves, like, strict=True):
        a = np.asarray(_value(x)).ravel()
        parts += [a.real, a.imag] if _parts(form) == 2 else [a.real]
    return np.concatenate(parts).astype(np.float64)


def _apart(z: Any, like: Sequence[Any]) -> list[Any]:
    found, start = [], 0
    for form in like:
        n, parts = np.size(form), _parts(form)
        a = z[start : start + n]
        if parts == 2:
            a = a + 1j * z[start + n : start + 2 * n]
        found.append(np.reshape(a, np.shape(form)).astype(_dtype(form))[()])
        start += parts * n
    return found


def _entry_names(names: Sequence[str], leaves: Sequence[Any]) -> list[str]:
    found = []
    for name, x in zip(names, leaves, strict=True):
        places = [
            f"{name}[{', '.join(map(str, at))}]" if at else name for at in np.ndindex(np.shape(x))
        ]
        kinds = ("real part of ", "imaginary part of ") if _parts(x) == 2 else ("",)
        found += [kind + place for kind in kinds for place in places]
    return found
