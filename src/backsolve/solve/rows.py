"""Rows evaluated on other values than numbers: on series, or on values with their derivatives.

What a row makes of such values, its evaluator says. A Program is a sequence of rows. Of regions, a call is the
rows of its Program, a loop those of its rounds one after the other, a branch those of the side that is taken.
Of staged values it is not known how often a loop goes round, or which side is taken: then a loop that counts to
a known number is written out, of a branch both sides are evaluated and one is chosen entry by entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..dtypes import frozen
from ..errors import UnsupportedError
from ..ir import Program, Type, Var, type_of
from ..primitive import P, Primitive, wrap
from ..primitives.control import BRANCH, CALL, LOOP
from ..regions import Branches, Callee, Loop
from ..tensor import Staged, Tensor, leaf_row
from ..trace import stage, standing_for

MOST_EQUATIONS = 200  # of a staged loop that is written out


class Evaluator:
    """Abstract; `kind` is the class of its values. A row that is there already is not made again."""

    kind: type

    def __init__(self) -> None:
        self._made: dict[Any, tuple[Any, Any]] = {}

    def make(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """What a row makes of `args`, one of which is of our kind."""
        raise NotImplementedError(f"{type(self).__name__}.make")

    def number_of(self, x: Any) -> Any:
        """The number, or array, that a value of our kind stands for."""
        raise NotImplementedError(f"{type(self).__name__}.number_of")

    def opaque(self) -> str:
        """The message about a call that cannot be looked into."""
        raise NotImplementedError(f"{type(self).__name__}.opaque")

    def call(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not any(isinstance(a, self.kind) for a in args):
            return raw(prim(*args, **params))
        if prim.is_joint or prim.is_component:
            raise UnsupportedError(self.opaque())
        key = (prim, *[id(a) for a in args], frozen(params))
        if key not in self._made:
            self._made[key] = (self.make(prim, args, params), args)  # args: their ids stay theirs
        return self._made[key][0]

    def evaluate(self, program: Program, inputs: Sequence[Any]) -> list[Any]:
        env: dict[Var, Any] = dict(zip(program.inputs, inputs, strict=True))
        env.update((v, raw(c)) for v, c in program.constants)
        for e in program.equations:
            args = [env[a] if isinstance(a, Var) else a for a in e.inputs]
            with standing_for(e.where):
                if not e.primitive.holds_regions:
                    env[e.outputs[0]] = self.call(e.primitive, args, e.params)
                elif any(isinstance(a, self.kind) for a in args):
                    results = self.region(e.primitive, args, e.params["region"])
                    env.update(zip(e.outputs, results, strict=True))
                else:
                    results = [raw(y) for y in e.primitive(*args, **e.params)]
                    env.update(zip(e.outputs, results, strict=True))
        return [env[a] if isinstance(a, Var) else a for a in program.outputs]

    def region(self, prim: Primitive, args: Sequence[Any], region: Any) -> Sequence[Any]:
        """The results of an equation that holds a region."""
        if prim is LOOP:
            return self._loop(region, args)
        if prim is BRANCH:
            return self._branch(region, args)
        if prim is CALL:
            return self._called(region, args)
        raise UnsupportedError(self.opaque())

    def is_staged(self, args: Iterable[Any]) -> bool:
        return any(isinstance(self.plain(a), Staged) for a in args)

    def _loop(self, loop: Loop, args: Sequence[Any]) -> list[Any]:
        limit, carried, fixed, sequences = loop.split(args)
        types = loop.outputs()[loop.carried : -1]
        staged = isinstance(self.plain(limit), Staged)
        if loop.goes_on is not None and self.is_staged(args):
            staged = True
        elif not staged and limit is not None and self.is_staged(args):
            staged = int(self.plain(limit)) * len(loop.body.equations) > MOST_EQUATIONS
        if staged:
            return self.staged_loop(loop, args)
        if any(t.is_stack for t in types):
            raise UnsupportedError(self.opaque())
        made: list[list[Any]] = [[] for _ in types]
        rounds: Any = itertools.count() if limit is None else range(int(self.plain(limit)))
        done = 0
        for k in reversed(rounds) if loop.reverse else rounds:
            if loop.goes_on is not None and not self._goes_on(loop.goes_on, [k, *carried, *fixed]):
                break
            entries = [self.on(lambda s, k=k: s[k], s) for s in sequences]
            given = _weakened([k, *carried, *fixed, *entries], loop.body)
            results = self.evaluate(loop.body, given)
            carried = results[: loop.carried]
            for column, y in zip(made, results[loop.carried :], strict=True):
                column.append(y)
            done += 1
        order = slice(None, None, -1) if loop.reverse else slice(None)
        stacks = [self._joined(x[order], t) for x, t in zip(made, types, strict=True)]
        return [*carried, *stacks, done]

    def staged_loop(self, loop: Loop, args: Sequence[Any]) -> list[Any]:
        """The results of a loop that cannot be written out, if there is a way."""
        raise UnsupportedError(self.opaque())

    def _goes_on(self, program: Program, args: Sequence[Any]) -> bool:
        return bool(self.plain(self.evaluate(program, _weakened(args, program))[0]))

    def _joined(self, entries: list[Any], t: Type) -> Any:
        if not t.shape[0]:
            return np.zeros(t.shape, t.dtype)
        missing = t.shape[0] - len(entries)
        zeros = [np.zeros(t.shape[1:], t.dtype)] * missing
        return self.on(lambda *xs: np.stack([*xs, *zeros]), *entries)

    def _branch(self, region: Branches, args: Sequence[Any]) -> Sequence[Any]:
        which, *operands = args
        which = self.plain(which)
        if not isinstance(which, Staged):
            taken = region.at(which)
            return self.evaluate(taken, _weakened(operands, taken))
        if any(t.is_stack for t in region.outputs()):
            raise UnsupportedError(self.opaque())
        sides = [self.evaluate(side, operands) for side in region.branches]
        results = sides[-1]
        for n, side in reversed(list(enumerate(sides[:-1]))):
            here = which == n
            results = [
                a if a is b else self.on(lambda a, b, c=here: np.where(c, a, b), a, b)
                for a, b in zip(side, results, strict=True)
            ]
        return results

    def _called(self, callee: Callee, args: Sequence[Any]) -> list[Any]:
        recurses = callee.is_recursive and self.is_staged(args)
        if callee.program is None or callee.own is not None or recurses:
            raise UnsupportedError(self.opaque())
        return self.evaluate(callee.program, args)

    def on(self, f: Callable[..., Any], *args: Any) -> Any:
        """f, in NumPy, on values of which some are of our kind."""
        if not any(isinstance(a, self.kind) for a in args):
            return raw(f(*args))
        program, _ = stage(f, [type_of_value(self.plain(a)) for a in args])
        return self.evaluate(program, args)[0]

    def plain(self, x: Any) -> Any:
        return self.number_of(x) if isinstance(x, self.kind) else x


def _weakened(args: Sequence[Any], program: Program) -> list[Any]:
    """Numbers that came out of an array, as the bare Python numbers that they were."""
    return [
        x.item() if v.type.weak and isinstance(x, np.generic | np.ndarray) else x
        for x, v in zip(args, program.inputs, strict=True)
    ]


def type_of_value(v: Any) -> Type:
    t = v._v.type if isinstance(v, Tensor) and isinstance(v._v, Var) else type_of(raw(v))
    return Type(t.shape, t.dtype)


def raw(y: Any) -> Any:
    """Without the Tensor around it, where that says nothing more."""
    if isinstance(y, Tensor) and y.row is None and not isinstance(y._v, Var):
        return y._v
    return y


def vary(v: Any) -> Any:
    """A fresh row, under an outer one if there is one; integers and the like do not vary."""
    if isinstance(v, Tensor):
        if v.row is not None:
            return P.alias(v)
        v = v._v
    return wrap(v, leaf_row(v) if type_of(v).dtype.kind in "fc" else None)
