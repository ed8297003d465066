"""Runtime of `for` and `while`.

A loop over concrete things just runs, unless it is long and works on traced values: then it is staged once,
whatever its length. If its body does what cannot be staged, it runs in Python after all.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

from .. import control, tree
from ..control.calls import Unfinished
from ..control.regions import cast_to, type_of_leaf
from ..errors import CarriedTypeError
from ..ir import Type
from ..tensor import Tensor
from .branches import as_bool, both, if_, none_of, refuse_try
from .containers import Container
from .identity import Rounds
from .iterables import Indexable, Range, sequence_of
from .jumps import RESULT
from .places import ABSENT, Form, Variable, is_traced, traced_in
from .staging import Again, Opened, mismatch, until_known

UNROLLED = 8  # rounds that run in Python before a loop with a known count is staged
IN_RECURSION = 4  # the same inside a recursive function, of which there is one for each size
UNROLLED_NEST = 64  # rounds of all loops of a nest together, up to which it runs in Python
PATIENCE = 10_000  # rounds that may run in Python where a loop cannot be staged


def while_(
    test: Any,
    body: Any,
    stops: Sequence[str],
    state: Sequence[str],
    held: Sequence[str],
    scratch: Sequence[str],
    in_try: bool = False,
) -> None:
    flags = _flags(body, stops)
    done = 0
    # `while True`: the first round would only be a copy of all others.
    patience = 0 if _is_constant(test) else UNROLLED
    while True:
        goes_on = both(none_of(*[f.get() for f in flags]), test, True)
        if is_traced(goes_on):
            refuse_try(in_try, "`while`")
            region = Opened("this loop", [test, body], state, held, scratch)
            until_known(region, functools.partial(_stage_while, region, flags, test, body, False))
            return
        if not goes_on:
            return
        if done == patience and not in_try:
            region = Opened("this loop", [test, body], state, held, scratch)
            if traced_in([Variable("", c).get() for c in region.cells.values()]):
                try:
                    until_known(
                        region, functools.partial(_stage_while, region, flags, test, body, True)
                    )
                    return
                except Unfinished:
                    raise
                except Exception:
                    pass  # it goes on in Python, and so does an error that is the user's own
        body()
        done += 1


def _is_constant(test: Any) -> bool:
    return not test.__code__.co_names and not test.__code__.co_freevars


def _flags(body: Any, stops: Sequence[str]) -> list[Variable]:
    cells = dict(zip(body.__code__.co_freevars, body.__closure__ or (), strict=True))
    return [Variable(name, cells[name]) for name in stops if name in cells]


def _stage_while(
    region: Opened, flags: Sequence[Variable], test: Any, body: Any, at_least_once: bool
) -> None:
    run = _Round(region, body, at_least_once)

    def goes_on(numbers: Any) -> Any:
        region.put(numbers, run.forms)
        region.forget()
        region.way = "test"
        with region:
            result = both(none_of(*[f.get() for f in flags]), test, True)
        return as_bool(result) if is_traced(result) else bool(result)

    run.finish(control.staged.while_loop(goes_on, run.once, run.start))
    _nest.rounds += 2 * UNROLLED  # nobody knows


def for_(
    sequence: Any,
    body: Any,
    stops: Sequence[str],
    reads: Sequence[str],
    state: Sequence[str],
    held: Sequence[str],
    scratch: Sequence[str],
    in_try: bool = False,
) -> None:
    flags = _flags(body, stops)
    found = sequence_of(sequence)
    traced = [] if found is None or in_try else _traced_values(found, body, reads, state, held)
    if found is None or not traced:
        if found is not None and is_traced(found.length):
            refuse_try(in_try, "`for`")
        met, _nest.rounds = _nest.rounds, 0
        rows = found if isinstance(sequence, Tensor) and found is not None else sequence
        _run(iter(rows), body, flags, sequence, (state, held, scratch, in_try))
        known = 1 if found is None or is_traced(found.length) else found.length
        _nest.rounds = met + max(_nest.rounds, known)
        return
    region = Opened("this loop", [body], state, held, scratch)
    short = _is_short(found)
    before = _nest.way
    decides = short and before is None
    try:
        _nest.way = "staged" if short else None
        stage = functools.partial(_stage_for, region, found, flags, body, traced, decides)
        until_known(region, stage)
    except Unfinished:
        raise
    except Exception as error:  # of any kind: who needs the numbers finds types instead
        only_first = not short and _is_changed_type(error, region)
        if is_traced(found.length) or (len(found) > PATIENCE and not only_first):
            raise
        _nest.way = "python" if isinstance(error, _Small) else before
        rest = found if only_first else None
        _run(iter(found), body, flags, rest, (state, held, scratch, in_try), only_first)
    finally:
        _nest.way = before


class _Nest(threading.local):
    """Short loops around loops: how they are to run, and how many rounds those met so far have."""

    way: str | None = None  # "staged" or "python", as the outermost of them decided
    rounds = 0
    around = 2 * UNROLLED  # rounds of the loop around, if that is known


_nest = _Nest()


class _Small(Exception):  # noqa: N818  (no mistake: it only says how to go on)
    """A nest of so few rounds is better off as straight code."""


def _is_short(found: Indexable) -> bool:
    most = IN_RECURSION if control.is_in_recursion() else UNROLLED
    return not is_traced(found.length) and found.length <= most


def _holds_loops(body: Any) -> bool:
    return not {"for_", "while_"}.isdisjoint(body.__code__.co_names)


def _is_changed_type(error: Exception, region: Opened) -> bool:
    """Whether a first round in Python may help: `total = 0.0` that becomes an array, `last = None`."""
    return getattr(error, "region", None) is region or isinstance(error, CarriedTypeError)


def _run(
    items: Any,
    body: Any,
    flags: Sequence[Variable],
    sequence: Any,
    shared: Any,
    only_first: bool = False,
) -> None:
    """A loop in Python. If a traced flag may have stopped it, it goes on as a staged one; and so it does after
    its first round if `only_first`."""
    state, held, scratch, in_try = shared
    found = sequence_of(sequence)
    for done, item in enumerate(items, 1):
        body(item)
        goes_on = none_of(*[f.get() for f in flags])
        if not is_traced(goes_on) and not goes_on:
            return
        if not is_traced(goes_on) and not (only_first and done == 1):
            continue
        if is_traced(goes_on):
            refuse_try(in_try, "a way out of a `for`")
        if found is not None:
            region = Opened("this loop", [body], state, held, scratch)
            rest = _Tail(found, done)
            try:
                until_known(region, functools.partial(_stage_for, region, rest, flags, body))
                return
            except Unfinished:
                raise
            except Exception:
                if is_traced(found.length) or rest.length > PATIENCE:
                    raise
        if not is_traced(goes_on):
            continue
        for later in items:
            test = none_of(*[f.get() for f in flags])
            if_(test, _Bound(body, later), None, state, held, scratch)
        return


class _Tail(Indexable):
    def __init__(self, part: Indexable, done: int):
        self.part, self.done = part, done
        self.length = part.length - done

    def at(self, k: Any) -> Any:
        return self.part.at(k + self.done)


class _Bound:
    """body(item) as a function without arguments that shows the cells of `body`."""

    def __init__(self, body: Any, item: Any):
        self.body, self.item = body, item
        self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __call__(self) -> None:
        self.body(self.item)


def _traced_values(
    found: Indexable, body: Any, reads: Sequence[str], state: Sequence[str], held: Sequence[str]
) -> list[Any]:
    """Traced values that make a loop worth staging: its length, what it runs over, or what it reads."""
    if is_traced(found.length):
        return [found.length]
    if _is_short(found) and (_nest.way == "python" or not _holds_loops(body)):
        return []
    cells = dict(zip(body.__code__.co_freevars, body.__closure__ or (), strict=True))
    names = {*reads, *state, *held} & cells.keys()
    return traced_in([found, *[Variable(n, cells[n]).get() for n in sorted(names)]])


def _stage_for(
    region: Opened,
    found: Indexable,
    flags: Sequence[Variable],
    body: Any,
    reads: Sequence[Any] = (),
    decides: bool = False,
) -> None:
    run = _Round(region, body, at_least_once=not is_traced(found.length) and found.length > 0)
    bounds = None
    if isinstance(found, Range) and not is_traced(found.step) and found.step == 1:
        bounds = found.start, found.stop

    rounds = 1
    # Where the length is traced, it may be the counter of the loop around, as in `for j in range(i)`.
    length = _nest.around // 2 if is_traced(found.length) else found.length

    def once(k: Any, numbers: Any) -> Any:
        nonlocal rounds
        before = _nest.rounds, _nest.around
        _nest.rounds = 0
        if not is_traced(found.length):
            _nest.around = length
        try:
            return run.once(numbers, found.at(k) if bounds is None else k)
        finally:
            rounds = max(1, _nest.rounds)
            _nest.rounds, _nest.around = before

    def goes_on(numbers: Any) -> Any:
        region.put(numbers, run.forms)
        return none_of(*[f.get() for f in flags])

    start, stop = bounds or (0, found.length)
    asked = goes_on if flags else None
    results = control.staged.fori_loop(start, stop, once, run.start, asked, reads)
    rounds *= max(1, length)
    if decides and rounds <= UNROLLED_NEST:
        raise _Small
    _nest.rounds += rounds
    run.finish(results)


class _Round:
    """One round of a staged loop, as a function from the numbers of its state to the next ones."""

    def __init__(self, region: Opened, body: Any, at_least_once: bool):
        self.region, self.body, self.at_least_once = region, body, at_least_once
        self.before = region.snapshot()
        start, self.forms = region.take_apart()
        self.key = tuple(start), _types(start)
        self.start = _as_types(start, region.memory.types.get(self.key))
        if region.rounds is None:
            region.rounds = Rounds(region)
        region.rounds.open()
        for place in region.places:
            if isinstance(place, Container):
                place.may_stay = not at_least_once

    def once(self, numbers: Any, *item: Any) -> Any:
        region = self.region
        region.put(numbers, self.forms)
        region.forget()
        values = {key: place.get() for key, place in region.keyed()}
        region.note_first_arrays(values)
        rounds = region.rounds
        start, region.way = rounds.spots(), "round"
        with region:
            rounds.begin()
            self.body(*item)
        if rounds.end(start):
            raise Again(region)
        region.check_first_arrays()
        after, forms = region.take_apart()
        self.agree(forms, values)
        return after

    def agree(self, forms: dict[str, Form], before: dict[str, Any]) -> None:
        """After a round every variable is what it was before, up to its numbers."""
        region, again = self.region, False
        now = {key: place.get() for key, place in region.keyed()}
        for key, form in forms.items():
            known = self.forms[key]
            if form.fits(known) and form.shapes == known.shapes:
                continue
            if known is ABSENT:
                if key.startswith(RESULT) or self.at_least_once:
                    region.fill(key, now[key])
                else:
                    region.flag(key, now[key])
                again = True
                continue
            if known.why is not None or form.why is not None:
                region.flag(key, now[key])
                again = True
                continue
            if key.startswith(RESULT):
                advice = "a function that returns from a traced loop must return one type"
                raise mismatch(
                    "return", before[key], now[key], "at first", "inside the loop", advice
                )
            error = mismatch(
                key,
                before[key],
                now[key],
                "before the loop",
                "after one iteration",
                "give it the later type before the loop, or use another name inside",
            )
            error.region = region
            raise error
        if again:
            raise Again(region)

    def finish(self, numbers: Any) -> None:
        for place, value in self.before:
            place.restore(value)
        self.region.put(numbers, self.forms)
        if traced_in(numbers):
            self.region.memory.types[self.key] = _types(numbers)
        self.region.rounds.begin(at_start=not self.at_least_once)
        self.region.forget()


def _types(numbers: dict[str, Any]) -> tuple[Type, ...]:
    return tuple([type_of_leaf(x) for x in tree.flatten(numbers)[0]])


def _as_types(numbers: dict[str, Any], types: Sequence[Type] | None) -> dict[str, Any]:
    """The numbers that a loop begins with, as it carries them; that is known if it was staged before.

    The region around it is then staged again with the same types as the first time, or wider ones.
    """
    if types is None:
        return numbers
    leaves, structure = tree.flatten(numbers)
    found: dict[str, Any] = structure.unflatten(
        [cast_to(x, t) for x, t in zip(leaves, types, strict=True)]
    )
    return found
