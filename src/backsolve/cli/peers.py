"""A function written with NumPy, run on the arrays of other libraries: autograd, JAX and PyTorch.

Its code stays; in a copy of its globals the names of NumPy's stand for the other library's. What a library
cannot run so, or where its numbers differ from ours, is left out, with the reason.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from .. import tree
from ..backends.xla.library import wide
from ..testing.grads import varies

Run = Callable[[], Any]
Timed = dict[str, Run]  # "value" and "value and gradient"
NAMES = ("autograd", "jax", "torch")


def installed() -> list[str]:
    return [name for name in NAMES if importlib.util.find_spec(name) is not None]


def in_64_bits() -> AbstractContextManager[Any]:
    """Where JAX is installed, a context in which it counts as NumPy does: for all that a peer does."""
    try:
        return wide() if "jax" in installed() else nullcontext()
    except (
        Exception
    ):  # of one that is installed and cannot be imported: it is left out, and why is said
        return nullcontext()


def peer(name: str, f: Callable[..., Any], args: Sequence[Any], argnums: tuple[int, ...]) -> Timed:
    """What to time; each run gives the value and, if asked for, the gradients as NumPy arrays or alike."""
    return {"autograd": _autograd, "jax": _jax, "torch": _torch}[name](f, args, argnums)


def _autograd(f: Callable[..., Any], args: Sequence[Any], argnums: tuple[int, ...]) -> Timed:
    anp = importlib.import_module("autograd.numpy")
    both = importlib.import_module("autograd").value_and_grad
    g = _total(translated(f, anp), anp.sum)
    gradient = both(lambda chosen: g(*_put(args, argnums, chosen)))
    chosen = tuple([args[n] for n in argnums])
    return {"value": lambda: g(*args), "value and gradient": lambda: gradient(chosen)}


def _jax(f: Callable[..., Any], args: Sequence[Any], argnums: tuple[int, ...]) -> Timed:
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    g = _total(translated(f, jnp), jnp.sum)
    fixed = fixed_numbers(args)
    given = [jax.tree.map(jnp.asarray, a) if n not in fixed else a for n, a in enumerate(args)]
    value = jax.jit(g, static_argnums=fixed)
    both = jax.jit(jax.value_and_grad(g, argnums), static_argnums=fixed)
    wait = jax.block_until_ready
    return {
        "value": lambda: wait(value(*given)),
        "value and gradient": lambda: wait(both(*given)),
    }


def _torch(f: Callable[..., Any], args: Sequence[Any], argnums: tuple[int, ...]) -> Timed:
    torch = importlib.import_module("torch")
    g = _total(translated(f, torch), torch.sum)

    def tensors(needs: bool) -> list[Any]:
        def tensor(n: int) -> Callable[[Any], Any]:
            return lambda x: (
                torch.tensor(np.asarray(x), requires_grad=needs and n in argnums)
                if varies(x)
                else x
            )

        return [tree.map(tensor(n), a) for n, a in enumerate(args)]

    plain, given = tensors(False), tensors(True)
    leaves = [x for n in argnums for x in tree.flatten(given[n])[0]]

    def both() -> Any:
        y = g(*given)
        return y.detach(), torch.autograd.grad(y, leaves, allow_unused=True)

    return {"value": lambda: g(*plain), "value and gradient": both}


def agrees(ours: Any, theirs: Any) -> bool:
    """Whether two pairs of value and gradient are the same numbers, up to rounding."""
    a, form = tree.flatten(ours)
    b = tree.flatten_like(theirs, form)[0]
    if len(a) != len(b):
        return False
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(a, b, strict=True)]
    return all(
        x.shape == y.shape and np.allclose(x, y, 1e-4, 1e-6 * _largest(x), equal_nan=True)
        for x, y in pairs
    )


def _largest(x: Any) -> Any:
    """Of the numbers that are finite."""
    return np.max(np.abs(x), initial=0, where=np.isfinite(x))


def fixed_numbers(args: Sequence[Any]) -> tuple[int, ...]:
    """Which arguments hold no float: a compiled function counts or chooses with them."""
    return tuple([n for n, a in enumerate(args) if not any(map(varies, tree.flatten(a)[0]))])


def _put(args: Sequence[Any], argnums: tuple[int, ...], chosen: Sequence[Any]) -> list[Any]:
    whole = list(args)
    for n, part in zip(argnums, chosen, strict=True):
        whole[n] = part
    return whole


def _total(f: Callable[..., Any], add: Callable[[Any], Any]) -> Callable[..., Any]:
    """The sum of all numbers of the result."""

    def total(*args: Any) -> Any:
        y = f(*args)
        parts = y.values() if isinstance(y, dict) else y if isinstance(y, tuple | list) else [y]
        return sum(add(part) if np.ndim(part) else part for part in parts)

    return total


# ---- the same code with another library's names


def translated(f: Callable[..., Any], library: ModuleType) -> Callable[..., Any]:
    """`f` with the names of NumPy's in its module replaced, and so for the functions beside it."""
    if not isinstance(f, FunctionType):
        raise TypeError(f"{type(f).__name__} is no plain function")
    scope: dict[str, Any] = {}
    for name, value in f.__globals__.items():
        if isinstance(value, FunctionType) and value.__globals__ is f.__globals__:
            scope[name] = _copied(value, scope)
        else:
            scope[name] = _counterpart(value, library)
    return _copied(f, scope)


def _copied(f: FunctionType, scope: dict[str, Any]) -> FunctionType:
    copy = FunctionType(f.__code__, scope, f.__name__, f.__defaults__, f.__closure__)
    copy.__kwdefaults__ = f.__kwdefaults__
    return copy


def _counterpart(value: Any, library: ModuleType) -> Any:
    if value is np:
        return library
    if isinstance(value, ModuleType) and value.__name__ in ("numpy.linalg", "numpy.fft"):
        return getattr(library, value.__name__.removeprefix("numpy."), value)
    name = getattr(value, "__name__", None)
    is_numpys = callable(value) and isinstance(name, str) and getattr(np, name, None) is value
    return getattr(library, str(name), value) if is_numpys else value
