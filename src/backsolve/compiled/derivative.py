"""Differentiating through compiled code: both directions are compiled when they are first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..api import jvp, vjp
from ..control.checkpoints import program_staged
from ..ir import Program, Type, Var
from ..joint import record_joint
from ..operators import Custom
from ..ownership import own
from ..primitive import coerce, wrap
from ..solve.budget import Budget, Report
from ..solve.within import run_within
from ..tensor import Tensor
from ..trace import evaluate
from .arguments import raw
from .specialise import Specialised, specialise


def run_differentiable(
    special: Specialised, leaves: Sequence[Any], budget: Budget | None = None
) -> list[Any]:
    """Run the native code forward, as one joint row whose block is compiled when it is first needed.

    In a budget of bytes, adjoints are computed within it."""
    if budget is not None and budget.memory is None:
        budget = None
    rows_of = [x.row if isinstance(x, Tensor) else None for x in leaves]
    values_now = [
        own(raw(x)) if r is None else raw(x) for x, r in zip(leaves, rows_of, strict=True)
    ]
    places = [k for k, r in enumerate(rows_of) if r is not None]
    results = special.run_on_copies(values_now)

    def restricted(*varying: Any) -> list[Any]:
        full = list(values_now)
        for k, v in zip(places, varying, strict=True):
            full[k] = v
        run = lambda *xs: evaluate(special.program, xs)
        return run(*full) if budget is None else run_within(run, budget, {}, tuple(full), {})

    def operator_of(values: Sequence[Any], record: bool) -> Custom:
        values = list(values)

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [
                np.zeros(np.shape(raw(v))) if t is None else t
                for v, t in zip(values, ts, strict=True)
            ]
            if record or any(isinstance(t, Tensor) for t in seeds):
                return _arrays(jvp(restricted, values, seeds)[1])
            return run(_compiled_push(special, tuple(places)), seeds)

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [
                np.zeros(t.shape, t.dtype) if c is None else c
                for c, t in zip(cts, special.outputs, strict=True)
            ]
            if record or any(isinstance(c, Tensor) for c in seeds):
                return _arrays(vjp(restricted, *values)[1](seeds))
            if budget is None:
                return run(_compiled_pull(special, tuple(places), None), seeds)
            back = _compiled_pull(special, tuple(places), budget.memory)
            with budget.lending(back.report):
                return run(back, seeds)

        def run(derivative: Specialised, seeds: list[Any]) -> tuple[Any, ...]:
            full = list(values_now)
            for k, v in zip(places, values, strict=True):
                full[k] = v
            return _arrays(derivative.run_here([*full, *seeds]))

        return Custom(push, pull, name="compiled")

    def inside() -> tuple[Program, list[Any]]:
        return special.program, [None if k in places else v for k, v in enumerate(values_now)]

    rows = [leaves[k].row for k in places]
    varying = [values_now[k] for k in places]
    tensors = record_joint("compiled", operator_of, varying, rows, results, inside)
    key = tuple(places)
    if key not in special.varying:
        special.varying[key] = _varying(special.recorded, key)
    return [
        t if varies else wrap(t._v, None)
        for t, varies in zip(tensors, special.varying[key], strict=True)
    ]


def _arrays(found: Sequence[Any]) -> tuple[Any, ...]:
    """Differentials with a shape and a dtype, also those of Python's numbers."""
    return tuple([t if isinstance(t, Tensor) else coerce(t) for t in found])


def _varying(program: Program, places: tuple[int, ...]) -> list[bool]:
    """Which outputs vary smoothly with the inputs at `places`: those that would have rows if run eagerly."""
    varying = {program.inputs[k] for k in places}
    for e in program.equations:
        row = e.primitive
        passes = row.holds_regions or not row.is_plain
        if any(a in varying and (passes or row.has_block(i)) for i, a in enumerate(e.inputs)):
            varying.update(e.outputs)
    return [type(a) is Var and a in varying for a in program.outputs]


def _compiled_push(special: Specialised, places: tuple[int, ...]) -> Specialised:
    """(inputs, differentials of the inputs at `places`) ↦ differentials of the outputs, compiled once."""
    inputs = [v.type for v in special.program.inputs]

    def push(f: Any, values: Sequence[Any], seeds: Sequence[Any]) -> Any:
        return jvp(f, values, seeds)[1]

    return _compiled(special, "push", push, places, [inputs[k] for k in places])


def _compiled_pull(
    special: Specialised, places: tuple[int, ...], memory: int | None
) -> Specialised:
    """(inputs, adjoints of the outputs) ↦ adjoints of the inputs at `places`, compiled once for a budget."""

    def pull(f: Any, values: Sequence[Any], seeds: Sequence[Any]) -> Any:
        return vjp(f, *values)[1](seeds)

    return _compiled(special, "pull", pull, places, special.outputs, memory)


def _compiled(
    special: Specialised,
    name: str,
    derivative: Any,
    places: tuple[int, ...],
    seeds: Sequence[Type],
    memory: int | None = None,
) -> Specialised:
    key = f"{name} {places}" if memory is None else f"{name} {places} in {memory}"
    if key not in special.derivatives:
        program, report = special.program, Report()
        inputs = [v.type for v in program.inputs]

        def together(values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
            return [values], {}

        def body(values: Sequence[Any]) -> list[Any]:
            xs, given = list(values[: len(inputs)]), list(values[len(inputs) :])

            def restricted(*varying: Any) -> list[Any]:
                for k, v in zip(places, varying, strict=True):
                    xs[k] = v
                if memory is None:
                    return evaluate(program, xs)
                return program_staged(program, xs, memory, report)

            return list(derivative(restricted, [xs[k] for k in places], given))

        types = [*inputs, *[Type(t.shape, t.dtype) for t in seeds]]
        made = specialise(
            body, together, types, special.target.for_derivatives(), freedoms=special.freedoms
        )
        assert made is not None
        made.report = report
        special.derivatives[key] = made
    return special.derivatives[key]
