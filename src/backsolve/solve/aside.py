"""A way recorded as it would be compiled, aside: to be priced by what becomes of it, and thrown away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..batch import evaluate_batched
from ..hooks import hooks
from ..ir import Program, Type, Var
from ..primitive import wrap
from ..tensor import Tensor
from ..trace import Recorder, stage, stage_region

_MOST = 1024  # examples of a batch: more of them have the same ratios


def recorded_aside(way: Callable[[], Sequence[Any]], recorder: Recorder) -> Program | None:
    """What `recorder` holds and then this way, as one Program, with nothing added to what is being recorded.

    Inside of `vmap` it is the Program for the whole batch: what is best for one example need not be for many.
    None where somebody else writes down what is recorded (bs.source), and would take this for a part of it.
    """
    if hooks.tracer.value is not None:
        return None
    region = stage_region(way, [], recorder)
    outer = {v: a for v, c in region.constants if (a := _staged(c)) is not None}

    def known(atoms: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([outer.get(a, a) if type(a) is Var else a for a in atoms])

    inside = [e.reading(known(e.inputs)) for e in region.equations]
    outputs = known(region.outputs)
    needed = {a for a in outputs if type(a) is Var}
    kept = []
    for e in reversed([*recorder.equations, *inside]):
        if not needed.isdisjoint(e.outputs):
            kept.append(e)
            needed.update(a for a in e.inputs if type(a) is Var)
    constants = [
        (v, wrap(c._v, None) if isinstance(c, Tensor) else c)
        for v, c in (*recorder.order, *region.constants)
        if v in needed and _staged(c) is None
    ]
    kept.reverse()
    made = {v for v, _ in constants}.union(*[e.outputs for e in kept])
    read = [a for atoms in (*[e.inputs for e in kept], outputs) for a in atoms]
    inputs = dict.fromkeys([a for a in read if type(a) is Var and a not in made])
    program = Program(tuple(inputs), tuple(constants), tuple(kept), outputs)
    if recorder.batch < 2:
        return program
    shared = {v for v, c in recorder.order if _staged(c) is not None}
    mapped = [v.recorder is recorder and v not in shared for v in inputs]
    return _for_all(program, mapped, min(recorder.batch, _MOST))


def _for_all(program: Program, mapped: Sequence[bool], size: int) -> Program:
    types = [
        Type((size, *v.type.shape), v.dtype) if is_mapped else v.type
        for v, is_mapped in zip(program.inputs, mapped, strict=True)
    ]
    return stage(lambda *xs: evaluate_batched(program, xs, mapped, size), types)[0]


def _staged(constant: Any) -> Var | None:
    """The value of what is recorded around, if this stands for one."""
    raw = constant._v if isinstance(constant, Tensor) else constant
    return raw if type(raw) is Var else None
