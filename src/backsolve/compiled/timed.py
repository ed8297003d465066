"""Programs as native code, timed on made-up numbers, for who chooses between them.

What was found is kept, in memory and on disk beside the code: another process chooses as this one did.
Constants count by their types alone, so that a network whose weights have changed is not timed again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P
from ..regions import Branches, Callee, Empty, Length, Loop
from ..rewrite import rewrite
from ..rewrite.regions import inside
from ..solve.in_turns import seconds_in_turns
from ..trace import evaluate, stage_region
from .specialise import Rewritten, is_for_native_code, native_code, without_constants

_BETWEEN = (0.3, 0.7)  # where most functions are defined, and no power or exponential goes far
_LARGEST = 1 << 24  # numbers of all arguments that are made up
# Integers may be places, of whatever is not too short for them, or say how often something is done: larger ones
# are tried as long as they fit and do not take long.
_BELOW = (1, 2, 4, 8, 16, 32)
_LONG = 0.01  # seconds
_ROUNDS = 4  # at least, of a loop until something holds; at most as many as it is priced by
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

    codes = []
    for program in programs:
        ending = _ending(program)
        code, _ = native_code(ending, Rewritten(ending), (), (False, False))
        if code is None or code.stats["elsewhere"]:
            return []
        codes.append(code)
    types = [[v.type for v in p.inputs] for p in programs]
    has_integers = any(t.dtype.kind in "iu" for ts in types for t in ts)
    found: Sequence[Callable[[], Any]] = []
    for below in _BELOW if has_integers else _BELOW[-1:]:
        pairs = zip(codes, types, strict=True)
        calls = [partial(code.call, *_made_up(ts, below)) for code, ts in pairs]
        began = time.perf_counter()
        if all(map(_runs, calls)):
            found = calls
        if time.perf_counter() - began > _LONG:
            break
    if not found:
        return []
    # Of one thread its own time, whatever else runs on its core; if the clock of that goes by nanoseconds.
    is_fine = time.get_clock_info("thread_time").resolution < 1e-7
    return seconds_in_turns(found, time.thread_time if is_fine and get_threads() == 1 else None)


def _runs(call: Callable[[], Any]) -> bool:
    try:
        return call() is not NotImplemented
    except Exception:  # these numbers have no such result; the user's may
        return False


def _takes_any(program: Program) -> bool:
    """Whether so many numbers may be made up, and what it calls ends: not a function that calls itself."""
    is_small = sum(v.type.size for v in program.inputs) <= _LARGEST
    return is_small and all(map(_ends, _regions(program)))


def _ends(region: Any) -> bool:
    """A loop that is called is left as it is: it is the same to all who call it."""
    if isinstance(region, Callee):
        program = region.program
        return program is not None and not (region.is_recursive or _waits(program))
    return isinstance(region, Loop | Branches | Empty | Length)


def _regions(program: Program) -> list[Any]:
    """Of its equations, and of all that stands inside of them."""
    found: dict[Any, None] = {}
    programs = [program]
    while programs:
        for e in programs.pop().equations:
            region = e.params.get("region") if e.primitive.holds_regions else None
            if region is not None and region not in found:
                found[region] = None
                inner = [region.program] if isinstance(region, Callee) else region.programs()
                programs += [p for p in inner if p is not None]
    return list(found)


# ---- loops that numbers end


def _ending(program: Program) -> Program:
    """Loops do as many rounds as they are priced by, or fewer.

    What they wait for, made-up numbers may never reach, or be at once; what they count to, may be 2ⁿ. It is
    rewritten first: what stores values of a loop is then in the place of what does not.
    """
    is_open = _waits(program) or any(isinstance(r, Loop) and r.counted for r in _regions(program))
    return _with_ends(rewrite(program)) if is_open else program


def _waits(program: Program) -> bool:
    return any(isinstance(r, Loop) and r.goes_on is not None for r in _regions(program))


def _with_ends(program: Program) -> Program:
    program = inside(program, _with_ends)
    return replace(program, equations=tuple([x for e in program.equations for x in _with_end(e)]))


def _with_end(e: Equation) -> list[Equation]:
    from ..backends.native.pricing import ROUNDS

    loop = e.params.get("region") if e.primitive.holds_regions else None
    if not isinstance(loop, Loop) or (loop.goes_on is None and not loop.counted):
        return [e]
    if loop.goes_on is None:
        count, *others = e.inputs
        (t,) = P.minimum.infer([type_of(count), type_of(ROUNDS)], {})
        least = Var(t)
        return [
            Equation((least,), P.minimum, (count, ROUNDS), {}, e.where),
            replace(e, inputs=(least, *others)),
        ]
    waits = loop.goes_on

    def goes_on(k: Any, *others: Any) -> list[Any]:
        (more,) = evaluate(waits, [k, *others])
        return [(k < _ROUNDS) | (more & (k < ROUNDS))]

    ends = stage_region(goes_on, [v.type for v in waits.inputs], None)
    return [replace(e, params={"region": replace(loop, goes_on=ends)})]


# ---- numbers


def _made_up(types: Sequence[Type], below: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [_numbers(rng, t, below) for t in types]


def _numbers(rng: np.random.Generator, t: Type, below: int) -> Any:
    drawn: Any = rng.uniform(*_BETWEEN, t.shape)
    if t.dtype.kind in "iu":
        drawn = ((below - 1 - np.arange(t.size)) % below).reshape(t.shape)
    elif t.dtype.kind == "b":
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
