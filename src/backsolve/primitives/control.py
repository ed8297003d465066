"""The primitives that hold regions. They have no row in the tables: `control/` says what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir import Type
from ..primitive import Primitive
from ..regions import Branches, Loop


class RegionPrimitive(Primitive):
    """Called with `region=`; gives a list of results."""

    holds_regions, is_plain = True, False
    bind: Callable[..., list[Any]]  # set by control/bind.py

    def __init__(self, name: str):
        super().__init__(name, lambda: None)

    def __call__(self, *args: Any, **params: Any) -> Any:
        return RegionPrimitive.bind(self, args, params["region"])

    def infer(self, types: Sequence[Type], params: dict[str, Any]) -> list[Type]:
        region = params["region"]
        if isinstance(region, Loop | Branches):
            region.check_inputs(types)
        return list(region.outputs())


LOOP = RegionPrimitive("loop")
BRANCH = RegionPrimitive("branch")
CALL = RegionPrimitive("call")
NO_ENTRIES = RegionPrimitive("no_entries")  # an empty stack
LENGTH = RegionPrimitive("length")  # how many entries a stack has
BOX = RegionPrimitive("box")  # several values as one
UNBOX = RegionPrimitive("unbox")
