"""The steps of a schedule as one function, `code = f(table, arena)`: the whole program, or a region of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from .failure import CODE, FINE
from .steps import POINTER, Pointers, Site

if TYPE_CHECKING:
    from .schedule import Schedule

FUNCTION = ir.FunctionType(CODE, [POINTER.as_pointer(), POINTER])


def places(schedule: Schedule) -> dict[str, int]:
    """By kind of buffer, its first place in the table that a function is called with.

    That of a region also holds the whole program's table, where the constants are.
    """
    n_inputs, n_outputs = len(schedule.program.inputs), len(schedule.program.outputs)
    first = {"input": 0, "output": n_inputs}
    if schedule.root is schedule:
        return {**first, "constant": n_inputs + n_outputs}
    constants = places(schedule.root)["constant"]
    root = n_inputs + n_outputs
    return {**first, "constant": constants, "root": root, "lifted": root + 1}


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
