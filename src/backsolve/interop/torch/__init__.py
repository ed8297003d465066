"""Functions of ours on PyTorch's tensors, and its weights in modules of ours."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .weights import load_state_dict as load_state_dict


def function(
    f: Callable[..., Any] | None = None,
    *,
    jit: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """`f`, written for NumPy, as an operator on PyTorch's tensors; as a decorator or a call.

    Tensors on the CPU go in and come out in the memory they have (strided ones are copied), alone or in dicts,
    lists, tuples and dataclasses. PyTorch differentiates the operator to any order, in both modes, maps it
    (`torch.func`) and takes it into graphs (`torch.compile`). Python's numbers are not differentiated; names
    and what stands at `static_argnums` are compiled in. Types follow NumPy's rules: float32 with float64 is
    float64, and each gradient has the type of its tensor.

    The function is compiled for the types it meets, as by `bs.jit`; with jit=False it runs as it is written, on
    arrays that cannot be written into (`x = x.copy()` can).
    A function of one real number computes its gradient along with its value, where one may be asked for; one of
    many results keeps what its gradient needs of the way to them, where that pays. Of `bs.checkpoint(f)` the
    arguments alone are kept.

    >>> import numpy as np, torch
    >>> @function
    ... def energy(x):
    ...     return np.sum(np.sin(x) ** 2)
    >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> energy(x).backward(); x.grad
    tensor([0.0000, 0.9093])
    """
    try:
        from .operator import Operator
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise ModuleNotFoundError(
            "bs.interop.torch.function needs PyTorch: pip install 'backsolve[torch]'", name="torch"
        ) from missing
    if f is None:
        return functools.partial(function, jit=jit, static_argnums=static_argnums)
    return Operator(f, jit, static_argnums)
