"""Runtime of `if`, conditional expressions, and/or/not and comparisons."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import control
from ..errors import ControlFlowError
from .aliases import join
from .identity import Ends, after_branches, is_object, parts, variables, with_olds
from .jumps import RESULT, RETURNED
from .places import ABSENT, Form, is_traced, take_apart
from .staging import Again, Opened, mismatch, until_known


def if_(
    test: Any,
    then: Any,
    orelse: Any,
    state: Sequence[str],
    held: Sequence[str],
    scratch: Sequence[str],
    is_until_return: bool = False,
    in_try: bool = False,
) -> None:
    """`is_until_return`: written by us around what follows a way out; the other branch has returned already."""
    if not is_traced(test):
        if test:
            then()
        elif orelse is not None:
            orelse()
        return
    refuse_try(in_try, "`if`")
    region = Opened("this `if`", [then, orelse], state, held, scratch)
    until_known(region, lambda: _stage_if(region, as_bool(test), then, orelse, is_until_return))


def _stage_if(region: Opened, test: Any, then: Any, orelse: Any, is_until_return: bool) -> None:
    before = region.snapshot()
    held = {key: place.get() for key, place in variables(region).items()}
    ends: dict[bool, tuple[dict[str, Form], dict[str, Any]]] = {}
    objects: dict[bool, Ends] = {}

    def branch(which: bool, body: Any) -> Callable[[], Any]:
        def run() -> dict[str, Any]:
            region.restore_spoilt()
            for place, value in before:
                place.restore(value)
            region.way = str(which)
            with region:
                if body is not None:
                    body()
            objects[which] = Ends(region, held)
            numbers, forms = region.take_apart()
            values = {key: place.get() for key, place in region.keyed()}
            ends[which] = forms, values
            if len(ends) == 2:
                gone = {way for way, (_, values) in ends.items() if values.get(RETURNED) is True}
                _agree(region, ends, which, gone | ({False} if is_until_return else set()))
            return numbers

        return run

    numbers = control.staged.cond(test, branch(True, then), branch(False, orelse))
    for place, value in before:
        place.restore(value)
    region.put(numbers, next(iter(ends.values()))[0])
    for key, place in region.keyed():
        values = [end[1].get(key) for end in ends.values()]
        if len(values) == 2 and _is_same_constant(*values):
            place.put(values[0])
    if len(ends) == 2:
        after_branches(region, list(objects.values()))
    region.forget()


def _is_same_constant(a: Any, b: Any) -> bool:
    """A number that is known whichever branch is taken: it stays known."""
    return type(a) is type(b) and type(a) in (bool, int, float) and repr(a) == repr(b)


def _agree(
    region: Opened,
    ends: dict[bool, tuple[dict[str, Form], dict[str, Any]]],
    now: bool,
    gone: set[bool],
) -> None:
    """Both branches leave the same kind of values; called while the variables hold those of `now`.

    What a branch that is `gone` from the function has not assigned may be anything.
    """
    again = False
    for key, form in ends[now][0].items():
        other = ends[not now][0][key]
        if form.fits(other) and form.shapes == other.shapes:
            continue
        if form is ABSENT or other is ABSENT:
            missing = now if form is ABSENT else not now
            if key.startswith(RESULT) or missing in gone:
                region.fill(key, ends[not missing][1][key])
            else:
                region.flag(key, ends[not missing][1][key])
            again = True
            continue
        if form.why is not None or other.why is not None:
            region.flag(key, ends[now][1][key])
            again = True
            continue
        then, orelse = ends[True][1][key], ends[False][1][key]
        if key.startswith(RESULT):
            advice = "return values of one type from both"
            if then is None or orelse is None:
                advice = "return a value of one type on every way through the function"
            raise mismatch(
                "return", then, orelse, "in one branch of an `if`", "in the other", advice
            )
        advice = "let both branches give it the same type"
        raise mismatch(key, then, orelse, "in one branch of this `if`", "in the other", advice)
    if again:
        raise Again(region)


def choose(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """`then() if test else orelse()`"""
    if not is_traced(test):
        return then() if test else orelse()
    region = Opened("this conditional expression", [], (), (), ())

    return until_known(region, lambda: _stage_choice(region, as_bool(test), then, orelse))


def _stage_choice(region: Opened, test: Any, then: Any, orelse: Any) -> Any:
    before = region.snapshot()
    ends: dict[bool, dict[str, Form]] = {}
    values: dict[bool, Any] = {}
    olds: dict[bool, list[Any]] = {}

    def branch(which: bool, f: Any) -> Callable[[], Any]:
        def run() -> Any:
            region.restore_spoilt()
            for place, value in before:
                place.restore(value)
            region.way = str(which)
            with region:
                values[which], olds[which] = with_olds(f, region)
            numbers, ends[which] = region.take_apart()
            if len(values) == 2:
                (_, a), (_, b) = (take_apart(values[way]) for way in (True, False))
                if not a.fits(b) or a.shapes != b.shapes:
                    yes, no = values[True], values[False]
                    advice = "let both sides give the same type"
                    raise mismatch(region.what, yes, no, "if it holds", "otherwise", advice)
            return values[which], numbers

        return run

    result, numbers = control.staged.cond(test, branch(True, then), branch(False, orelse))
    for place, value in before:
        place.restore(value)
    region.put(numbers, next(iter(ends.values())))
    if len(values) == 2 and values[True] is values[False] and is_object(values[True]):
        return values[True]
    for new, *old in zip(parts(result), *olds.values(), strict=True):
        join(new, [x for found in old for x in found], region.what)
    return result


def refuse_try(in_try: bool, what: str) -> None:
    if in_try:
        raise ControlFlowError(
            f"{what} on a traced value stands inside `try`: compiled code cannot raise into the handler. "
            "Move it out of the `try`, or into a function of its own"
        )


def as_bool(x: Any) -> Any:
    """The truth of a traced value."""
    if x.ndim:
        if x.size != 1:
            raise ControlFlowError(
                f"the truth of an array of shape {x.shape} is ambiguous; write (…).any() or (…).all()"
            )
        x = x.reshape(())
    return x if x.dtype == np.bool_ else x != 0


# ---- and, or, not, chains of comparisons


def both(a: Any, b: Callable[[], Any], pure: bool) -> Any:
    if not is_traced(a):
        return a and b()
    return _logical(a, b, pure, True)


def either(a: Any, b: Callable[[], Any], pure: bool) -> Any:
    if not is_traced(a):
        return a or b()
    return _logical(a, b, pure, False)


def _logical(a: Any, b: Callable[[], Any], pure: bool, is_and: bool) -> Any:
    """Python's `and`, `or`: the operand that decides; b is not computed where a decides."""
    test = as_bool(a)
    if a.dtype != np.bool_:
        return choose(test, b, lambda: a) if is_and else choose(test, lambda: a, b)
    if pure:
        right = b()
        if isinstance(right, bool | np.bool_):  # known: it decides, or the other one does
            return a if bool(right) is is_and else bool(right)
        if _is_bool(right):
            return np.logical_and(a, right) if is_and else np.logical_or(a, right)
    return choose(test, b, lambda: False) if is_and else choose(test, lambda: True, b)


def _is_bool(x: Any) -> bool:
    return hasattr(x, "dtype") and x.dtype == np.bool_


def negated(x: Any) -> Any:
    return np.logical_not(as_bool(x)) if is_traced(x) else not x


def none_of(*flags: Any) -> Any:
    """Whether no flag is set."""
    traced = [f for f in flags if is_traced(f)]
    if len(traced) < len(flags) and any(f for f in flags if not is_traced(f)):
        return False
    result: Any = True
    for f in traced:
        clear = np.logical_not(f)
        result = clear if result is True else np.logical_and(result, clear)
    return result


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: contains(a, b),
    "not in": lambda a, b: negated(contains(a, b)),
}


def contains(x: Any, container: Any) -> Any:
    """x in container"""
    if not is_traced(x) or not isinstance(container, list | tuple | set | frozenset | dict | range):
        return x in container
    result: Any = False
    for y in container:
        result = either(result, functools.partial(operator.eq, x, y), True)
    return result


def compare(left: Any, *steps: tuple[str, Callable[[], Any], bool]) -> Any:
    """a < b < c: each operand computed once, and only as far as needed."""
    name, operand, _ = steps[0]
    right = operand()
    result = _COMPARE[name](left, right)
    if len(steps) == 1:
        return result
    return both(result, lambda: compare(right, *steps[1:]), all(pure for _, _, pure in steps[1:]))
