"""The messages of McAllester's notes: y.backward() fills gradients, y.forward() refreshes values."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import (
    DroppedDerivativeError,
    FreedGraphError,
    MutatedGraphError,
    NotScalarError,
    ShapeError,
)
from ..primitive import FUNCTIONS
from ..row import FINISHED, FREED, NOTHING, Replayed, Row, ancestors
from ..tensor import Tensor
from .reverse import back_substitute

_adding = threading.Lock()  # gradients of several threads into one leaf


def _live_leaves(rows: Iterable[Row]) -> list[tuple[Row, Tensor]]:
    found = []
    for row in rows:
        leaf = row.owner() if row.is_leaf and row.owner is not None else None
        if leaf is not None and leaf.requires_grad:
            found.append((row, leaf))
    return found


def backward(y: Tensor, seed: Any = None, retain_graph: bool = True) -> None:
    if y.row is None:
        raise NotScalarError(
            "backward() on a tensor that depends on no leaf with requires_grad=True; "
            "make one with bs.tensor(value, requires_grad=True)"
        )
    if seed is None:
        if y.size != 1 or y.dtype.kind == "c":
            raise NotScalarError(
                f"backward() without a seed needs one real number, got {y.dtype} of shape {y.shape}; "
                "reduce it (y.sum().backward()) or pass the seed: y.backward(np.ones(y.shape))"
            )
        seed = np.ones(y.shape, y.dtype)[()]
    if isinstance(seed, Tensor):
        seed = seed._plain("seeding backward() with it")
    seed = np.asarray(seed, y.dtype)[()]
    if seed.shape != y.shape:
        raise ShapeError(f"the seed must have the shape {y.shape} of the tensor, got {seed.shape}")
    adjoints = back_substitute([(y.row, seed)], None)
    if any(row.owner is None and row.saved is not FINISHED for row in adjoints):
        raise DroppedDerivativeError(
            "backward() on a value that an enclosing grad, jvp or vmap varies: `.grad` would lose that "
            "dependence. Inside such a function use bs.grad or bs.vjp"
        )
    leaves = _live_leaves(adjoints)
    for row, leaf in leaves:
        if leaf._v is not row.saved[0]:
            raise MutatedGraphError(
                "a leaf got a new value after this result was computed; send y.forward() first"
            )
    with _adding:
        for row, leaf in leaves:
            g = adjoints[row]
            leaf.grad = np.array(g) if leaf.grad is None else leaf.grad + g
    if not retain_graph:
        for row in ancestors([y.row])[0]:
            row.saved = row.saved if row.is_leaf else FREED


def _to_replay(output: Row) -> list[tuple[Row, bool]]:
    """All rows that a value rests on, in order, and whether derivatives pass through them."""
    found = {output: True}
    stack = [output]
    while stack:
        row = stack.pop()
        for p in row.parents:
            parent = p.row if p.__class__ is Replayed else p
            if parent.__class__ is Row and parent not in found:
                found[parent] = parent.owner is not None or parent.is_leaf
                stack.append(parent)
    return sorted(found.items(), key=lambda item: item[0].index)


def forward(y: Tensor) -> Tensor:
    """Run the recorded rows again on the leaves' present values, and refresh what they captured."""
    if y.row is None:
        return y
    values: dict[Row, Any] = {}
    saved: list[tuple[Row, tuple[Any, ...]]] = []  # put in place at the end: all of it or nothing
    shown: list[tuple[Tensor, Any]] = []
    for row, differentiated in _to_replay(y.row):
        if row.saved is FREED:
            raise FreedGraphError("the rows of this result were freed; compute it again")
        owner = row.owner() if row.owner is not None else None
        if row.is_leaf:
            values[row] = owner._v if owner is not None else row.saved[0]
            saved.append((row, (values[row],)))
            continue
        if not row.primitive.is_plain or (differentiated and row.owner is None):
            raise FreedGraphError(
                "forward() replays graphs that hang on leaves made by bs.tensor(…, requires_grad=True) "
                f"and consist of primitives; `{row.primitive.name}` cannot be replayed"
            )
        inputs = [
            values[p] if p.__class__ is Row else values[p.row] if p.__class__ is Replayed else p
            for p in row.parents
        ]
        v = row.primitive.run(*inputs, **(row.params or {}))
        values[row] = v
        if row.saved is not NOTHING:
            pairs = zip(row.saved, (v, *inputs), strict=False)
            saved.append((row, tuple([None if old is None else new for old, new in pairs])))
        if owner is not None and owner.row is row:  # not if it was written into since
            shown.append((owner, v))
    for row, captured in saved:
        row.saved = captured
    for owner, v in shown:
        owner._v = v
    y._v = values[y.row]
    return y


FUNCTIONS["backward"] = backward
FUNCTIONS["forward"] = forward
