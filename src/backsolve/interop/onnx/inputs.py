"""What a graph declares of its inputs, and whether values are that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import BacksolveError, DTypeError, ShapeError
from ...numpy._register import shape_of
from ...numpy.creation import asarray
from ...tensor import Tensor
from .operators.types import dtype_named


@dataclass(frozen=True)
class Input:
    """An array, or a sequence of arrays; None: of any dtype, of any shape."""

    name: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[int | str, ...] | None = None
    is_sequence: bool = False
    is_optional: bool = False

    @staticmethod
    def of(value: Any) -> Input:
        """As a ValueInfoProto declares it."""
        proto, is_optional = value.type, value.type.WhichOneof("value") == "optional_type"
        if is_optional:
            proto = proto.optional_type.elem_type
        is_sequence = proto.WhichOneof("value") == "sequence_type"
        if is_sequence:
            proto = proto.sequence_type.elem_type
        tensor = proto.tensor_type
        dtype = dtype_named(tensor.elem_type) if tensor.elem_type else None
        shape = _sizes(tensor.shape) if tensor.HasField("shape") else None
        return Input(value.name, dtype, shape, is_sequence, is_optional)

    @property
    def is_array(self) -> bool:
        """Whether it is no more than an array of a dtype."""
        return self.dtype is not None and not self.is_sequence and not self.is_optional

    def __str__(self) -> str:
        if not self.is_array:
            return self.name
        sizes = "…" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.name} {self.dtype}[{sizes}]"

    def fitting(self, value: Any) -> Any:
        """A value as the graph takes it."""
        if value is None and self.is_optional:
            return None
        if not self.is_sequence:
            return self._array(value)
        if not isinstance(value, list | tuple):
            raise DTypeError(f"input {self.name} is a sequence of arrays, got {_shown(value)}")
        return tuple([self._array(x, f"{self.name}[{k}]") for k, x in enumerate(value)])

    def _array(self, value: Any, name: str = "") -> Any:
        me = f"input {name or self}"
        if not isinstance(value, np.ndarray | np.generic | Tensor):
            value = self._numbers(value, me)
        if value.dtype.kind not in "biufc":
            raise DTypeError(f"{me} was given {_shown(value)}; it takes numbers")
        if self.dtype is not None:
            if not np.can_cast(value.dtype, self.dtype, "same_kind"):
                raise DTypeError(f"{me} was given {value.dtype}: convert it before")
            if value.dtype.kind != self.dtype.kind:  # else whole numbers would be divided as such
                value = value.astype(self.dtype)
        if not self._has_shape(shape_of(value)):
            raise ShapeError(f"{me} was given an array of shape {list(shape_of(value))}")
        return value

    def _has_shape(self, given: tuple[int, ...]) -> bool:
        if self.shape is None:
            return True
        sizes = zip(self.shape, given, strict=False)
        same = all(not isinstance(s, int) or s == g for s, g in sizes)
        return len(given) == len(self.shape) and same

    def _numbers(self, value: Any, me: str) -> Any:
        """Python's numbers in the dtype, if they are the same there; else as they are."""
        try:
            plain = asarray(value)
        except (BacksolveError, TypeError, ValueError) as error:
            raise ShapeError(
                f"{me} was given {_shown(value)} that makes no array: {error}"
            ) from None
        if plain.dtype.kind not in "biufc":
            raise DTypeError(f"{me} was given {_shown(value)}; it takes an array of numbers")
        if self.dtype is None or isinstance(plain, Tensor):
            return plain
        with np.errstate(all="ignore"):
            made = plain.astype(self.dtype)
        fits = np.can_cast(plain.dtype, self.dtype, "same_kind") or np.array_equal(made, plain)
        return made if fits else plain


def _sizes(shape: Any) -> tuple[int | str, ...]:
    return tuple(
        [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in shape.dim]
    )


def _shown(value: Any) -> str:
    if isinstance(value, str | bytes) or value is None:
        return repr(value)
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of {'text' if value.dtype.kind in 'US' else value.dtype}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
