"""What a schedule is made of: steps over buffers, each of which can say and emit itself.

A kind of step is one class in one file; compile.py knows only this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llvmlite import ir

from ...ir import Var
from . import machine_stack
from .failure import CODE, FINE, call_step
from .functions import keep_apart
from .numbers.registers import clear, memory_type
from .views import Buffer, View

INT = ir.IntType(64)
POINTER = ir.IntType(8).as_pointer()
FLOPS, BYTES = 4e9, 1e10  # per second, of a slow core
FUNCTION_FLOPS = 20


class Pointers:
    """Where buffers lie, inside one function: what the caller gave in a table, the rest in the arena."""

    def __init__(self, b: ir.IRBuilder, table: ir.Value, arena: ir.Value, first: dict[str, int]):
        self.b, self.table, self.arena = b, table, arena
        self.first = first  # by kind of buffer: its first place in the table
        self._known: dict[Buffer, ir.Value] = {}

    @cached_property
    def root(self) -> ir.Value:
        """The table of the whole program, which a region finds in its own."""
        if "root" not in self.first:
            return self.table
        with self.b.goto_entry_block():
            found = self.b.load(self.b.gep(self.table, [INT(self.first["root"])]))
            return self.b.bitcast(found, POINTER.as_pointer())

    @cached_property
    def limit(self) -> ir.Value:
        """The address down to which recursive functions may use the machine's stack."""
        with self.b.goto_entry_block():
            if "limit" not in self.first:
                return machine_stack.limit(self.b)
            found = self.b.load(self.b.gep(self.table, [INT(self.first["limit"])]))
            return self.b.ptrtoint(found, INT)

    @cached_property
    def stacks(self) -> ir.Value:
        """The table of stacks (stacks.py)."""
        root = self.root
        with self.b.goto_entry_block():
            found = self.b.load(self.b.gep(root, [INT(self.first["stacks"])]))
            return self.b.bitcast(found, INT.as_pointer())

    def base(self, buffer: Buffer) -> ir.Value:
        """The typed pointer to a buffer, made where the function begins."""
        if buffer not in self._known:
            with self.b.goto_entry_block():
                if buffer.kind == "arena":
                    raw = self.b.gep(self.arena, [INT(buffer.offset)])
                else:
                    table = self.root if buffer.kind == "constant" else self.table
                    place = INT(self.first[buffer.kind] + buffer.index)
                    raw = self.b.load(self.b.gep(table, [place]))
                self._known[buffer] = self.b.bitcast(raw, memory_type(buffer.dtype).as_pointer())
        return self._known[buffer]


@dataclass(frozen=True)
class Site:
    """Where a step is emitted: the body of `run`, or of a sweep."""

    b: ir.IRBuilder
    name: str  # a name for the step's own function, unique in the module
    numbers: dict[Var, Any]
    base: Callable[[Buffer], ir.Value]  # the typed pointer to a buffer
    pointers: Pointers

    @property
    def module(self) -> ir.Module:
        return self.b.module

    def address(self, view: View, offset: int = 0) -> ir.Value:
        start, at = self.base(view.buffer), view.offset + offset
        return self.b.gep(start, [INT(at)]) if at else start

    def in_function(
        self,
        buffers: Sequence[Buffer],
        body: Callable[[ir.IRBuilder, dict[Buffer, Any]], None],
        as_it_is: bool = False,
    ) -> None:
        """Emit `body` as a function of its own, where the pointers to buffers do not alias."""
        buffers = list(dict.fromkeys(buffers))
        pointers = [memory_type(x.dtype).as_pointer() for x in buffers]
        function = ir.Function(self.module, ir.FunctionType(CODE, pointers), self.name)
        function.linkage = "internal"
        keep_apart(function, as_it_is)
        for argument in function.args:
            argument.add_attribute("noalias")
            argument.add_attribute("nonnull")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        body(b, dict(zip(buffers, function.args, strict=True)))
        b.ret(FINE)
        call_step(self.b, function, [self.base(x) for x in buffers])


class Step(ABC):
    @property
    def is_shared(self) -> bool:
        """Whether threads share its rounds."""
        return False

    @property
    def flops(self) -> int:
        """About how many; a transcendental function counts as FUNCTION_FLOPS."""
        return 0

    @abstractmethod
    def buffers(self) -> list[Buffer]:
        """All that it reads or writes."""

    @abstractmethod
    def emit(self, site: Site) -> None: ...

    @abstractmethod
    def describe(self) -> str: ...

    def inner_steps(self) -> Sequence[Step]:
        """The steps that it consists of, if any."""
        return ()

    @property
    def seconds(self) -> float:
        """About how long it runs: enough to tell microseconds from milliseconds."""
        return self.flops / FLOPS + sum(x.nbytes for x in self.buffers()) / BYTES


@dataclass(eq=False)
class Zero(Step):
    buffer: Buffer

    def buffers(self) -> list[Buffer]:
        return [self.buffer.lives_in or self.buffer]

    def emit(self, site: Site) -> None:
        clear(site.b, site.base(*self.buffers()), self.buffer.nbytes)

    def describe(self) -> str:
        return f"zero {self.buffer.size}"
