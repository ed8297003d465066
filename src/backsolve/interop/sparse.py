"""A sparse Jacobian from few directions: columns that meet in no row are computed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..api import jvp, vmap
from ..errors import ShapeError, StructureError
from .flat import compiled


class Compressed:
    """The Jacobian of f by a known pattern, as SciPy's csr_array.

    With S the matrix that adds up the columns of every group, J S holds each entry of J alone in its row.
    """

    def __init__(self, f: Callable[..., Any], pattern: Any):
        import scipy.sparse

        pattern = scipy.sparse.csr_array(pattern).astype(bool)
        self._groups = _colours(pattern)
        self._shape = pattern.shape
        rows, columns = pattern.nonzero()
        self._rows, self._columns = rows, columns
        count = int(self._groups.max(initial=-1)) + 1
        self._seeds = np.zeros((count, pattern.shape[1]))
        self._seeds[self._groups, np.arange(pattern.shape[1])] = 1
        # One more direction, in which the whole of J is compared with what the pattern kept of it.
        self._probe = np.random.default_rng(0).uniform(1, 2, pattern.shape[1])
        self._images = compiled(lambda x, seeds, *rest: _images(f, x, seeds, rest))

    def __call__(self, x: Any, *rest: Any) -> Any:
        import scipy.sparse

        if x.shape[0] != self._shape[1]:
            raise ShapeError(f"the pattern has {self._shape[1]} columns for {x.shape[0]} unknowns")
        found = np.asarray(self._images(x, np.vstack([self._seeds, self._probe]), *rest))
        if found.shape[1] != self._shape[0]:
            raise ShapeError(f"the pattern has {self._shape[0]} rows for {found.shape[1]} results")
        entries = found[self._groups[self._columns], self._rows]
        J = scipy.sparse.csr_array((entries, (self._rows, self._columns)), shape=self._shape)
        self._check(J, found[-1])
        return J

    def _check(self, J: Any, image: Any) -> None:
        size = abs(J) @ self._probe + np.abs(image)
        wrong = np.abs(J @ self._probe - image) > 1e-8 * size
        if np.any(wrong & np.isfinite(image)):
            raise StructureError(
                f"jac_sparsity leaves out an entry of row {int(np.flatnonzero(wrong)[0])} that is not zero; "
                "complete the pattern, or leave it out for a dense Jacobian"
            )


def _images(f: Callable[..., Any], x: Any, seeds: Any, rest: tuple[Any, ...]) -> Any:
    return vmap(lambda v: jvp(lambda x: f(x, *rest), (x,), (v,))[1])(seeds)


def _colours(pattern: Any) -> Any:
    """A group for every column so that no row has two entries in one group: the first that is free."""
    by_column = pattern.tocsc()
    taken: list[set[int]] = [set() for _ in range(pattern.shape[0])]
    groups = np.zeros(pattern.shape[1], int)
    for j in range(pattern.shape[1]):
        rows = by_column.indices[by_column.indptr[j] : by_column.indptr[j + 1]]
        used = set().union(*(taken[i] for i in rows))
        groups[j] = next(k for k in range(len(used) + 1) if k not in used)
        for i in rows:
            taken[i].add(int(groups[j]))
    return groups
