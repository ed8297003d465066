"""Branches, loops and calls: `lax.switch`, `scan` and `while_loop`, and functions of JAX's (callees.py).

A stack, whose length is known when the program has run, is an array of the machine's `capacity` and a length.
If a run needed more, it is compiled again for more: XLA's shapes are static.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ...ir import Equation, Type, type_of
from ...regions import Box, Branches, Callee, Layout, Loop, no_branch
from .callees import at_once
from .endings import Ending, ending_of
from .machine import Machine
from .rounds import at_once as rounds_at_once
from .sides import are_small, one_of

_MOST_ROUNDS, _MOST_EQUATIONS = 16, 128  # that a loop's code may have


class Stack(NamedTuple):
    """Entries along the first axis of an array, or of the arrays of a Stack of stacks."""

    entries: Any
    length: Any


class Values(NamedTuple):
    """A box."""

    values: tuple[Any, ...]


def _zeros(t: Type, m: Machine) -> Any:
    """Zeros of a type; an empty stack for a stack's."""
    if t.is_box:
        return Values(tuple(_zeros(inner, m) for inner in Layout.of(t).types))
    if not t.is_stack:
        return jnp.zeros(t.shape, m.dtype(t))
    return _empty(Type(t.shape[1:], t.dtype), m)


def _empty(entry: Type, m: Machine) -> Stack:
    m.has_stacks = True
    one = _zeros(entry, m)
    entries = jax.tree.map(lambda a: jnp.zeros((m.capacity, *a.shape), a.dtype), one)
    return Stack(entries, jnp.int64(0))


def _as(m: Machine, value: Any, t: Type) -> Any:
    return value if t.is_stack else jnp.asarray(value, m.dtype(t))


def _given(m: Machine, args: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    return [_as(m, a, t) for a, t in zip(args, types, strict=True)]


# ---- loops


def loop(m: Machine, e: Equation, inputs: Sequence[Any]) -> list[Any]:
    region: Loop = e.params["region"]
    limit, carried, fixed, sequences = region.split(inputs)
    types = [v.type for v in region.body.inputs[1:]]
    carried = _given(m, carried, types[: region.carried])
    fixed = _given(m, fixed, types[region.carried : region.carried + region.fixed])
    if region.goes_on is None and not region.counted:
        return _scan(m, region, limit, carried, fixed, sequences)
    ending = ending_of(e) if m.on_gpu else None
    return _while(m, region, limit, carried, fixed, sequences, ending)


def _round(
    m: Machine,
    region: Loop,
    k: Any,
    carried: Any,
    fixed: Any,
    entries: Any,
    in_loop: bool = True,
) -> tuple[list[Any], list[Any], Any, Any]:
    """One round: carried values, entries made, failure, need."""
    args = _given(m, [k, *carried, *fixed, *entries], [v.type for v in region.body.inputs])
    results, failure, needed = m.apart(lambda: m.run(region.body, args, in_loop=in_loop))
    types = [type_of(a) for a in region.body.outputs]
    results = _given(m, results, types)
    return results[: region.carried], results[region.carried :], failure, needed


def _scan(
    m: Machine, region: Loop, count: Any, carried: Any, fixed: Any, sequences: Any
) -> list[Any]:
    """As many rounds as is known beforehand."""
    assert isinstance(count, int)
    xs = [s.entries if isinstance(s, Stack) else s for s in sequences]
    xs = [jax.tree.map(lambda a: _resized(a, count), s) for s in xs]
    if m.callees is not None and m.callees.are_at_once(region):
        run = lambda k, carried, entries: _round(m, region, k, carried, fixed, entries, False)
        carried, made, failure, needed = rounds_at_once(region, run, carried, xs)
        _hand_on(m, failure, needed)
        return [*carried, *made, jnp.int64(count)]

    def step(state: Any, given: Any) -> Any:
        carried, failure, needed = state
        k, entries = given
        carried, made, failed, need = _round(m, region, k, carried, fixed, entries)
        first = jnp.where(failure != 0, failure, failed)
        return (carried, first, jnp.maximum(needed, need)), made

    rounds = jnp.arange(count, dtype=jnp.int64)
    start = (carried, jnp.int64(0), jnp.int64(0))
    together = _written_out(region) if m.on_gpu else 1
    (carried, failure, needed), made = lax.scan(
        step, start, (rounds, xs), length=count, reverse=region.reverse, unroll=together
    )
    _hand_on(m, failure, needed)
    made = [_sequence(m, region, s, k, count) for k, s in enumerate(made)]
    return [*carried, *made, jnp.int64(count)]


def _written_out(region: Loop) -> int:
    """How many rounds follow one another in the code: a GPU starts as many kernels for all as for one."""
    equations = region.body.equations
    if any(e.primitive.holds_regions for e in equations):
        return 1
    return max(1, min(_MOST_ROUNDS, _MOST_EQUATIONS // max(1, len(equations)), region.count or 1))


def _sequence(m: Machine, region: Loop, entries: Any, k: int, count: int) -> Any:
    """What a scan has stacked, as a sequence of the loop's: a Stack where its entries are stacks."""
    if not isinstance(entries, Stack):
        return entries
    m.need(jnp.int64(count))
    return Stack(jax.tree.map(lambda a: _resized(a, m.capacity), entries), jnp.int64(count))


def _resized(a: Any, n: int) -> Any:
    if a.shape[0] >= n:
        return a[:n]
    return jnp.concatenate([a, jnp.zeros((n - a.shape[0], *a.shape[1:]), a.dtype)])


def _while(
    m: Machine,
    region: Loop,
    limit: Any,
    carried: Any,
    fixed: Any,
    sequences: Any,
    ending: Ending | None,
) -> list[Any]:
    """As long as `goes_on` says so, or as often as a number says that is computed."""
    types = [type_of(a) for a in region.body.outputs[region.carried :]]
    made = [_zeros(region.sequence(t), m) for t in types]
    last: Any = None if limit is None else jnp.asarray(limit, jnp.int64)

    def at(done: Any) -> Any:
        return last - 1 - done if region.reverse else done

    def goes_on(state: Any) -> Any:
        done, carried, _, failure, _ = state
        fine = failure == 0
        if last is not None:
            fine = fine & (done < last)
        if region.goes_on is None:
            return fine
        if ending is not None:
            return fine & ~ending.holds(m, carried, fixed)
        args = _given(m, [at(done), *carried, *fixed], [v.type for v in region.goes_on.inputs])
        (more,), _, _ = m.apart(lambda: m.run(region.goes_on, args))
        return fine & more

    def step(state: Any) -> Any:
        done, carried, made, _, needed = state
        k = at(done)
        entries = [_entry(s, k) for s in sequences]
        if ending is not None:
            carried = ending.with_flag(carried, False)
        carried, new, failed, need = _round(m, region, k, carried, fixed, entries)
        if ending is not None:
            carried = ending.without_flag(carried)
        made = [_put(s, k, y) for s, y in zip(made, new, strict=True)]
        return done + 1, carried, made, failed, jnp.maximum(needed, need)

    zero = jnp.int64(0)
    start: Any = (zero, carried, made, zero, zero)
    if ending is not None:
        known = len(m.elsewhere)
        start = step((zero, ending.without_flag(carried), made, zero, zero))
        del m.elsewhere[known:]  # the loop has the same
    done, carried, made, failure, needed = lax.while_loop(goes_on, step, start)
    if ending is not None:
        carried = ending.with_flag(carried, ending.holds(m, carried, fixed))
    stacked = any(isinstance(s, Stack) for s in made)
    rounds = done if last is None or not region.reverse else last
    made = [Stack(s.entries, rounds) if isinstance(s, Stack) else s for s in made]
    _hand_on(m, failure, jnp.maximum(needed, rounds) if stacked else needed)
    return [*carried, *made, done]


def _entry(sequence: Any, k: Any) -> Any:
    arrays = sequence.entries if isinstance(sequence, Stack) else sequence
    return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, k, keepdims=False), arrays)


def _put(sequence: Any, k: Any, entry: Any) -> Any:
    arrays = sequence.entries if isinstance(sequence, Stack) else sequence
    new = jax.tree.map(lambda a, y: lax.dynamic_update_index_in_dim(a, y, k, 0), arrays, entry)
    return Stack(new, sequence.length) if isinstance(sequence, Stack) else new


def _hand_on(m: Machine, failure: Any, needed: Any) -> None:
    if m.failures:
        m.note(failure)
    if m.has_stacks:
        m.need(needed)


# ---- branches and calls


def branch(m: Machine, e: Equation, inputs: Sequence[Any]) -> list[Any]:
    region: Branches = e.params["region"]
    which, *operands = inputs
    n = len(region.branches)
    given = _given(m, operands, [v.type for v in region.branches[0].inputs])
    types = region.outputs()

    def taken(program: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            results, failure, needed = m.apart(lambda: m.run(program, args))
            return _given(m, results, types), failure, needed

        return run

    number = jnp.asarray(which)
    if number.dtype == bool:
        index = number.astype(jnp.int32)
    else:
        index = jnp.clip(number, 0, n - 1).astype(jnp.int32)
        if not m.unsafe:
            m.fail_if((number < 0) | (number >= n), IndexError, no_branch(n, e.where))
    sides = [taken(p) for p in region.branches]
    results, failure, needed = _at_once(m, region, index, sides, given) or lax.switch(
        index, sides, *given
    )
    _hand_on(m, failure, needed)
    return results


def _at_once(m: Machine, region: Branches, index: Any, sides: Any, given: Any) -> Any:
    """What the taken side gives, of all that were computed; None where the device has to choose."""
    if not (m.on_gpu and are_small(region)):
        return None
    known = len(m.elsewhere)
    made = [side(*given) for side in sides]
    if len(m.elsewhere) == known:
        return one_of(index, made)
    del m.elsewhere[known:]  # on the host only what is taken may run
    return None


def call(m: Machine, e: Equation, inputs: Sequence[Any]) -> list[Any]:
    ((results, failure, needed),) = calls(m, e.params["region"], [inputs])
    if failure is not None:
        m.note(failure)
    if needed is not None:
        m.need(needed)
    return results


def calls(m: Machine, callee: Callee, inputs: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Results, failure and need of calls with different inputs; None where there can be none."""
    program = callee.program
    assert program is not None
    assert m.callees is not None

    def translate(*args: Any) -> Any:
        return m.alone(lambda: m.run(program, args))

    types = [v.type for v in program.inputs]
    run = m.callees.function(callee, translate)
    return at_once(run, [_given(m, given, types) for given in inputs])


def _box(m: Machine, e: Equation, inputs: Sequence[Any]) -> list[Any]:
    region: Box = e.params["region"]
    return [Values(tuple(_given(m, inputs, region.layout.types)))]


REGIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "loop": loop,
    "branch": branch,
    "call": call,
    "no_entries": lambda m, e, inputs: [_zeros(e.params["region"].type, m)],
    "length": lambda m, e, inputs: [inputs[0].length],
    "box": _box,
    "unbox": lambda m, e, inputs: inputs[0].values,
}
