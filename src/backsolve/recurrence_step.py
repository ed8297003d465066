"""The step of a recurrence as Programs: itself, its block toward the state, and what is known of them before
there is a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .api import jacobian, linearize
from .errors import NotScalarError, UnsupportedError
from .ir import Equation, Program, Var, type_of
from .primitive import P, wrap
from .solve.eliminate import Graph, jacobian_entries
from .solve.many import NOT_HOLOMORPHIC
from .solve.sparse import laid_out
from .tensor import Staged, Tensor
from .trace import evaluate, stage


@dataclass(frozen=True)
class Step:
    """h, *entries, *free ↦ the next state, all vectors of h's size and dtype."""

    program: Program
    blocks: Program  # ∂step/∂h: a matrix, or its diagonal if it has nothing else
    both: Program  # that, and the next state
    free: tuple[Any, ...]  # what the step closes over and varies

    @property
    def is_diagonal(self) -> bool:
        return len(type_of(self.blocks.outputs[0]).shape) == 1

    @property
    def is_linear(self) -> bool:
        """Whether a step is linear in h up to a constant."""
        return _is_linear(_pruned(self.program, self.program.outputs))


def opened(program: Program) -> Step:
    """The step and its blocks, with what varies as inputs; complex blocks must be surely holomorphic."""
    free = [(v, c) for v, c in program.constants if varies(c)]
    known = tuple((v, c) for v, c in program.constants if not varies(c))
    inputs = (*program.inputs, *[v for v, _ in free])
    step = Program(inputs, known, program.equations, program.outputs)
    made, _ = stage(lambda *v: _linearised(step, *v), [v.type for v in inputs], lasting=True)
    both, blocks = _pruned(made, made.outputs), _pruned(made, made.outputs[:1])
    return Step(step, blocks, both, tuple(c for _, c in free))


def _linearised(step: Program, h: Any, *rest: Any) -> list[Any]:
    """The block of one step toward h, its diagonal if it has nothing else; and the next state."""
    (n,), dtype = h.shape, h.dtype
    f = lambda v: evaluate(step, [v, *rest])[0]
    try:
        system = linearize(f)(h)
        entries = jacobian_entries(system, graph=Graph(system, "entries"), surely=True)[0][0]
        layout, values = laid_out(entries)
    except UnsupportedError:  # loops and compiled calls have no entries
        if dtype.kind == "c":
            raise NotScalarError(NOT_HOLOMORPHIC) from None
        return [bare(jacobian(f)(h)), f(h)]
    after = system._raw_outputs[0]
    after = wrap(after, None) if type(after) is Var else after
    rows = np.repeat(np.arange(n), np.diff(layout.indptr))
    if np.array_equal(rows, layout.indices):
        found = layout.filled(values)
        if layout.nnz != n:
            found = P.scatter_add(found, rows, shape=(n,))
        return [found, after]
    return [np.reshape(entries.dense(), (n, n)), after]


def _pruned(program: Program, outputs: Sequence[Any]) -> Program:
    """What is needed for some of the outputs."""
    needed = {a for a in outputs if type(a) is Var}
    kept: list[Equation] = []
    for e in reversed(program.equations):
        if e.primitive.has_effect or any(v in needed for v in e.outputs):
            kept.append(e)
            needed.update(a for a in e.inputs if type(a) is Var)
    constants = tuple((v, c) for v, c in program.constants if v in needed)
    return Program(program.inputs, constants, tuple(kept[::-1]), tuple(outputs))


def _is_linear(step: Program) -> bool:
    """Whether a step is linear in h up to a constant: whatever h enters has blocks that h does not.

    Nothing may be compared, rounded or chosen by h: such a step has constant blocks, too, but jumps.
    """
    touched = {step.inputs[0]}
    for e in step.equations:
        places = [k for k, a in enumerate(e.inputs) if type(a) is Var and a in touched]
        if not places:
            continue
        row, values = e.primitive, {0, *[k + 1 for k in places]}
        if not row.is_plain or row.holds_regions or row.name in _PERIODIC:
            return False
        if any(not row.has_block(k) or values & {*row.asks(k, len(e.inputs))} for k in places):
            return False
        if any(v.type.dtype.kind not in "fc" for v in e.outputs):
            return False
        touched.update(e.outputs)
    return True


_PERIODIC = ("remainder", "fmod")


def varies(c: Any) -> bool:
    return isinstance(c, Tensor) and (c.row is not None or isinstance(c, Staged))


def bare(x: Any) -> Any:
    if isinstance(x, Staged):
        return wrap(x._v, None)
    return x._v if isinstance(x, Tensor) else x
