"""Rounds that do not need each other: out of the loop, and done at once.

For a loop with a known number of rounds:

- `x[k]` of a fixed array is an entry of a sequence;
- `y[…] = v` and `y[…] += v` into a carried array that the rounds do not otherwise look at, and sums of
  products, are done behind the loop, for all rounds at once, with what is written made as a sequence; so are
  products of numbers, and the largest and the smallest of them;
- products that rest on no carried value run ahead of it, products that only go out run behind it;
- rounds with loops in them that hand on nothing but sums leave these, too: then threads can share them;
- if nothing is carried any more there is no loop: its body runs on whole sequences, as `vmap` would run it,
  branches and all (choices.py).

So a nest of Python loops over entries becomes operations on arrays, and a recurrence keeps in its loop only
what is one.
"""

from __future__ import annotations

from typing import Any

from ..ir import Program, Var
from ..regions import Loop
from ..trace import evaluate, stage, standing_for
from .choices import without_branches
from .rebuilt import Rebuilt
from .regions import inside


def take_rounds_apart(program: Program) -> Program:
    """The pass: innermost loops first."""
    program = inside(program, _clean)
    if not any(isinstance(e.params.get("region"), Loop) for e in program.equations):
        return program

    def run(*args: Any) -> list[Any]:
        values: dict[Var, Any] = dict(zip(program.inputs, args, strict=True))
        values.update(program.constants)
        for e in program.equations:
            inputs = [values[a] if type(a) is Var else a for a in e.inputs]
            region = e.params.get("region")
            simple = apart(region, True) if isinstance(region, Loop) else None
            with standing_for(e.where):
                if simple is not None:
                    found = evaluate(simple, inputs)
                else:
                    found = e.primitive(*inputs, **e.params)
                    found = found if e.primitive.holds_regions else [found]
            values.update(zip(e.outputs, found, strict=True))
        return [values[a] if type(a) is Var else a for a in program.outputs]

    if not any(
        isinstance(e.params.get("region"), Loop) and apart(e.params["region"], True) is not None
        for e in program.equations
    ):
        return program
    names = [v.name for v in program.inputs]
    return stage(run, [v.type for v in program.inputs], names)[0]


def _clean(program: Program) -> Program:
    from . import rewrite

    apart = take_rounds_apart(program)
    return program if apart is program else rewrite(apart)


_known: dict[tuple[int, bool], tuple[Loop, Program | None]] = {}


def apart(loop: Loop, is_derived: bool = False) -> Program | None:
    """A Program with the inputs and outputs of the loop, with less in the loop, or None.

    `is_derived`: no derivative will be taken any more. Of equal entries the largest in a loop is the first, and
    gets all of the derivative; in a reduction they share it.
    """
    key = id(loop), is_derived
    found = _known.get(key)
    if found is None or found[0] is not loop:
        if len(_known) > 1000:
            _known.clear()
        found = _known[key] = (loop, _apart(loop, is_derived))
    return found[1]


def _apart(loop: Loop, is_derived: bool) -> Program | None:
    if loop.count is None or loop.count < 1 or loop.counted or loop.goes_on is not None:
        return None
    plain = without_branches(loop) if is_derived else None
    for form in (loop,) if plain is None else (plain, loop):
        work = Rebuilt(form, is_derived)
        if work.repeats_a_stack():
            return None
        work.find_reads()
        work.find_writes()
        work.find_products()
        if work.is_parallel():
            work.find_sums()
            return work.without_loop()
        if form is plain and work.leaves_rounds_free():
            break
    return work.with_loop()
