"""A loop put together again: with less in it, the rest ahead of it and behind it for all rounds at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P
from ..regions import Loop
from ..trace import stage
from .all_rounds import AllRounds
from .choices import FEWEST
from .clean import drop_unused
from .separable import MOST, PRODUCTS, Late

MOST_KNOWN = 1 << 20  # rounds whose indices are known numbers, and not computed by the loop


class Rebuilt(AllRounds):
    """The loop put together again: with less in it, or without one."""

    def without_loop(self) -> Program:
        made = self.outputs[self.loop.carried :]

        def run(*args: Any) -> list[Any]:
            starts, fixed, sequences = self._sides(args)
            parts = self._parts()
            found = self._on_all_rounds(self.equations, fixed, sequences, [*parts, *made])
            values = dict(zip(map(id, parts), found, strict=False))
            last = [self._late_value(i, x, values) for i, x in enumerate(starts)]
            ys = [self._column(v, y) for v, y in zip(made, found[len(parts) :], strict=True)]
            return [*last, *ys, self.count]

        return self._staged(run)

    def with_loop(self) -> Program | None:
        """The loop with what must stay; sums that are not products stay, too, if anything else does.

        None if all of it must stay.
        """
        loop = self.loop
        self._read_in_place()
        back = {} if self.leaves_rounds_free() else self.sums
        if back or len(self.late) < loop.carried:
            back = {**back, **self._single_entries()}
        for i in self.kept:
            del self.late[i]
        self.kept = []
        for i, terms in back.items():
            del self.late[i]
            out: Any = self.carried[i]
            for late in reversed(terms):
                if late.how in ("max", "min", "prod"):
                    out = self._again(late, out)
                    continue
                if late.how == "set":
                    out = self._emit(P.scatter_set, (out, *late.parts), late.params, late.where)
                    continue
                if late.how == "add":
                    t, *indices = late.parts
                    shape = {"shape": late.params["shape"]}
                    term = self._emit(P.scatter_add, (t, *indices), shape, late.where)
                else:
                    term = late.parts[0]
                how = P.subtract if late.params["minus"] else P.add
                out = self._emit(how, (out, term), {}, late.where)
            self.outputs[i] = out
        self._refresh()
        self._find_ahead()
        self._find_behind()
        if not self.has_found:
            return None
        count = self.count
        parts = [p for p in self._parts() if type(p) is Var]
        stays = [i for i in range(loop.carried) if i not in self.late]
        made = self.outputs[loop.carried :]
        counted = self._counted(parts)
        gone = {v for e in (*self.behind, *counted) for v in e.outputs}
        gone |= {self.k} if self.count <= MOST_KNOWN else set()
        wanted = list(dict.fromkeys([*parts, *self._needed_behind()]))
        in_loop = list(
            dict.fromkeys(
                [
                    *[v for v in wanted if self._varies(v) and v not in gone],
                    *[v for v in made if type(v) is Var and v not in gone and self._varies(v)],
                ]
            )
        )
        ahead_made = [
            v
            for v in self._read_in_loop(in_loop, stays)
            if v in {w for e in self.ahead for w in e.outputs}
        ]
        fixed_ahead = [v for v in ahead_made if v not in self.moving]
        moving_ahead = [v for v in ahead_made if v in self.moving]
        taken = {v for e in (*self.ahead, *self.behind) for v in e.outputs}
        equations = [e for e in self.equations if not any(v in taken for v in e.outputs)]
        body = drop_unused(
            Program(
                (
                    self.k, *[self.carried[i] for i in stays], *self.fixed, *fixed_ahead,
                    *self.entries, *self._taken(), *moving_ahead,
                ),
                self.body.constants,
                tuple(equations),
                (*[self.outputs[i] for i in stays], *[v for v in in_loop if v not in ahead_made]),
            )
        )  # fmt: skip
        in_loop = [v for v in in_loop if v not in ahead_made]
        inner = Loop(
            body,
            carried=len(stays),
            fixed=len(self.fixed) + len(fixed_ahead),
            sequences=len(self.entries) + len(self._taken()) + len(moving_ahead),
            count=count,
            reverse=loop.reverse,
        )
        from ..primitives.control import LOOP

        def run(*args: Any) -> list[Any]:
            starts, fixed, sequences = self._sides(args)
            first = self._on_all_rounds(self.ahead, fixed, sequences, ahead_made)
            early = dict(zip(ahead_made, first, strict=True))
            results = LOOP(
                *[starts[i] for i in stays], *fixed.values(), *[early[v] for v in fixed_ahead],
                *sequences.values(), *[early[v] for v in moving_ahead], region=inner,
            )  # fmt: skip
            found = dict(zip(in_loop, results[len(stays) : -1], strict=True))
            found.update({v: early[v] for v in moving_ahead})
            sequences = {**sequences, **found}
            fixed = {**fixed, **{v: early[v] for v in fixed_ahead}}
            asked = [*wanted, *[v for v in made if v not in wanted]]
            still = [
                e
                for e in self.equations
                if not any(v in self.moving or v in fixed for v in e.outputs)
            ]  # what no round changes, and was not worth taking out
            rest = self._on_all_rounds([*still, *counted, *self.behind], fixed, sequences, asked)
            every = dict(zip([id(v) for v in asked], rest, strict=True))
            last = iter(results[: len(stays)])
            values = [
                self._late_value(i, starts[i], every) if i in self.late else next(last)
                for i in range(loop.carried)
            ]
            return [*values, *[self._column(v, every[id(v)]) for v in made], results[-1]]

        return self._staged(run)

    def _read_in_place(self) -> None:
        """Single entries of a row or column: a loop that stays needs no copy of it."""
        single = {r.entry: r for r in self.reads if r.at and r.entry.type.size == 1}
        before, self.equations = self.equations, []
        for e in before:
            r = single.get(e.inputs[0]) if e.primitive is P.alias else None
            if r is None:
                self.equations.append(e)
                continue
            place = self.k if r.sign > 0 else self._emit(P.negative, (self.k,), {})
            place = self._emit(P.add, (place, r.offset), {}) if r.offset else place
            inputs = (r.x, *r.at[: r.axis], place, *r.at[r.axis :])
            self.equations.append(Equation(e.outputs, P.gather, inputs, {}, e.where))
        self.reads = [r for r in self.reads if r.entry not in single]
        self._refresh()

    def _single_entries(self) -> dict[int, list[Late]]:
        """Writes of single entries, here and there: a loop that hands on other values does them in place."""
        return {
            i: parts
            for i, parts in self.late.items()
            if i not in self.kept
            and all(late.how in ("set", "add") and self._is_single(late) for late in parts)
        }

    def _is_single(self, late: Late) -> bool:
        v, *at = late.parts
        along = len(at) == 1 and self._affine(at[0]) is not None
        return type_of(v).size == 1 and not along and not any(type_of(i).shape for i in at)

    def leaves_rounds_free(self) -> bool:
        """Whether rounds that stay, since there are loops or branches in them, hand nothing on but sums."""
        if not self.is_derived or len(self.late) < len(self.carried):
            return False
        return self.count >= FEWEST and all(
            type_of(p).size == 1
            for parts in self.sums.values()
            for late in parts
            for p in late.parts
        )

    def _again(self, late: Late, y: Any) -> Var:
        """A reduction as it stood in the loop."""
        (x,), by = late.parts, late.params["by"]
        if by != "comparison":
            return self._emit(getattr(P, by), (y, x), {})
        test = P.greater if late.how == "max" else P.less
        return self._emit(P.where, (self._emit(test, (x, y), {}), x, y), {})

    def _varies(self, v: Any) -> bool:
        return (
            type(v) is Var and v in self.moving and v not in self.entries and v not in self._taken()
        )

    def _emit(
        self, primitive: Any, inputs: tuple[Any, ...], params: dict[str, Any], where: str = ""
    ) -> Var:
        (t,) = primitive.infer([type_of(a) for a in inputs], params)
        var = Var(t)
        self.equations.append(Equation((var,), primitive, inputs, params, where))
        return var

    def _needed_behind(self) -> list[Var]:
        made = {v for e in self.behind for v in e.outputs}
        atoms = [a for e in self.behind for a in e.inputs]
        return [a for a in atoms if type(a) is Var and a not in made]

    def _counted(self, parts: Sequence[Var]) -> list[Equation]:
        """What makes indices of the counter and of fixed values: known behind the loop without it."""
        if self.count > MOST_KNOWN:
            return []
        known = {self.k, *self.fixed, *[v for v, _ in self.body.constants]}
        ahead = {v for e in self.ahead for v in e.outputs}
        found = []
        for e in self.equations:
            if e.outputs[0] in ahead or not any(v in self.moving for v in e.outputs):
                known.update(e.outputs)
                continue
            is_index = e.primitive.elementwise and e.outputs[0].type.dtype.kind in "iu"
            if is_index and all(type(a) is not Var or a in known for a in e.inputs):
                known.update(e.outputs)
                found.append(e)
        needed = {*parts, *self._needed_behind()}
        kept = []
        for e in reversed(found):
            if e.outputs[0] in needed:
                needed.update(a for a in e.inputs if type(a) is Var)
                kept.append(e)
        return kept[::-1]

    def _read_in_loop(self, outputs: Sequence[Var], stays: Sequence[int]) -> list[Var]:
        taken = {v for e in (*self.ahead, *self.behind) for v in e.outputs}
        atoms = [
            a for e in self.equations if not any(v in taken for v in e.outputs) for a in e.inputs
        ]
        atoms += [*outputs, *[self.outputs[i] for i in stays], *self._needed_behind()]
        return list(dict.fromkeys(a for a in atoms if type(a) is Var))

    def _find_ahead(self) -> None:
        """Products of what no round changes or hands on, and what they are made of."""
        wanted = {
            v
            for e in self.equations
            if e.primitive.name in PRODUCTS and not any(v in self.sequential for v in e.outputs)
            for v in e.outputs
        }
        fixed = {
            v
            for e in self.equations
            if not e.primitive.holds_regions
            and not any(v in self.moving for v in e.outputs)
            and e.primitive.name not in ("gather", "broadcast_to", "reshape", "permute", "slice")
            for v in e.outputs
        }
        needed = {v for v in wanted if self._cheap_at_once(v)} | fixed
        if not needed:
            return
        kept = []
        for e in reversed(self.equations):
            if any(v in needed for v in e.outputs):
                if e.primitive.holds_regions or any(v in self.sequential for v in e.outputs):
                    return
                kept.append(e)
                needed.update(a for a in e.inputs if type(a) is Var)
        if self.k in needed:
            return
        self.ahead = kept[::-1]

    def _cheap_at_once(self, v: Var) -> bool:
        return v.type.size * self.count <= MOST

    def _find_behind(self) -> None:
        """Products that nothing in the loop reads."""
        stays = [a for i, a in enumerate(self.outputs[: self.loop.carried]) if i not in self.late]
        needed = {a for a in stays if type(a) is Var}
        needed.update(p for p in self._parts() if type(p) is Var)
        ahead = {v for e in self.ahead for v in e.outputs}
        for e in reversed(self.equations):
            free = not any(v in needed or v in ahead for v in e.outputs)
            if free and e.primitive.name in PRODUCTS and self._smaller_inside(e):
                self.behind.append(e)
            else:
                needed.update(a for a in e.inputs if type(a) is Var)
        self.behind.reverse()

    def _smaller_inside(self, e: Equation) -> bool:
        moving = [a for a in e.inputs if type(a) is Var and a in self.moving]
        return (
            sum(a.type.size for a in moving) <= 2 * e.outputs[0].type.size
            and e.outputs[0].type.size * self.count <= MOST
        )

    def _parts(self) -> list[Any]:
        return [
            p
            for i in sorted(self.late)
            for late in self.late[i]
            for p in (*late.parts, *late.params.get("at", ()))
        ]

    def _staged(self, run: Any) -> Program:
        head = [v.type for v in (*self.carried, *self.fixed)]
        columns = [Type((self.count, *v.shape), v.dtype) for v in self.entries]
        return stage(run, [*head, *columns])[0]
