"""If, Loop and Scan: Python's own on numbers; inside bs.jit a branch or loop of the compiled program."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....control import cond, scan, while_loop
from ....errors import ControlFlowError, UnsupportedError
from ....numpy._register import shape_of
from ....tensor import Staged
from .table import known, looked_at, number, operator


@operator("If")
def if_(condition: Any, *, then_branch: Any, else_branch: Any) -> Any:
    condition = np.reshape(condition, ())
    if isinstance(condition, Staged):
        return list(cond(condition, lambda: tuple(then_branch()), lambda: tuple(else_branch())))
    return then_branch() if looked_at(condition, "a condition") else else_branch()


@operator("Loop")
def loop(trips: Any, condition: Any, *start: Any, body: Any) -> Any:
    carried, stacks = len(start), body.count - 1 - len(start)
    most = None if trips is None else np.reshape(trips, ())
    goes_on: Any = True if condition is None else np.reshape(condition, ())
    if isinstance(most, Staged) or isinstance(goes_on, Staged):
        return _compiled_loop(most, goes_on, start, body, stacks)
    state, rows, k = list(start), [], 0
    limit = None if most is None else int(number(most, "a count"))
    while (limit is None or k < limit) and looked_at(goes_on, "a condition"):
        goes_on, *results = body(np.array(k, np.int64), np.array(True), *state)
        goes_on = np.reshape(goes_on, ())
        state = results[:carried]
        rows.append(results[carried:])
        k += 1
        if isinstance(goes_on, Staged):
            return _compiled_loop(most, condition, start, body, stacks)
    if not rows and stacks:
        return [*state, *[np.zeros((0, *shape), dtype) for shape, dtype in body.types[-stacks:]]]
    return [*state, *[np.stack([row[s] for row in rows]) for s in range(stacks)]]


def _compiled_loop(most: Any, condition: Any, start: Any, body: Any, stacks: int) -> Any:
    if stacks:
        raise ControlFlowError(
            "a Loop that collects results, and ends by a condition on traced values, has results whose "
            "length is not known when it is compiled; run the model without bs.jit"
        )
    goes_on = np.array(True) if condition is None else condition

    def more(state: Any) -> Any:
        k, is_on, _ = state
        return is_on if most is None else np.logical_and(is_on, np.less(k, most))

    def step(state: Any) -> Any:
        k, is_on, values = state
        is_on, *values = body(k, is_on, *values)
        return k + 1, np.reshape(is_on, ()), tuple(values)

    return list(while_loop(more, step, (np.array(0, np.int64), goes_on, tuple(start)))[2])


@operator("Scan")
def scan_batches(
    lengths: Any, *given: Any, body: Any, num_scan_inputs: int, directions: Any = None
) -> Any:
    """Opset 8: each example for itself, the axis of the batch first."""
    batch = shape_of(given[0])[0]
    if lengths is not None and (known(lengths, "lengths") != shape_of(given[-1])[1]).any():
        raise UnsupportedError("a Scan over sequences of different lengths, of opset 8")
    rows = [
        scan_(
            *[g[k] for g in given],
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for k in range(batch)
    ]
    return [np.stack(column) for column in zip(*rows, strict=True)]


@operator("Scan", since=9)
def scan_(
    *given: Any, body: Any, num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    carried = len(given) - num_scan_inputs
    start, inputs = given[:carried], given[carried:]
    columns = []
    for k, x in enumerate(inputs):
        x = np.moveaxis(x, (scan_input_axes or [0] * len(inputs))[k], 0)
        columns.append(np.flip(x, 0) if scan_input_directions and scan_input_directions[k] else x)

    def step(state: Any, entries: Any) -> Any:
        results = body(*state, *entries)
        return tuple(results[:carried]), tuple(results[carried:])

    state, stacked = scan(step, tuple(start), tuple(columns))
    outputs = []
    for k, y in enumerate(stacked):
        y = np.flip(y, 0) if scan_output_directions and scan_output_directions[k] else y
        outputs.append(np.moveaxis(y, 0, (scan_output_axes or [0] * len(stacked))[k]))
    return [*state, *outputs]
