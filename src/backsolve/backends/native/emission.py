"""The steps of a schedule as one function, `code = f(table, arena)`: the whole program, or a region of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from .failure import CODE, FINE
from .stacks import emit_run
from .steps import POINTER, Pointers, Site

if TYPE_CHECKING:
    from .schedule import Schedule

FUNCTION = ir.FunctionType(CODE, [POINTER.as_pointer(), POINTER])


def places(schedule: Schedule) -> dict[str, int]:
    """By kind of buffer, its first place in the table that a function is called with.

    That of a region also holds the whole program's table, where the constants and the stacks are.
    """
    n_inputs, n_outputs = len(schedule.program.inputs), len(schedule.program.outputs)
    first = {"input": 0, "output": n_inputs}
    if schedule.root is schedule:
        constants = n_inputs + n_outputs
        return {**first, "constant": constants, "stacks": constants + len(schedule.constants)}
    whole = places(schedule.root)
    root = n_inputs + n_outputs
    shared = {kind: whole[kind] for kind in ("constant", "stacks")}
    return {**first, **shared, "root": root, "limit": root + 1, "lifted": root + 2}


def emit_program(module: ir.Module, schedule: Schedule) -> None:
    """`run`, of the whole program; with a table of stacks around it if there are any."""
    if not schedule.stacks.are_used:
        emit_function(module, "run", schedule)
        return
    work = emit_function(module, "work", schedule)
    work.linkage = "internal"
    emit_run(module, work, schedule.stacks, places(schedule)["stacks"])


def emit_function(module: ir.Module, name: str, schedule: Schedule) -> ir.Function:
    function = ir.Function(module, FUNCTION, name)
    table, arena = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    pointers = Pointers(b, table, arena, places(schedule))
    body = function.append_basic_block("body")
    entry = b.block
    b.position_at_end(body)
    prefix = "" if schedule.root is schedule else f"{name}_"
    for k, step in enumerate(schedule.steps):
        step.emit(Site(b, f"{prefix}step{k}", schedule.numbers, pointers.base, pointers))
    b.ret(FINE)
    b.position_at_end(entry)
    b.branch(body)
    return function
