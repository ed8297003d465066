"""The arguments of one call of a compiled function, taken apart: numbers, which have types, and all else, which
is part of what is specialised on."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..declared import plain_structure
from ..errors import StaticArgumentError, TracedValueError
from ..ir import Type, type_of
from ..primitive import coerce
from ..tensor import Tensor

_BY_PLACE = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
_PYTHON = (float, int, bool, complex)
_LARGE = (
    1 << 15
)  # bytes of an array whose copy takes longer than to find another form of the function


class Arguments:
    def __init__(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        static_argnums: set[int],
        static_names: Container[str] = (),
        on_device: bool = False,
    ):
        self.count = count = len(args)
        self.static = {k % count: args[k] for k in static_argnums if -count <= k < count}
        self.static_named = {name: x for name, x in kwargs.items() if name in static_names}
        dynamic = [a for k, a in enumerate(args) if k not in self.static]
        named = {name: x for name, x in kwargs.items() if name not in self.static_named}
        leaves, self.structure = tree.flatten((dynamic, named))
        self.leaves = [_taken(x, on_device) for x in leaves]
        self.fixed = {k: x for k, x in enumerate(self.leaves) if not _is_number(x)}
        for x in self.fixed.values():
            if not (tree.is_immutable(x) or type(x) is int):
                raise StaticArgumentError(
                    f"`jit` cannot look into an argument of type {type(x).__name__}: pass numbers, arrays, "
                    "dicts, lists, tuples or dataclasses; or declare it static (static_argnums=…), and "
                    "what it holds is captured at the first call"
                )
        self.numbers = [x for k, x in enumerate(self.leaves) if k not in self.fixed]
        self.turned: frozenset[int] = frozenset()

    def check_places(self, f: Callable[..., Any], what: str, places: set[int]) -> None:
        """Raise where a place is that of no argument, given or not."""
        most = _most_arguments(f)
        if most is None:
            return
        n = max(most, self.count)  # a function may tell the signature of another that it wraps
        beyond = sorted(places - {*range(-n, n)})
        if beyond:
            raise ValueError(
                f"`{what}` names the argument at {beyond[0]}, but `{getattr(f, '__name__', f)}` takes {most} "
                "by place: they count from 0, and arguments that go by name alone have no place"
            )

    def turn(self, kept: Container[int]) -> None:
        """Give large arrays in Fortran's order as what they are to native code, transposed ones: no copies.

        But for those that are `kept`, which results may take the memory of."""
        if any(isinstance(x, Tensor) for x in self.numbers):
            return
        self.turned = frozenset(
            [k for k, x in enumerate(self.numbers) if k not in kept and _is_turned(x)]
        )
        self.numbers = [x.T if k in self.turned else x for k, x in enumerate(self.numbers)]

    @functools.cached_property
    def types(self) -> tuple[Type, ...]:
        return tuple(
            [
                type_of(x) if type(x) in _PYTHON else Type(np.shape(raw(x)), _known(x.dtype))
                for x in self.numbers
            ]
        )

    @functools.cached_property
    def key(self) -> Any:
        """What a specialisation is found by."""
        values = [*self.static.items(), *self.static_named.items(), *self.fixed.items()]
        names = tuple(map(exactly, _metas(self.structure)))
        exact = tuple([(k, exactly(v)) for k, v in values])
        key = (self.structure, names, self.types, exact, self.turned)
        try:
            hash(key)
        except TypeError:
            raise StaticArgumentError(
                f"static arguments of a jitted function must be hashable, got {dict(values)!r}; "
                "pass arrays as ordinary arguments, and tuples instead of lists"
            ) from None
        return key

    def names(self, f: Callable[..., Any]) -> list[str]:
        """The numbers, by dotted names that begin with that of their argument."""
        positional, named = plain_structure(self.structure).children
        places = [k for k in range(self.count) if k not in self.static]
        owners = [*[_argument(f, k) for k in places], *(named.meta or ())]
        forms = [*positional.children, *named.children]
        found = [
            name
            for owner, form in zip(owners, forms, strict=True)
            for name in tree.dotted_names(form, owner)
        ]
        return [name for k, name in enumerate(found) if k not in self.fixed]

    def rebuild(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with other numbers."""
        rest = iter([np.transpose(v) if k in self.turned else v for k, v in enumerate(values)])
        full = [self.fixed[k] if k in self.fixed else next(rest) for k in range(len(self.leaves))]
        inner, named = self.structure.unflatten(full)
        given = iter(inner)
        total = len(inner) + len(self.static)
        positional = [self.static[k] if k in self.static else next(given) for k in range(total)]
        return positional, {**named, **self.static_named}

    def donated(self, places: set[int], names: Container[str] = ()) -> tuple[int, ...]:
        """Which of the numbers belong to the arguments at `places`, or are given by one of `names`."""
        children, named = (part.children for part in self.structure.children)
        count = self.count
        given = {k % count for k in places if -count <= k < count}
        owners = [k for k in range(count) if k not in self.static]
        sizes = [child.size for child in children]
        gives = [k in given for k, n in zip(owners, sizes, strict=True) for _ in range(n)]
        keys: Any = self.structure.children[1].meta
        gives += [
            name in names
            for name, child in zip(keys, named, strict=True)
            for _ in range(child.size)
        ]
        kept = [k for k in range(len(self.leaves)) if k not in self.fixed]
        return tuple(at for at, k in enumerate(kept) if gives[k])


def _most_arguments(f: Callable[..., Any]) -> int | None:
    """How many arguments may be given by place; None if nobody knows."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # a built-in function that does not tell
        return None
    kinds = [p.kind for p in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    return sum([kind in _BY_PLACE for kind in kinds])


def names_of(f: Callable[..., Any], places: set[int]) -> frozenset[str]:
    """What the arguments at these places are called, where they may be given by name."""
    try:
        parameters = inspect.signature(f).parameters.values() if places else ()
    except (TypeError, ValueError):  # a built-in function that does not tell
        return frozenset()
    positional = [p for p in parameters if p.kind in _BY_PLACE]
    found = [positional[k] for k in places if -len(positional) <= k < len(positional)]
    return frozenset([p.name for p in found if p.kind is _BY_PLACE[1]])


def _argument(f: Callable[..., Any], place: int) -> str:
    """What the argument at a place is called."""
    found = names_of(f, {place})
    return next(iter(found), str(place))


def _is_number(x: Any) -> bool:
    if type(x) is int:
        return -(2**31) <= x < 2**31  # larger ones are constants: NumPy decides what they fit into
    if type(x) in _PYTHON or isinstance(x, Tensor | np.generic) or is_on_device(x):
        return True
    return isinstance(x, np.ndarray) and coerce(x) is not None  # refuses matrices and masked arrays


def _taken(x: Any, on_device: bool) -> Any:
    """A leaf as a backend takes it: arrays of other libraries as NumPy's, but for those on a device."""
    if type(x).__module__.startswith("jax"):
        _refuse_tracers(x)
    if on_device and is_on_device(x):
        return x
    if _is_column(x):
        return np.array(x)
    if on_device and isinstance(x, np.ndarray) and not x.dtype.isnative:
        return x.astype(x.dtype.newbyteorder("="))
    return x


def _refuse_tracers(x: Any) -> None:
    if any(c.__name__ == "Tracer" for c in type(x).__mro__):
        raise TracedValueError(
            "a compiled function got a value that JAX traces: inside jax.jit, jax.grad and jax.vmap call "
            "bs.interop.jax.function(f), which JAX can differentiate and compile, too"
        )


def _is_column(x: Any) -> bool:
    """Whether x is another library's array: a column or a frame of pandas or Polars."""
    known = type(x) in _PYTHON or isinstance(x, Tensor | np.ndarray | np.generic)
    return not known and hasattr(x, "__array__") and not tree.is_immutable(x)


def is_on_device(x: Any) -> bool:
    """Whether x is an array of JAX's, of numbers that we know."""
    return (
        type(x).__module__.startswith("jax")
        and hasattr(x, "devices")
        and _known(x.dtype).kind in "biufc"
    )


def _is_turned(x: Any) -> bool:
    if type(x) is not np.ndarray or x.nbytes < _LARGE:
        return False
    return x.flags.f_contiguous and not x.flags.c_contiguous and x.flags.aligned


def _known(dtype: Any) -> Any:
    """The element type in Programs: bfloat16, too, is the 16-bit float there."""
    return np.dtype(np.float16) if dtype.name == "bfloat16" else plain(dtype)


def _metas(form: tree.Structure) -> Iterator[Any]:
    """The keys of all dicts in a form, and what else tells containers apart."""
    if form.meta is not None:
        yield form.meta
    for child in form.children:
        if child.kind is not tree.LEAF:
            yield from _metas(child)


def exactly(v: Any) -> Any:
    """A static value as a key: 2, 2.0 and True differ, and so do 0.0 and −0.0."""
    if isinstance(v, tuple):
        return (type(v), *[exactly(x) for x in v])
    if isinstance(v, frozenset):
        return (frozenset, frozenset(exactly(x) for x in v))
    if dataclasses.is_dataclass(v) and not isinstance(v, type):
        fields = [exactly(getattr(v, f.name)) for f in dataclasses.fields(v)]
        return (type(v), v, *fields)
    if isinstance(v, range | slice):  # ranges are equal if their numbers are, whatever their ends
        return (type(v), *[exactly(x) for x in (v.start, v.stop, v.step)])
    return type(v), repr(v) if isinstance(v, float | complex | np.inexact) else v


def plain(dtype: Any) -> Any:
    """The one object that stands for an element type: unpickled arrays bring others, which native code does not
    know."""
    return np.dtype(dtype.type) if dtype.kind in "biufc" and dtype.isnative else dtype


def raw(x: Any) -> Any:
    return x._v if isinstance(x, Tensor) else x
