"""A function and its pullback in two parts, for JAX: the first keeps what the second needs (parted.py).

JAX differentiates what it is given. What is kept has no tangents, or structural zeros would become numbers that
meet infinities: each part is differentiated as the whole, from the arguments on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...ir import Program, Type
from ...trace import evaluate
from ..parted import recorded
from .operator import Flat, Operator, without_conjugation
from .types import carried, narrowed


class Parts(NamedTuple):
    first: Operator  # arguments ↦ results, and what is kept
    push: Operator  # (arguments, kept, differentials) ↦ differentials; transposed, it reads what is kept


def parted(op: Operator, places: tuple[int, ...]) -> Parts | None:
    """Both parts of `op` and its pullback to the arguments at `places`; None if they do not pay."""
    joint = recorded(op._again, op.types, places)
    program, pullback = (None, None) if joint is None else joint.parted()
    if program is None or pullback is None:
        return None
    count, given = len(op.types), pullback.given
    kept = [v.type for v in pullback.program.inputs[count : -len(given)]]
    if not all([_can_be_kept(t, op.wide) for t in kept]):
        return None
    places_of_kept = range(count, count + len(kept))
    how = op.backend, op.rounds, op.wide

    made = [*op.made, *[carried(t, op.wide) for t in kept]]
    first = Operator(_run(program), op.types, *how, made=made, whole=op)

    from_arguments = op.pull(places, given)
    pull = Operator(
        without_conjugation(_run(pullback.program), places_of_kept.stop),
        [*op.types, *kept, *from_arguments.types[count:]],
        *how,
        linear=len(given),
        made=from_arguments.made,
        whole=from_arguments,
        kept=places_of_kept,
    )

    forward = op.push(places)

    def run_forward(*values: Any) -> Any:
        return forward._again(*values[:count], *values[places_of_kept.stop :])

    def transpose(undefined: Sequence[int], outs: Sequence[int]) -> Any:
        seeds = tuple([op.smooth[j] for j in outs])
        if len(undefined) == len(places) and seeds == given:  # a seed that is missing is no zero
            return pull, range(places_of_kept.stop)
        return forward.transposed([k - len(kept) for k in undefined], outs)

    push = Operator(
        run_forward,
        [*op.types, *kept, *forward.types[count:]],
        *how,
        linear=len(places),
        transpose=transpose,
        made=forward.made,
        whole=forward,
        kept=places_of_kept,
    )
    return Parts(first, push)


def _run(program: Program) -> Flat:
    return lambda *values: evaluate(program, values)


def _can_be_kept(t: Type, wide: bool) -> bool:
    """Whether JAX can hand it on without loss. A number of Python's would become an array in batches."""
    return not t.weak and (t.dtype.kind != "c" or narrowed(t, wide) == t)
