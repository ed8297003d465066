"""What of a loop's rounds do not need each other: entries read and written, sums, products, extremes.

Here it is found; rounds.py does it outside of the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir import Equation, Type, Var, type_of
from ..primitive import P
from ..regions import Loop
from .affine import affine, whole_number

MOST = 1 << 23  # entries of a value that may stand for all rounds at once
SHORT = 64  # entries of arrays whose products over all rounds are taken at once
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Written differently, a sum of these runs on BLAS or in one pass: worth taking out of a loop.
PRODUCTS = ("contract",)
REDUCED = {"maximum": "max", "minimum": "min", "multiply": "prod"}


@dataclass(frozen=True)
class Read:
    """An entry of a sequence: x[…, offset ± k, …], with indices at the other axes that no round changes."""

    entry: Var
    x: Var
    axis: int
    offset: int
    sign: int
    at: tuple[Any, ...]
    where: str  # the user's line


@dataclass
class Late:
    """A carried value that is made behind the loop: from its start and the sequences of some variables."""

    how: str  # "set", "add" at indices; "sum", "max", "min", "prod", "contract"
    parts: list[Any]  # variables (or numbers) of the body: the value, then indices or operands
    params: dict[str, Any]
    where: str = ""  # the user's line


class Separable:
    """A loop of known length, and what of its body the rounds do not hand on."""

    def __init__(self, loop: Loop, is_derived: bool):
        self.is_derived = is_derived
        assert loop.count is not None
        self.loop, self.count = loop, int(loop.count)
        self.body = loop.body
        self.k, *rest = self.body.inputs
        a, b = loop.carried, loop.carried + loop.fixed
        self.carried, self.fixed, self.entries = rest[:a], rest[a:b], rest[b:]
        self.equations = list(self.body.equations)
        self.outputs = list(self.body.outputs)
        self.types = [v.type for v in (*self.carried, *self.fixed)]
        self.reads: list[Read] = []
        self.own: list[tuple[Var, int, int, int]] = []  # entries that only their own round looks at
        self.late: dict[int, list[Late]] = {}  # carried values made behind the loop
        self.ahead: list[Equation] = []
        self.behind: list[Equation] = []
        # Values that no round changes: as good as fixed, if the loop goes.
        self.kept = [i for i, c in enumerate(self.carried) if self.outputs[i] is c]
        self.late.update({i: [] for i in self.kept})
        self._refresh()

    @property
    def has_found(self) -> bool:
        return bool(self.reads or self.own or self.late or self.ahead or self.behind)

    def _refresh(self) -> None:
        self.makers = {v: e for e in self.equations for v in e.outputs}
        atoms = [a for e in self.equations for a in e.inputs] + self.outputs
        self.uses = Counter(a for a in atoms if type(a) is Var)
        changing = [c for i, c in enumerate(self.carried) if i not in self.kept]
        self.sequential = self._rests_on(changing)
        self.moving = self._rests_on([self.k, *changing, *self.entries, *self._taken()])

    def _taken(self) -> list[Var]:
        """Variables that are entries of arrays."""
        return [*[r.entry for r in self.reads], *[r[0] for r in self.own]]

    def _rests_on(self, sources: Sequence[Var]) -> set[Var]:
        found = set(sources)
        for e in self.equations:
            if any(type(a) is Var and a in found for a in e.inputs):
                found.update(e.outputs)
        return found

    def repeats_a_stack(self) -> bool:
        """Whether each round makes the same stack or box anew: there is no array of those."""
        made = [a for a in self.outputs[self.loop.carried :] if type(a) is Var]
        return any(v.type.is_stack and v not in self.moving for v in made)

    # ---- what can be read as a sequence

    def _affine(self, a: Any) -> tuple[int, int] | None:
        return affine(a, self.k, self.makers)

    def find_reads(self) -> None:
        """gather(x, …, k + c, …) of a fixed x, all other indices fixed, too: entries of a sequence.

        Where another index moves, too, the entry is read in its round: the sequence would be one of whole rows,
        and its derivative as large as x however few entries are read.
        """
        known: dict[Any, Var] = {}
        out: list[Equation] = []
        for e in self.equations:
            read = self._read(e)
            if read is None:
                out.append(e)
                continue
            key = (read.x, read.axis, read.offset, read.sign, read.at)
            if key not in known:
                known[key] = read.entry
                self.reads.append(read)
            out.append(Equation(e.outputs, P.alias, (known[key],), {}, e.where))
        self.equations = out
        self._refresh()

    def _read(self, e: Equation) -> Read | None:
        if e.primitive is not P.gather or e.inputs[0] not in self.fixed:
            return None
        x, *indices = e.inputs
        if any(type_of(i).shape != () for i in indices):
            return None
        moves = [type(i) is Var and i in self.moving for i in indices]
        if sum(moves) != 1:
            return None
        axis = moves.index(True)
        found = self._affine(indices[axis])
        if found is None:
            return None
        offset, sign = found
        low = offset if sign > 0 else offset - self.count + 1
        if low < 0 or low + self.count > x.shape[axis]:
            return None
        others = (*indices[:axis], *indices[axis + 1 :])
        return Read(Var(e.outputs[0].type), x, axis, offset, sign, others, e.where)

    # ---- what can be written behind the loop

    def find_writes(self) -> None:
        for i, c in enumerate(self.carried):
            if i in self.kept:
                continue
            self._find_own_entries(i, c)
            found = self._write(self.outputs[i], c)
            if found:
                self.late[i] = found
                self._free(i)

    def _find_own_entries(self, i: int, c: Var) -> None:
        """y[k] = f(y[k]): what a round reads of y is what it was at the start."""
        e = self.makers.get(self.outputs[i])
        if e is None or e.primitive is not P.scatter_set or e.inputs[0] is not c:
            return
        at = e.inputs[2:]
        place = self._affine(at[0]) if len(at) == 1 and type_of(at[0]).shape == () else None
        readers = [x for x in self.equations if c in x.inputs and x is not e]
        if place is None or not readers or self.uses[c] != len(readers) + 1:
            return
        low = place[0] if place[1] > 0 else place[0] - self.count + 1
        if low < 0 or low + self.count > c.shape[0]:
            return
        if any(x.primitive is not P.gather or x.inputs[1:] != at for x in readers):
            return
        entry = Var(Type(c.shape[1:], c.dtype))
        self.own.append((entry, i, *place))
        self.equations = [
            replace(x, primitive=P.alias, inputs=(entry,)) if any(x is r for r in readers) else x
            for x in self.equations
        ]
        self._refresh()

    def _free(self, i: int) -> None:
        """This carried value is made behind the loop: nothing in the body depends on it."""
        c = self.carried[i]
        self.outputs[i] = c
        needed = {a for j, a in enumerate(self.outputs) if type(a) is Var and j not in self.late}
        needed.update(
            p
            for parts in self.late.values()
            for late in parts
            for p in late.parts
            if type(p) is Var
        )
        needed.update(i for r in self.reads for i in r.at if type(i) is Var)
        kept = []
        for e in reversed(self.equations):
            if any(v in needed for v in e.outputs):
                kept.append(e)
                needed.update(a for a in e.inputs if type(a) is Var)
        self.equations = kept[::-1]
        self._refresh()
        # what its parts say of uses: they are read once more, behind the loop
        for parts in self.late.values():
            for late in parts:
                self.uses.update(p for p in late.parts if type(p) is Var)

    def _write(self, out: Any, c: Var, only_products: bool = False) -> list[Late] | None:
        """How `out` is made of the carried c by writes alone; the last one first."""
        found: list[Late] = []
        rest = self._rests_on([c]) - {c}
        chain: set[Var] = set()
        compared: set[Var] = (
            set()
        )  # values on the way that a comparison of the chain's own reads, too
        while out is not c:
            e = self.makers.get(out) if type(out) is Var else None
            if e is None or out in chain:
                return None
            chain.add(out)
            step = self._step(e, c, rest)
            if step is None:
                return None
            out, made = step
            found += made
            if made[0].params.get("by") == "comparison":
                compared.add(out)
            if any(type(p) is Var and (p in rest or p is c) for late in made for p in late.parts):
                return None
        if not found or not self._unread(c, chain, compared):
            return None
        kinds = {late.how for late in found}
        if len(kinds) > 1 and kinds & {"set", "max", "min", "prod"}:
            return None  # of several writes the order would change
        if kinds & {"max", "min"} and not self.is_derived:
            return None
        if "prod" in kinds and len(found) > 1:
            return None  # a b a b … may stay small where a a … overflows
        if "set" in kinds and not self._are_apart(found):
            return None
        return found

    def _unread(self, c: Var, chain: set[Var], compared: set[Var]) -> bool:
        """Whether nothing but the chain of writes itself reads the array on its way."""
        return all(self.uses[v] == 1 + (v in compared) for v in (c, *chain))

    def _are_apart(self, found: list[Late]) -> bool:
        """Whether no two writes meet: the same round's place in one axis, known places in another.

        What only moves numbers is as well off in the loop: each write would be a pass over the array.
        """
        if len(found) == 1:
            return True
        if sum(e.primitive.elementwise for e in self.equations) < 2 * len(found):
            return False
        places = [late.parts[1:] for late in found]
        if any(type_of(i).shape != () for at in places for i in at):
            return False
        (first, *others) = places
        if any(len(at) != len(first) for at in others):
            return False
        same = [k for k in range(len(first)) if all(at[k] is first[k] for at in others)]
        if not any((self._affine(first[k]) or (0, 0))[1] for k in same):
            return False
        constants = dict(self.body.constants)
        rest = [
            tuple(whole_number(constants.get(i, i)) for k, i in enumerate(at) if k not in same)
            for at in places
        ]
        return all(i >= 0 for at in rest for i in at) and len(set(rest)) == len(rest)

    def _step(self, e: Equation, c: Var, rest: set[Var]) -> tuple[Any, list[Late]] | None:
        name = e.primitive.name
        if name == "scatter_set":
            x, v, *indices = e.inputs
            if any(type(i) is Var and i in rest for i in indices):
                return None
            return x, [Late("set", [v, *indices], {}, e.where)]
        if name == "where":
            return self._better(e, c, rest)
        if name not in ("add", "subtract", *REDUCED):
            return None
        a, b = e.inputs
        if type(b) is Var and (b is c or b in rest) and name != "subtract":
            a, b = b, a
        if type(b) is Var and (b is c or b in rest):
            return None
        if type(a) is not Var or a.type != e.outputs[0].type:
            return None
        if name == "multiply" and (type_of(b).shape != a.type.shape or a.type.size > SHORT):
            return None  # one number for a whole state, or a copy of the sequence that takes longer
        if name in REDUCED:
            return a, [Late(REDUCED[name], [b], {"by": name}, e.where)]
        sign = {"minus": name == "subtract"}
        parts = self._entries_among_zeros(b)
        if parts is None:
            return a, [Late("sum", [b], sign, e.where)]
        return a, [Late("add", list(p.inputs), {**p.params, **sign}, p.where) for p in parts]

    def _entries_among_zeros(self, b: Any) -> list[Equation] | None:
        """The parts of a sum of nothing but parts: each is written for all rounds, and no array in any."""
        e = self.makers.get(b) if type(b) is Var and self.uses[b] == 1 else None
        if e is None or e.primitive not in (P.scatter_add, P.add):
            return None
        if e.primitive is P.scatter_add:
            return [e]
        found = [self._entries_among_zeros(x) for x in e.inputs]
        return None if None in found else [part for parts in found for part in parts or ()]

    def _better(self, e: Equation, c: Var, rest: set[Var]) -> tuple[Any, list[Late]] | None:
        """where(x > y, x, y) with y on the chain: max(y, x) as Python means it, which no NaN replaces."""
        mask, x, y = e.inputs
        test = self.makers.get(mask) if type(mask) is Var else None
        if test is None or self.uses[mask] != 1 or test.primitive.name not in ("greater", "less"):
            return None
        if type(y) is not Var or not (y is c or y in rest) or y.type != e.outputs[0].type:
            return None
        if type_of(x).shape != y.shape or type_of(x).dtype != y.dtype:
            return None
        a, b = test.inputs
        if not ((a is x and b is y) or (a is y and b is x)):
            return None
        larger = (test.primitive.name == "greater") == (a is x)
        return y, [Late("max" if larger else "min", [x], {"by": "comparison"}, e.where)]

    def find_products(self) -> None:
        """Sums over rounds stay in the loop unless they are sums of products, which BLAS does at once."""
        self.sums: dict[int, list[Late]] = {}
        for i, parts in list(self.late.items()):
            new = []
            for late in parts:
                if late.how in ("max", "min", "prod"):
                    break
                made = self._product(late) if late.how == "sum" else late
                if made is None:
                    break
                new.append(made)
            else:
                self.late[i] = new
                continue
            self.sums[i] = parts

    def _product(self, late: Late) -> Late | None:
        e = self.makers.get(late.parts[0]) if type(late.parts[0]) is Var else None
        if e is None or e.primitive is not P.contract or len(e.inputs) != 2:
            return None
        out = e.outputs[0].type
        if sum(type_of(a).size for a in e.inputs) > max(out.size, 256):
            return None
        params = {**e.params, "minus": late.params["minus"]}
        return Late("contract", list(e.inputs), params, late.where)

    def is_parallel(self) -> bool:
        """Whether every carried value is made behind the loop, and the rest can be done at once."""
        if any(i not in self.late for i in range(len(self.carried))):
            return False
        biggest = 1
        for e in self.equations:
            if e.primitive.holds_regions or e.primitive.batch_rule is None:
                return False
            biggest = max([biggest, *[v.type.size for v in e.outputs]])
        return biggest * self.count <= MOST

    def find_sums(self) -> None:
        """With no loop left all sums are taken behind it; those of products as one product."""
        for i, parts in self.late.items():
            self.late[i] = [self._as_product(late) for late in parts]

    def _as_product(self, late: Late) -> Late:
        if late.how == "add" and not any(
            type(x) is Var and x in self.moving for x in late.parts[1:]
        ):
            # The same place in every round: sum first, then write.
            sign = {"minus": late.params["minus"]}
            inner = self._as_product(Late("sum", late.parts[:1], sign, late.where))
            at = {"at": tuple(late.parts[1:]), "shape": late.params["shape"]}
            return Late(inner.how, inner.parts, {**inner.params, **at}, late.where)
        if late.how != "sum":
            return late
        found = self._product(late)
        if found is not None:
            return found
        e = self.makers.get(late.parts[0]) if type(late.parts[0]) is Var else None
        if e is None or e.primitive is not P.multiply or e.outputs[0].dtype.kind != "f":
            return late
        out = e.outputs[0].type
        if any(
            type(a) is not Var or a.dtype != out.dtype or a.shape not in ((), out.shape)
            for a in e.inputs
        ):
            return late
        labels = LETTERS[: out.ndim]
        names = [labels if a.shape else "" for a in e.inputs]
        params = {"subscripts": f"{','.join(names)}->{labels}", "sizes": (), **late.params}
        if not out.shape or all(names):
            return Late("contract", list(e.inputs), params, late.where)
        return late
