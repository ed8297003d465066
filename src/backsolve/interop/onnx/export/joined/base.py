"""What recognisers share: the walk, which knows what made a value and how often it is read; padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from .....ir import Equation, Var, type_of
from .....operators.windows import Cut
from ..graph import Graph
from ..sizes import Size


class Walk(Protocol):
    g: Graph

    def value(self, a: Any) -> Any: ...
    def maker(self, a: Any) -> Equation | None: ...
    def number(self, a: Any) -> Any: ...
    def reads(self, a: Any) -> int: ...


Recogniser = Callable[[Walk, Equation], str | None]
RECOGNISERS: dict[str, list[Recogniser]] = {}


def recogniser(*names: str) -> Callable[[Recogniser], Recogniser]:
    """For equations of these rows, which may be the last of several that one operator does."""

    def enter(f: Recogniser) -> Recogniser:
        for name in names:
            RECOGNISERS.setdefault(name, []).append(f)
        return f

    return enter


def made_by(walk: Walk, a: Any, *names: str) -> Equation | None:
    """The equation that made a value, if it is of one of these rows."""
    source = walk.maker(a)
    return source if source is not None and source.primitive.name in names else None


def both_ways(e: Equation) -> list[tuple[Any, Any]]:
    """The two inputs of a row whose order does not matter."""
    a, b = e.inputs
    return [(a, b), (b, a)]


def is_like(a: Any, dtype: Any) -> bool:
    """An array of that dtype: what an operator takes as it is."""
    return type(a) is Var and a.type.dtype == dtype


def shaped(walk: Walk, a: Any, shape: Sequence[int]) -> str:
    """A value in a shape, which it may have had before it was reshaped."""
    source = made_by(walk, a, "reshape")
    if source is not None and tuple(type_of(source.inputs[0]).shape) == tuple(shape):
        return str(walk.value(source.inputs[0]))
    same = tuple(type_of(a).shape) == tuple(shape)
    return str(walk.value(a)) if same else walk.g.reshape(walk.value(a), shape)


def per_channel(walk: Walk, a: Any, shape: Sequence[int], dtype: Any) -> str | None:
    """A number for each channel of an array (N, C, …), as a vector."""
    if not is_like(a, dtype) or len(shape) < 2:
        return None
    wanted = (shape[1], *[1] * (len(shape) - 2))
    if tuple(type_of(a).shape) not in (wanted, (1, *wanted)):
        return None
    return shaped(walk, a, shape[1:2])


class Padded(NamedTuple):
    """An array that is cut into windows, and what an operator puts around it: entries before and after."""

    array: Any
    before: list[int]
    after: list[int]


def not_padded(a: Any, cut: Cut) -> Padded:
    return Padded(a, [0] * len(cut.axes), [0] * len(cut.axes))


def padding(part: Any, spec: Any, whole: Any, cut: Cut) -> Padded | None:
    """How far a part stands inside of the whole, if only along axes that are cut."""
    inner = type_of(part).shape
    if len(inner) != len(whole) or any(type(entry) is not tuple for entry in spec):
        return None
    before, after = [0] * len(whole), [0] * len(whole)
    for k, entry in enumerate(spec):
        if entry == (None, None, None):
            continue
        start, _, step = entry
        if step not in (None, 1) or k not in cut.axes or (start or 0) < 0:
            return None
        before[k] = start or 0
        after[k] = whole[k] - before[k] - inner[k]
    if any(isinstance(n, Size) for n in (*before, *after)):
        return None
    return Padded(part, [before[k] for k in cut.axes], [after[k] for k in cut.axes])


def without_zeros(walk: Walk, a: Any, cut: Cut) -> Padded:
    """The array that is cut, and zeros around it that an operator can put there itself."""
    source = made_by(walk, a, "unslice")
    if source is None or type_of(source.inputs[0]).dtype != type_of(a).dtype:
        return not_padded(a, cut)
    found = padding(source.inputs[0], source.params["spec"], source.params["shape"], cut)
    return found or not_padded(a, cut)
