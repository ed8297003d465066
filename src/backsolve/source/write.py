"""From a recording to lines of Python: names, what is inlined, what is left out.

Forward equations are one line each (`s0 = w * x`). Of the derivative, a value that is used once is
written into the line that uses it (`grad_s3 = grad_f * (f * (1 - f))`), one that is used more often
gets a line of its own (`t0 = …`), and so nothing is computed twice.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir import Equation, Type, Var, type_of
from ..operators.nests import split_subscripts
from ..primitive import P
from ..row import Row
from .record import Step, Tracer
from .spell import ATOM, BINDS, SIGN, Text, array_text, literal, spell

_NAME = re.compile(r"[A-Za-z_]\w*")
_WIDTH = 40  # a derivative longer than this gets a line of its own
# Functions that always make a new array, as operators do; others may return a view.
_NEW = {"where", "sum", "unslice", "scatter_add"}


@dataclass(frozen=True, slots=True)
class Line:
    target: str
    code: str
    symbol: str = "="
    note: str = ""

    def __str__(self) -> str:
        line = f"{self.target} {self.symbol} {self.code}"
        return f"{line}  # {self.note}" if self.note else line


class Writer:
    """Writes the equations of a Tracer; `lines` grows as values are asked for."""

    def __init__(
        self,
        tracer: Tracer,
        taken: Iterable[str],
        roots: Sequence[Any],
        varying: Iterable[Row] = (),
        longest: int | None = None,  # entries of a constant that is written out
    ):
        self.tracer = tracer
        self.equation: dict[Any, Equation] = {e.outputs[0]: e for e in tracer.recorder.equations}
        self.constants = tracer.constants()
        self.varying = {tracer.var_of.get(row) for row in varying}
        self.longest = longest
        self.uses = self._count(roots)
        self.lines: list[Line] = []
        self.constant_lines: list[Line] = []
        self.names: dict[Any, str] = {}
        self.taken = set(taken)
        self.python: set[Any] = set()  # variables that may hold a bare Python number
        self.temporary, self.constant_name = self.numbered("t"), self.numbered("c")

    def _count(self, roots: Sequence[Any]) -> Counter[Any]:
        """How often each live variable is read."""
        uses: Counter[Any] = Counter(a for a in roots if type(a) is Var)
        for e in reversed(self.tracer.recorder.equations):
            if uses[e.outputs[0]]:
                uses.update(a for a in e.inputs if type(a) is Var)
        return uses

    # ---- names

    def free(self, wish: str) -> str:
        while wish in self.taken:
            wish += "_"
        self.taken.add(wish)
        return wish

    def numbered(self, letter: str) -> Callable[[], str]:
        names = (f"{letter}{k}" for k in itertools.count())
        return lambda: self.free(next(n for n in names if n not in self.taken))

    def name_input(self, var: Var, name: str) -> None:
        self.names[var] = name
        if not var.shape:
            self.python.add(var)

    # ---- values

    def text(self, a: Any, weak: bool = False) -> Text:
        """An atom as an expression; `weak`: a constant may stand as a bare Python number."""
        if type(a) is not Var:
            return literal(a)
        if a in self.names:
            return Text(self.names[a], python=a in self.python)
        if a in self.constants:
            return self._constant(a, weak)
        text = self.spelled(a)
        if self.uses[a] == 1 and len(text.code) <= _WIDTH:
            return text
        return self.put(a, self.temporary(), text)

    def spelled(self, var: Var) -> Text:
        """The right-hand side of the equation of `var`."""
        e = self.equation[var]
        types = [type_of(a) for a in e.inputs]
        args = []
        for k, a in enumerate(e.inputs):
            weaker = self._weakened(e, types, k)
            types = weaker or types
            args.append(self.text(a, weaker is not None))
        return spell(e.primitive, args, types, e.params)

    def _weakened(self, e: Equation, types: list[Type], k: int) -> list[Type] | None:
        """Does a Python number in the k-th place give the same dtype? Then it reads better."""
        a = e.inputs[k]
        if a not in self.constants or a.shape or not e.primitive.elementwise:
            return None
        if a.dtype.name not in ("float64", "int64", "bool", "complex128"):
            return None
        weaker = [*types[:k], replace(types[k], weak=True), *types[k + 1 :]]
        (out,) = e.primitive.infer(weaker, e.params)
        return weaker if out.dtype == e.outputs[0].dtype else None

    def _constant(self, var: Var, weak: bool) -> Text:
        value = self.constants[var]
        if weak:
            return literal(value.item())
        if self.longest is not None and value.size > self.longest:
            self.names[var] = self.constant_name()
            what = str(Type(value.shape, value.dtype))
            self.constant_lines.append(Line(self.names[var], "...", note=what))
            return Text(self.names[var])
        code = array_text(value)
        if not value.ndim or (self.uses[var] == 1 and len(code) <= _WIDTH):
            return Text(code)
        self.names[var] = self.constant_name()
        self.constant_lines.append(Line(self.names[var], code))
        return Text(self.names[var])

    def put(self, var: Var, name: str, text: Text, symbol: str = "=") -> Text:
        self.lines.append(Line(name, text.code, symbol, self._nest(var, name, text)))
        self.names[var] = name
        if text.python:
            self.python.add(var)
        return Text(name, python=text.python)

    def _nest(self, var: Var, name: str, text: Text) -> str:
        """What an einsum means, as loops: `Y[i,j] += A[i,k] * B[k,j]`."""
        e = self.equation.get(var)
        if e is None or e.primitive is not P.contract or not text.code.startswith("np.einsum"):
            return ""
        factors = [self.names.get(a) for a in e.inputs]
        if None in factors:
            return ""
        inputs, output = split_subscripts(e.params["subscripts"])
        parts = [
            f"{x}[{','.join(labels)}]" if labels else x
            for x, labels in zip([name, *factors], [output, *inputs], strict=True)
        ]
        return f"{parts[0]} += {' * '.join(map(str, parts[1:]))}"

    def value_line(self, name: str, atom: Any) -> None:
        """`name = atom`, for an atom that no equation computes or one that has another name."""
        self.lines.append(Line(name, self.whole(atom)))

    def zero_line(self, name: str, row: Row) -> None:
        zero = np.zeros(row.shape, row.dtype)
        code = "0.0" if not row.shape and row.dtype == np.float64 else array_text(zero)
        self.lines.append(Line(name, code))

    def whole(self, atom: Any) -> str:
        """An atom that stands alone, where a float64 is as good as a Python float."""
        number = type(atom) is Var and atom in self.constants and atom.dtype == np.float64
        return self.text(atom, weak=number and not atom.shape).code

    # ---- the two passes

    def forward(self, equations: Sequence[Equation], output: Any, name: str) -> None:
        """A line for every equation that is needed; the output is called `name`."""
        fresh = self.numbered("s")
        for e in equations:
            (var,) = e.outputs
            if self.uses[var]:
                text = self.spelled(var)
                self.put(var, name if var is output else fresh(), text)
            elif var in self.varying:  # its value is not needed, but its adjoint wants a name
                self.names[var] = name if var is output else fresh()

    def backward(self, steps: Sequence[Step | Row], seed: Var, name: str) -> dict[Row, str]:
        """The lines of the adjoints; the name of every row's."""
        one = f"np.{seed.dtype.name}(1.0)" if seed.dtype != np.float64 else "1.0"
        self.put(seed, self.free(f"grad_{name}"), Text(one, python=one == "1.0"))
        adjoint: dict[Row, str] = {}
        last: dict[Row, Any] = {}
        owned: set[str] = set()  # names that hold an array of their own
        following = _following(steps)
        for k, step in enumerate(steps):
            if not isinstance(step, Step):
                self.names[last[step]] = adjoint[step]
                continue
            row, total = step.row, step.total
            if step.part is not None:
                self._accumulate(step, adjoint[row], last[row], owned, following[k])
            elif total is seed and self.name_of(row) == name:
                adjoint[row] = self.names[seed]
            else:
                adjoint[row] = self.free(f"grad_{self.name_of(row)}")
                self._assign(total, adjoint[row], owned, following[k])
            last[row] = total
        return adjoint

    def name_of(self, row: Row) -> str:
        return self.names.get(self.tracer.var_of.get(row), "t")

    def _assign(self, var: Any, name: str, owned: set[str], following: Step | None) -> None:
        """`name = …`, the first contribution to an adjoint."""
        if type(var) is not Var or var in self.names or var in self.constants:
            self.value_line(name, var)
        elif self._has_other_readers(var, following):
            self.put(var, self.temporary(), self.spelled(var))
            self.value_line(name, var)
        else:
            text = self.spelled(var)
            self.put(var, name, text)
            if text.binds != ATOM or self.equation[var].primitive.name in _NEW:
                owned.add(name)

    def _accumulate(
        self, step: Step, name: str, old: Any, owned: set[str], following: Step | None
    ) -> None:
        """`name += …`; in place only where no other name can hold the same array."""
        total = step.total
        if total in self.names or total in self.constants:
            self.value_line(name, total)
            owned.discard(name)
            return
        part = self._part(step.part)
        if self.names.get(old) == name:
            del self.names[old]
        symbol, part = (
            ("-", Text(part.code[1:], part.binds, part.python))
            if (part.binds == SIGN and part.code.startswith("-"))
            else ("+", part)
        )
        added = Text(f"{name} {symbol} {part.within(BINDS['+'] + 1)}", BINDS["+"], part.python)
        if self._has_other_readers(total, following):
            self.put(total, self.temporary(), added)
            self.value_line(name, total)
            owned.discard(name)
        elif name in owned:
            self.put(total, name, part, f"{symbol}=")
        else:
            self.put(total, name, added)
            owned.add(name)

    def _part(self, a: Any) -> Text:
        """What is added: on the line itself, however long, if it is read only there."""
        known = type(a) is not Var or a in self.names or a in self.constants
        return self.text(a) if known or self.uses[a] > 1 else self.spelled(a)

    def _has_other_readers(self, var: Var, following: Step | None) -> bool:
        """Is `var` read after its name has come to mean the next sum?"""
        if following is None:
            return False
        e = self.equation.get(following.total)
        reads = sum(a is var for a in e.inputs) if e is not None else 0
        return self.uses[var] > 1 + reads

    # ---- what is left

    def needed(self, wanted: Iterable[str]) -> list[Line]:
        """The lines that lead to `wanted`, constants first."""
        live = set(wanted)
        kept: list[Line] = []
        for line in reversed(self.constant_lines + self.lines):
            if line.target in live:
                if line.symbol == "=":
                    live.discard(line.target)
                live.update(_NAME.findall(line.code))
                kept.append(line)
        return kept[::-1]


def _following(steps: Sequence[Step | Row]) -> list[Step | None]:
    """For every step the next one of the same row."""
    found: list[Step | None] = []
    ahead: dict[Row, Step] = {}
    for step in reversed(steps):
        found.append(ahead.get(step.row) if isinstance(step, Step) else None)
        if isinstance(step, Step):
            ahead[step.row] = step
    return found[::-1]
