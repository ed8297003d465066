"""Tensor: what a user holds. A value, a gradient, and the row that made it.

A Tensor behaves like a NumPy array. Its operators and methods are looked up in the tables that
`primitives/` and `numpy/` fill; its own code is about what a Tensor must not do in silence: lose a
derivative, pretend that a staged value has a number inside (taken_away.py), or alias memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from . import tree
from .array_methods import ArrayMethods, method
from .blame import blame
from .errors import InPlaceError, NotDifferentiableError, ShapeError, TracedValueError
from .hooks import hooks
from .ir import Shape, Var, type_of
from .ownership import is_shared, shared
from .primitive import ARRAY_FUNCTIONS, FUNCTIONS, UFUNCS, P, Primitive, wrap
from .row import NOTHING, Row
from .taken_away import TakenAway
from .trace import is_for_later


class _Leaf(Primitive):
    """The row of a parameter: nothing made it."""

    is_leaf, is_plain = True, False


LEAF = _Leaf("leaf", lambda: None)


def leaf_row(value: Any, owner: Any = None) -> Row:
    """A fresh parameter row for a raw value; it remembers the value to notice a later change."""
    t = value if hasattr(value, "shape") else type_of(value)
    if owner is not None:
        hooks.has_leaves = True
    return Row(LEAF, (), (value,) if owner else NOTHING, None, t.shape, t.dtype, owner)


_sort = method("sort")


class Tensor(ArrayMethods, TakenAway):
    """A value that remembers how it was made.

    >>> import backsolve as bs
    >>> x = bs.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    array([2., 4., 6.])
    """

    # `origin` is set only on results without a row that rest on a leaf, see `remember`; `family` only on
    # those that share memory in NumPy, see links.py.
    __slots__ = ("__weakref__", "_v", "family", "grad", "origin", "row")

    _v: Any
    row: Row | None
    grad: Any
    family: Any

    def __init__(self, value: Any, requires_grad: bool = False, dtype: npt.DTypeLike | None = None):
        if isinstance(value, Tensor):
            value = value._plain("Tensor(x) of a tensor")
        v = np.array(value, dtype=dtype)
        if v.dtype.kind not in "biufc":
            raise TypeError(f"a Tensor holds numbers, got {type(value).__name__} ({v.dtype})")
        self._v = v[()]  # rank 0 as a NumPy scalar: faster, and immutable as NumPy's scalars are
        self.row = None
        self.grad = None
        if requires_grad:
            self.requires_grad = True

    # ---- what it holds

    @property
    def value(self) -> npt.NDArray[Any]:
        """The value as a NumPy array (read-only: what was recorded must not change unseen)."""
        view = np.asarray(self._known("its value")).view()
        view.flags.writeable = False
        return view

    @value.setter
    def value(self, new: Any) -> None:
        if self.row is not None and not self.row.is_leaf:
            raise InPlaceError("only a leaf can be given a new value; this tensor was computed")
        v = np.array(new, dtype=self.dtype)
        if v.shape != self.shape:
            raise ShapeError(f"expected a value of shape {self.shape}, got {v.shape}")
        self._v = v[()]
        if self.row is not None:  # what is computed from here on rests on the new value
            self.row = leaf_row(self._v, ref(self))

    @property
    def requires_grad(self) -> bool:
        """Whether what is computed from it is recorded for derivatives; can be set on leaves."""
        return self.row is not None

    @requires_grad.setter
    def requires_grad(self, wish: bool) -> None:
        if self.row is not None and not self.row.is_leaf:
            raise InPlaceError("requires_grad can be set on leaves; use bs.stop_gradient(x)")
        if not wish:
            if self.row is not None:  # what was computed from it keeps this memory
                self._v, self.row = shared(self._v), None
        elif self.row is None:
            if self.dtype.kind not in "fc":
                raise NotDifferentiableError(
                    f"a gradient needs floating-point values, got {self.dtype}; write 2.0 for 2, "
                    "or x.astype(float)"
                )
            if is_shared(self._v):
                self._v = self._v.copy()
            self.row = leaf_row(self._v, ref(self))

    @property
    def shape(self) -> Shape:
        """The length of each axis; () of a number."""
        try:
            return self._v.shape
        except AttributeError:  # a bare Python number: weak in promotion, as NumPy has it
            return ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its NumPy dtype."""
        try:
            return self._v.dtype
        except AttributeError:
            return np.asarray(self._v).dtype

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many entries it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all entries."""
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """The bytes of an entry."""
        return self.dtype.itemsize

    # ---- messages (McAllester's notes): forward fills value, backward fills grad

    def backward(self, grad: Any = None, retain_graph: bool = True) -> None:
        """Back substitution from here; adds into `.grad` of every leaf that requires it."""
        FUNCTIONS["backward"](self, grad, retain_graph)

    def forward(self) -> Tensor:
        """Recompute this value, and all values it rests on, from the leaves' present values."""
        return FUNCTIONS["forward"](self)

    def detach(self) -> Tensor:
        """Its value, as a Tensor that no derivative goes through."""
        if (tell := hooks.stopped.value) is not None:
            tell(self)
        if type(self._v) is Var:
            self._v.recorder.has_own_derivative = True
            if is_for_later(self):
                return P.detach(self)
        return wrap(self._v if self.row is None else shared(self._v), None)

    def __reduce__(self) -> Any:
        if self.row is not None and not (self.row.is_leaf and self.row.owner is not None):
            self._plain("pickling or deep-copying it")
        return Tensor, (np.asarray(self._known("its value")), self.requires_grad)

    # ---- NumPy's protocols

    __array_priority__ = 1000
    __pandas_priority__ = 5000  # above a DataFrame's: `series * tensor` is then ours

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            impl = UFUNCS.get(ufunc)
            if impl is not None:
                try:
                    return impl(*inputs)
                except Exception as error:
                    blame(error, ufunc, inputs, kwargs)
                    raise
        try:
            return FUNCTIONS["array_ufunc"](ufunc, method, inputs, kwargs)
        except Exception as error:
            blame(error, ufunc, inputs, kwargs)
            raise

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        impl = ARRAY_FUNCTIONS.get(func)
        try:
            if impl is not None and "out" not in kwargs:
                return impl(*args, **kwargs)
            return FUNCTIONS["array_function"](func, args, kwargs)
        except Exception as error:
            blame(error, func, args, kwargs)
            raise

    # ---- the array API standard

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`backsolve.numpy`: where code for any array library finds the functions for this tensor."""
        return FUNCTIONS["array_namespace"](api_version)

    @property
    def device(self) -> str:
        """Always "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """Itself: there is the CPU alone."""
        FUNCTIONS["on_cpu"](device, stream)
        return self

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        """This tensor's memory for another library, without a copy."""
        return FUNCTIONS["to_dlpack"](self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return np.empty(0).__dlpack_device__()

    # ---- indexing: slices are values, not views

    def __getitem__(self, key: Any) -> Tensor:
        part = FUNCTIONS["getitem"](self, key)
        row = part.row
        if (row is not None and row.owner is None) or type(part) is Staged:
            hooks.note_view(part, self, key)
        return part

    def __setitem__(self, key: Any, new: Any) -> None:
        self._become(FUNCTIONS["setitem"](self, key, new), "x[i] = v", key)

    def _become(self, result: Tensor, what: str, key: Any = ...) -> Tensor:
        """An in-place operation: this same object goes on as the new value."""
        if self.row is not None and self.row.is_leaf and self.row.owner is not None:
            raise InPlaceError(
                f"in-place {what} on a leaf that requires grad: its gradient would have nowhere to go. "
                "Start from x = x.copy(), or give the leaf a new value with x.value = …"
            )
        hooks.note_write(self, key)
        if not isinstance(result, Tensor):
            result = wrap(np.asarray(result)[()], None)
        if result.shape != self.shape:
            raise ShapeError(
                f"in-place {what} cannot change the shape {self.shape} to {result.shape}"
            )
        if result.dtype != self.dtype:
            if not np.can_cast(result.dtype, self.dtype, "same_kind"):
                raise InPlaceError(
                    f"in-place {what} cannot turn {self.dtype} into {result.dtype}; "
                    f"write x = x.astype({result.dtype.name!r}) first"
                )
            result = P.cast(result, dtype=self.dtype)
        self._v, self.row = result._v, result.row
        if isinstance(result, Staged) or isinstance(self, Staged):
            self.__class__ = type(result)
        if self.row is not None and self.row.owner is not None:
            self.row.owner = ref(self)
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor of rank 0")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a tensor of rank 0")
        return (self[i] for i in range(len(self)))

    def __contains__(self, x: Any) -> bool:
        return bool((self == x).any())

    def sort(self, axis: int = -1, **kwargs: Any) -> None:
        """In place, as an ndarray's."""
        self._become(_sort(self, axis, **kwargs), "x.sort()")

    def fill(self, value: Any) -> None:
        """Set every entry, in place."""
        self[...] = value

    def __repr__(self) -> str:
        if type(self._v) is Var:
            return f"Tensor(staged {self._v.type})"
        a = np.asarray(self._v)
        body = np.array2string(a, separator=", ", prefix="Tensor(")
        made = "" if self.row is None else ", requires_grad=True"
        if self.row is not None and not self.row.is_leaf:
            made = f", made_by={self.row.primitive.name!r}"
        if self.grad is not None:
            made += f", grad={_brief(self.grad)}"
        kind = "" if self.dtype in (np.float64, np.int64, np.bool_) else f", dtype={self.dtype}"
        # Numbers tell the shape, unless they are too many to be printed, or none.
        is_cut = a.size > np.get_printoptions()["threshold"] or (not a.size and a.shape != (0,))
        made = f", shape={a.shape}{made}" if is_cut else made
        return f"Tensor({body}{made}{kind})"

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if type(self._v) is Var:
            raise TracedValueError(
                f"writing it as {spec!r} needs a number; but this value of type {self._v.type} is being "
                "staged: only its type is known. What is printed inside is printed once, without numbers. "
                "Return the value and print it outside, or call the function without bs.jit to look at it"
            )
        return format(np.asarray(self._v)[()], spec)


def _brief(grad: Any) -> str:
    """A gradient beside its value: its numbers if they are few, else what it is."""
    a = np.asarray(getattr(grad, "_v", grad))
    if a.size <= 4 and a.ndim <= 1:
        return np.array2string(a, separator=", ")
    return f"<{a.dtype} {', '.join(map(str, a.shape))}>"


class Staged(Tensor):
    """A Tensor whose value is a variable of a Program being recorded."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{repr(self)[:-1]}: it has no numbers while the program is recorded)"


class StagedStack(Staged):
    """A stack of a loop (regions.py). Two of them, adjoints of one, can be added; that is all."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return FUNCTIONS["add_stacks"](self, other)


def is_stack(x: Any) -> bool:
    return isinstance(x, StagedStack | list)


def _wrap_var(var: Var, row: Row | None) -> Staged:
    kind = StagedStack if var.type.is_stack else Staged
    t = kind.__new__(kind)
    t._v, t.row, t.grad = var, row, None
    return t


def lent(value: Any) -> Any:
    """For a function that may write into it: as the receiver's own, so that the giver's stays what it was."""
    if type(value) is np.ndarray:
        return value.copy()
    return wrap(value._v, value.row) if isinstance(value, Tensor) else value


def leaf(value: Any) -> Any:
    """A parameter with a raw number or array for a value."""
    t = Tensor.__new__(Tensor)
    t._v, t.row, t.grad = value, leaf_row(value), None
    return t


hooks.Tensor = Tensor
tree.LEAF_KINDS.update([Tensor, Staged, StagedStack])
hooks.wrap_var = _wrap_var


def tensor(value: Any, requires_grad: bool = False, dtype: npt.DTypeLike | None = None) -> Tensor:
    """A Tensor with its own copy of `value`; a copy of one that varies or is staged goes on with it."""
    goes_on = isinstance(value, Tensor) and (value.row is not None or isinstance(value, Staged))
    if goes_on and not requires_grad:
        copy = value.copy()
        return copy if dtype is None else copy.astype(dtype)
    return Tensor(value, requires_grad, dtype)
