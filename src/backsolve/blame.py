"""Whom to blame: where a public function fails, its message gets the call, the argument and the user's line.

Until then nothing is done for it: a `try` is free. The traceback tells which argument it was, for the
innermost call that was handed something of the user's failed over that.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from types import FrameType
from typing import Any

import numpy as np

from .errors import is_users, location

_MISTAKES = (TypeError, ValueError, LookupError, ArithmeticError, NotImplementedError, MemoryError)
_EVERYWHERE = (
    None,
    True,
    False,
    Ellipsis,
    np._NoValue,
)  # objects that tell nothing by being the same
_AT = "\n    at "


def guarded(f: Callable[..., Any], name: str = "") -> Any:
    """`f` as users call it by its name."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            blame(error, f, args, kwargs, name)
            raise

    del call.__wrapped__  # what asks for the function underneath must stay here
    vars(call)["__signature__"] = signature(f)
    return call


def blame(
    error: Exception,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    name: str = "",
) -> None:
    """Say in the message of `error` what was called, which argument it is about, and where.

    Functions of ours call each other. The outermost has the last word, for it is what the user called.
    """
    if not isinstance(error, _MISTAKES):
        return
    frames = list(_frames(error))
    if any(is_users(frame.f_code.co_filename) for frame in frames):
        return  # it came out of a function that the user passed
    given = _named(f, args, kwargs)
    said = error.__dict__.setdefault("_said", _message(error))
    head, _, at = said.rpartition(_AT) if _AT in said else (said, "", "")
    call = f"{name or _name(f)}({', '.join(f'{n}={_shown(v)}' for n, v in given)})"
    which = _about(frames, given, head)
    of = f"the argument{'s' * (len(which) > 1)} {' and '.join(f'`{n}`' for n in which)} of "
    added = f"\n    in {of if which else ''}{call}{_AT}{at or location(2)}"
    _say(error, head, added)


def _frames(error: Exception) -> Iterator[FrameType]:
    """What was under way below the one that caught it, the innermost last."""
    step = error.__traceback__ and error.__traceback__.tb_next
    while step is not None:
        yield step.tb_frame
        step = step.tb_next


def _message(error: Exception) -> str:
    """What an exception says; nothing if it makes its text of other things, as NumPy's AxisError does."""
    text = getattr(error, "_msg", None) or (error.args and error.args[0])
    return text if isinstance(text, str) and str(error) == text else ""


def _say(error: Exception, head: str, added: str) -> None:
    if not head:
        others = [n for n in getattr(error, "__notes__", ()) if not n.startswith("    in ")]
        error.__notes__ = [*others, added.strip("\n")]
        return
    error.args = (head + added,)
    if isinstance(error, np.exceptions.AxisError):
        object.__setattr__(error, "_msg", head + added)  # NumPy keeps its text there alone


# ---- the call


@functools.cache
def signature(f: Callable[..., Any]) -> inspect.Signature | None:
    if isinstance(f, np.ufunc):
        names = ["x"] if f.nin == 1 else [f"x{k + 1}" for k in range(f.nin)]
        kind = inspect.Parameter.POSITIONAL_ONLY
        rest = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature([*[inspect.Parameter(n, kind) for n in names], rest])
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):  # of NumPy's functions in C some have none
        return None


def _named(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The arguments under their names."""
    known = signature(f)
    bound: dict[str, Any] = {str(k): v for k, v in enumerate(args)} | dict(kwargs)
    if known is not None:
        with contextlib.suppress(TypeError):  # if it does not fit, that is what it will say
            bound = known.bind(*args, **kwargs).arguments
    out: list[tuple[str, Any]] = []
    for name, value in bound.items():
        kind = known.parameters[name].kind if known and name in known.parameters else None
        if kind is inspect.Parameter.VAR_POSITIONAL:
            out += [(f"{name}[{k}]", v) for k, v in enumerate(value)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            out += value.items()
        else:
            out.append((name, value))
    return out


def _name(f: Any) -> str:
    room = (getattr(f, "__module__", None) or "").rpartition("numpy.")[2]
    return f"{room}.{f.__name__}" if room in ("linalg", "fft") else str(f.__name__)


def _shown(x: Any) -> str:
    """What is wrong with an argument must not hide what was wrong before."""
    try:
        return _brief(x)
    except Exception:
        return type(x).__name__


def _brief(x: Any) -> str:
    """Of an array its type, of other things what they are, in few letters."""
    if isinstance(getattr(x, "shape", None), tuple) and hasattr(x, "dtype"):
        return f"{x.dtype}[{', '.join(map(str, x.shape))}]"
    if isinstance(x, list | tuple):
        inside = ", ".join([_brief(e) for e in x[:4]] + ["…"] * (len(x) > 4))
        return f"[{inside}]" if isinstance(x, list) else f"({inside}{',' * (len(x) == 1)})"
    text = getattr(x, "__name__", None) or repr(x)
    return text if len(text) <= 40 else text[:39] + "…"


# ---- the argument


def _about(
    frames: Sequence[FrameType], given: Sequence[tuple[str, Any]], said: str
) -> tuple[str, ...]:
    """The names of the arguments that it is about: all, where nothing tells them apart."""
    found = tuple(n for n, v in given if f"`{n}`" in said or f"{n}=" in said)
    telling = [(n, v) for n, v in given if v is None or isinstance(v, str)]
    found = found or tuple(n for n, v in telling if repr(v) in said)
    if found:
        return found
    found = tuple(n for n, _ in given)
    for frame in frames:
        held = _held(frame)
        found = tuple(n for n, v in given if _is_among(v, held)) or found
    if len(found) > 1:  # of those that were looked at, the ones that the message shows
        found = tuple(n for n, v in given if n in found and _is_shown(v, said)) or found
    return found


def _held(frame: FrameType) -> list[Any]:
    """What a function was called with, as far as it still has it."""
    code = frame.f_code
    several = bool(code.co_flags & inspect.CO_VARARGS)
    n = code.co_argcount + code.co_kwonlyargcount
    held = [frame.f_locals.get(name) for name in code.co_varnames[:n]]
    if several:
        held += frame.f_locals.get(code.co_varnames[n], ())
    inside = [v.values() if isinstance(v, dict) else v for v in held]
    return held + [x for v in inside if isinstance(v, list | tuple | ValuesView) for x in v]


def _is_among(value: Any, held: Sequence[Any]) -> bool:
    parts = value if isinstance(value, list | tuple) and value else (value,)
    for x in (value, *parts, *[getattr(p, "_v", None) for p in parts]):
        if not any(x is e for e in _EVERYWHERE) and any(x is h for h in held):
            return True
    return False


def _is_shown(value: Any, said: str) -> bool:
    if isinstance(getattr(value, "shape", None), tuple):
        return str(value.shape) in said
    return isinstance(value, int | float | tuple) and repr(value) in said
