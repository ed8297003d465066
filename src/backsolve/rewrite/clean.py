"""Common sub-expressions and dead code."""

from __future__ import annotations

from typing import Any

from ..ir import Program, Var

# a ∘ b = b ∘ a in every bit. (The larger of +0 and −0 depends on the order.)
COMMUTE = {"add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"}
COMMUTE |= {"bitwise_and", "bitwise_or", "bitwise_xor"}


def merge_repeated(program: Program) -> Program:
    """Equal primitives on equal inputs with equal metadata are computed once."""
    known: dict[Any, tuple[Var, ...]] = {}
    same: dict[Var, Var] = {}

    def now(a: Any) -> Any:
        return same.get(a, a) if type(a) is Var else a

    kept = []
    for e in program.equations:
        inputs = tuple([now(a) for a in e.inputs]) if same else e.inputs
        if not e.primitive.holds_regions:
            atoms = [a if type(a) is Var else atom_key(a) for a in inputs]
            pair = e.primitive.name in COMMUTE
            params = tuple(sorted(e.params.items())) if e.params else ()
            key = (e.primitive, frozenset(atoms) if pair else tuple(atoms), params)
            found = known.get(key)
            if found is not None:
                same.update(zip(e.outputs, found, strict=True))
                continue
            known[key] = e.outputs
        kept.append(e.reading(inputs))
    outputs = tuple(now(a) for a in program.outputs)
    return Program(program.inputs, program.constants, tuple(kept), outputs)


def atom_key(a: Any) -> tuple[int, Any, str]:
    """Python scalars of different types or signs of zero are different atoms."""
    return (0, a.serial, "") if type(a) is Var else (1, type(a).__name__, repr(a))


def drop_unused(program: Program) -> Program:
    """Equations and constants that no output and no check rests on go."""
    needed = set(program.outputs)
    kept = []
    for e in reversed(program.equations):
        if e.primitive.has_effect or not needed.isdisjoint(e.outputs):
            kept.append(e)
            needed.update(e.inputs)
    constants = tuple((v, c) for v, c in program.constants if v in needed)
    return Program(program.inputs, constants, tuple(reversed(kept)), program.outputs)
