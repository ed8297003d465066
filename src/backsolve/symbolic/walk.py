"""Walks over expressions. None is recursive: a formula may be deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import StructureError, UnsupportedError
from .expr import Call, Expr, Number, Symbol, call

LARGEST_TREE = 1_000_000


def nodes(*roots: Expr) -> list[Expr]:
    """Every node once, operands before what is made of them, from left to right."""
    found: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        e, ready = stack.pop()
        if id(e) in found:
            continue
        if ready or not e.args:
            found[id(e)] = e
        else:
            stack.append((e, True))
            stack.extend((a, False) for a in reversed(e.args))
    return list(found.values())


def symbols(expr: Expr) -> tuple[Symbol, ...]:
    by_label = {e.label: e for e in nodes(expr) if isinstance(e, Symbol)}
    return tuple(by_label.values())


def size(expr: Expr, shared: bool = False) -> int:
    """How many nodes: written out as a tree, or (`shared`) with every object counted once.

    The iterate x ↦ 4 x (1 − x) reads its argument twice, so its tree doubles with each step;
    shared, a step adds three operations.

    >>> x = Symbol("x")
    >>> for n in range(5):
    ...     print(size(x), size(share(x), shared=True))
    ...     x = 4 * x * (1 - x)
    1 1
    7 6
    19 9
    43 12
    91 15
    """
    order = nodes(expr)
    if shared:
        return len(order)
    counts: dict[int, int] = {}
    for e in order:
        counts[id(e)] = 1 + sum(counts[id(a)] for a in e.args)
    return counts[id(expr)]


def share(expr: Expr) -> Expr:
    """The same formula with equal parts made one object: common sub-expression elimination.

    >>> e = np.exp(Symbol("x")) + 1 / np.exp(Symbol("x"))
    >>> size(e, shared=True), size(share(e), shared=True)
    (7, 5)
    """
    return share_all([expr])[0]


def share_all(exprs: Sequence[Expr]) -> list[Expr]:
    """`share`, also between the expressions."""
    known: dict[Hashable, Expr] = {}
    now: dict[int, Expr] = {}
    for e in nodes(*exprs):
        key: Hashable = None
        same = e
        if isinstance(e, Symbol):
            key = e.label
        elif isinstance(e, Number):
            key = (type(e.value), repr(e.value))  # repr: 0.0 is not -0.0, and NaN is NaN
        elif isinstance(e, Call):
            args = tuple(now[id(a)] for a in e.args)
            key = (e.primitive, tuple(id(a) for a in args), e.params)
            if any(a is not b for a, b in zip(args, e.args, strict=True)):
                same = Call(e.primitive, args, e.params, e.type)
        now[id(e)] = known.setdefault(key, same)
    return [now[id(e)] for e in exprs]


def spread(expr: Expr) -> Expr:
    """The opposite of `share`: a tree, in which no two places hold the same object."""
    total = size(expr)
    if total > LARGEST_TREE:
        raise UnsupportedError(
            f"expression swell: the tree has {total:,} nodes (and {size(expr, shared=True):,} "
            "different ones); leave share=True, and count it with bs.symbolic.size(expr)"
        )
    done: list[Expr] = []  # operands that wait for their Call, as in reverse Polish notation
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        e, ready = stack.pop()
        if not ready:
            stack.append((e, True))
            stack.extend((a, False) for a in reversed(e.args))
        elif isinstance(e, Call):
            k = len(done) - len(e.args)
            done[k:] = [Call(e.primitive, tuple(done[k:]), e.params, e.type)]
        elif isinstance(e, Symbol):
            done.append(Symbol(e.name, e.index))
        elif isinstance(e, Number):
            done.append(Number(e.value))
    return done[0]


def evaluate(expr: Expr, values: Mapping[str, Any]) -> Any:
    """See Expr.evaluate. Every object is computed once."""
    found: dict[int, Any] = {}
    plain = True
    for e in nodes(expr):
        if isinstance(e, Symbol):
            v = _value(e, values)
            plain = plain and type(v) in (int, float)
            # NumPy's numbers, so that 1/0 is ∞ as it is for arrays.
            found[id(e)] = np.float64(v) if type(v) in (int, float) else v
        elif isinstance(e, Number):
            found[id(e)] = e.value
        elif isinstance(e, Call):
            args = [found[id(a)] for a in e.args]
            run: Callable[..., Any] = e.primitive
            if any(isinstance(a, Expr) for a in args):
                found[id(e)] = call(e.primitive, *args, **dict(e.params))
            else:
                found[id(e)] = run(*args, **dict(e.params))
    y = found[id(expr)]
    return y.item() if plain and isinstance(y, np.generic) else y


def _value(s: Symbol, values: Mapping[str, Any]) -> Any:
    if s.label in values:
        return values[s.label]
    if s.index and s.name in values:
        v = values[s.name]
        return (v if hasattr(v, "shape") else np.asarray(v))[s.index]
    raise StructureError(
        f"the expression needs a value for {s.label!r}, got values for {sorted(values)}"
    )
