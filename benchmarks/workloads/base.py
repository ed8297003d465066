"""A workload: one computation, in NumPy's words for us and for JAX, and by hand in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Workload:
    """`make(lib)` gives the function of `args`; `lib` is an adaptor of libraries.py.

    `torch(torch)` gives two functions without arguments: the step as one writes it in eager PyTorch, and
    a pure function of tensors, with those tensors, for torch.compile.
    """

    args: Sequence[np.ndarray]
    make: Callable[[Any], Callable[..., Any]]
    torch: Callable[[Any], tuple[Callable[[], Any], Callable[..., Any], Sequence[Any]]]
    flops: float = 0  # in matrix products
    nbytes: float = 0  # that must be read and written, however clever one is

    @property
    def dtype(self) -> str:
        return self.args[0].dtype.name


def gradient(
    f: Callable[[Any], Callable[..., Any]], every: int
) -> Callable[[Any], Callable[..., Any]]:
    """The gradient of f(lib) with respect to all of its arguments."""
    argnums = 0 if every == 1 else tuple(range(every))
    return lambda lib: lib.grad(f(lib), argnums)


def torch_gradient(loss: Callable[[Any], Callable[..., Any]], args: Sequence[np.ndarray]) -> Any:
    """The two ways of PyTorch to a gradient of loss(torch)."""

    def make(torch: Any) -> Any:
        f = loss(torch)
        tensors = [torch.from_numpy(a) for a in args]

        def eager() -> Any:
            leaves = [t.detach().requires_grad_() for t in tensors]
            f(*leaves).backward()
            return [leaf.grad for leaf in leaves]

        return eager, torch.func.grad(f, tuple(range(len(args)))), tensors

    return make
