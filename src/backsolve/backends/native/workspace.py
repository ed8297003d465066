"""How much memory a routine of LAPACK wants to work in: it is asked while a program is compiled."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from .blas import letter, pointer

ASK = -1  # in the place of a size: the routine writes it into the array before


@cache
def sizes(dtype: np.dtype[Any], name: str, *args: Any) -> list[int]:
    """One for each ASK among the arguments, which are as `fortran` takes them; a dtype stands for an array."""
    name = letter(dtype) + name
    given = [_placed(a) for a in args]
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given))(pointer(name))
    call(*[a.ctypes.data for a in given])
    # A number of single precision may be rounded down.
    return [
        max(int(np.nextafter(np.float32(given[k - 1][0].real), np.float32(np.inf))), 1)
        for k, a in enumerate(args)
        if isinstance(a, int) and a == ASK
    ]


def _placed(a: Any) -> np.ndarray[Any, Any]:
    if isinstance(a, str):
        return np.frombuffer(a.encode(), np.uint8)
    return np.array([a], np.int32) if isinstance(a, int) else np.zeros(8, a)
