"""Steps over stacks of matrices: what LAPACK's routines, factors and equations are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation
from . import threads
from .blas import LINES, SHARE, pointer, share_lines
from .contraction import has_unit_stride, same_dtype
from .failure import CODE, FINE, call_step, placed
from .steps import Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

INT, CINT = ir.IntType(64), ir.IntType(32)


@dataclass(eq=False)
class Stacked(Step):
    """One routine for every matrix of a stack: `body(b, pointers)` is emitted in a loop.

    The views have the shape (count, rows, columns).
    """

    name: str
    views: list[View]
    steps: int  # multiplications and additions for one matrix
    body: Callable[..., None]

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(v.buffer for v in self.views))

    @property
    def flops(self) -> int:
        return self.views[0].shape[0] * self.steps

    def emit(self, site: Site) -> None:
        bases = [site.address(v) for v in self.views]
        signature = ir.FunctionType(CODE, [x.type for x in bases])
        function = ir.Function(site.module, signature, site.name)
        function.linkage = "internal"
        b = ir.IRBuilder(function.append_basic_block("entry"))
        with counting(b, self.views[0].shape[0]) as k:
            steps = [INT(v.strides[0]) for v in self.views]
            pairs = zip(function.args, steps, strict=True)
            self.body(b, [b.gep(x, [b.mul(k, step)]) for x, step in pairs])
        b.ret(FINE)
        call_step(site.b, function, bases)

    def describe(self) -> str:
        return f"{self.name} {' × '.join(str(v.shape) for v in self.views)}"


@dataclass(eq=False)
class Lines(Step):
    """T with every column (or row) of a matrix, for a stack of both: what threads can share.

    `body(b, pointers, length)` treats `length` lines, which begin where the second pointer points.
    """

    name: str
    T: View
    x: View
    columns: bool
    body: Callable[[ir.IRBuilder, list[ir.Value], Any], None]

    def buffers(self) -> list[Buffer]:
        return [self.T.buffer, self.x.buffer]

    @property
    def flops(self) -> int:
        return prod(self.x.shape) * self.T.shape[-1]

    def emit(self, site: Site) -> None:
        count, rows, columns = self.x.shape
        lines, stride = (columns, 1) if self.columns else (rows, columns)
        starts = [site.address(self.T), site.address(self.x)]
        most = min(self.flops // (2 * SHARE), -(-count * lines // LINES))
        pointer("dtrsm")  # loads BLAS
        if most >= 2 and threads.limits_blas():
            strides = [(self.T.strides[0], 0), (self.x.strides[0], stride)]
            share_lines(site, starts, strides, (count, lines), most, self.body)
            return
        whole = Stacked(self.name, [self.T, self.x], 0, lambda b, p: self.body(b, p, lines))
        whole.emit(site)

    def describe(self) -> str:
        return f"{self.name} {self.T.shape} × {self.x.shape}"


@contextmanager
def counting(
    b: ir.IRBuilder, count: int | ir.Value, start: ir.Value | None = None
) -> Iterator[ir.Value]:
    """for k in range(start, count): …"""
    before = b.block
    head, inside, after = (b.append_basic_block() for _ in range(3))
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(INT)
    k.add_incoming(INT(0) if start is None else start, before)
    end = INT(count) if isinstance(count, int) else count
    b.cbranch(b.icmp_signed("<", k, end), inside, after)
    b.position_at_end(inside)
    yield k
    k.add_incoming(b.add(k, INT(1)), b.block)
    b.branch(head)
    b.position_at_end(after)


def append(schedule: Schedule, step: Step, *written: View) -> None:
    schedule.steps.append(step)
    for view in written:
        schedule.ready[view.buffer] = len(schedule.steps) - 1


def refuse(schedule: Schedule, message: str, e: Equation) -> int:
    """The code of a matrix that has no factor or inverse."""
    said = f"{message}, in the argument `a` of {e.primitive.name}"
    return schedule.fail(np.linalg.LinAlgError, placed(said, e.where))


def lowering(lower: Callable[[Schedule, Equation], View]) -> Callable[[Schedule, Equation], None]:
    def run(schedule: Schedule, e: Equation) -> None:
        schedule.views[e.outputs[0]] = lower(schedule, e)

    return run


def as_stack(view: View) -> View:
    stack = view.reshape((prod(view.shape[:-2]), *view.shape[-2:]))
    assert stack is not None
    return stack


def stack_of(schedule: Schedule, view: View, dtype: np.dtype[Any]) -> View:
    """A matrix that is only read, copied only if LAPACK could not read it where it is."""
    view = same_dtype(schedule, view, dtype)
    stack = view.reshape((prod(view.shape[:-2]), *view.shape[-2:]))
    if stack is None or not has_unit_stride(stack):
        stack = as_stack(schedule.contiguous(view))
    return stack


def copied(schedule: Schedule, source: View, dtype: np.dtype[Any]) -> tuple[View, View]:
    """A copy to work on in place, and the same as a stack (count, rows, columns)."""
    view = schedule.new_buffer(source.shape, dtype)
    schedule.copy(source, view)
    return view, as_stack(view)


def swapped(view: View) -> View:
    rank = len(view.shape)
    return view.permute((*range(rank - 2), rank - 1, rank - 2))


def slot(b: ir.IRBuilder) -> ir.Value:
    with b.goto_entry_block():
        return b.alloca(CINT)
