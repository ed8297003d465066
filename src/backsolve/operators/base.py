"""Operator: a linear map between arrays, as an object.

The contract is four things:

    apply(t)      the image of t, in plain NumPy: it computes on arrays and records on Tensors
    T             the adjoint under  ⟨u, v⟩ = Re Σ ū v  (for real arrays: the transpose)
    in_type       Type of what apply takes
    out_type      Type of what apply gives

Everything else (`@`, `+`, `dense()`, `cost`, `structure`, repr) is derived, and may be sharpened.
Operators are frozen: nothing in `apply` mutates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ShapeError
from ..hooks import hooks
from ..ir import Type
from .structure import facts_of_product, facts_of_sum, facts_of_transpose


@dataclass(frozen=True, slots=True)
class Cost:
    """What one application costs: scalar multiplications, additions, bytes moved."""

    multiplications: int = 0
    additions: int = 0
    bytes: int = 0

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return self.multiplications + self.additions

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.multiplications + other.multiplications,
            self.additions + other.additions,
            self.bytes + other.bytes,
        )


class Operator:
    """A linear map between arrays: `apply`, its adjoint `T`, the types of both sides; the rest follows.

    `A @ B` and `A + B` are operators again, simplified where their structure allows; `A @ x` is A applied.
    """

    __slots__ = ()

    # True if the image has entries that are zero by structure, whatever t is (see `support`).
    masks = False
    # The same of the adjoint's image.
    adjoint_masks = False
    # True if it multiplies nothing: entries are read, copied and added, so that zeros stay zeros.
    moves_entries = False
    # Facts that hold for every instance; `structure` adds what an instance knows.
    facts: frozenset[str] = frozenset()

    __array_ufunc__ = None  # ndarray @ operator and ndarray + operator are ours to answer

    @property
    def in_type(self) -> Any:
        """The type of what `apply` takes; of a Block a tuple of them."""
        raise NotImplementedError(f"{type(self).__name__}.in_type")

    @property
    def out_type(self) -> Any:
        """The type of what `apply` gives."""
        raise NotImplementedError(f"{type(self).__name__}.out_type")

    @property
    def T(self) -> Operator:
        """The adjoint: ⟨A u, v⟩ = ⟨u, Aᵀ v⟩ with ⟨u, v⟩ = Re Σ ū v, for real arrays the transpose."""
        raise NotImplementedError(f"{type(self).__name__}.T")

    def apply(self, t: Any) -> Any:
        """The image of t: computed on arrays, recorded on Tensors."""
        raise NotImplementedError(f"{type(self).__name__}.apply")

    def pull(self, t: Any) -> Any:
        """The adjoint applied: `self.T.apply(t)`, for those that can spare the detour."""
        return self.T.apply(t)

    def apply_add(self, y: Any, t: Any) -> Any:
        """y + A t: how adjoints accumulate. An operator that touches few entries writes into y."""
        return y + self.apply(t)

    def support(self, mask: Any) -> Any:
        """Where A t can be non-zero, given where t can be; None: anywhere."""
        return None

    @property
    def structure(self) -> frozenset[str]:
        """Facts that are known of it: "diagonal", "permutation", "symmetric" and their like."""
        return self.facts

    @property
    def cost(self) -> Cost:
        """What one application costs."""
        return Cost(bytes=_nbytes(self.in_type) + _nbytes(self.out_type))

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        """The same map between these types: the engine's broadcasting and promotion written out.

        `out_type` is None inside a product, where nothing but the factor itself knows it.
        """
        return fitted(self, in_type, out_type)

    # ---- algebra

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Operator):
            return self(other)
        return compose(self, other)

    def __call__(self, t: Any) -> Any:
        expected = self.in_type
        if (
            isinstance(expected, Type)
            and not isinstance(t, tuple | list)
            and np.shape(t) != expected.shape
        ):
            raise ShapeError(f"{self!r} takes arrays of shape {expected.shape}, got {np.shape(t)}")
        return self.apply(t)

    def __add__(self, other: Any) -> Operator:
        return plus(self, as_operator(other))

    def __radd__(self, other: Any) -> Operator:
        return plus(as_operator(other), self)

    def __sub__(self, other: Any) -> Operator:
        return plus(self, -as_operator(other))

    def __rsub__(self, other: Any) -> Operator:
        return plus(as_operator(other), -self)

    def __neg__(self) -> Operator:
        from .scale import Scale

        return compose(Scale(-1.0, self.out_type), self)

    def __mul__(self, factor: Any) -> Operator:
        from .scale import Scale

        return compose(Scale(factor, self.out_type), self)

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Operator:
        return self * (1 / factor)

    def __rmatmul__(self, other: Any) -> Operator:
        return compose(as_operator(other), self)

    # ---- what scipy.sparse.linalg asks of a matrix, so that eigsh, cg, svds and the like take operators

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the matrix which `dense` gives."""
        return np.result_type(*[t.dtype for t in (*parts(self.in_type), *parts(self.out_type))])

    def matvec(self, x: Any) -> Any:
        """A x for a flat vector x, all parts one after the other, and flat again."""
        source = self.in_type
        pieces = np.split(np.ravel(x), np.cumsum([t.size for t in parts(source)])[:-1])
        shaped = [np.reshape(p, t.shape) for p, t in zip(pieces, parts(source), strict=True)]
        image = self.apply(tuple(shaped) if isinstance(source, tuple) else shaped[0])
        return np.concatenate([np.reshape(y, -1) for y in parts(image)])

    def rmatvec(self, y: Any) -> Any:
        """The adjoint's `matvec`."""
        return self.T.matvec(y)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the matrix that `dense` gives."""
        return _size(self.out_type), _size(self.in_type)

    def _repr_html_(self) -> str | None:
        return hooks.notebook("html", self)

    def _repr_latex_(self) -> str | None:
        return hooks.notebook("latex", self)

    def dense(self) -> npt.NDArray[Any]:
        """The matrix of the map, out.size × in.size, for looking at and for tests: may be huge."""
        source, target = self.in_type, self.out_type
        columns = []
        for k, t in enumerate(parts(source)):
            for j in range(t.size):
                e = np.zeros(t.size, t.dtype)
                e[j] = 1
                column = self._column(e, k)
                turned = self._column((1j * e).astype(t.dtype), k) if t.dtype.kind == "c" else None
                if turned is not None and not _same(turned, 1j * column, t.dtype):
                    raise ShapeError(
                        f"{self!r} is linear over the reals only: it has no complex matrix"
                    )
                columns.append(column)
        if not columns:
            dtypes = [t.dtype for t in parts(target)]
            return np.zeros((_size(target), 0), np.result_type(*dtypes))
        return np.stack(columns, axis=1)

    def _column(self, e: npt.NDArray[Any], k: int) -> npt.NDArray[Any]:
        """The image of the entries `e` in part k and zeros elsewhere, flat."""
        source = self.in_type
        whole = [np.zeros(t.shape, t.dtype) for t in parts(source)]
        whole[k] = e.reshape(whole[k].shape)
        image = self.apply(tuple(whole) if isinstance(source, tuple) else whole[0])
        return np.concatenate([np.reshape(x, -1) for x in parts(image)])


class From(Operator):
    """Abstract: one that holds the type of what it takes, or anything that has a shape and a dtype."""

    __slots__ = ("_in",)
    _in: Any

    @property
    def in_type(self) -> Type:
        return Type(self._in.shape, self._in.dtype)


class Into(Operator):
    """Abstract: one that holds the type of what it gives."""

    __slots__ = ("_out",)
    _out: Any

    @property
    def out_type(self) -> Type:
        return Type(self._out.shape, self._out.dtype)


class Between(Operator):
    """Abstract: one that holds the types of both sides, as they are."""

    __slots__ = ("_in", "_out")
    _in: Any
    _out: Any

    @property
    def in_type(self) -> Any:
        return self._in

    @property
    def out_type(self) -> Any:
        return self._out


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Up to rounding, also of what is of another dtype in between."""
    eps = max(float(np.finfo(d).eps) for d in (a.dtype, dtype))
    return np.allclose(a, b, rtol=0, atol=1e3 * eps * float(np.max(np.abs(b), initial=0)))


def fitted(A: Operator, in_type: Type, out_type: Type | None) -> Operator:
    """A from `in_type` to `out_type`, by a Broadcast and Casts where its own types differ."""
    from .broadcast import Broadcast
    from .cast import Cast

    mine, result = A.in_type, A.out_type
    if isinstance(result, Type) and out_type is not None and result.dtype != out_type.dtype:
        A = compose(Cast(result, out_type.dtype), A)
    if isinstance(mine, Type):
        if mine.dtype != in_type.dtype:
            A = compose(A, Cast(Type(mine.shape, in_type.dtype), mine.dtype))
        if mine.shape != in_type.shape:
            A = compose(A, Broadcast(in_type, mine.shape))
    return A


def promoted(in_type: Type, captured: Any) -> Type:
    """The type of t · captured for a t of `in_type`: a bare Python number is weak."""
    weak = type(captured) in (int, float, complex)
    other = captured if weak else getattr(captured, "dtype", None) or np.asarray(captured).dtype
    return Type(in_type.shape, np.result_type(in_type.dtype, other))


def compose(a: Operator, b: Operator) -> Operator:
    """A @ B, simplified by the rules of simplify.py."""
    from .product import product

    return product([a, b])


def plus(a: Operator, b: Operator) -> Operator:
    from .sum import total

    return total([a, b])


def as_operator(a: Any) -> Operator:
    """A number is a scaling, a matrix a left multiplication, an operator itself."""
    if isinstance(a, Operator):
        return a
    if np.ndim(a) == 0:
        from .scale import Scale

        return Scale(a)
    if np.ndim(a) == 2:
        from .contraction import matrix

        return matrix(a)
    raise ShapeError(
        f"expected a number, a matrix or an operator, got an array of shape {np.shape(a)}"
    )


def whole(mask: Any, shape: tuple[int, ...]) -> Any:
    """A mask in full: that of a `where` may have the shape of its condition only."""
    return mask if getattr(mask, "shape", ()) == shape else np.broadcast_to(mask, shape)


def parts(t: Any) -> tuple[Any, ...]:
    """A type, or a value, as the tuple of its parts: one, unless it is a tuple."""
    return t if isinstance(t, tuple) else (t,)


def _size(t: Any) -> int:
    return sum(_size(x) for x in t) if isinstance(t, tuple) else int(t.size)


def _nbytes(t: Any) -> int:
    return sum(_nbytes(x) for x in t) if isinstance(t, tuple) else int(t.size * t.dtype.itemsize)


def show(a: Any, places: int = 4) -> str:
    """A captured value in a repr: numbers and short vectors in full, others by type."""
    if isinstance(a, int | float | complex | np.generic) or (type(a) is np.ndarray and not a.ndim):
        return f"{np.asarray(a)[()]:.{places}g}"
    if isinstance(a, np.ndarray) and a.ndim == 1 and a.size <= 4:
        return "[" + ", ".join(f"{x:.{places}g}" for x in a) + "]"
    shape = ", ".join(str(s) for s in np.shape(a))
    return f"<{getattr(a, 'dtype', 'value')} {shape}>"


__all__ = [
    "Cost",
    "Operator",
    "as_operator",
    "compose",
    "facts_of_product",
    "facts_of_sum",
    "facts_of_transpose",
    "plus",
    "show",
]
