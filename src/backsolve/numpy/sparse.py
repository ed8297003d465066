"""A sparse matrix of SciPy's times a Tensor: what it reads, multiplied and added up by rows.

SciPy asks what it does not know for an array, and leaves the product to us if there is none
(`Tensor.__array__`), so `A @ x` arrives here as `x.__rmatmul__(A)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import P
from ._register import named, shape_of
from .indexing import getitem
from .shapes import transpose


@named("sparse.matmul")
def matrix_first(A: Any, x: Any) -> Any:
    """A @ x, for x of one or two axes."""
    shape = shape_of(x)
    if A.ndim != 2 or len(shape) not in (1, 2) or A.shape[1] != shape[0]:
        raise ShapeError(
            "`matmul` of a sparse matrix needs a vector or matrix whose first axis is as long as the "
            f"matrix's last: got {A.shape} and {shape}"
        )
    entries = A.tocoo()
    rows, columns = entries.row.astype(np.intp), entries.col.astype(np.intp)
    numbers = entries.data.reshape(-1, *[1] * (len(shape) - 1))
    return P.scatter_add(numbers * getitem(x, columns), rows, shape=(A.shape[0], *shape[1:]))


@named("sparse.rmatmul")
def matrix_last(x: Any, A: Any) -> Any:
    """x @ A."""
    return matrix_first(A.T, transpose(x)).T
