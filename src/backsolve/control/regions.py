"""From Python functions to regions: record them, and turn what they close over into inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import tree
from ..errors import CarriedTypeError, StructureError
from ..ir import Program, Type, Var, type_of
from ..primitives.checks import Messages
from ..tensor import Staged, Tensor
from ..trace import Recorder, evaluate, innermost_region, stage_region
from .checks import Failure, noted

MOST_PLACES = 4096  # entries of a constant that stays inside a region


def type_of_leaf(x: Any) -> Type:
    """Of a number, an array or a Tensor; a Python number stays weak."""
    if isinstance(x, Tensor):
        return x._v.type if type(x._v) is Var else type_of(x._v)
    return type_of(x if type(x) in (bool, int, float, complex) else np.asarray(x))


def is_value(x: Any) -> bool:
    return isinstance(x, Tensor | np.ndarray | np.generic | bool | int | float | complex)


@dataclass
class Form:
    """A tree of state: the leaves that are values, and all that stands for itself."""

    structure: tree.Structure
    leaves: list[Any]
    values: list[int] = field(default_factory=list)  # which leaves are values

    @staticmethod
    def of(state: Any) -> Form:
        return Form._from(*tree.flatten(state))

    @staticmethod
    def of_arguments(args: Any, kwargs: Any, carried: int = 0) -> Form:
        """Counts, flags and axes stay what they are; arrays, what is traced and the first leaves, which are
        `carried`, are values."""
        leaves, structure = tree.flatten((args, kwargs))
        given = [isinstance(x, Tensor | np.ndarray) for x in leaves[carried:]]
        flags = [*map(is_value, leaves[:carried]), *given]
        return Form(structure, leaves, [k for k, flag in enumerate(flags) if flag])

    @staticmethod
    def _from(leaves: list[Any], structure: tree.Structure) -> Form:
        return Form(structure, leaves, [k for k, x in enumerate(leaves) if is_value(x)])

    def taken(self) -> list[Any]:
        return [self.leaves[k] for k in self.values]

    def filled(self, values: Sequence[Any]) -> Any:
        full = list(self.leaves)
        for k, v in zip(self.values, values, strict=True):
            full[k] = v
        return self.structure.unflatten(full)

    def match(self, state: Any, what: str) -> list[Any]:
        """The values of another state of this form."""
        other = Form._from(*tree.flatten_like(state, self.structure))
        if other.structure != self.structure or other.values != self.values:
            raise StructureError(
                f"{what} must give a state of one form, got {_shown(self)} and {_shown(other)}"
            )
        for k, (x, y) in enumerate(zip(self.leaves, other.leaves, strict=True)):
            if k not in self.values and x is not y and x != y:
                raise StructureError(f"{what} must not change {x!r} to {y!r}: it is no number")
        return other.taken()


def _shown(form: Form) -> Any:
    names = [str(type_of_leaf(x)) if is_value(x) else repr(x) for x in form.leaves]
    return form.structure.unflatten(names)


class Region:
    """A recorded region and the outer values it reads: further inputs of its Program."""

    def __init__(
        self,
        f: Callable[..., Sequence[Any]],
        types: Sequence[Type],
        outer: Recorder | None,
        messages: Messages = (),
    ):
        self.messages = messages  # if there are any, its last result says which assertion failed

        def run(*values: Any) -> list[Any]:
            results, failure = f(*values), noted()
            self.messages = tuple(sorted({*self.messages, *failure.messages}))
            return [*results, failure.code] if self.messages else [*results]

        recorded = stage_region(run, types, outer)
        kept, self.captured, variables = [], [], []
        for v, c in recorded.constants:
            if not isinstance(c, Tensor) and (np.ndim(c) == 0 or _are_places(c)):
                kept.append((v, c))
            else:
                variables.append(v)
                self.captured.append(c)
        self.variables = variables
        self.program = Program(recorded.inputs, tuple(kept), recorded.equations, recorded.outputs)

    def results(self, outputs: list[Any]) -> list[Any]:
        """Of its outputs, those that are the user's; what failed is reported."""
        if self.messages:
            *outputs, code = outputs
            Failure(code, self.messages).report()
        return outputs

    @property
    def outputs(self) -> list[Type]:
        return [type_of(a) for a in self.program.outputs]

    def cast(self, types: Sequence[Type]) -> None:
        """Give the first results other types. What was recorded is copied: to run it again may take long."""
        whole, n = self.with_inputs(self.variables), len(self.program.inputs)

        def run(*values: Any) -> list[Any]:
            results = evaluate(whole, values)
            return [cast_to(x, t) for x, t in zip(results, types, strict=False)] + results[
                len(types) :
            ]

        copy = stage_region(run, [v.type for v in whole.inputs], None)
        self.variables = list(copy.inputs[n:])
        self.program = Program(copy.inputs[:n], copy.constants, copy.equations, copy.outputs)

    def with_inputs(self, variables: Sequence[Var]) -> Program:
        p = self.program
        return Program((*p.inputs, *variables), p.constants, p.equations, p.outputs)


def _are_places(c: Any) -> bool:
    """Integers that say where to look: what is known of them saves work inside the region."""
    return bool(np.size(c) <= MOST_PLACES and np.asarray(c).dtype.kind in "biu")


def join(regions: Sequence[Region]) -> tuple[list[Any], list[Program]]:
    """What any of the regions reads outside, once each; and their Programs with all of it as inputs."""
    order: dict[Any, Any] = {}
    for region in regions:
        for c in region.captured:
            order.setdefault(_identity(c), c)
    programs = []
    for region in regions:
        mine = {_identity(c): v for c, v in zip(region.captured, region.variables, strict=True)}
        inputs = []
        for key, c in order.items():
            t = type_of_leaf(c)
            inputs.append(mine.get(key) or Var(t))
        programs.append(region.with_inputs(inputs))
    return list(order.values()), programs


def _identity(c: Any) -> Any:
    return (id(c._v), c.row) if isinstance(c, Tensor) else id(c)


def settle(
    what: str, before: Sequence[Type], after: Sequence[Type], names: Sequence[str]
) -> list[Type]:
    """The types of carried values for the next try: a bare number takes the type that it becomes."""
    types = []
    for name, old, new in zip(names, before, after, strict=True):
        if (old.shape, old.dtype) == (new.shape, new.dtype):
            types.append(old if old.weak == new.weak or not old.weak else new)
        elif old.weak and old.shape == new.shape and widens(old, new):
            types.append(new)
        elif new.weak and old.shape == new.shape and widens(new, old):
            types.append(old)
        else:
            raise CarriedTypeError(
                f"{name} is {old} before {what} and {new} after it; a carried value keeps its shape and dtype. "
                f"Start from a value of the later type, such as np.zeros({new.shape}, {new.dtype.name!r})"
            )
    return types


def common(a: list[Type], b: list[Type], names: list[str]) -> list[Type]:
    """One type for the results of both branches: as NumPy would promote them."""
    out = []
    for s, t, name in zip(a, b, names, strict=False):  # behind them, perhaps, what failed
        if s.shape != t.shape:
            settle("one branch", [s], [t], [name])
        weak = s.weak and t.weak
        if weak or s.weak == t.weak:
            dtype = np.result_type(s.dtype, t.dtype)
        else:
            strong, number = (t, s) if s.weak else (s, t)
            dtype = np.result_type(strong.dtype, number.dtype.type(0).item())
        out.append(Type(s.shape, dtype, weak))
    return out


def widens(old: Type, new: Type) -> bool:
    return "biufc".index(old.dtype.kind) <= "biufc".index(new.dtype.kind)


def cast_to(x: Any, t: Type) -> Any:
    """A value as the region takes it."""
    have = type_of_leaf(x)
    if (have.shape, have.dtype) == (t.shape, t.dtype):
        if have.weak and not t.weak:
            return x.astype(t.dtype) if isinstance(x, Tensor) else t.dtype.type(x)
        return x
    if isinstance(x, Tensor):
        return x.astype(t.dtype)
    if type(x) in (bool, int, float, complex):
        return t.dtype.type(x).item() if t.weak else t.dtype.type(x)
    return np.asarray(x).astype(t.dtype)[()]


def varies_outside(values: Sequence[Any]) -> bool:
    """Whether one varies by what is older than the Program that is being recorded, which is derived later."""
    recorders = [r for r in (innermost_region(), outer_recorder(values)) if r is not None]
    begin = max([r.begin for r in recorders], default=0)
    rows = [x.row for x in values if isinstance(x, Tensor)]
    return any(r is not None and r.index < begin for r in rows)


def outer_recorder(values: Sequence[Any]) -> Recorder | None:
    staged = [x._v.recorder for x in values if isinstance(x, Staged)]
    return max(staged, key=lambda r: r.level) if staged else None
