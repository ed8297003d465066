"""Loops as LLVM has them: one block that ends in a branch to itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from .mathematics.kernels import interleaved
from .numbers.integer import while_
from .numbers.registers import Register, each, parts

INT = ir.IntType(64)


def loop_with(
    b: ir.IRBuilder,
    count: int | ir.Value,
    starts: list[Register],
    body: Any,
    side_by_side: int = 0,
    last: int = 0,
) -> list[Register]:
    """for i in range(count): state = body(i, state); the final state. `b` ends up behind the loop.

    A count that is not known before must be 1 at least. Of a known one, the `last` rounds stand behind the
    loop."""
    if last:
        assert isinstance(count, int)
        state = loop_with(b, count - last, starts, body, side_by_side)
        for k in range(count - last, count):
            state = body(b, INT(k), state)
        return state
    if count == 0:
        return starts
    if count == 1:
        return body(b, INT(0), starts)
    stop = INT(count) if isinstance(count, int) else count
    before = b.block
    head = b.append_basic_block("loop")
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(INT)
    i.add_incoming(INT(0), before)
    state = [each(lambda x: b.phi(x.type), start) for start in starts]
    arrive(state, starts, before)
    after = body(b, i, state)
    following = b.add(i, INT(1), flags=("nsw", "nuw"))
    end = b.block
    i.add_incoming(following, end)
    arrive(state, after, end)
    done = b.append_basic_block("done")
    branch = b.cbranch(b.icmp_unsigned("<", following, stop), head, done)
    if side_by_side:
        branch.set_metadata("llvm.loop", interleaved(b.module, side_by_side))
    b.position_at_end(done)
    return after


def arrive(phis: list[Register], values: list[Register], block: Any) -> None:
    for phi, value in zip(phis, values, strict=True):
        for x, v in zip(parts(phi), parts(value), strict=True):
            x.add_incoming(v, block)


def range_loop(
    b: ir.IRBuilder, start: ir.Value, stop: ir.Value, body: Any, state: Sequence[Any] = ()
) -> list[ir.Value]:
    """for i in range(start, stop), of lengths that are not known before: body(b, i, state) if there is one."""

    def step(b: ir.IRBuilder, i: ir.Value, *now: ir.Value) -> list[ir.Value]:
        new = body(b, i, list(now)) if state else body(b, i) or []
        return [b.add(i, INT(1), flags=("nsw", "nuw")), *new]

    return while_(b, [start, *state], lambda b, i, *_: b.icmp_signed("<", i, stop), step)[1:]


def loop_between(
    b: ir.IRBuilder,
    low: ir.Value,
    high: ir.Value,
    body: Callable[[ir.IRBuilder, ir.Value], None],
) -> None:
    """for i in range(low, high), both known only when it runs."""
    before = b.block
    head, done = b.append_basic_block("slices"), b.append_basic_block("swept")
    b.cbranch(b.icmp_signed("<", low, high), head, done)
    b.position_at_end(head)
    i = b.phi(INT)
    i.add_incoming(low, before)
    body(b, i)
    following = b.add(i, INT(1), flags=("nsw",))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, high), head, done)
    b.position_at_end(done)
