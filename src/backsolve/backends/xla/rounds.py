"""Rounds that wait for each other for sums and signs alone, all at once.

    for j in range(n):
        total = total + sign * f(x, j)        total + Σ_j (−1)^j f(x, j)
        sign = −sign

A function that calls itself for smaller arrays, as often as they have columns, would run one small call after
the other; at once, a level of it is a few operations on large arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...ir import Equation, Program, Var
from ...regions import Loop


def are_free(region: Loop) -> bool:
    """Whether rounds that call something hand on no more than sums, signs and what stays."""
    if region.goes_on is not None or region.counted or not region.count:
        return False
    calls = any(e.primitive.name == "call" for e in region.body.equations)
    return calls and None not in _kinds(region)


def at_once(
    region: Loop, run: Callable[..., Any], carried: Sequence[Any], entries: Any
) -> tuple[list[Any], list[Any], Any, Any]:
    """What is carried, all that is made, failure and need; run(k, carried, entries) is a round."""
    count, kinds = region.count, _kinds(region)
    assert count is not None
    rounds = jnp.arange(count, dtype=jnp.int64)
    before = count - 1 - rounds if region.reverse else rounds  # how many rounds there were

    def one(k: Any, done: Any, given: Any) -> Any:
        starts = [
            jnp.zeros_like(c) if kind == "sum" else _after(done, c, kind)
            for c, kind in zip(carried, kinds, strict=True)
        ]
        return run(k, starts, given)

    ends, made, failures, needed = jax.vmap(one)(rounds, before, entries)
    last = [
        c + jnp.sum(y, axis=0, dtype=c.dtype) if kind == "sum" else _after(count, c, kind)
        for c, y, kind in zip(carried, ends, kinds, strict=True)
    ]
    order = failures[::-1] if region.reverse else failures
    return last, made, order[jnp.argmax(order != 0)], jnp.max(needed)


def _after(done: Any, c: Any, kind: str | None) -> Any:
    """What a carried value has become after some rounds."""
    return jnp.where(done % 2 == 1, -c, c) if kind == "sign" else c


def _kinds(region: Loop) -> list[str | None]:
    """What becomes of each carried value: a sum, its negative, the same; None for all else."""
    body = region.body
    inputs = body.inputs[1 : 1 + region.carried]
    return [_kind(body, c, y) for c, y in zip(inputs, body.outputs, strict=False)]


def _kind(body: Program, c: Var, y: Any) -> str | None:
    if y is c:
        return "same"
    made = next((e for e in body.equations if y in e.outputs), None)
    if made is not None and made.primitive.name == "negative" and made.inputs[0] is c:
        return "sign"
    return "sum" if c.type.dtype.kind in "iufc" and _is_added_to(body, c, y) else None


def _is_added_to(body: Program, c: Var, y: Any) -> bool:
    """Whether y is c and something more, and no round looks at the sum."""
    a: Any = c
    while a is not y:
        readers = [e for e in body.equations if a in e.inputs]
        if len(readers) != 1 or a in body.outputs or not _adds(readers[0], a):
            return False
        (a,) = readers[0].outputs
    return body.outputs.count(y) == 1 and not any(y in e.inputs for e in body.equations)


def _adds(e: Equation, a: Var) -> bool:
    if e.outputs[0].type != a.type or e.inputs[0] is e.inputs[1]:
        return False
    return e.primitive.name == "add" or (e.primitive.name == "subtract" and e.inputs[0] is a)
