"""Weights that are computed from others each time a module is called, under PyTorch's names.

A module with such a weight becomes one of a class made for it (`ParametrizedLinear`): its `weight` is computed,
and what it is computed from stands under `parametrizations`, where names and training find it.

>>> import numpy as np
>>> import backsolve as bs
>>> layer = weight_norm(bs.nn.Linear(3, 2))
>>> sorted(layer.named_parameters())
['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
>>> layer.parametrizations["weight"].original0 = np.ones((2, 1), np.float32)
>>> bool(np.allclose(np.linalg.norm(layer.weight, axis=1), 1))
True
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np

from ... import random
from ...changes import put
from ...numpy._register import ndim_of, shape_of
from ..functional.distances import normalize
from ..init import next_key
from ..layers.convolutions import _ConvTranspose
from ..module import Module, kept_figure


class Parametrization(Module):
    """What a weight is computed from: `original`, or `original0`, `original1`, …; then maps "0", "1", …."""

    def __init__(self, weight: Any, map: Any):
        inverse = getattr(map, "right_inverse", None)
        found = weight if inverse is None else inverse(weight)
        if isinstance(found, tuple):
            for k, part in enumerate(found):
                self.__dict__[f"original{k}"] = part
        else:
            self.original = found
        self.__dict__["0"] = map

    def append(self, map: Any) -> None:
        inverse = getattr(map, "right_inverse", None)
        if inverse is not None:
            if "original" not in vars(self):
                raise ValueError(
                    "a weight of several originals takes no further map with an inverse"
                )
            self.original = inverse(self.original)
        self.__dict__[str(len(self._maps()))] = map

    def __call__(self) -> Any:
        first, *others = self._maps()
        w = first(*(v for k, v in vars(self).items() if k.startswith("original")))
        for map in others:
            w = map(w)
        return w

    def _maps(self) -> list[Any]:
        return [v for k, v in vars(self).items() if k.isdigit()]


class _Parametrized:
    """Beside a class of modules: what some of its arrays are computed from."""

    base: ClassVar[type[Module]]
    parametrizations: dict[str, Parametrization]

    def __call__(self, *args: Any, **options: Any) -> Any:
        plain: Any = object.__new__(self.base)
        plain.__dict__.update({k: v for k, v in vars(self).items() if k != "parametrizations"})
        plain.__dict__.update({name: p() for name, p in self.parametrizations.items()})
        y = plain(*args, **options)
        for name, value in tuple(vars(self).items()):
            # what the call changed: running figures, where random numbers stand
            if vars(plain).get(name, value) is not value:
                put(self, name, vars(plain)[name])
        return y


@cache
def _class_for(base: type[Module], names: tuple[str, ...]) -> type[Module]:
    def computed(name: str) -> Any:
        return property(lambda self: self.parametrizations[name]())

    properties = {name: computed(name) for name in names}
    made: Any = type(f"Parametrized{base.__name__}", (_Parametrized, base), {"base": base})
    for name, value in properties.items():
        setattr(made, name, value)
    return made


def register_parametrization(module: Any, name: str, map: Any) -> Any:
    """The same module, whose array `name` is from now on map(what was there).

    With `map.right_inverse`, the map begins at what that gives for the array; it may be a tuple.
    """
    held = vars(module).get("parametrizations", {})
    if name in held:
        held[name].append(map)
        return module
    if vars(module).get(name) is None:
        raise ValueError(f"{type(module).__name__} has no array named {name!r}")
    base: Any = getattr(type(module), "base", type(module))
    held = {**held, name: Parametrization(vars(module)[name], map)}
    del module.__dict__[name]
    module.parametrizations = held
    module.__class__ = _class_for(base, tuple(sorted(held)))
    return module


def remove_parametrizations(module: Any, name: str) -> Any:
    """The same module, with the array `name` as it is computed now."""
    held = dict(vars(module).get("parametrizations", {}))
    if name not in held:
        raise ValueError(f"{name!r} of {type(module).__name__} is not parametrized")
    value = held.pop(name)()
    base = type(module).base
    if held:
        module.parametrizations = held
    else:
        del module.__dict__["parametrizations"]
    module.__class__ = _class_for(base, tuple(sorted(held))) if held else base
    module.__dict__[name] = value
    return module


# ---- the maps


class _WeightNorm(Module):
    def __init__(self, dim: int | None):
        self.dim = dim

    def __call__(self, g: Any, v: Any) -> Any:
        return v * (g / self._norm(v))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return self._norm(weight), weight

    def _norm(self, v: Any) -> Any:
        if self.dim is None:
            return np.sqrt(np.sum(v * v))
        others = tuple(k for k in range(ndim_of(v)) if k != self.dim % ndim_of(v))
        return np.sqrt(np.sum(v * v, axis=others, keepdims=True))


class _SpectralNorm(Module):
    """w / σ with σ = uᵀ W v; u and v move by the power method while training, and count as constant."""

    buffers: ClassVar[tuple[str, ...]] = ("_u", "_v")

    def __init__(self, weight: Any, n_power_iterations: int, eps: float, dim: int, key: Any):
        self.dim, self.n_power_iterations, self.eps = dim % ndim_of(weight), n_power_iterations, eps
        if ndim_of(weight) > 1:
            matrix = self._matrix(weight)
            keys = random.split(next_key(key))
            self._u, self._v = (
                normalize(np.asarray(random.normal(k, (n,)), weight.dtype), dim=0, eps=eps)
                for k, n in zip(keys, shape_of(matrix), strict=True)
            )
            self._iterate(matrix, 15)

    def __call__(self, weight: Any) -> Any:
        if ndim_of(weight) == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(kept_figure(matrix), self.n_power_iterations)
        return weight / (self._u @ (matrix @ self._v))

    def _matrix(self, weight: Any) -> Any:
        """Axis `dim` against all others."""
        w = np.moveaxis(weight, self.dim, 0)
        return np.reshape(w, (shape_of(w)[0], -1))

    def _iterate(self, matrix: Any, count: int) -> None:
        for _ in range(count):
            self._u = normalize(matrix @ self._v, dim=0, eps=self.eps)
            self._v = normalize(matrix.T @ self._u, dim=0, eps=self.eps)


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Lengths and directions of a weight apart: w = g v / |v|, along all axes but `dim` (None: all)."""
    return register_parametrization(module, name, _WeightNorm(dim))


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
    *,
    key: Any = None,
) -> Any:
    """A weight over its largest singular value (estimated), as a matrix of axis `dim` against the others."""
    if n_power_iterations < 1:
        raise ValueError(f"n_power_iterations must be at least 1, got {n_power_iterations}")
    if vars(module).get(name) is None:
        raise ValueError(f"{type(module).__name__} has no array named {name!r}")
    if dim is None:
        dim = 1 if isinstance(module, _ConvTranspose) else 0
    return register_parametrization(
        module, name, _SpectralNorm(vars(module)[name], n_power_iterations, eps, dim, key)
    )
