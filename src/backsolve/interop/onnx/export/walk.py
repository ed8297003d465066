"""A Program as nodes of a graph, equation by equation; several that are one operator together, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import BackendError
from ....ir import Equation, Program, Var, is_uniform, type_of
from .graph import Graph
from .joined import RECOGNISERS
from .rows import ROWS
from .sizes import Counting, Uniform

_FEW = 64  # entries of a constant that is written out though they are all one number


class Walk:
    """One Program, or the body of a region, with names for its inputs."""

    def __init__(self, g: Graph, program: Program, inputs: Sequence[Any], names: Any = None):
        self.g, self.program = g, program
        self.values: dict[Var, Any] = dict(zip(program.inputs, inputs, strict=True))
        self._makers: dict[Var, Equation] = {}
        self._constants = dict(program.constants)
        read = [a for e in program.equations for a in e.inputs] + list(program.outputs)
        self._reads = Counter(a for a in read if type(a) is Var)
        for v, c in program.constants:
            self.values[v] = self._constant(getattr(c, "_v", c), (names or {}).get(v, ""))

    def run(self) -> list[Any]:
        """The names of the outputs."""
        for e in self.program.equations:
            self.values.update(zip(e.outputs, self._equation(e), strict=True))
            self._makers.update((v, e) for v in e.outputs)
        return [self.value(a) for a in self.program.outputs]

    def value(self, a: Any) -> Any:
        return self.values[a] if type(a) is Var else self.g.number(a, type_of(a).dtype)

    def maker(self, a: Any) -> Equation | None:
        """The equation that made a value."""
        return self._makers.get(a) if type(a) is Var else None

    def reads(self, a: Any) -> int:
        """How often a value is read, by equations or as a result."""
        return self._reads[a] if type(a) is Var else 0

    def number(self, a: Any) -> Any:
        """The number that a constant is everywhere, or None."""
        if type(a) is not Var:
            return a
        c: Any = getattr(self._constants.get(a), "_v", self._constants.get(a))
        if isinstance(c, Uniform):
            return c.value
        return c.flat[0] if is_uniform(c) else None

    def _constant(self, c: Any, name: str) -> str:
        g = self.g
        if isinstance(c, Uniform):
            return g.expand(g.number(c.value, c.dtype), c.shape)
        if isinstance(c, Counting):
            axis = max(range(len(c.shape)), key=lambda k: int(c.shape[k]))
            end = g.length(c.shape[axis])
            line = g.Range(g.number(0, np.int64), end, g.number(1, np.int64))
            y = g.unsqueeze(line, [k for k in range(len(c.shape)) if k != axis])
            return g.cast(y, np.int64, c.dtype)
        if np.asarray(c).dtype.kind == "c":
            raise BackendError(
                "ONNX has no operators for complex numbers, and a constant has them", at=""
            )
        c = np.asarray(c)
        if c.size > _FEW and not name and is_uniform(c):
            return g.expand(g.number(c.flat[0], c.dtype), c.shape)
        return g.constant(c, name)

    def _equation(self, e: Equation) -> Sequence[Any]:
        if e.primitive.holds_regions:
            from .regions import REGIONS

            if e.primitive.name not in REGIONS:
                raise _refused(e, "it stores what recursive calls need. Write a loop")
            return REGIONS[e.primitive.name](self.g, e, [self.value(a) for a in e.inputs])
        name = e.primitive.name
        types = [type_of(a) for a in (*e.inputs, *e.outputs)]
        if any(t.dtype.kind == "c" for t in types):
            raise _refused(e, "it has complex numbers here, for which ONNX has no operators")
        if any(t.size == 0 for t in types) and (y := self._empty(e)) is not None:
            return [y]
        for recogniser in RECOGNISERS.get(name, ()):
            if (y := recogniser(self, e)) is not None:
                return [y]
        inputs = [self.value(a) for a in e.inputs]
        if name in ROWS:
            return [ROWS[name](self.g, e, inputs)]
        raise _refused(e, "write it in functions that ONNX has, or leave this part out")

    def _empty(self, e: Equation) -> str | None:
        """What has no entries has none, whatever computes it."""
        out = e.outputs[0].type
        return self.g.zeros(out.shape, out.dtype) if out.size == 0 else None


def _refused(e: Equation, what: str) -> BackendError:
    return BackendError(f"ONNX has no form for `{e.primitive.name}`: {what}", at=e.where or "")
