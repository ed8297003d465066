"""Loops, branches and calls on many examples at once.

What differs between examples gets a leading axis. If a condition does, a loop runs as long as any example wants
to, and those that are done keep their values; of a branch both sides run, each only if an example takes it, or
if it is light (light.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..batch import evaluate_batched_as, spread_any
from ..ir import STACK, Program, Type, Var, type_of
from ..primitive import FUNCTIONS
from ..primitives.batching import spread
from ..primitives.control import BOX, BRANCH, CALL, LENGTH, LOOP, NO_ENTRIES, UNBOX, RegionPrimitive
from ..regions import Box, Branches, Callee, Empty, Layout, Loop, Unbox
from ..tensor import Staged, is_stack
from ..trace import stage, stage_region
from .light import is_light

Results = tuple[list[Any], list[bool]]


def batch_region(
    prim: RegionPrimitive, size: int, args: Sequence[Any], flags: Sequence[bool], region: Any
) -> Results:
    """The results, and which of them carry the batch."""
    return _BATCH[prim](size, list(args), list(flags), region)


for _prim in (LOOP, BRANCH, CALL, NO_ENTRIES, LENGTH, BOX, UNBOX):
    _prim.batch_rule = batch_region


def batched_type(t: Type, size: int) -> Type:
    depth = next((k for k, n in enumerate(t.shape) if n != STACK), t.ndim)
    if depth < t.ndim and t.shape[depth] < STACK:
        wider = batched_layout(Layout.of(Type(t.shape[depth:], t.dtype)), size)
        return Type((*t.shape[:depth], wider.mark), t.dtype)
    return Type((*t.shape[:depth], size, *t.shape[depth:]), t.dtype)


def batched_layout(layout: Layout, size: int) -> Layout:
    """The boxes of all examples in one: all that it holds has an axis more."""
    found = layout.derived.get(("batch", size))
    if found is None:
        found = layout.derived["batch", size] = Layout()
        found.types = [batched_type(t, size) for t in layout.types]
    return found


def differs(program: Program, flags: Sequence[bool]) -> list[bool]:
    """Which outputs differ between examples if these inputs do."""
    known = {v for v, flag in zip(program.inputs, flags, strict=True) if flag}
    for e in program.equations:
        mine = [type(a) is Var and a in known for a in e.inputs]
        if not any(mine):
            continue
        if e.primitive.holds_regions:
            found = _differs(e.params["region"], mine)
            known.update(v for v, flag in zip(e.outputs, found, strict=True) if flag)
        else:
            known.update(e.outputs)
    return [type(a) is Var and a in known for a in program.outputs]


def _differs(region: Any, flags: list[bool]) -> list[bool]:
    if isinstance(region, Loop):
        carried, masked = _settled(region, flags)
        _, _, fixed, entries = region.split(flags)
        made = differs(region.body, [False, *carried, *fixed, *entries])[region.carried :]
        return [*carried, *[masked or m for m in made], masked]
    if isinstance(region, Branches):
        if flags[0]:
            return [True] * len(region.outputs())
        each = [differs(p, flags[1:]) for p in region.branches]
        return [any(column) for column in zip(*each, strict=True)]
    return [any(flags)] * len(region.outputs())


def _settled(loop: Loop, flags: list[bool]) -> tuple[list[bool], bool]:
    """Which carried values differ, and whether the number of rounds does."""
    count, carried, fixed, entries = loop.split(flags)
    by_count = bool(loop.counted and count)
    while True:
        asked = loop.goes_on is not None and differs(loop.goes_on, [False, *carried, *fixed])[0]
        masked = by_count or asked
        found = differs(loop.body, [False, *carried, *fixed, *entries])[: loop.carried]
        wider = [c or f or masked for c, f in zip(carried, found, strict=True)]
        if wider == carried:
            return carried, masked
        carried = wider


def _in_region(
    f: Callable[..., list[Any]], variables: Sequence[Var], flags: Sequence[bool], size: int
) -> Program:
    types = [
        batched_type(v.type, size) if flag else v.type
        for v, flag in zip(variables, flags, strict=True)
    ]
    return stage_region(f, types, None)


def _batch_loop(size: int, args: list[Any], flags: list[bool], loop: Loop) -> Results:
    carried, masked = _settled(loop, flags)
    by_count, _, fixed, entries = loop.split(flags)
    by_count = loop.counted and by_count
    count, starts, others, sequences = loop.split(args)
    inside = [False, *carried, *fixed, *entries]
    made = [masked or m for m in differs(loop.body, inside)[loop.carried :]]
    n, c = len(loop.body.inputs), loop.carried
    stacks = [type_of(a).is_stack for a in loop.body.outputs[c:]]
    rounds_at = c if masked else None  # how many rounds each example has had

    def going(k: Any, state: Sequence[Any], constant: Sequence[Any], limit: Any) -> Any:
        """Which examples take part in this round."""
        wants: Any = None
        if loop.goes_on is not None:
            wants = evaluate_batched_as(
                loop.goes_on, [k, *state, *constant], [False, *carried, *fixed], size, [True]
            )[0]
        if by_count:
            within = np.less(k, limit)
            wants = within if wants is None else np.logical_and(wants, within)
        return wants

    def body(k: Any, *rest: Any) -> list[Any]:
        state, rest = rest[:c], rest[c:]
        rounds = rest[:1] if masked else ()
        rest = rest[len(rounds) :]
        constant, rest = rest[: loop.fixed], rest[loop.fixed :]
        limit = rest[0] if by_count else None
        parts = rest[1:] if by_count else rest
        results = evaluate_batched_as(
            loop.body, [k, *state, *constant, *parts], inside, size, [*carried, *made]
        )
        if not masked:
            return results
        go = going(k, state, constant, limit)
        new = [_select(go, y, x) for y, x in zip(results[:c], state, strict=True)]
        ys = [y if s else _or_zero(go, y) for y, s in zip(results[c:], stacks, strict=True)]
        return [*new, rounds[0] + go, *ys]

    ins = loop.body.inputs
    counter = Var(Type((), np.dtype(np.int64)))
    limits = [Var(Type((), np.dtype(np.int64)))] if by_count else []
    variables = [
        *ins[: 1 + c], *([counter] if masked else ()), *ins[1 + c : n - loop.sequences], *limits,
        *ins[n - loop.sequences :],
    ]  # fmt: skip
    marks = [
        False, *carried, *([True] if masked else ()), *fixed, *[True for _ in limits], *entries
    ]  # fmt: skip
    program = _in_region(body, variables, marks, size)
    goes_on = None
    if loop.goes_on is not None:
        shown = variables[: len(variables) - loop.sequences]

        def asks(k: Any, *rest: Any) -> list[Any]:
            state, rest = rest[:c], rest[c + (1 if masked else 0) :]
            constant = rest[: loop.fixed]
            if not masked:
                assert loop.goes_on is not None
                flags = [False, *carried, *fixed]
                return evaluate_batched_as(
                    loop.goes_on, [k, *state, *constant], flags, size, [False]
                )
            return [np.any(going(k, state, constant, rest[loop.fixed] if by_count else None))]

        goes_on = _in_region(asks, shown, marks[: len(shown)], size)
    most = np.max(count) if by_count else count
    wider = replace(
        loop,
        body=program,
        goes_on=goes_on,
        carried=c + (1 if masked else 0),
        fixed=loop.fixed + len(limits),
        extends=None,
    )
    values = [
        *([most] if loop.counted else ()),
        *[
            spread(x, size) if want and not has else x
            for x, want, has in zip(starts, carried, loop.split(flags)[1], strict=True)
        ],
        *([np.zeros(size, np.int64)] if masked else ()),
        *others,
        *([count] if by_count else ()),
        *[_turned_in(x) if flag else x for x, flag in zip(sequences, entries, strict=True)],
    ]  # fmt: skip
    results = LOOP(*values, region=wider)
    last = results[:c]
    seqs = results[c + (1 if masked else 0) : -1]
    seqs = [_turned_out(x) if flag else x for x, flag in zip(seqs, made, strict=True)]
    rounds = results[rounds_at] if rounds_at is not None else results[-1]
    return [*last, *seqs, rounds], [*carried, *made, masked]


def _turned_in(x: Any) -> Any:
    """The axis of examples behind the one of rounds."""
    return x if is_stack(x) else np.moveaxis(x, 0, 1)


def _turned_out(x: Any) -> Any:
    return x if is_stack(x) else np.moveaxis(x, 1, 0)


def _select(go: Any, new: Any, old: Any) -> Any:
    mask = np.reshape(go, (*np.shape(go), *[1] * (np.ndim(new) - 1)))
    return np.where(mask, new, old)


def _or_zero(go: Any, y: Any) -> Any:
    return _select(go, y, type_of(y).dtype.type(0))  # a bare 0 would make integers of booleans


def _batch_branch(size: int, args: list[Any], flags: list[bool], region: Branches) -> Results:
    which, *operands = args
    marks = flags[1:]
    each = [differs(p, marks) for p in region.branches]
    outs = [flags[0] or any(column) for column in zip(*each, strict=True)]

    def batched(p: Program) -> Program:
        return _in_region(
            lambda *xs: evaluate_batched_as(p, xs, marks, size, outs), p.inputs, marks, size
        )

    if not flags[0]:
        branches = tuple(batched(p) for p in region.branches)
        return BRANCH(which, *operands, region=Branches(branches)), outs
    total: list[Any] | None = None
    is_staged = isinstance(which, Staged)
    for k, single in enumerate(region.branches):
        mine, light = np.equal(which, k), is_light(single)
        if is_staged and light:
            found = evaluate_batched_as(single, operands, marks, size, outs)
        else:
            program, given = batched(single), operands
            # What an example that takes another branch has could keep this one from ending, or fail in it; and
            # where it makes an infinity, an adjoint of 0 would make a NaN of it.
            if not light:
                given = [
                    _stood_in(mine, x) if flag and not is_stack(x) else x
                    for x, flag in zip(operands, marks, strict=True)
                ]
            found = BRANCH(np.any(mine), *given, region=Branches((_nothing(program), program)))
        if total is None:
            total = found
            continue
        makes = _makes_entries(single)
        total = [
            (y if own else old) if is_stack(y) else _select(mine, y, old)
            for y, old, own in zip(found, total, makes, strict=True)
        ]
    assert total is not None
    return total, outs


def _makes_entries(program: Program) -> list[bool]:
    """Which outputs of a branch, if they are stacks, are not the empty ones in the place of another's."""
    empty = {e.outputs[0] for e in program.equations if e.primitive is NO_ENTRIES}
    return [a not in empty for a in program.outputs]


def _stood_in(mine: Any, x: Any) -> Any:
    """What an example that takes this branch has, for all that do not."""
    return _select(mine, x, FUNCTIONS["take"](x, np.argmax(mine), axis=0))


def _nothing(program: Program) -> Program:
    """A branch of the same type that nobody looks at."""
    from .derive import _blank

    equations: list[Any] = []
    constants: list[Any] = []
    types = [Type(t.shape, t.dtype) for t in map(type_of, program.outputs)]
    outputs = tuple(_blank(t, equations, constants) for t in types)
    inputs = tuple(Var(v.type) for v in program.inputs)
    return Program(inputs, tuple(constants), tuple(equations), outputs)


def _rule_of_each(own: Any, flags: Sequence[bool], size: int) -> Any:
    """A derivative of its own, example by example; what all examples share adds up what each gives."""

    def rule(args: Sequence[Any], places: Sequence[int]) -> Any:
        n = len(args)
        shared = [not flags[k] for k in places]

        def solve(way: int, given: Sequence[Any], of_batch: Sequence[bool]) -> list[Any]:
            present = [k for k, g in enumerate(given) if g is not None]
            some: list[bool] = []

            def one(*xs: Any) -> list[Any]:
                full: list[Any] = [None] * len(given)
                for k, x in zip(present, xs[n:], strict=True):
                    full[k] = x
                found = own(list(xs[:n]), places)[way](full)
                some[:] = [y is not None for y in found]
                return [y for y in found if y is not None]

            values = [*args, *[given[k] for k in present]]
            batched = [*flags, *[of_batch[k] for k in present]]
            types = [
                Type(np.shape(x)[1:] if b else np.shape(x), type_of(getattr(x, "_v", x)).dtype)
                for x, b in zip(values, batched, strict=True)
            ]
            program, _ = stage(one, types, lasting=True)
            found = iter(evaluate_batched_as(program, values, batched, size, [True] * sum(some)))
            return [next(found) if there else None for there in some]

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(solve(0, ts, [not each for each in shared]))

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            found = solve(1, cts, [True] * len(cts))
            return tuple(
                np.sum(g, axis=0) if each and g is not None else g
                for g, each in zip(found, shared, strict=True)
            )

        return push, pull

    return rule


def _batch_call(size: int, args: list[Any], flags: list[bool], callee: Callee) -> Results:
    key = ("batch", size, tuple(flags))
    found = callee.derivatives.get(key)
    if found is None:
        program = callee.program
        assert program is not None
        types = [batched_type(t, size) for t in callee.types]
        outs = [True] * len(types)
        own = None if callee.own is None else _rule_of_each(callee.own, flags, size)
        found = Callee(
            callee.name,
            types,
            None,
            callee.is_recursive,
            own,
            recompute=callee.recompute,
            memory=callee.memory,
            report=callee.report,
            where=callee.where,
        )
        callee.derivatives[key] = found
        found.program = _in_region(
            lambda *xs: evaluate_batched_as(program, xs, flags, size, outs),
            program.inputs,
            flags,
            size,
        )
    return CALL(*args, region=found), [True] * len(callee.types)


def _batch_empty(size: int, args: list[Any], flags: list[bool], region: Empty) -> Results:
    return NO_ENTRIES(region=region), [False]


def _batch_box(size: int, args: list[Any], flags: list[bool], region: Box) -> Results:
    contents = [x if flag else spread_any(x, size) for x, flag in zip(args, flags, strict=True)]
    return BOX(*contents, region=Box(batched_layout(region.layout, size))), [True]


def _batch_unbox(size: int, args: list[Any], flags: list[bool], region: Unbox) -> Results:
    wider = batched_layout(region.layout, size)
    return UNBOX(*args, region=Unbox(wider)), [True] * len(wider.types)


_BATCH: dict[RegionPrimitive, Callable[..., Results]] = {
    LENGTH: lambda size, args, flags, region: (LENGTH(*args, region=region), [False]),
    LOOP: _batch_loop,
    BRANCH: _batch_branch,
    CALL: _batch_call,
    NO_ENTRIES: _batch_empty,
    BOX: _batch_box,
    UNBOX: _batch_unbox,
}
