"""Affine and bilinear maps, tables of rows and slopes, with weights of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import random
from ...errors import ShapeError
from ...numpy._register import array, shape_of
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..init import next_key, normal, uniform
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


class Bilinear(Module):
    """x₁ᵀ W x₂ + b for each output."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        weights, biases = random.split(next_key(key))
        bound = 1 / math.sqrt(max(in1_features, 1))
        shape = (out_features, in1_features, in2_features)
        self.weight = uniform(shape, -bound, bound, key=weights, dtype=dtype)
        self.bias = (
            uniform((out_features,), -bound, bound, key=biases, dtype=dtype) if bias else None
        )

    def __call__(self, input1: Any, input2: Any) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)


class Embedding(Module):
    """Rows of a table by number."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        self.weight = normal((num_embeddings, embedding_dim), key=next_key(key), dtype=dtype)
        if padding_idx is not None:
            self.weight[padding_idx] = 0
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type

    def __call__(self, input: Any) -> Any:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)


class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a table."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        self.weight = normal((num_embeddings, embedding_dim), key=next_key(key), dtype=dtype)
        self.mode, self.padding_idx = mode, padding_idx
        self.include_last_offset = include_last_offset

    def __call__(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return F.embedding_bag(
            input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip


class PReLU(Module):
    """relu with a learnt slope below 0, one or one per channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, dtype: Any = np.float32):
        self.weight = np.full(num_parameters, init, dtype)

    def __call__(self, x: Any) -> Any:
        return F.prelu(x, self.weight)
