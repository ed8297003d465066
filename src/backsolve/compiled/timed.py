"""Programs as native code, timed on made-up numbers, for who chooses between them.

What was found is kept, in memory and on disk beside the code: another process chooses as this one did.
Constants count by their types alone, so that a network whose weights have changed is not timed again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..ir import Program, Type
from ..regions import Branches, Loop
from ..solve.in_turns import seconds_in_turns
from .specialise import Rewritten, is_for_native_code, native_code, without_constants

_BETWEEN = (0.3, 0.7)  # where most functions are defined, and no power or exponential goes far
_LARGEST = 1 << 24  # numbers of all arguments that are made up
_SUFFIX = ".times"


def seconds_timed(programs: Sequence[Program]) -> list[float] | None:
    """Of each; None if one of them has no native code, or none that runs on any numbers and ends."""
    if not all(p.inputs and _takes_any(p) for p in programs):
        return None
    key = _key(programs)
    kept = _kept(key)
    if kept is None:
        kept = _timed_now(programs)
        _keep(key, kept)
    return kept or None


def seconds_as_compiled(programs: Sequence[Program]) -> list[float] | None:
    """The same, if what is being recorded becomes native code as well."""
    return seconds_timed(programs) if is_for_native_code() else None


def _timed_now(programs: Sequence[Program]) -> list[float]:
    """Empty where numbers tell nothing."""
    from ..backends.native.threads import get_threads

    calls = []
    for program in programs:
        code, _ = native_code(program, Rewritten(program), (), (False, False))
        if code is None or code.stats["elsewhere"]:
            return []
        calls.append(partial(code.call, *_made_up([v.type for v in program.inputs])))
    try:
        if any(call() is NotImplemented for call in calls):
            return []
    except Exception:  # these numbers have no such result; the user's may
        return []
    # Of one thread its own time, whatever else runs on its core; if the clock of that goes by nanoseconds.
    is_fine = time.get_clock_info("thread_time").resolution < 1e-7
    return seconds_in_turns(calls, time.thread_time if is_fine and get_threads() == 1 else None)


def _takes_any(program: Program) -> bool:
    """Places may not be made up; nor what a loop waits for, or a function that calls itself."""
    types = [v.type for v in program.inputs]
    is_small = sum(t.size for t in types) <= _LARGEST
    return is_small and all(t.dtype.kind in "fcb" for t in types) and _ends(program)


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


# ---- what is kept

_known: dict[str, list[float]] = {}
_MANY = 4096


def _key(programs: Sequence[Program]) -> str | None:
    from ..backends.native.recipes import key_of

    keys = [key_of(without_constants(p)) for p in programs]
    return None if None in keys else hashlib.sha256(repr(keys).encode()).hexdigest()


def _kept(key: str | None) -> list[float] | None:
    from ..backends.native.disk import disk

    files = disk()
    if key is None or key in _known or files is None:
        return _known.get(key or "")
    content = files.read(key, _SUFFIX)
    return None if content is None else _known.setdefault(key, json.loads(content))


def _keep(key: str | None, times: list[float]) -> None:
    from ..backends.native.disk import disk

    if key is None:
        return
    while len(_known) >= _MANY:
        _known.pop(next(iter(_known)), None)
    _known[key] = times
    files = disk()
    if files is not None:
        files.write(key, json.dumps(times).encode(), _SUFFIX)
