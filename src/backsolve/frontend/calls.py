"""Runtime of calls: user functions are rewritten when they are called, a few builtins replaced."""

from __future__ import annotations

import builtins
import functools
import math
import random
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any

import numpy as np

from .. import control
from ..errors import ControlFlowError
from ..numpy.creation import KEEPING
from ..writers import is_users
from .aliases import VIEWS, check_certain, viewing
from .branches import both, either
from .convert import convert_function
from .iterables import _REPLACED
from .jumps import RUNTIME
from .places import is_traced
from .scope import at_end, check_write, in_region, is_compiling, made
from .writes import filled, fresh, joined, traced_key


def call(f: Any) -> Any:
    """What to call instead of `f` inside rewritten code."""
    kind = type(f)
    if kind is FunctionType:
        return _SPECIAL[f] if f in _SPECIAL else _called(f)
    if kind is MethodType:
        inner = f.__func__
        if type(inner) is FunctionType and not isinstance(f.__self__, random.Random):
            new = _called(inner)
            return f if new is inner else functools.partial(new, f.__self__)
        return _builtin(f)
    if kind is BuiltinFunctionType or kind is BuiltinMethodType:
        return _builtin(f)
    if kind is type:
        return _SPECIAL.get(f, f) if not in_region() else _creating(_SPECIAL.get(f, f))
    if kind is functools.partial:
        new = call(f.func)
        return f if new is f.func else functools.partial(new, *f.args, **f.keywords)
    if isinstance(f, type):
        return _creating(f) if in_region() else f
    own = getattr(kind, "__call__", None)  # noqa: B004
    if type(own) is FunctionType and is_users(own):
        return functools.partial(_called(own), f)
    try:
        return _SPECIAL.get(f, f)
    except TypeError:  # not hashable
        return f


def _called(f: FunctionType) -> Callable[..., Any]:
    """A user's function as it is called: rewritten; and recursive calls are calls in the Program."""
    new = convert_function(f)
    if RUNTIME not in new.__code__.co_freevars:
        return f  # nothing in it was rewritten
    return functools.partial(control.call, new)


def _creating(kind: Any) -> Callable[..., Any]:
    """A class whose instances were made in this region."""
    return lambda *args, **kwargs: made(kind(*args, **kwargs))


_GROWING = frozenset(
    "append extend insert pop remove clear update setdefault popitem add discard sort reverse".split()  # noqa: SIM905
)


_LOOKS_UP = frozenset({"get", "pop", "setdefault", "add", "discard", "remove"})


def _by_key(f: Any) -> Callable[..., Any]:
    """A method of a dict or set that looks its first argument up."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if args and is_traced(args[0]):
            raise traced_key()
        return f(*args, **kwargs)

    return run


def is_impure(f: Any) -> bool:
    """Random numbers: a staged loop would draw once for all its rounds."""
    owner = getattr(f, "__self__", None)
    if isinstance(owner, np.random.Generator | np.random.RandomState | random.Random):
        return True
    return (getattr(f, "__module__", None) or "").startswith(("numpy.random", "random"))


_seeded: dict[int, Any] = {}  # generators made in the function being staged, by id
at_end.append(_seeded.clear)


def _seeding(make: Any) -> Callable[..., Any]:
    """A generator with a seed, made in the function itself, draws the same at every call."""

    def run(*args: Any, **kwargs: Any) -> Any:
        generator = make(*args, **kwargs)
        if is_compiling() and (args or kwargs):
            _seeded[id(generator)] = generator
        return generator

    return run


def _check_draw(f: Any, owner: Any) -> None:
    if in_region():
        raise ControlFlowError(
            f"`{f.__name__}` draws random numbers in a staged branch or loop, which would draw only once; draw "
            "all of them before, as an array"
        )
    if is_compiling() and id(owner) not in _seeded:
        raise ControlFlowError(
            f"`{f.__name__}` draws random numbers while the function is compiled: every call would get the "
            "same. Draw them outside, and pass them as an argument; or from np.random.default_rng(seed), "
            "made in the function, if they shall be the same"
        )


def _builtin(f: Any) -> Any:
    owner = getattr(f, "__self__", None)
    if is_impure(f) and not is_special(f):
        _check_draw(f, owner)
    if isinstance(owner, dict | set) and f.__name__ in _LOOKS_UP:
        if f.__name__ in _GROWING:
            check_certain(owner)
            if in_region():
                check_write(owner)
        return _by_key(f)
    if isinstance(owner, list | dict | set) and f.__name__ in _GROWING:
        check_certain(owner)
        if in_region():
            check_write(owner)
        return f
    try:
        return _SPECIAL.get(f, f)
    except TypeError:
        return f


# ---- builtins and functions of `math` on traced values


def _traced(new: Callable[..., Any], old: Callable[..., Any]) -> Callable[..., Any]:
    """`new` if an argument is traced, else `old`."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return (new if any(is_traced(a) for a in args) else old)(*args, **kwargs)

    return run


def _pick(better: Callable[[Any, Any], Any], numpys: Any) -> Callable[..., Any]:
    """Python's max and min: the first of the values that no other beats."""

    def pick(*args: Any, **kwargs: Any) -> Any:
        if "key" in kwargs:
            raise ControlFlowError(
                "`max` and `min` with key= cannot compare traced values; use np.argmax of the keys, as an array"
            )
        if len(args) == 1 and not kwargs and is_traced(args[0]) and args[0].ndim == 1:
            return numpys(args[0])
        result = args[0]
        for x in args[1:]:
            result = np.where(better(x, result), x, result)
        return result

    return pick


def _listed(new: Callable[..., Any], old: Callable[..., Any]) -> Callable[..., Any]:
    """`old` of one sequence, as `new` of its entries if one of them is traced."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], list | tuple | Iterator):
            entries = list(args[0])
            if any(is_traced(x) for x in entries):
                return new(*entries, **kwargs)
            return old(entries, **kwargs)
        return old(*args, **kwargs)

    return run


def _truth(x: Any) -> Any:
    return x != 0 if is_traced(x) else bool(x)


def _any(*xs: Any) -> Any:
    result: Any = False
    for x in xs:
        result = either(result, functools.partial(_truth, x), True)
    return result


def _all(*xs: Any) -> Any:
    result: Any = True
    for x in xs:
        result = both(result, functools.partial(_truth, x), True)
    return result


def _sum(x: Any, start: Any = 0) -> Any:
    return np.sum(x, axis=0) + start if is_traced(x) else builtins.sum(x, start)


def _float(x: Any = 0.0) -> Any:
    return x.astype(float) if is_traced(x) else float(x)


def _int(x: Any = 0, *base: Any) -> Any:
    return x.astype(int) if is_traced(x) else int(x, *base)


def _bool(x: Any = False) -> Any:
    return x != 0 if is_traced(x) else bool(x)


def _log(x: Any, *base: Any) -> Any:
    return np.log(x) / np.log(*base) if base else np.log(x)


def _hypot(*xs: Any) -> Any:
    return functools.reduce(np.hypot, xs) if len(xs) > 1 else np.abs(*xs)


_max = _pick(lambda x, y: x > y, np.max)
_min = _pick(lambda x, y: x < y, np.min)
_SPECIAL: dict[Any, Any] = {
    **_REPLACED,
    builtins.max: _listed(_max, _traced(_max, builtins.max)),
    builtins.min: _listed(_min, _traced(_min, builtins.min)),
    builtins.any: _listed(_any, _traced(np.any, builtins.any)),
    builtins.all: _listed(_all, _traced(np.all, builtins.all)),
    builtins.sum: _traced(_sum, builtins.sum),
    builtins.float: _float,
    builtins.int: _int,
    builtins.bool: _bool,
}
_SAME_NAME = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log2")
for _name in (*_SAME_NAME, "log10", "log1p", "sqrt", "floor", "ceil", "fabs"):
    if hasattr(math, _name):
        _SPECIAL[getattr(math, _name)] = _traced(getattr(np, _name), getattr(math, _name))
for _mine, _numpys in (
    ("asin", np.arcsin),
    ("acos", np.arccos),
    ("atan", np.arctan),
    ("atan2", np.arctan2),
    ("pow", np.power),
    ("log", _log),
    ("hypot", _hypot),
):
    _SPECIAL[getattr(math, _mine)] = _traced(_numpys, getattr(math, _mine))
CREATING: tuple[Any, ...] = (np.zeros, np.ones, np.empty, np.full)
CREATING += (np.zeros_like, np.ones_like, np.empty_like, np.full_like)
_SPECIAL.update({create: fresh(create) for create in CREATING})
FILLING: tuple[Any, ...] = (np.full, np.full_like)  # which a traced number may be given to
_SPECIAL.update({create: filled(create) for create in FILLING})

SEEDED = (np.random.default_rng, np.random.Generator, np.random.RandomState, random.Random)
_SPECIAL.update({make: _seeding(make) for make in SEEDED})

JOINING = (
    np.array,
    np.asarray,
    np.asanyarray,
    np.ascontiguousarray,
    np.asfortranarray,
)  # whose lists may have tensors in them
_SPECIAL.update({join: joined(KEEPING[join.__name__]) for join in JOINING})


_SPECIAL.update({f: viewing(f) for f in VIEWS})
UNNOTICED = {*CREATING, *VIEWS}  # no reason to rewrite a function


def replace(f: Any, new: Callable[[Any], Any]) -> None:
    """Call `new(…)` of what stands for `f` now, if a function is rewritten at all."""
    if f not in _SPECIAL:
        UNNOTICED.add(f)
    _SPECIAL[f] = new(_SPECIAL.get(f, f))


def is_special(f: Any) -> bool:
    try:
        return f in _SPECIAL
    except TypeError:
        return False
