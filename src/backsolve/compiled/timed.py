"""Programs as native code, timed on made-up numbers, for who chooses between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..ir import Program, Type
from ..regions import Branches, Loop
from ..solve.in_turns import seconds_in_turns
from .specialise import Rewritten, native_code

_BETWEEN = (0.3, 0.7)  # where most functions are defined, and no power or exponential goes far


def seconds_timed(programs: Sequence[Program]) -> list[float] | None:
    """Of each; None if one of them has no native code, or none that runs on any numbers and ends."""
    if not all(p.inputs and _takes_any(p) for p in programs):
        return None
    calls = []
    for program in programs:
        code, _ = native_code(program, Rewritten(program), (), (False, False))
        if code is None or code.stats["elsewhere"]:
            return None
        calls.append(partial(code.call, *_made_up([v.type for v in program.inputs])))
    try:
        if any(call() is NotImplemented for call in calls):
            return None
    except Exception:  # these numbers have no such result; the user's may
        return None
    return seconds_in_turns(calls)


def _takes_any(program: Program) -> bool:
    """Places may not be made up; nor what a loop waits for, or a function that calls itself."""
    return all(v.dtype.kind in "fcb" for v in program.inputs) and _ends(program)


def _ends(program: Program) -> bool:
    regions = [e.params.get("region") for e in program.equations if e.primitive.holds_regions]
    return all(
        region is None
        or (
            isinstance(region, Loop | Branches)
            and getattr(region, "goes_on", None) is None
            and all(map(_ends, region.programs()))
        )
        for region in regions
    )


def _made_up(types: Sequence[Type]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [_numbers(rng, t) for t in types]


def _numbers(rng: np.random.Generator, t: Type) -> Any:
    drawn = rng.uniform(*_BETWEEN, t.shape)
    if t.dtype.kind == "b":
        drawn = np.asarray(drawn > np.mean(_BETWEEN))
    elif t.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(*_BETWEEN, t.shape)
    whole = np.asarray(drawn).astype(t.dtype)
    return whole.item() if t.weak else whole
