"""A function run on other values than numbers: on series, or on values with their derivatives.

It runs once as it is written; then its rows are evaluated, in order, by whoever knows what a row makes of such
values. Inside a staging it is staged by itself, and its Program evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tree
from .declared import DISPLACED
from .errors import UnsupportedError
from .hooks import Watcher, hooks
from .ir import Program, Type
from .joint import component_of, inside_of
from .primitive import Primitive, wrap
from .rewrite.clean import drop_unused
from .rewrite.regions import inside
from .row import Row
from .solve.rows import Evaluator
from .tensor import Staged, Tensor
from .trace import stage
from .vary import Varied


class _Inputs(Watcher):
    """What every row was made of."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[Row, Sequence[Any]] = {}
        self.leaves: dict[Row, Any] = {}  # of derivatives that f takes inside: constants by now

    def on_call(self, prim: Primitive, row: Row | None, y: Any, inputs: Sequence[Any]) -> None:
        if row is not None:
            # as they are now: a Tensor may be written into later
            self.of[row] = tuple([wrap(a._v, a.row) if type(a) is Tensor else a for a in inputs])
            for a in inputs:
                if type(a) is Tensor and a.row is not None and a.row.is_leaf:
                    self.leaves[a.row] = a._v


def replay(
    f: Callable[..., Any],
    varied: Varied,
    given: Sequence[Any],
    types: Sequence[Type],
    rows: Evaluator,
) -> tuple[list[Any], list[Any], tree.Structure]:
    """f's results as numbers, the same as `rows` makes them of `given` (None: constant), and their form.

    f takes what varies, whose `types` are given, and nothing else.
    """
    if any(isinstance(x, Staged) for x in varied.originals):
        return _staged(f, varied, given, types, rows)
    return _eager(f, varied, given, types, rows)


def _eager(
    f: Callable[..., Any],
    varied: Varied,
    given: Sequence[Any],
    types: Sequence[Type],
    rows: Evaluator,
) -> tuple[list[Any], list[Any], tree.Structure]:
    seen = _Inputs()
    hooks.add(seen)
    try:
        outputs, structure = tree.flatten(hooks.users(f)(*varied.args))
    finally:
        hooks.remove(seen)
    live = [y for y in outputs if isinstance(y, Tensor) and y.row is not None]
    made: dict[Row, Any] = dict(zip(varied.rows, given, strict=True))
    run = varied.gather(live)[0]
    if any(r.primitive.is_joint and inside_of(r) is None for r in run):
        return _staged(f, varied, given, types, rows)  # where such calls stay what they are
    for row in run:
        if row not in made:
            made[row] = _made(row, seen, made, rows)
    found = [
        made.get(y.row) if isinstance(y, Tensor) and y.row is not None else None for y in outputs
    ]
    return [varied.release(y) for y in outputs], found, structure


def _staged(
    f: Callable[..., Any],
    varied: Varied,
    given: Sequence[Any],
    types: Sequence[Type],
    rows: Evaluator,
) -> tuple[list[Any], list[Any], tree.Structure]:
    structures: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        rest = iter(leaves)
        filled = [
            x if s else next(rest) for x, s in zip(varied.originals, varied.static, strict=True)
        ]
        outputs, structure = tree.flatten(hooks.users(f)(*varied.structure.unflatten(filled)))
        structures.append(structure)
        return outputs

    numbers = [x for x, s in zip(varied.originals, varied.static, strict=True) if not s]
    at_hand = not any(isinstance(x, Staged) for x in numbers)
    examples = [x._v if isinstance(x, Tensor) else number(x) for x in numbers] if at_hand else []
    program, _ = stage(flat, types, lasting=True, examples=examples)
    found = rows.evaluate(_only_read(program), given)
    return [rows.plain(x) for x in found], found, structures[0]


def _only_read(program: Program) -> Program:
    """Without what nobody reads, as among rows: it may have no derivative."""
    return inside(drop_unused(program), _only_read)


def _made(row: Row, seen: _Inputs, made: dict[Row, Any], rows: Evaluator) -> Any:
    if row.is_leaf:
        return seen.leaves.get(row)
    if row.primitive.is_component:
        return made[row.parents[0]][component_of(row)]
    if row.primitive.is_joint:
        inside = inside_of(row)
        if inside is None:
            raise UnsupportedError(rows.opaque())
        program, inputs = inside
        varying = iter(row.parents)
        return rows.evaluate(program, [made[next(varying)] if x is None else x for x in inputs])
    if row not in seen.of:
        raise UnsupportedError(
            f"`{row.primitive.name}` was computed where nobody looked on, as in another thread: call it in the "
            "thread that asks for derivatives, or take bs.hessian or bs.jvp of bs.jvp"
        )
    args = [_replaced(a, made) for a in seen.of[row]]
    if row.primitive is DISPLACED:
        return args[0]  # f's own tangents there are constants by now
    return rows.call(row.primitive, args, row.params or {})


def _replaced(a: Any, made: dict[Row, Any]) -> Any:
    if isinstance(a, Tensor):
        return made[a.row] if a.row in made else number(a)
    return a


def is_numeric(y: Any) -> bool:
    """Whether a result is a number, or an array of them: a name, or None, has no derivative."""
    return isinstance(y, Tensor) or np.asarray(y).dtype.kind in "biufc"


def number(x: Any) -> Any:
    """An array, a NumPy number, or a Tensor that somebody else varies."""
    if isinstance(x, Tensor):
        return x if x.row is not None or isinstance(x, Staged) else x._v
    return np.asarray(x)[()]
