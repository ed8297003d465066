"""Joint rows: a whole piece of program as one row of the system.

Its block is one operator from the tuple of its inputs' differentials to the tuple of its outputs'
(None standing for a structural zero). Each output is then a row of its own that takes one component.
`bs.Function`, `bs.checkpoint` and compiled calls are recorded like this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .errors import DroppedDerivativeError
from .hooks import hooks
from .ir import Program, Var, type_of
from .operators import Operator
from .ownership import is_shared, own
from .primitive import Primitive, wrap
from .row import Row

# operator_of(inputs, record): the inputs are raw values, or Tensors when the solve is recorded
OperatorOf = Callable[[Sequence[Any], bool], Operator]
# The Program that a joint row stands for, and what it is run on; None for each input that varies
Inside = tuple[Program, Sequence[Any]]


class _Joint(Primitive):
    is_joint, is_plain = True, False


class _Component(Primitive):
    is_component, is_plain = True, False


JOINT = _Joint("joint", lambda: None)
COMPONENT = _Component("component", lambda: None)


def operator_of(row: Row, saved: Sequence[Any], record: bool) -> Operator:
    """The block of a joint row; `saved` is row.saved, or `row_values(row)` to be recorded."""
    assert row.params is not None
    return row.params["operator_of"](saved[1:], record)


def component_of(row: Row) -> int:
    """Which of the outputs of its joint row this one takes."""
    assert row.params is not None
    return row.params["k"]


def inside_of(row: Row) -> Inside | None:
    """What a joint row can be looked into as, if at all."""
    assert row.params is not None
    inside = row.params["inside"]
    return None if inside is None else inside()


def held(args: Sequence[Any]) -> list[Any]:
    """Arguments as a joint row may keep them: what does not vary may be written into later, so as it is now."""
    return [_as_it_is_now(a) for a in args]


def _as_it_is_now(a: Any) -> Any:
    if not isinstance(a, hooks.Tensor):
        return own(a)
    if a.row is not None or type(a._v) is Var:
        return a
    return wrap(own(a._v) if is_shared(a._v) else a._v, None)


def are_older(rows: Sequence[Row | None], outputs: Sequence[Any]) -> bool:
    """Whether some of the rows are older than the Program that raw outputs are being recorded for."""
    begin = max([y.recorder.begin for y in outputs if type(y) is Var], default=0)
    return any(row is not None and row.index < begin for row in rows)


def _check_own(name: str, rows: Sequence[Row | None], outputs: Sequence[Any]) -> None:
    if are_older(rows, outputs):
        raise DroppedDerivativeError(
            f"`{name}` would lose a derivative here, by what varies outside of the function that is being "
            "staged (by jit, vmap, a loop or a branch). Pass it as an argument, and please report this"
        )


def record_joint(
    name: str,
    operator_of: OperatorOf,
    inputs: Sequence[Any],
    rows: Sequence[Row | None],
    outputs: Sequence[Any],
    inside: Callable[[], Inside] | None = None,
    is_equation: bool = False,
) -> list[Any]:
    """Tensors for raw `outputs` that depend on raw `inputs` (of `rows`) through one joint row.

    Of staged outputs the row lasts as long as what is recorded. What is older depends on them by the equations
    of the Program, which is derived when it runs: `is_equation` says that they stand for this row, too.
    """
    if not is_equation:
        _check_own(name, rows, outputs)
    saved = (None, *inputs)
    params = {"name": name, "operator_of": operator_of, "outputs": len(outputs), "inside": inside}
    base = Row(JOINT, tuple(rows), saved, params, (), np.dtype(float), None)
    given = [x if row is None else wrap(x, row) for x, row in zip(inputs, rows, strict=True)]
    if hooks.observe is not None:
        hooks.observe(JOINT, base, outputs[0] if len(outputs) == 1 else None, given)
    tensors = []
    for k, y in enumerate(outputs):
        t = type_of(y)
        row = Row(COMPONENT, (base,), (), {"k": k}, t.shape, t.dtype, None)
        if hooks.observe is not None:
            hooks.observe(COMPONENT, row, y, given)
        tensors.append(wrap(y, row if t.dtype.kind in "fc" else None))
    return tensors
