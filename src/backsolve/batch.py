"""Batching: stage a function on one example, then run the Program on all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ir import Program, Var
from .primitives.batching import one_by_one, spread


def evaluate_batched(
    program: Program, args: Sequence[Any], batched: Sequence[bool], size: int
) -> list[Any]:
    """Run a Program whose batched inputs carry a leading axis of `size`; so do all results."""
    values: dict[Var, tuple[Any, bool]] = {
        var: (a, b) for var, a, b in zip(program.inputs, args, batched, strict=True)
    }
    values.update({var: (c, False) for var, c in program.constants})
    for e in program.equations:
        inputs = [values[a] if type(a) is Var else (a, False) for a in e.inputs]
        plain = [a for a, _ in inputs]
        flags = [b for _, b in inputs]
        if any(flags):
            rule = e.primitive.batch_rule or one_by_one
            values[e.outputs[0]] = (rule(e.primitive, size, plain, flags, e.params), True)
        else:
            values[e.outputs[0]] = (e.primitive(*plain, **e.params), False)
    outputs = [values[a] if type(a) is Var else (np.asarray(a), False) for a in program.outputs]
    return [y if b else spread(y, size) for y, b in outputs]
