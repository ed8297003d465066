"""A sparse matrix whose numbers vary, or are staged: A.toarray(), A.T, A @ x and x @ A go on with them.

The rest of SciPy's methods take plain arrays, and are errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse

from .errors import UnsupportedError
from .numpy.sparse import matrix_first, matrix_last
from .operators.entries.terms import take
from .primitive import P


class VaryingCsr(csr_array):
    """In SciPy's order, by rows; `data` is a Tensor."""

    def tocoo(self, copy: bool = True) -> Any:
        places = coo_array((np.empty(self.nnz, bool), self._places()), shape=self.shape)
        places.data = self.data
        return places

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        if out is not None:
            raise UnsupportedError(
                "the numbers of this matrix vary: write y = A.toarray(), without out="
            )
        return P.scatter_add(self.data, *self._places(), shape=self.shape)

    todense = toarray

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        if axes is not None and tuple(axes) != (1, 0):
            return super().transpose(axes, copy)  # says what is wrong with them
        rows, columns = self._places()
        order = np.argsort(columns, kind="stable")
        ends = np.cumsum(np.bincount(columns, minlength=self.shape[1]))
        indptr = np.concatenate([[0], ends])
        places = np.empty(self.nnz, bool), rows[order], indptr
        made = type(self)(places, shape=self.shape[::-1])
        made.data = take(self.data, order)
        return made

    def __matmul__(self, other: Any) -> Any:
        if issparse(other):
            raise UnsupportedError(
                "the product of two sparse matrices takes plain numbers, and these vary: "
                "write A @ B.toarray()"
            )
        return matrix_first(self, other)

    def _refused(self, *args: Any, **options: Any) -> Any:
        raise UnsupportedError(
            "this takes a sparse matrix of plain numbers, and these vary: write A.toarray(), or A @ x and "
            "x @ A for its products with arrays"
        )

    # The first is what SciPy asks of a matrix that it adds to another, compares or multiplies.
    asformat = multiply = eliminate_zeros = resize = _refused

    def __rmatmul__(self, other: Any) -> Any:
        return self._refused() if issparse(other) else matrix_last(other, self)

    def _places(self) -> tuple[Any, Any]:
        rows = np.repeat(np.arange(self.shape[0], dtype=np.intp), np.diff(self.indptr))
        return rows, self.indices.astype(np.intp)
