"""What loops, branches and calls mean: run on numbers, or recorded as one equation on staged values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import RecursionDepthError
from ..ir import Equation, Type, Var, type_of
from ..joint import held, record_joint
from ..operators import Custom
from ..primitive import coerce, wrap
from ..primitives.control import BOX, BRANCH, CALL, LENGTH, LOOP, NO_ENTRIES, UNBOX, RegionPrimitive
from ..regions import Box, Branches, Callee, Empty, Loop, Unbox
from ..solve import eager_budget
from ..tensor import Staged, Tensor
from ..trace import Recorder, evaluate, innermost_region, recorder_of, where
from . import within
from .reach import reach_region
from .within import weakened


class Entries(list[Any]):
    """A stack of known entries, or a box."""

    def __init__(self, entries: Sequence[Any], type: Type):
        super().__init__(entries)
        self.type = type


def bind(prim: RegionPrimitive, args: Sequence[Any], region: Any) -> list[Any]:
    if any(isinstance(a, Staged) for a in args):
        return record(prim, args, region, recorder_of(prim.name, args))
    to = innermost_region()
    if prim in (NO_ENTRIES, BOX) and to is not None:
        return record(prim, args, region, to)
    return _RUN[prim](region, args)


RegionPrimitive.bind = staticmethod(bind)


# ---- on numbers (and on Tensors with rows, which are recorded as they are met)


def run_loop(loop: Loop, args: Sequence[Any]) -> list[Any]:
    budget = eager_budget()
    if budget is not None and (found := within.recorded(budget, loop, args)) is not None:
        return found
    limit, carried, fixed, sequences = loop.split(args)
    limit = None if limit is None else int(limit)
    rounds: Any = itertools.count() if limit is None else range(limit)
    made: list[list[Any]] = [[] for _ in loop.body.outputs[loop.carried :]]
    done = 0
    for k in reversed(rounds) if loop.reverse else rounds:
        if loop.goes_on is not None and not bool(evaluate(loop.goes_on, [k, *carried, *fixed])[0]):
            break
        entries = [s[k] for s in sequences]
        results = evaluate(loop.body, weakened([k, *carried, *fixed, *entries], loop.body))
        carried = results[: loop.carried]
        for column, y in zip(made, results[loop.carried :], strict=True):
            column.append(y)
        done += 1
    types = loop.outputs()[loop.carried : -1]
    order = slice(None, None, -1) if loop.reverse else slice(None)
    stacks = [_joined(x[order], t) for x, t in zip(made, types, strict=True)]
    return [*carried, *stacks, done]


def _joined(entries: list[Any], t: Type) -> Any:
    if t.is_stack:
        return Entries(entries, t)
    missing = t.shape[0] - len(entries)
    zeros = [np.zeros(t.shape[1:], t.dtype)] * missing
    return np.stack([*entries, *zeros]) if t.shape[0] else np.zeros(t.shape, t.dtype)


def run_branch(region: Branches, args: Sequence[Any]) -> list[Any]:
    which, *operands = args
    taken = region.at(which)
    return evaluate(taken, weakened(operands, taken))


def run_call(callee: Callee, args: Sequence[Any]) -> list[Any]:
    assert callee.program is not None
    if callee.own is not None and any(isinstance(a, Tensor) and a.row is not None for a in args):
        plain = [a._v if isinstance(a, Tensor) else a for a in args]
        return _varying(CALL, callee, args, [coerce(y) for y in run_call(callee, plain)])
    try:
        return evaluate(callee.program, args)
    except RecursionDepthError:
        raise
    except RecursionError:
        raise RecursionDepthError(
            f"`{callee.name}` calls itself more often than Python's stack allows on the NumPy backend; compile "
            'it with backend="native", where it is 100,000 times and more'
        ) from None


def run_box(region: Box, args: Sequence[Any]) -> list[Any]:
    return [Entries(args, region.layout.type)]


def run_unbox(region: Unbox, args: Sequence[Any]) -> list[Any]:
    if args[0]:
        return [
            x.item() if t.weak and isinstance(x, np.generic | np.ndarray) else x
            for x, t in zip(args[0], region.layout.types, strict=True)
        ]
    return [
        Entries([], t) if t.is_stack else np.zeros(t.shape, t.dtype) for t in region.layout.types
    ]


_RUN: dict[RegionPrimitive, Callable[..., list[Any]]] = {
    LOOP: run_loop,
    BRANCH: run_branch,
    CALL: run_call,
    NO_ENTRIES: lambda region, args: [Entries([], region.type)],
    LENGTH: lambda region, args: [len(args[0])],
    BOX: run_box,
    UNBOX: run_unbox,
}


# ---- on staged values


def record(prim: RegionPrimitive, args: Sequence[Any], region: Any, to: Recorder) -> list[Any]:
    """An equation in the Program that `to` records; its derivative is found when it is needed."""
    to.at_once(prim, args, {"region": region})  # which needs a Program for that
    args = [_staged(a, to) for a in args]
    atoms = tuple(to.atom(a) for a in args)
    types = prim.infer([type_of(a) for a in atoms], {"region": region})
    variables = tuple(Var(t, to) for t in types)
    to.equations.append(Equation(variables, prim, atoms, {"region": region}, where(3)))
    return _varying(prim, region, args, variables)


def _varying(
    prim: RegionPrimitive, region: Any, args: Sequence[Any], outputs: Sequence[Any]
) -> list[Any]:
    """Tensors for the results; those that vary depend on the arguments through one joint row."""
    from .derive import DERIVE

    places = [k for k, a in enumerate(args) if isinstance(a, Tensor) and a.row is not None]
    varies = reach_region(prim.name, region, [k in places for k in range(len(args))])
    if not any(varies):
        return [wrap(v, None) for v in outputs]
    args = held(args)

    def operator_of(values: Sequence[Any], record: bool) -> Custom:
        full = [wrap(a._v, None) if isinstance(a, Tensor) else a for a in args]
        for k, v in zip(places, values, strict=True):
            full[k] = v if isinstance(v, Tensor) else wrap(v, None)
        push, pull = DERIVE[prim](region, full, places, varies)
        return Custom(push, pull, name=prim.name)

    rows = [args[k].row for k in places]
    inputs = [args[k]._v for k in places]
    made = record_joint(prim.name, operator_of, inputs, rows, outputs, is_equation=True)
    return [y if active else wrap(y._v, None) for y, active in zip(made, varies, strict=True)]


def _staged(a: Any, to: Recorder) -> Any:
    if isinstance(a, Entries):  # an empty one that no call of its own has put into this Program
        var = Var(a.type, to)
        to.equations.append(Equation((var,), NO_ENTRIES, (), {"region": Empty(a.type)}))
        return wrap(var, None)
    return a if isinstance(a, Tensor) or type(a) in (float, int, bool, complex) else coerce(a)
