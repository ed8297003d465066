"""A long function that staged code runs in several places: recorded once, and called from each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import BacksolveError
from ..hooks import hooks
from ..ir import Program, Type
from ..primitives.control import CALL
from ..regions import Callee
from ..tensor import Staged
from ..trace import innermost_region, is_recording
from .regions import Region


def once(f: Callable[..., Any], types: Sequence[Type], name: str) -> Callable[..., Any]:
    """f, of values of these types to one value that does not vary.

    Code of short functions is better where it stands: with its surroundings it is one kernel. A function with a
    loop is called.
    """
    if not is_recording():
        return f
    try:
        region = Region(lambda *values: [f(*values)], types, innermost_region())
    except (
        BacksolveError,
        TypeError,
        ValueError,
    ):  # what cannot be staged runs, or fails, in Python
        return f
    if not _loops(region.program):
        return f
    callee = Callee(name, region.outputs, region.with_inputs(region.variables))

    def called(*values: Any) -> Any:
        given = [*values, *region.captured]
        if not any(isinstance(v, Staged) for v in given):
            return f(*values)
        (result,) = region.results(CALL(*given, region=callee))
        return result

    return called


def _loops(program: Program) -> bool:
    return any(e.primitive.holds_regions for e in program.equations)


hooks.once = once
