"""Functions that are called, not unrolled: recursive ones, specialised on types and on known arguments.

A call of a function that is already being recorded further out becomes a `call` of a Program of its own, a
Callee. There is one for each combination of the types of staged arguments and the values of all others; a call
with a combination that is just being recorded is a recursion proper, and the Callee calls itself.

Such a call needs the types of a result that is not there yet. The branch that meets it gives up (`Unfinished`),
the other branch of its `cond` tells the types, and the function is recorded once more with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..errors import (
    BacksolveError,
    ControlFlowError,
    DroppedDerivativeError,
    RecursionDepthError,
    RecursionTypeError,
    location,
)
from ..ir import Equation, Program, Type, Var
from ..primitive import P
from ..primitives.checks import Messages
from ..primitives.control import CALL
from ..regions import Callee, ImplicitEquations
from ..tensor import Staged, Tensor
from ..trace import innermost_region
from .checks import Failure
from .pieces import limit
from .regions import Form, Region, outer_recorder, type_of_leaf

MOST_TRIES = 4
DEEP = 24  # levels of a recursion after which known numbers that differ from level to level become traced

# Around the recording of a call, given the function's name and its new arguments; frontend/ watches for writes.
watch: Callable[[str, Any], AbstractContextManager[Any]] = lambda name, arguments: nullcontext()


class _Recording:
    """A Callee being recorded, or done: what it closes over, and the form of its result."""

    def __init__(self, name: str) -> None:
        self.callee = Callee(name)
        self.form: Form | None = None
        self.captured: list[Any] = []
        self.is_done = False
        self.messages: Messages = ()  # if any: a further result says which assertion failed
        self.rests_on: set[_Recording] = set()  # that were not done when it called them


class Unfinished(Exception):  # noqa: N818 - a signal, not a mistake
    """A recursive call whose result's type is not known yet."""

    def __init__(self, of: _Recording):
        self.of = of


class _Sooner(BaseException):
    """Numbers that can be traced deep in a recursion: one Program from its second level on then does for all.

    Not an Exception: users catch those.
    """

    def __init__(self, key: Any):
        super().__init__()
        self.key = key


class _Open(threading.local):
    """Functions that this thread is recording, and the Callees made meanwhile."""

    def __init__(self) -> None:
        self.functions: list[Any] = []
        self.known: dict[Hashable, _Recording] = {}
        self.recordings: list[_Recording] = []  # under way, the innermost last
        self.levels: dict[Any, list[list[Any]]] = {}  # by function: the arguments of its open calls
        self.specialised: set[Any] = set()  # functions whose known arguments must stay known
        self.sooner: dict[Any, list[int]] = {}  # by function begun again: arguments traced at once


_open = _Open()


def call(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f(*args, **kwargs), as a call of its own Program if it is recursive and gets staged values."""
    form = Form.of((args, kwargs))
    staged = [k for k in form.values if isinstance(form.leaves[k], Staged)]
    key_of_f = getattr(f, "__wrapped_code__", None) or getattr(f, "__code__", f)
    levels = _open.levels.setdefault(key_of_f, [])
    levels.append(form.leaves)
    run = lambda: f(*args, **kwargs)
    try:
        try:
            return _at_level(f, run, key_of_f, form, staged)
        except _Sooner as found:
            if found.key != key_of_f or len(levels) != 2:
                raise
            _forget_done()
            return _at_level(f, run, key_of_f, form, staged)
    except RecursionDepthError:
        raise
    except RecursionError:
        name = getattr(f, "__name__", "f")
        raise RecursionDepthError(
            f"`{name}` calls itself more often than Python's stack can follow, each time with other known "
            "arguments. Pass the number that changes as an argument of the jitted function that is not static, "
            "or write a loop"
        ) from None
    finally:
        levels.pop()
        if not levels:
            del _open.levels[key_of_f]
            _open.specialised.discard(key_of_f)
            _open.sooner.pop(key_of_f, None)


def _at_level(
    f: Callable[..., Any],
    run: Callable[[], Any],
    key: Any,
    form: Form,
    staged: list[int],
) -> Any:
    changing = _changing(f, key, form, staged)
    if changing:
        try:
            result = _opened(key, lambda: _called(f, key, form, [*staged, *changing]))
        except RecursionTypeError:
            raise
        except (BacksolveError, TypeError, ValueError, LookupError):
            _open.specialised.add(key)  # one of the numbers must be known
        else:
            if key in _open.sooner:
                return result
            _open.sooner[key] = changing
            raise _Sooner(key)
    if not staged:
        return run()
    if key not in _open.functions:  # the outermost call stands in its caller's Program
        return _opened(key, run)
    return _called(f, key, form, staged)


def _forget_done() -> None:
    """Callees that were made on a way which is not gone on with."""
    for key in [key for key, r in _open.known.items() if r.is_done]:
        del _open.known[key]


def _changing(f: Any, key: Any, form: Form, staged: list[int]) -> list[int]:
    """Known numbers that are to be traced, as this recursion goes deep and they are others at each level."""
    levels = _open.levels[key]
    at_once = _open.sooner.get(key, []) if len(levels) > 1 else []
    if at_once and key not in _open.specialised and max(at_once) < len(form.leaves):
        return [k for k in at_once if _is_known_number(form.leaves[k])]
    depth = sum(map(len, _open.levels.values()))  # functions may call each other
    if depth <= DEEP or len(levels) <= DEEP // 2 or key in _open.specialised:
        return []
    if not (staged or _closes_over_staged(f)):
        return []
    recent = levels[-(DEEP // 2) :]
    if any(len(leaves) != len(form.leaves) for leaves in recent):
        return []
    columns = [[leaves[k] for leaves in recent] for k in range(len(form.leaves))]
    plain = [k for k, c in enumerate(columns) if all(_is_known_number(x) for x in c)]
    return [k for k in plain if len(set(columns[k])) == len(recent)]


def _is_known_number(x: Any) -> bool:
    return type(x) in (int, float) or isinstance(x, np.floating | np.integer)


def _closes_over_staged(f: Any) -> bool:
    cells = [c.cell_contents for c in getattr(f, "__closure__", None) or () if _full(c)]
    return any(isinstance(x, Staged) for x in cells)


def _called(f: Callable[..., Any], key_of_f: Any, form: Form, traced: list[int]) -> Any:
    """As a call of its own Program, of what is `traced` among the arguments."""
    args, kwargs = form.structure.unflatten(form.leaves)
    form.values = sorted(traced)
    key = (key_of_f, _bound(f), form.structure, tuple(_known(form)))
    try:
        found = _open.known.get(key)
    except TypeError:  # an argument that cannot be compared: unroll
        return f(*args, **kwargs)
    values = form.taken()
    if found is None:
        try:
            found = _open.known[key] = _record(f, form, key)
        except BaseException:
            _open.known.pop(key, None)  # it may be tried again
            raise
    if not found.is_done:
        _close_circle(found)
        if found.form is None:
            raise Unfinished(found)
    for other in found.rests_on:
        if not other.is_done:
            _close_circle(other)
    results = CALL(*values, *found.captured, region=found.callee)
    assert found.form is not None
    if found.messages:
        *results, code = results
        Failure(code, found.messages).report()
    if found.is_done:  # a number that no argument changes stays known: a shape, a choice
        pairs = zip(found.form.taken(), results, strict=True)
        results = [own if _is_constant(own) else result for own, result in pairs]
    return found.form.filled(results)


def _is_constant(x: Any) -> bool:
    return type(x) in (bool, complex) or _is_known_number(x)


def _close_circle(found: _Recording) -> None:
    """All that is being recorded since `found` began calls itself, through it."""
    for r in _open.recordings[_open.recordings.index(found) :]:
        r.callee.is_recursive = True
        r.callee.where = r.callee.where or location()
        r.rests_on |= {found} - {r}


def is_in_recursion() -> bool:
    """Whether a function that calls itself is being recorded, beyond its outermost call."""
    return bool(_open.recordings)


def _opened(key: Any, run: Callable[[], Any]) -> Any:
    """The result of `run`, while which this function is known to be recorded."""
    _open.functions.append(key)
    try:
        return run()
    finally:
        _open.functions.pop()
        if not _open.functions:
            _open.known.clear()


def _bound(f: Any) -> Any:
    """What tells functions of the same code apart: what they close over, and defaults of their arguments."""
    cells = [c.cell_contents for c in getattr(f, "__closure__", None) or () if _full(c)]
    named = getattr(f, "__kwdefaults__", None) or {}
    bound = [*cells, *(getattr(f, "__defaults__", None) or ()), *named.values()]
    return tuple((type(x), repr(x)) if _is_constant(x) else _Same(x) for x in bound)


class _Same:
    """An object as a key: itself, and no other that is equal or has its place in memory later."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


def _full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _known(form: Form) -> list[Hashable]:
    """What a Program is specialised on: types of what is staged, all else by value."""
    out: list[Hashable] = []
    for k, x in enumerate(form.leaves):
        if k in form.values:
            out.append(type_of_leaf(x))
        elif isinstance(x, Tensor):  # such as an entry of np.zeros(3), made anew at each level
            out.append((type_of_leaf(x), np.asarray(x._v).tobytes(), id(x.row)))
        elif hasattr(x, "tobytes"):
            out.append((type_of_leaf(x), x.tobytes()))
        else:
            out.append((type(x), repr(x) if isinstance(x, float | complex) else x))
    return out


def _record(f: Callable[..., Any], form: Form, key: Hashable) -> _Recording:
    made = _open.known[key] = _Recording(getattr(f, "__name__", "f"))
    made.callee.recompute = limit() is not None
    types = [type_of_leaf(x) for x in form.taken()]
    forms: list[Form] = []

    def flat(*values: Any) -> list[Any]:
        args, kwargs = form.filled(values)
        with watch(made.callee.name, (args, kwargs)):
            forms[:] = [Form.of(f(*args, **kwargs))]
        return forms[0].taken()

    outer = innermost_region() or outer_recorder(form.taken())
    before: list[Type] | None = None
    for _ in range(MOST_TRIES):
        for other in [k for k, r in _open.known.items() if r.is_done and made in r.rests_on]:
            del _open.known[other]  # they knew less of this one
        region = _try(flat, types, outer, made)
        # What it closes over goes with every call, also with those of its own.
        more = _distinct([*made.captured, *region.captured])[len(made.captured) :]
        stable = region.outputs == before and not more
        if stable or not made.callee.is_recursive:
            break
        before = made.callee.types = region.outputs
        made.messages = region.messages
        made.form = forms[0]
        made.captured = [*made.captured, *more]
    else:
        raise RecursionTypeError(
            f"the result of `{made.callee.name}` has another type after each call of itself; "
            "make its branches return one shape and dtype"
        )
    made.form, made.callee.types = forms[0], region.outputs
    made.messages = region.messages
    if not made.callee.is_recursive:
        made.captured = _distinct(region.captured)
    made.callee.program = _closed(region, made.captured)
    made.is_done = True
    return made


def _try(flat: Any, types: list[Type], outer: Any, made: _Recording) -> Region:
    _open.recordings.append(made)
    try:
        return Region(flat, types, outer, made.messages)
    except Unfinished as signal:
        if signal.of is not made:
            raise
        raise RecursionTypeError(
            f"`{made.callee.name}` calls itself before any branch has returned a result; "
            "a recursion needs an `if` with a branch that does not call it"
        ) from None
    finally:
        _open.recordings.pop()


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if getattr(a, "row", None) is not getattr(b, "row", None):
        return False
    x, y = getattr(a, "_v", a), getattr(b, "_v", b)
    constants = np.ndarray, np.generic  # np.zeros(n) makes one each time
    if isinstance(x, constants) and isinstance(y, constants):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return x is y


def _distinct(values: Sequence[Any]) -> list[Any]:
    """The first of those that are the same."""
    kept: list[Any] = []
    for c in values:
        if not any(_same(c, d) for d in kept):
            kept.append(c)
    return kept


def _closed(region: Region, captured: list[Any]) -> Program:
    inputs: list[Var] = []
    repeated: list[Equation] = []
    for c in captured:
        mine = [v for v, d in zip(region.variables, region.captured, strict=True) if _same(c, d)]
        inputs.append(mine[0] if mine else Var(type_of_leaf(c)))
        repeated += [Equation((v,), P.alias, (mine[0],), {}) for v in mine[1:]]
    p = region.with_inputs(inputs)
    return Program(p.inputs, p.constants, (*repeated, *p.equations), p.outputs)


def call_with_rule(
    name: str,
    f: Callable[..., list[Any]],
    args: list[Any],
    rule: Callable[..., Any],
    equations: ImplicitEquations | None = None,
) -> list[Any]:
    """f(*args) inside a region, as a call that keeps a derivative of its own: `rule(inputs)` -> (push, pull).

    All of `args` are staged, or arrays; f gives a list of values.
    """
    region = Region(f, [type_of_leaf(x) for x in args], innermost_region())
    if region.messages:
        raise ControlFlowError(
            f"{name}.forward asserts something about traced values in a loop or branch; move the assertion out"
        )
    n = len(args)

    def own(inputs: list[Any], places: list[int]) -> Any:
        if any(k >= n for k in places):
            raise DroppedDerivativeError(
                f"{name}.forward uses a Tensor that needs a gradient but is not one of its arguments; "
                "pass it to apply()"
            )
        return rule(inputs[:n], places)

    program = region.with_inputs(region.variables)
    callee = Callee(name, region.outputs, program, own=own, equations=equations)
    return CALL(*args, *region.captured, region=callee)
