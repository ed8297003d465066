"""Program → Program passes, in the order in which they run."""

from __future__ import annotations

import os

from ..collecting import without_collections
from ..ir import Program
from .assembled import assemble
from .cholesky import join_cholesky_adjoints
from .clean import drop_unused, merge_repeated
from .components import split_rows
from .constants import fold, share_constants
from .deviations import without_deviations
from .division import share_division
from .entries import read_entries
from .expand import expand
from .factors import take_factors_out
from .flat import compute_flat
from .frechet import join_frechets
from .invariants import do_once
from .order import read_first
from .outer import multiply_out
from .pools import read_from_wholes
from .regions import inside, merge_extended, prune_regions, with_own_callees
from .rounds import take_rounds_apart
from .simplify import simplify
from .totals import chain_sums
from .turned import compute_turned
from .windows import split_windows

# A pass may open the way for an earlier one: the list runs again until nothing changes.
PASSES = (
    share_constants,
    fold,
    simplify,
    merge_repeated,
    merge_extended,
    prune_regions,
    drop_unused,
)
MOST_ROUNDS = 8
VERIFY = bool(os.environ.get("BACKSOLVE_VERIFY"))  # check the Program after every pass


@without_collections()
def rewrite(program: Program) -> Program:
    if program.is_settled:
        return program
    before = _run_passes(program)
    program = inside(before, rewrite)  # outer passes decide what regions must make
    if program is not before:
        program = _run_passes(program)
    object.__setattr__(program, "is_settled", True)
    return program


def _holds_regions(program: Program) -> bool:
    return any(e.primitive.holds_regions for e in program.equations)


def _run_passes(program: Program) -> Program:
    in_vain = 0  # passes one after another that have changed nothing
    for _ in range(MOST_ROUNDS):
        before = program
        for apply in PASSES:
            changed = apply(program)
            in_vain += 1
            if not _is_same(changed, program):
                if VERIFY:
                    changed.verify()
                program, in_vain = changed, 0
            if in_vain == len(PASSES):
                return program
        if _is_same(program, before):  # what one pass makes another may undo
            return before
    return program


def _is_same(a: Program, b: Program) -> bool:
    variables = [v for v, _ in a.constants] == [v for v, _ in b.constants]
    return variables and a.equations == b.equations and a.outputs == b.outputs


@without_collections()
def rewrite_for_machines(program: Program) -> Program:
    """In the words of a backend that has only simple primitives, and cheap ones where that saves."""
    program = with_own_callees(rewrite(program))
    program = rewrite(_for_machines(rewrite(take_rounds_apart(program))))
    pooled = read_from_wholes(compute_flat(compute_turned(program)))
    program = program if pooled is program else rewrite(pooled)
    moved = do_once(program)
    if moved is not program:
        program = rewrite(moved)
    # last: merging equal equations would undo it
    program = read_entries(program)
    if _holds_regions(program):
        program = read_first(chain_sums(program))
    if VERIFY:
        program.verify()
    split = split_windows(split_rows(program))
    return program if split is program else rewrite(split)


def _for_machines(program: Program) -> Program:
    program = share_division(expand(join_frechets(join_cholesky_adjoints(program))))
    return inside(multiply_out(program), _for_machines)


@without_collections()
def rewrite_for_xla(program: Program) -> Program:
    """In primitives that XLA has words for; fusion and the order of its loops are left to it."""
    program = with_own_callees(rewrite(program))
    for apply in (_expanded, without_deviations, take_factors_out, assemble):
        changed = apply(program)
        program = program if changed is program else rewrite(changed)
    return program


# Products of 16-bit numbers that a device has units for, windows, which stand around them; what rounds nothing.
_IN_HALVES = frozenset({"attention", "attention_adjoint", "contract", "fold", "windows"})
_IN_HALVES |= {"max", "min", "first_max", "negative", "isnan", "equal", "not_equal"}
_IN_HALVES |= {"less", "less_equal", "greater", "greater_equal"}


def _expanded(program: Program) -> Program:
    return inside(share_division(expand(program, _IN_HALVES), rounding=False), _expanded)
