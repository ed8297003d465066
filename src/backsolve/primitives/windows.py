"""Windows of arrays: all windows as one array, and windows added back. Linear, and nothing is captured."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Shape, Type
from ..operators.windows import Cut, Fold, Windows
from ..primitive import primitive


def _run_fold(t: Any, *, cut: Cut, shape: Shape) -> Any:
    return cut.add(np.zeros(shape, t.dtype), t)


def _type_fold(t: Type, *, cut: Cut, shape: Shape) -> Type:
    if cut.shape(shape) != t.shape:
        raise ValueError(f"windows of {shape} have shape {cut.shape(shape)}, got {t.shape}")
    return Type(shape, t.dtype)


windows = primitive(
    "windows",
    lambda a, *, cut: cut.view(a),
    blocks=(lambda A, *, cut: Windows(A, cut),),
    type=lambda a, *, cut: Type(cut.shape(a.shape), a.dtype),
    batch=lambda prim, size, args, batched, params: prim(args[0], cut=params["cut"].moved(1)),
)
fold = primitive(
    "fold",
    _run_fold,
    blocks=(lambda Y, *, cut, shape: Fold(Y, cut),),
    type=_type_fold,
    batch=lambda prim, size, args, batched, params: prim(
        args[0], cut=params["cut"].moved(1), shape=(size, *params["shape"])
    ),
)
