"""Blocks of Jᵀ H J on the diagonal, by Kronecker factors or in full: applied, solved, taken apart.

How they are found stands in kronecker.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import tree
from ..errors import SingularError
from ..operators import Operator, kronecker
from ..primitives.checks import raise_if


@dataclass(frozen=True, eq=False)
class Factors:
    """The block `count` · A ⊗ G of one parameter, which `into` lays out as outputs × inputs of its layer."""

    A: Any  # the mean of a aᵀ
    G: Any  # the mean of S
    count: int  # T
    into: Operator
    samples: tuple[Any, Any, Any] | None  # a, ȳ and H ȳ by example, if there is one t for each

    @property
    def operator(self) -> Operator:
        """The block, on arrays of the parameter's shape."""
        block: Operator = self.into.T @ (kronecker(self.A, self.G) * float(self.count)) @ self.into
        return block

    @property
    def error(self) -> Any:
        """|T A ⊗ G − B| / |B| in Frobenius' norm, B the block; NaN if examples have several t each."""
        if self.count == 1:
            return 0.0
        if self.samples is None:
            return np.nan
        a, y, u = self.samples  # (T, I), (C, T, O) twice
        K = (a @ a.T) ** 2
        flat = [np.reshape(x, (-1, x.shape[-1])) for x in (y, u)]
        L = (flat[0] @ flat[0].T) * (flat[1] @ flat[1].T)
        L = np.sum(np.reshape(L, (*y.shape[:2], *y.shape[:2])), axis=(0, 2))
        return np.sqrt(np.maximum(np.sum(_centred(K) * L), 0.0) / np.sum(K * L))

    @property
    def is_exact(self) -> bool:
        """Whether this is the block itself, up to rounding, and no approximation to it."""
        return bool(self.error < 1e-6)

    def apply(self, x: Any) -> Any:
        return self.operator.apply(x)

    def solve(self, b: Any, damping: Any) -> Any:
        """(T A ⊗ G + damping)⁻¹ b, by the eigenvectors of A and G."""
        a, Q = np.linalg.eigh(self.A)
        g, R = np.linalg.eigh(self.G)
        scale = self.count * g[:, None] * a[None, :]
        found = R @ (R.T @ self.into.apply(b) @ Q / _regular(scale, damping)) @ Q.T
        return self.into.T.apply(found)

    def diagonal(self) -> Any:
        found = self.count * np.diagonal(self.G)[:, None] * np.diagonal(self.A)[None, :]
        return self.into.T.apply(found)

    def __repr__(self) -> str:
        (m, n), (k, _) = self.A.shape, self.G.shape
        return f"Factors({self.count} · A {m} × {n} ⊗ G {k} × {k})"


@dataclass(frozen=True, eq=False)
class Whole:
    """The block of a parameter without factors, as a matrix."""

    matrix: Any
    is_exact = True

    def apply(self, x: Any) -> Any:
        return np.reshape(self.matrix @ np.reshape(x, -1), np.shape(x))

    def solve(self, b: Any, damping: Any) -> Any:
        w, Q = np.linalg.eigh(self.matrix)
        found = Q @ ((Q.T @ np.reshape(b, -1)) / _regular(w, damping))
        return np.reshape(found, np.shape(b))

    def diagonal(self) -> Any:
        return np.diagonal(self.matrix)

    def __repr__(self) -> str:
        return f"Whole({self.matrix.shape[0]} × {self.matrix.shape[1]})"


@dataclass(frozen=True, eq=False)
class Folded:
    """The block of a weight and of the bias that is added behind it: `factors` of both as one matrix."""

    factors: Factors
    into: tuple[Operator, Operator]  # outputs × inputs, and outputs × 1
    leaves: tuple[int, int]  # the numbers of the weight and of the bias

    @property
    def error(self) -> Any:
        return self.factors.error

    @property
    def is_exact(self) -> bool:
        return self.factors.is_exact

    def apply(self, x: Sequence[Any]) -> list[Any]:
        return self._apart(self.factors.apply(self._joined(x)))

    def solve(self, b: Sequence[Any], damping: Any) -> list[Any]:
        return self._apart(self.factors.solve(self._joined(b), damping))

    def diagonal(self) -> list[Any]:
        return self._apart(self.factors.diagonal())

    def _joined(self, x: Sequence[Any]) -> Any:
        return np.concatenate([i.apply(v) for i, v in zip(self.into, x, strict=True)], axis=1)

    def _apart(self, m: Any) -> list[Any]:
        weight, bias = self.into
        return [weight.T.apply(m[:, :-1]), bias.T.apply(m[:, -1:])]

    def __repr__(self) -> str:
        return f"Folded({self.factors!r})"


Block = Factors | Whole | Folded


def on_blocks(blocks: Sequence[Any], f: Callable[[Any, Any], Any], t: Any) -> Any:
    """f of every block and the leaf (of a Folded one: the leaves) of `t` that it goes with, in t's form."""
    leaves, form = tree.flatten(t)
    found = list(leaves)
    for k, block in enumerate(blocks):
        if not isinstance(block, Folded):
            found[k] = f(block, leaves[k])
        elif k == block.leaves[0]:
            images = f(block, [leaves[j] for j in block.leaves])
            for j, y in zip(block.leaves, images, strict=True):
                found[j] = y
    return form.unflatten(found)


def solve_blocks(blocks: Sequence[Any], b: Any, damping: Any) -> Any:
    return on_blocks(blocks, lambda block, x: block.solve(x, damping), b)


def factors_of(blocks: Sequence[Block]) -> tuple[tuple[Any, ...], ...]:
    """The matrices of every block; of a Folded one they stand at its weight."""
    found: list[tuple[Any, ...]] = []
    for k, b in enumerate(blocks):
        if isinstance(b, Folded):
            found.append((b.factors.A, b.factors.G) if k == b.leaves[0] else ())
        else:
            found.append((b.matrix,) if isinstance(b, Whole) else (b.A, b.G))
    return tuple(found)


def with_factors(blocks: Sequence[Block], factors: Sequence[Sequence[Any]]) -> list[Block]:
    """The same blocks with other matrices, as `factors_of` gives them."""
    found: list[Block] = []
    for k, (b, own) in enumerate(zip(blocks, factors, strict=True)):
        if isinstance(b, Whole):
            found.append(Whole(*own))
        elif isinstance(b, Factors):
            found.append(replace(b, A=own[0], G=own[1], samples=None))
        elif k == b.leaves[0]:
            found.append(replace(b, factors=replace(b.factors, A=own[0], G=own[1], samples=None)))
        else:
            found.append(b)
    return found


def _regular(scale: Any, damping: Any) -> Any:
    found = scale + damping
    if not found.size:
        return found
    least, most = np.min(np.abs(found)), np.max(np.abs(found))
    failed = np.logical_not(least > np.finfo(most.dtype).eps * most)
    message = "a block of this matrix is singular: solve with a damping above 0"
    raise_if(failed, SingularError, message)
    return found


def _centred(K: Any) -> Any:
    K = K - np.mean(K, axis=0)
    return K - np.mean(K, axis=1)[:, None]
