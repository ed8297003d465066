"""What the commands about a user's function share: its name, its arguments, and errors that it raises."""

from __future__ import annotations

import argparse
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..errors import BacksolveError, location_of
from ..tensor import Tensor
from ..testing.grads import varies
from .literals import parse_arguments
from .targets import load_function, near

TEACHING = """\
The function is named module:function, or path/to/file.py:function. It is called once for what is shown,
with the arguments of --args, each a word:

  --args 2.0 -1.5                          numbers: floats vary, whole numbers do not
  --args '[1.0, 2.0]' "{'w': np.eye(3)}"   lists, tuples and dicts
  --args 'np.ones((3, 4))' 'linspace(0, 1, 11)'
  --args 'np.random.default_rng(0).normal(size=(3, 4))'
  --args '(-np.ones(3))'                   in brackets what begins with a minus and is no number
  --args x.npy table.csv                   arrays in files (of a table: its numbers)
  --args 2.0 n=3                           by name

Without --args, it is called with what it brings itself: `loss.example_args = (np.ones(3), 2.0)` below
its definition, or default values, `def loss(x=2.0)`.
"""


@dataclass(frozen=True)
class Call:
    """A function of the user's and all its arguments, of which `argnums` vary."""

    target: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    names: tuple[str, ...]
    argnums: tuple[int, ...]
    named: tuple[tuple[str, Any], ...] = ()  # what f was given by name alone

    def __str__(self) -> str:
        """`loss(w: float64[3], n=3)`."""
        name = getattr(self.f, "__name__", self.target)
        pairs = [*zip(self.names, self.args, strict=True), *self.named]
        given = [f"{n}={kind(a)}" if is_plain(a) else f"{n}: {kind(a)}" for n, a in pairs]
        return f"{name}({', '.join(given)})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("function", help="module:function or path/to/file.py:function")
    parser.add_argument("--args", nargs="*", metavar="ARG", help="what to call it with (see above)")
    parser.add_argument(
        "--wrt", metavar="NAMES", help="vary only these arguments: names or numbers, with commas"
    )


def call_of(options: argparse.Namespace, is_varied: bool = True) -> Call:
    """The call that was asked for; unless `is_varied`, nothing in it need be a float."""
    f = load_function(options.function)
    given, named = parse_arguments(options.args or ())
    if options.args is None:
        given = _own_examples(f, options.function)
    args, names, named = _bound(f, given, named, options.function)
    argnums = _varied(options.wrt, args, names) if is_varied else ()
    return Call(options.function, _fixed(f, named), args, names, argnums, tuple(named.items()))


@contextmanager
def blaming(call: Call) -> Iterator[None]:
    """What the user's function raises is told with its line."""
    try:
        yield
    except BacksolveError:
        raise
    except (Exception, SystemExit) as error:
        at = location_of(error)
        if isinstance(error, ValueError) and at == "an unknown place":  # it is about the function
            raise ValueError(f"{call}: {error}") from error
        where = "" if at == "an unknown place" else f"\n    at {at}"
        raise ValueError(f"{call} raised {type(error).__name__}: {error}{where}") from error


def kind(x: Any) -> str:
    """
    >>> kind(np.ones((2, 3))), kind(2.0), kind({"w": 1})
    ('float64[2,3]', '2.0', 'dict')
    """
    if isinstance(x, np.ndarray | Tensor):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    return repr(x) if is_plain(x) else type(x).__name__


def is_plain(x: Any) -> bool:
    return isinstance(x, int | float | complex | str | None) and not isinstance(x, np.generic)


def _own_examples(f: Callable[..., Any], target: str) -> list[Any]:
    examples = getattr(f, "example_args", None)
    if examples is not None:
        found = examples() if callable(examples) else examples
        return list(found) if isinstance(found, tuple | list) else [found]
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = None
    if parameters == []:
        raise ValueError(
            f"{target} takes no arguments, so there is nothing to differentiate it by: "
            "make an argument of what shall vary"
        )
    needed = [p for p in parameters or () if p.default is p.empty and p.kind not in _STARRED]
    if needed or not parameters:
        of = ", ".join(f"<{p.name}>" for p in needed) or "<its arguments>"
        raise ValueError(
            f"{target} must be called with something: add --args {of.replace(',', '')}, or in its file "
            f"{target.rpartition(':')[2]}.example_args = ({of},)"
        )
    return [p.default for p in parameters if p.kind in _POSITIONAL]


_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _bound(
    f: Callable[..., Any], given: list[Any], named: dict[str, Any], target: str
) -> tuple[tuple[Any, ...], tuple[str, ...], dict[str, Any]]:
    """All arguments by position, their names, and those that can be given by name alone."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # built in
        return tuple(given), tuple([f"arg{k}" for k in range(len(given))]), named
    try:
        bound = signature.bind(*given, **named)
    except TypeError as error:
        got = ", ".join([kind(a) for a in given] + [f"{n}={kind(a)}" for n, a in named.items()])
        guess = "".join(
            near(n, signature.parameters) for n in named if n not in signature.parameters
        )
        raise ValueError(
            f"{target.rpartition(':')[2]}{signature} cannot be called with ({got}): {error}{guess}"
        ) from None
    names = [n for n in bound.arguments if signature.parameters[n].kind in _POSITIONAL]
    names += [f"arg{k}" for k in range(len(names), len(bound.args))]
    return bound.args, tuple(names), bound.kwargs


def _fixed(f: Callable[..., Any], named: dict[str, Any]) -> Callable[..., Any]:
    if not named:
        return f

    @functools.wraps(f)
    def with_named(*args: Any) -> Any:
        return f(*args, **named)

    del with_named.__wrapped__  # or else it would be looked through
    with suppress(TypeError, ValueError):
        parameters = inspect.signature(f).parameters.values()
        rest = [p for p in parameters if p.name not in named and p.kind is not p.VAR_KEYWORD]
        vars(with_named)["__signature__"] = inspect.Signature(rest)
    return with_named


def _varied(wrt: str | None, args: tuple[Any, ...], names: tuple[str, ...]) -> tuple[int, ...]:
    can = tuple([n for n, a in enumerate(args) if any(map(varies, tree.flatten(a)[0]))])
    if wrt is None:
        if not can:
            if not args:
                raise ValueError("no argument varies: none is given by position")
            given = ", ".join(map(kind, args))
            raise ValueError(f"no argument varies: of {given}, none is a float; write 2.0 for 2")
        return can
    found = []
    for word in wrt.split(","):
        name = word.strip()
        if name not in names and not (name.isdigit() and int(name) < len(args)):
            raise ValueError(
                f"--wrt {name!r} is no argument{near(name, names)}; there are {', '.join(names)}"
            )
        found.append(names.index(name) if name in names else int(name))
        if found[-1] not in can:
            raise ValueError(
                f"--wrt {name}: {kind(args[found[-1]])} holds no float; write 2.0 for 2"
            )
    return tuple(sorted(set(found)))
