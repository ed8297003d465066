"""A loop's entries as sequences, and its writes and sums for all rounds at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch import evaluate_batched_as
from ..ir import Equation, Program, Var, type_of
from ..operators.nests import split_subscripts
from ..primitive import P
from ..trace import evaluate, standing_for
from .clean import drop_unused
from .separable import LETTERS, Late, Read, Separable


class AllRounds(Separable):
    def _sides(self, args: Sequence[Any]) -> tuple[list[Any], dict[Var, Any], dict[Var, Any]]:
        """Starts; fixed values; sequences, with the reads of fixed arrays among them."""
        _, starts, others, columns = self.loop.split(args)
        fixed = dict(zip(self.fixed, others, strict=True))
        fixed.update({self.carried[i]: starts[i] for i in self.kept})
        sequences = dict(zip(self.entries, columns, strict=True))
        at = self._indices_of_reads(fixed)
        for r in self.reads:
            with standing_for(r.where):
                sequences[r.entry] = self._entries(r, fixed[r.x], [at[i] for i in r.at])
        for v, i, offset, sign in self.own:
            sequences[v] = self._sequence(starts[i], offset, sign)
        return list(starts), fixed, sequences

    def _indices_of_reads(self, fixed: dict[Var, Any]) -> dict[Any, Any]:
        """The values of indices that are the same in every round."""
        atoms = list(dict.fromkeys(i for r in self.reads for i in r.at))
        program = drop_unused(
            Program(tuple(fixed), self.body.constants, tuple(self._still()), tuple(atoms))
        )
        return dict(zip(atoms, evaluate(program, list(fixed.values())), strict=True))

    def _still(self) -> list[Equation]:
        return [e for e in self.equations if not any(v in self.moving for v in e.outputs)]

    def _entries(self, r: Read, x: Any, at: list[Any]) -> Any:
        """Of one row or column alone: the derivative is one of that row, too, and not of the whole array."""
        if len(at) == r.axis:
            return self._sequence(P.gather(x, *at) if at else x, r.offset, r.sign)
        rounds = np.arange(self.count) * r.sign + r.offset
        return P.gather(x, *at[: r.axis], rounds, *at[r.axis :])

    def _sequence(self, x: Any, offset: int, sign: int) -> Any:
        n = x.shape[0]
        if sign > 0:
            spec = (offset, offset + self.count, None)
            return x if spec == (0, n, None) else P.slice(x, spec=(spec,))
        stop = offset - self.count
        return P.slice(x, spec=((offset, None if stop < 0 else stop, -1),))

    def _on_all_rounds(
        self,
        equations: Sequence[Equation],
        fixed: dict[Var, Any],
        sequences: dict[Var, Any],
        wanted: Sequence[Any],
    ) -> list[Any]:
        """Equations of the body for all rounds at once: what moves among `wanted` as sequences."""
        rounds = np.arange(self.count)
        inputs = [self.k, *fixed, *sequences]
        program = drop_unused(
            Program(tuple(inputs), self.body.constants, tuple(equations), tuple(wanted))
        )
        flags = [True, *[False] * len(fixed), *[True] * len(sequences)]
        marks = [self._moves(v) for v in wanted]
        args = [rounds, *fixed.values(), *sequences.values()]
        return evaluate_batched_as(program, args, flags, self.count, marks)

    def _moves(self, v: Any) -> bool:
        return type(v) is Var and v in self.moving

    def _column(self, v: Any, value: Any) -> Any:
        """The sequence of a value, also of one that is the same in every round."""
        if self._moves(v):
            return value
        return np.broadcast_to(value, (self.count, *np.shape(value)))

    def _late_value(self, i: int, start: Any, values: dict[int, Any]) -> Any:
        """The last value of carried i, from its start and the sequences of its parts."""
        total = start
        for late in reversed(self.late[i]):
            with standing_for(late.where):
                total = self._late_step(total, late, values)
        return total

    def _late_step(self, total: Any, late: Late, values: dict[int, Any]) -> Any:
        parts = [values[id(p)] for p in late.parts]
        if late.how == "set":
            return self._set(total, late, parts)
        if late.how in ("max", "min", "prod"):
            return _reduced(total, late, self._column(late.parts[0], parts[0]))
        if late.how == "add":
            term = self._added(late, parts)
        elif late.how == "contract":
            term = self._contract(late, parts)
        else:
            term = P.sum(self._column(late.parts[0], parts[0]), axis=(0,), keepdims=False)
        if "at" in late.params:
            indices = [values[id(p)] for p in late.params["at"]]
            term = P.scatter_add(term, *indices, shape=late.params["shape"])
        return total - term if late.params["minus"] else total + term

    def _added(self, late: Late, parts: list[Any]) -> Any:
        """scatter_add of all rounds; where the last index is the round itself, that axis is written whole."""
        (t, *indices), shape = parts, late.params["shape"]
        last = late.parts[-1]
        found = self._affine(last)
        whole = (
            found == (0, 1) and type_of(last).shape == () and shape[len(indices) - 1] == self.count
        )
        others = late.parts[1:-1]
        t = self._column(late.parts[0], t)
        if whole and not any(map(self._moves, others)):
            at = len(np.broadcast_shapes(*[type_of(i).shape for i in others]))
            t = np.moveaxis(t, 0, at)  # the rounds stand behind what the other indices count
            return P.scatter_add(t, *indices[:-1], shape=shape) if others else t
        return P.scatter_add(t, *self._index_columns(late.parts[1:], indices), shape=shape)

    def _index_columns(self, atoms: Sequence[Any], indices: Sequence[Any]) -> list[Any]:
        """Index sequences of one rank, side by side: axis 0 counts the rounds."""
        columns = [self._column(a, i) for a, i in zip(atoms, indices, strict=True)]
        rank = max(len(np.shape(i)) for i in columns)
        return [
            np.reshape(i, (self.count, *[1] * (rank - len(np.shape(i))), *np.shape(i)[1:]))
            for i in columns
        ]

    def _set(self, start: Any, late: Late, parts: list[Any]) -> Any:
        v, *indices = parts
        v = self._column(late.parts[0], v)
        found = self._affine(late.parts[1]) if len(indices) == 1 else None
        if found is not None and found[1] > 0 and type_of(late.parts[1]).shape == ():
            offset, n = found[0], start.shape[0]
            if offset == 0 and n == self.count and v.shape == start.shape:
                return v
            if offset >= 0 and offset + self.count <= n:
                return P.slice_update(start, v, spec=((offset, offset + self.count, None),))
        return P.scatter_set(start, v, *self._index_columns(late.parts[1:], indices))

    def _contract(self, late: Late, parts: list[Any]) -> Any:
        subscripts, sizes = late.params["subscripts"], late.params["sizes"]
        labels, output = split_subscripts(subscripts)
        fresh = next(c for c in LETTERS if c not in subscripts)
        operands, names = [], []
        for p, x, mine in zip(late.parts, parts, labels, strict=True):
            operands.append(x)
            names.append(fresh + mine if self._moves(p) else mine)
        if not any(map(self._moves, late.parts)):
            names[0], operands[0] = fresh + labels[0], self._column(late.parts[0], parts[0])
        return P.contract(*operands, subscripts=f"{','.join(names)}->{output}", sizes=sizes)


def _reduced(start: Any, late: Late, column: Any) -> Any:
    """The largest, the smallest or the product of a start and a sequence, in this order."""
    if late.params["by"] == "comparison" and column.dtype.kind == "f":
        worst = column.dtype.type(-np.inf if late.how == "max" else np.inf)
        column = np.where(np.isnan(column), worst, column)
    if late.how == "prod":  # its start first: the others alone may overflow
        column = np.concatenate([np.reshape(start, (1, *column.shape[1:])), column])
        return P.prod(column, axis=(0,), keepdims=False)
    best = getattr(P, late.how)(column, axis=(0,), keepdims=False)
    if late.params["by"] != "comparison":
        return getattr(np, late.params["by"])(start, best)
    return np.where(best > start if late.how == "max" else best < start, best, start)
