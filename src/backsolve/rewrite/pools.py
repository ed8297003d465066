"""Numbers that are read from many parts of one array are read from the whole.

    gather(concatenate(−x[2:], −x[1:−1], −x[:−2]), places)   is   gather(−x, other places)

So the numbers of a sparse matrix are often few arrays, read many times. Done if the parts together are more
than the whole: then less is computed, and less is written.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from .clean import atom_key
from .engine import raw


class _Part(NamedTuple):
    """f(source[start:stop:step]), by the equations of f from the last to the first."""

    source: Var
    places: range
    steps: tuple[Equation, ...]

    @property
    def key(self) -> Any:
        """The same of parts of one source by the same function."""
        names = [
            (e.primitive, *map(_hole, e.inputs), *sorted(e.params.items())) for e in self.steps
        ]
        return self.source, *names


def _hole(a: Any) -> Any:
    return None if type(a) is Var else atom_key(a)


def read_from_wholes(program: Program) -> Program:
    if not any(e.primitive.name == "gather" for e in program.equations):
        return program
    made = {v: e for e in program.equations for v in e.outputs}
    known = dict(program.constants)
    atoms = [a for e in program.equations for a in e.inputs] + list(program.outputs)
    uses = Counter(a for a in atoms if type(a) is Var)
    constants, kept = list(program.constants), []
    for e in program.equations:
        joined = made.get(e.inputs[0]) if e.primitive.name == "gather" else None
        index = raw(known.get(e.inputs[1])) if joined is not None and len(e.inputs) == 2 else None
        if (
            joined is None
            or type(index) is not np.ndarray
            or joined.primitive.name != "concatenate"
            or uses[e.inputs[0]] > 1
            or any(type(a) is not Var or a.type.ndim != 1 for a in joined.inputs)
        ):
            kept.append(e)
            continue
        parts = [_part(a, made, uses) for a in joined.inputs]
        pool, where = _pool(joined, parts)
        if where is None:
            kept.append(e)
            continue
        places = Var(type_of(index))
        constants.append((places, where[index].astype(index.dtype)))
        pieces = []
        for piece in pool:
            if isinstance(piece, _Part):
                found, steps = _of_whole(piece)
                kept.extend(steps)
                pieces.append(found)
            else:
                pieces.append(piece)
        whole = pieces[0]
        if len(pieces) > 1:
            starts = tuple(int(n) for n in np.cumsum([0, *[p.type.size for p in pieces]]))
            whole = Var(Type((starts[-1],), joined.outputs[0].dtype))
            params = {"axis": 0, "starts": starts}
            kept.append(Equation((whole,), joined.primitive, tuple(pieces), params, e.where))
        kept.append(e.reading((whole, places)))
    if len(constants) == len(program.constants):
        return program
    return Program(program.inputs, tuple(constants), tuple(kept), program.outputs)


def _part(a: Any, made: dict[Var, Equation], uses: Counter[Var]) -> _Part | None:
    """An array as a function, number by number, of a part of another; nobody else reads what it makes."""
    steps: list[Equation] = []
    while a in made:
        e = made[a]
        if e.primitive.name == "slice":
            source, spec = e.inputs[0], e.params["spec"]
            if type(source) is not Var or source.type.ndim != 1 or len(spec) != 1:
                return None
            return _Part(source, range(*slice(*spec[0]).indices(source.type.size)), tuple(steps))
        varying = [x for x in e.inputs if type(x) is Var]
        alone = uses[a] == 1 and len(varying) == 1
        if not alone or not e.primitive.elementwise or e.primitive.has_effect:
            return None
        if varying[0].type.shape != a.type.shape:
            return None
        steps.append(e)
        a = varying[0]
    return None


def _pool(joined: Equation, parts: list[_Part | None]) -> tuple[list[Any], Any]:
    """What to read from, and where in it each entry of what was joined stands; None if nothing is gained."""
    sums: Counter[Any] = Counter()
    for part in parts:
        if part is not None:
            sums[part.key] += len(part.places)
    pool: list[Any] = []
    starts: dict[Any, int] = {}
    where, size = [], 0
    for a, part in zip(joined.inputs, parts, strict=True):
        if part is None or sums[part.key] <= part.source.type.size:
            pool.append(a)
            where.append(size + np.arange(a.type.size))
            size += a.type.size
            continue
        if part.key not in starts:
            starts[part.key] = size
            pool.append(part)
            size += part.source.type.size
        where.append(starts[part.key] + np.asarray(part.places))
    return pool, np.concatenate(where) if starts else None


def _of_whole(part: _Part) -> tuple[Var, list[Equation]]:
    """The same function of the whole source."""
    x, found = part.source, []
    for e in reversed(part.steps):
        y = Var(Type(part.source.type.shape, e.outputs[0].dtype))
        inputs = tuple(x if type(a) is Var else a for a in e.inputs)
        found.append(Equation((y,), e.primitive, inputs, e.params, e.where))
        x = y
    return x, found
