"""Program → Program passes, in the order in which they run."""

from __future__ import annotations

from ..ir import Program
from .clean import drop_unused, merge_repeated
from .simplify import simplify

PASSES = (simplify, merge_repeated, drop_unused)


def rewrite(program: Program) -> Program:
    for apply in PASSES:
        program = apply(program)
    return program
