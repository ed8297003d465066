"""What NumPy does not see: Tensors in lists, `mean([x, y])`; and 64 bits in arrays of JAX's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..primitive import FUNCTIONS
from ._register import OWN, ndim_of
from .creation import asarray, has_tensor


def _wide_enough(args: Sequence[Any]) -> AbstractContextManager[Any]:
    """NumPy asks JAX's arrays for their own `sum`, and JAX makes 32 bits of 64 unless it is told otherwise."""
    if not any(
        type(a).__module__.startswith("jax") and getattr(a, "dtype", None) in _WIDE for a in args
    ):
        return nullcontext()
    from ..backends.xla.library import wide

    found: AbstractContextManager[Any] = wide()
    return found


def _joining(name: str) -> None:
    """NumPy's function in this namespace, with lists of Tensors joined to one before it is called."""
    room, _, last = name.rpartition(".")
    plain = getattr(getattr(np, room) if room else np, last)

    @functools.wraps(plain)
    def call(*args: Any, **options: Any) -> Any:
        if any(type(a) in (list, tuple) and has_tensor(a) for a in args):
            args = tuple([asarray(a) if type(a) in (list, tuple) else a for a in args])
        with _wide_enough((*args, *options.values())):
            return plain(*args, **options)

    del call.__wrapped__  # it is not NumPy's: what asks for the function underneath must stay here
    vars(call)["__signature__"] = inspect.signature(plain)
    OWN[name] = call


_WIDE = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))
for _name in (
    *("all", "any", "argmax", "argmin", "argsort", "max", "mean", "median", "min", "prod", "ptp"),
    *("std", "sum", "var", "amax", "amin", "average", "cumprod", "cumsum", "diff", "append"),
    *("dot", "inner", "outer", "diag", "ravel", "reshape", "transpose", "linalg.norm"),
):
    if _name not in OWN:
        _joining(_name)


class _Pieces:
    """numpy.r_ and numpy.c_, which make a Tensor when one is among the pieces."""

    def __init__(self, plain: Any, columns: bool):
        self._plain, self._columns = plain, columns

    def __getitem__(self, key: Any) -> Any:
        pieces = key if isinstance(key, tuple) else (key,)
        if not has_tensor(pieces):
            return self._plain[key]
        if any(isinstance(p, str) for p in pieces):
            raise UnsupportedError(
                "`r_` and `c_` of tensors take no directives; use np.concatenate or np.stack"
            )
        return FUNCTIONS["concatenate"](
            [self._piece(p) for p in pieces], axis=-1 if self._columns else 0
        )

    def _piece(self, p: Any) -> Any:
        p = np.r_[p] if isinstance(p, slice) else asarray(p)
        p = FUNCTIONS["reshape"](p, (1,)) if ndim_of(p) == 0 else p
        return FUNCTIONS["reshape"](p, (-1, 1)) if self._columns and ndim_of(p) == 1 else p


OWN["r_"], OWN["c_"] = _Pieces(np.r_, columns=False), _Pieces(np.c_, columns=True)
