"""A graph of ONNX's while it is written: nodes in scopes, constants once, names that are all distinct."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ....ir import Type
from .sizes import Size

OPSET = 18
IR_VERSION = 8


class Graph:
    """`g.Add(a, b, …)` appends a node to the innermost scope and gives the name of its output.

    Values are names. A node inside a loop or a branch may read what stands outside of it.
    """

    def __init__(self) -> None:
        self._scopes: list[list[onnx.NodeProto]] = [[]]
        self._taken: set[str] = set()
        self._constants: dict[Any, str] = {}
        self._arrays: dict[str, Any] = {}  # of constants that have no name of their own
        self._turned: dict[str, tuple[str, list[int]]] = {}  # what was transposed, and how
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.batch: tuple[str, int] | None = None  # an input and its axis whose length is free
        self._batch_size: str | None = None
        self._at_start: list[onnx.NodeProto] = []

    # ---- names

    def name(self, wish: str) -> str:
        """A name that nothing else has: the wish itself if it is free."""
        found, k = wish, 1
        while found in self._taken:
            found, k = f"{wish}_{k}", k + 1
        self._taken.add(found)
        return found

    # ---- nodes

    def __getattr__(self, op: str) -> Callable[..., Any]:
        if not op[:1].isupper():
            raise AttributeError(op)
        return lambda *inputs, **attributes: self.node(op, inputs, **attributes)

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        """One node; the name of its output, or the names of `outputs` many."""
        names = [self.name(f"{op.lower()}_{len(self._taken)}") for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        made = helper.make_node(op, list(inputs), names, name=names[0], **given)
        self._scopes[-1].append(made)
        return names[0] if outputs == 1 else names

    def called(self, a: str, wish: str) -> str:
        """The same value under a name of one's own."""
        name = self.name(wish)
        self._scopes[-1].append(helper.make_node("Identity", [a], [name], name=name))
        return name

    @contextlib.contextmanager
    def scope(self) -> Iterator[list[onnx.NodeProto]]:
        """Nodes of the body of a loop or a branch."""
        self._scopes.append([])
        try:
            yield self._scopes[-1]
        finally:
            self._scopes.pop()

    @property
    def nodes(self) -> list[onnx.NodeProto]:
        return [*self._at_start, *self._scopes[0]]

    # ---- constants

    def constant(self, a: Any, wish: str = "") -> str:
        """An array as an initialiser; equal ones once."""
        a = np.asarray(a)
        key = (a.dtype.str, a.shape, a.tobytes())
        if wish or key not in self._constants:
            name = self.name(wish or f"constant_{len(self._constants)}")
            self.initializers[name] = numpy_helper.from_array(
                np.ascontiguousarray(a).reshape(a.shape), name
            )
            if not wish:
                self._constants[key], self._arrays[name] = name, a
            return name
        return self._constants[key]

    def number(self, value: Any, dtype: Any) -> str:
        return self.constant(np.asarray(value).astype(dtype))

    def sizes(self, dims: Sequence[int]) -> str:
        """A vector of lengths, of which some may be known when the graph runs."""
        if not any(isinstance(n, Size) for n in dims):
            return self.constant(np.array(dims, np.int64).reshape(len(dims)))
        parts: list[str] = []
        known: list[int] = []
        for n in dims:
            if not isinstance(n, Size):
                known.append(n)
                continue
            if known:
                parts.append(self.sizes(known))
                known = []
            parts.append(self._free(n))
        if known:
            parts.append(self.sizes(known))
        return parts[0] if len(parts) == 1 else self.Concat(*parts, axis=0)

    def length(self, n: int) -> str:
        """One length, as a number."""
        return (
            self.squeeze(self.sizes([n]), [0]) if isinstance(n, Size) else self.number(n, np.int64)
        )

    def _free(self, n: Size) -> str:
        """slope · batch + offset, as a vector of one entry."""
        assert self.batch is not None
        if self._batch_size is None:
            name, axis = self.batch
            found = self.name("batch_size")
            self._at_start.append(
                helper.make_node("Shape", [name], [found], name=found, start=axis, end=axis + 1)
            )
            self._batch_size = found
        y = self._batch_size
        if n.slope != 1:
            y = self.Mul(y, self.sizes([n.slope]))
        return self.Add(y, self.sizes([n.offset])) if n.offset else y

    # ---- what rows often need

    def cast(self, a: str, given: Any, wanted: Any) -> str:
        if np.dtype(given) == np.dtype(wanted):
            return a
        if a in self._arrays and self._arrays[a].ndim == 0:
            return self.constant(self._arrays[a].astype(wanted))
        return self.Cast(a, to=onnx_type(wanted))

    def where(self, condition: str, a: str, b: str, dtype: Any) -> str:
        if np.dtype(dtype).kind != "b":
            return self.Where(condition, a, b)
        return self.Or(self.And(condition, a), self.And(self.Not(condition), b))

    def reshape(self, a: str, shape: Sequence[int]) -> str:
        return self.Reshape(a, self.sizes(shape), allowzero=1 if 0 in shape else None)

    def expand(self, a: str, shape: Sequence[int]) -> str:
        return self.Expand(a, self.sizes(shape))

    def zeros(self, shape: Sequence[int], dtype: Any) -> str:
        value = numpy_helper.from_array(np.zeros(1, dtype))
        return self.ConstantOfShape(self.sizes(shape), value=value)

    def transpose(self, a: str, axes: Sequence[int]) -> str:
        """Of what was transposed before, by one node for both."""
        source, before = self._turned.get(a, (a, list(range(len(axes)))))
        axes = [before[k] for k in axes]
        if axes == sorted(axes):
            return source
        y = str(self.Transpose(source, perm=axes))
        self._turned[y] = source, axes
        return y

    def gather(self, a: str, index: str, axis: int) -> str:
        """Entries by a vector of indices; of what was transposed before, as if it had not been."""
        source, axes = self._turned.get(a, (a, None))
        if axes is None:
            return str(self.Gather(a, index, axis=axis))
        return self.transpose(self.Gather(source, index, axis=axes[axis]), axes)

    def squeeze(self, a: str, axes: Sequence[int]) -> str:
        return self.Squeeze(a, self.sizes(axes)) if axes else a

    def unsqueeze(self, a: str, axes: Sequence[int]) -> str:
        return self.Unsqueeze(a, self.sizes(axes)) if axes else a

    def slice(self, a: str, starts: Any, ends: Any, axes: Any, steps: Any) -> str:
        return self.Slice(a, *[self.sizes(part) for part in (starts, ends, axes, steps)])


def onnx_type(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def value_info(name: str, t: Type, batch: str = "batch") -> onnx.ValueInfoProto:
    """The type of a value; a length that is known later has a name, or none."""
    shape = [_length(n, batch) for n in t.shape]
    return helper.make_tensor_value_info(name, onnx_type(t.dtype), shape)


def _length(n: int, batch: str) -> Any:
    if isinstance(n, Size):
        return batch if (n.slope, n.offset) == (1, 0) else None
    return int(n) if n >= 0 else None
