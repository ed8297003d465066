"""Affine maps with weights of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import random
from ...errors import ShapeError
from ...numpy._register import array, shape_of
from ..init import next_key, uniform
from ..module import Module


class Linear(Module):
    """x Wᵀ + b, with first values as PyTorch draws them.

    >>> import numpy as np
    >>> Linear(4, 3)(np.zeros((2, 4), np.float32)).shape
    (2, 3)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        weights, biases = random.split(next_key(key))
        bound = 1 / math.sqrt(max(in_features, 1))
        self.weight = uniform((out_features, in_features), -bound, bound, key=weights, dtype=dtype)
        self.bias = (
            uniform((out_features,), -bound, bound, key=biases, dtype=dtype) if bias else None
        )

    def __call__(self, x: Any) -> Any:
        x = array(x)
        if shape_of(x)[-1:] != self.weight.shape[1:]:
            raise ShapeError(
                f"Linear takes arrays of {self.weight.shape[1]} features along the last axis, "
                f"got shape {shape_of(x)}"
            )
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias
