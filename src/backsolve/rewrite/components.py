"""Short rows taken apart: the numbers of a row become separate arrays.

    y = concatenate(x[:, 1:3], x[:, 0:1])           y₀, y₁, y₂ = x₁, x₂, x₀
    s = Σ_k a[:, k] b[:, k]                          s = a₀ b₀ + a₁ b₁ + a₂ b₂

An array with a long leading axis and short ones behind it (points, colours, rotations, the blocks of a sparse
Jacobian) is cut along the short ones, joined, summed and multiplied in known places. As arrays, that is a copy
for each step; as components it is a choice of names, and all that is left is arithmetic on arrays of one shape,
which runs in one loop with every number in a register. Where a whole array is wanted after all, its components
are put side by side.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from ..ir import Equation, Program, Shape, Var
from .component_rows import Rows, is_row
from .component_rules import MOVES, rule_for
from .cost import is_cheap
from .regions import inside

LONG = 64  # rows worth it
MOST_ENTRIES = 32  # in a row
MOST_COMPONENTS = 2000  # made in all
MOST_FUNCTIONS = 48  # such as exp, each of many instructions


def split_rows(program: Program) -> Program:
    return inside(_split_rows(program), split_rows)


def _split_rows(program: Program) -> Program:
    leads = Counter(_lead(e.outputs[0].shape) for e in program.equations if _moves(e))
    for lead, _ in leads.most_common():
        if prod(lead) >= LONG:
            program = _split(program, lead)
    return program


def _moves(e: Equation) -> bool:
    return e.primitive.name in MOVES and e.outputs[0].shape != ()


def _lead(shape: Shape) -> Shape:
    """The fewest leading axes that leave a short row."""
    k = len(shape)
    while k > 1 and prod(shape[k - 1 :]) <= MOST_ENTRIES:
        k -= 1
    return shape[:k]


def _split(program: Program, lead: Shape) -> Program:
    group = _around_moves([e for e in program.equations if _is_splittable(e, lead)])
    if not _is_worth_it([e for e in program.equations if id(e) in group], lead):
        return program
    rows = Rows(program, lead)
    for e in program.equations:
        rows.where = e.where
        if id(e) not in group:
            rows.keep(e)
            continue
        rule = rule_for(e)
        assert rule is not None
        if not rows.split(e, rule.components):
            return program
    return rows.finished()


def _is_splittable(e: Equation, lead: Shape) -> bool:
    if e.primitive.holds_regions or not is_row(e.outputs[0].shape, lead, MOST_ENTRIES):
        return False
    rule = rule_for(e)
    return rule is not None and rule.fits(e, lead, MOST_ENTRIES) and not e.outputs[0].type.weak


def _is_worth_it(group: list[Equation], lead: Shape) -> bool:
    made = [e.outputs[0].type.size // prod(lead) for e in group]
    functions = sum(n for e, n in zip(group, made, strict=True) if not is_cheap(e))
    return 0 < sum(made) <= MOST_COMPONENTS and functions <= MOST_FUNCTIONS


def _around_moves(equations: list[Equation]) -> set[int]:
    """Those that are tied, through others, to a joint or an update whose result is used here."""
    makers = {e.outputs[0]: e for e in equations}
    ties: dict[int, list[Equation]] = {id(e): [] for e in equations}
    read: set[int] = set()
    for e in equations:
        for a in e.inputs:
            made = makers.get(a) if type(a) is Var else None
            if made is not None:
                ties[id(e)].append(made)
                ties[id(made)].append(e)
                read.add(id(made))
    kept: set[int] = set()
    left = [e for e in equations if _moves(e) and id(e) in read]
    while left:
        e = left.pop()
        if id(e) not in kept:
            kept.add(id(e))
            left += ties[id(e)]
    return kept
