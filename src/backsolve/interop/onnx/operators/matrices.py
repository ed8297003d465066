"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .table import operator

operator("MatMul")(np.matmul)


@operator("Gemm")
def gemm(
    a: Any, b: Any, c: Any = None, *,
    alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0, broadcast: int = 0,
) -> Any:  # fmt: skip
    y = np.matmul(a.T if transA else a, b.T if transB else b)
    y = y if alpha == 1 else alpha * y
    if c is None or beta == 0:
        return y
    return y + (c if beta == 1 else beta * c)


@operator("Einsum")
def einsum(*xs: Any, equation: str) -> Any:
    return np.einsum(equation.replace(" ", ""), *xs)


@operator("Det")
def det(x: Any) -> Any:
    return np.linalg.det(x)
