"""Contraction: a loop nest with one hole, and the swap rule as its adjoint.

    for h,i,j,k:  Y[h,i,j] += A[h,i,k] · B[h,j,k]

is linear in A. As an operator on A it is written Contraction("hik,hjk->hij", hole 0, (None, B)).
Its adjoint is the same nest with Y and A swapped:

    for h,i,j,k:  A[h,i,k] += Y[h,i,j] · B[h,j,k]

Left and right multiplication, Hadamard and Kronecker products, inner and outer products, trace and
diagonal are all contractions with a name; the constructors stand at the end of the file.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, From, Operator, fitted, show
from .nests import plan_of, run_nest, split_subscripts
from .structure import facts

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


_BARE: frozenset[Any] = frozenset([np.ndarray, np.float64, np.float32])


def _contract(operands: list[Any], subscripts: str, sizes: tuple[tuple[str, int], ...]) -> Any:
    """The primitive; on bare arrays without its bookkeeping."""
    for a in operands:
        if type(a) is not np.ndarray:
            return P.contract(*operands, subscripts=subscripts, sizes=sizes)
    return run_nest(*operands, subscripts=subscripts, sizes=sizes)


@lru_cache(maxsize=4096)
def _way_back(subscripts: str, hole: int) -> Any:
    """How to run the swapped nest of two operands by one matrix product, if that can be."""
    swapped, absent = swap(subscripts, hole)
    return None if absent or subscripts.count(",") != 1 else plan_of(swapped)


@lru_cache(maxsize=4096)
def swap(subscripts: str, hole: int) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The swap rule: output and operand `hole` change places.

    Also the labels of the new output that no input has any more, with their axis.
    """
    inputs, output = split_subscripts(subscripts)
    mine = inputs[hole]
    inputs[hole] = output
    present = set("".join(inputs))
    absent = tuple({c: k for k, c in enumerate(mine) if c not in present}.items())
    return f"{','.join(inputs)}->{mine}", absent


class Contraction(From):
    """A product of arrays over named indices, as a linear map of one; the adjoint swaps it and the result."""

    __slots__ = ("hole", "name", "operands", "sizes", "subscripts")

    def __init__(
        self,
        subscripts: str,
        hole: int,
        operands: tuple[Any, ...],  # None stands at the hole
        in_type: Any,
        sizes: tuple[tuple[str, int], ...] = (),  # of output labels that no input has
        name: str = "",
    ):
        self.subscripts = subscripts
        self.hole = hole
        self.operands = operands
        self._in = in_type
        self.sizes = sizes
        self.name = name

    def apply(self, t: Any) -> Any:
        operands = list(self.operands)
        operands[self.hole] = t
        return _contract(operands, self.subscripts, self.sizes)

    def pull(self, t: Any) -> Any:
        if len(self.operands) == 2 and t.__class__ in _BARE and t.dtype.kind != "c":
            a, b = self.operands
            run = _way_back(self.subscripts, self.hole)
            if run is not None and (b if a is None else a).__class__ is np.ndarray:
                return run(t, b) if a is None else run(a, t)
        swapped, absent = swap(self.subscripts, self.hole)
        real = t.dtype.kind != "c"
        operands = list(self.operands) if real else [_conjugate(a) for a in self.operands]
        operands[self.hole] = t
        return _contract(operands, swapped, self._sizes_of(absent) if absent else ())

    @property
    def T(self) -> Operator:
        swapped, absent = swap(self.subscripts, self.hole)
        operands = tuple(_conjugate(a) for a in self.operands)
        back = Contraction(swapped, self.hole, operands, self.out_type, self._sizes_of(absent))
        return fitted(back, self.out_type, self.in_type)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        wide = Type(in_type.shape, np.result_type(in_type.dtype, self.out_type.dtype))
        mine = Contraction(self.subscripts, self.hole, self.operands, wide, self.sizes, self.name)
        return fitted(mine, in_type, out_type)

    def _sizes_of(self, absent: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple([(c, self._in.shape[k]) for c, k in absent])

    def label_sizes(self) -> dict[str, int]:
        """How far each letter of the subscripts runs."""
        inputs, _ = split_subscripts(self.subscripts)
        sizes = dict(self.sizes)
        for labels, a in zip(inputs, self.operands, strict=True):
            sizes.update(zip(labels, self._in.shape if a is None else a.shape, strict=True))
        return sizes

    @property
    def out_type(self) -> Type:
        _, output = split_subscripts(self.subscripts)
        sizes = self.label_sizes()
        dtypes = [self._in.dtype, *[a.dtype for a in self.operands if a is not None]]
        return Type(tuple(sizes[c] for c in output), np.result_type(*dtypes))

    @property
    def structure(self) -> frozenset[str]:
        inputs, output = split_subscripts(self.subscripts)
        if (
            len(inputs) == 1
            and sorted(inputs[0]) == sorted(output)
            and len(set(output)) == len(output)
        ):
            return facts("permutation")
        if inputs[self.hole] == output and set("".join(inputs)) == set(output):
            return facts("diagonal")
        return frozenset()

    @property
    def cost(self) -> Cost:
        sizes = self.label_sizes()
        n = prod(sizes.values())
        factors = len(self.operands) - 1
        out = self.out_type.size
        moved = self.in_type.size + out + sum(a.size for a in self.operands if a is not None)
        return Cost(n * factors, max(n - out, 0), moved * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        captured = ", ".join("·" if a is None else show(a) for a in self.operands)
        return f"{self.name or 'Contraction'}({self.subscripts!r}; {captured})"


def _conjugate(a: Any) -> Any:
    return np.conjugate(a) if a is not None and a.dtype.kind == "c" else a


def _type(shape: tuple[int, ...], *arrays: Any) -> Type:
    return Type(shape, np.result_type(float, *[a.dtype for a in arrays]))


# ---- the named constructors (the poster's table; X is m × n)


def left(B: Any, columns: int) -> Contraction:
    """X ↦ B X, the poster's B_L = I ⊗ B."""
    return Contraction("ij,jk->ik", 1, (B, None), _type((B.shape[1], columns), B), name="Left")


def right(A: Any, rows: int) -> Contraction:
    """X ↦ X A, the poster's A_R = Aᵀ ⊗ I."""
    return Contraction("ij,jk->ik", 0, (None, A), _type((rows, A.shape[0]), A), name="Right")


def kronecker(A: Any, B: Any) -> Contraction:
    """A ⊗ B : X ↦ B X Aᵀ (so that vec, column by column, is the usual Kronecker product)."""
    x = _type((B.shape[1], A.shape[1]), A, B)
    return Contraction("ij,jk,lk->il", 1, (B, None, A), x, name="Kronecker")


def inner(G: Any) -> Contraction:
    """X ↦ ⟨G, X⟩ = trace(Gᵀ X), a number."""
    labels = _LETTERS[: G.ndim]
    return Contraction(
        f"{labels},{labels}->", 1, (_conjugate(G), None), _type(G.shape, G), name="Inner"
    )


def outer(v: Any, size: int) -> Contraction:
    """u ↦ u vᵀ."""
    return Contraction("i,j->ij", 0, (None, v), _type((size,), v), name="Outer")


def trace(n: int) -> Contraction:
    """X ↦ Σ X_ii."""
    return Contraction("ii->", 0, (None,), Type((n, n), np.dtype(float)), name="Trace")


def matrix(A: Any) -> Operator:
    """x ↦ A x on vectors, or on matrices column by column: a bare matrix as an operator."""
    from .matrix import Matrix

    return Matrix(A if hasattr(A, "dtype") else np.asarray(A))


# ---- composition


def fuse(outer_op: Contraction, inner_op: Contraction) -> Contraction | None:
    """One contraction for two, with captured operands multiplied out where that makes them smaller.

    Left(A) @ Left(B) becomes Left(AB), and Kronecker @ Kronecker the mixed product, because in
    both cases the label between the captured matrices occurs nowhere else.
    """
    outer_in, outer_out = split_subscripts(outer_op.subscripts)
    inner_in, inner_out = split_subscripts(inner_op.subscripts)
    through = outer_in[outer_op.hole]
    if len(set(through)) < len(through) or len(set(inner_out)) < len(inner_out):
        return None
    if outer_op.sizes or inner_op.sizes:
        return None
    rename = dict(zip(inner_out, through, strict=True))
    fresh = iter(c for c in _LETTERS if c not in outer_op.subscripts)
    for c in dict.fromkeys("".join(inner_in)):
        if c not in rename:
            letter = next(fresh, None)
            if letter is None:
                return None
            rename[c] = letter
    renamed = ["".join(rename[c] for c in labels) for labels in inner_in]
    before, after = outer_in[: outer_op.hole], outer_in[outer_op.hole + 1 :]
    labels = [*before, *renamed, *after]
    operands = [
        *outer_op.operands[: outer_op.hole],
        *inner_op.operands,
        *outer_op.operands[outer_op.hole + 1 :],
    ]
    hole = len(before) + inner_op.hole
    labels, operands, hole = _multiply_out(labels, operands, hole, outer_out)
    name = outer_op.name if outer_op.name == inner_op.name else ""
    return Contraction(
        f"{','.join(labels)}->{outer_out}", hole, tuple(operands), inner_op._in, name=name
    )


def _multiply_out(
    labels: list[str], operands: list[Any], hole: int, output: str
) -> tuple[list[str], list[Any], int]:
    """Contract pairs of captured operands whose common labels occur nowhere else."""
    k = 0
    while k < len(labels):
        for m in range(k + 1, len(labels)):
            if hole in (k, m):
                continue
            rest = set(output) | set("".join(labels[:k] + labels[k + 1 : m] + labels[m + 1 :]))
            shared = set(labels[k]) & set(labels[m])
            private = shared - rest
            kept = "".join(c for c in dict.fromkeys(labels[k] + labels[m]) if c not in private)
            sizes = dict(
                zip(labels[k] + labels[m], operands[k].shape + operands[m].shape, strict=True)
            )
            if private and prod(sizes[c] for c in kept) <= operands[k].size + operands[m].size:
                operands[k] = P.contract(
                    operands[k],
                    operands[m],
                    subscripts=f"{labels[k]},{labels[m]}->{kept}",
                    sizes=(),
                )
                labels[k] = kept
                del labels[m], operands[m]
                hole -= m < hole
                k = -1
                break
        k += 1
    return labels, operands, hole
