"""Module: a part of a network as a plain object, whose arrays are its parameters.

A module is a container like a dict (tree.py): arrays and modules that it holds are its entries; all else
(numbers of Python, names, functions) are settings, part of its form. So every transformation takes one as
an argument, differentiates it, and gives one back. Classes are dataclasses without being asked:

>>> import numpy as np
>>> import backsolve as bs
>>> class Scale(bs.nn.Module):
...     factor: np.ndarray
...     power: int = 1
...     def __call__(self, x):
...         return self.factor * x**self.power
>>> model = Scale(np.array(3.0), power=2)
>>> bs.grad(lambda m: m(5.0))(model).factor
array(25.)
>>> model
Scale(factor=(), power=2)

State that a call changes (a running mean, where random numbers stand) is an attribute like any other:
an argument of a transformation is a copy there, and what shall outlive it is returned. A module that a compiled
function closes over is no copy: its state moves at each call.

An array, or a module, that stands in several places is one: it is listed once, its gradient is the sum over
its places, and it is one again in what transformations give back.

>>> class Tied(bs.nn.Module):
...     def __init__(self):
...         self.encode = np.array(2.0)
...         self.decode = self.encode
...     def __call__(self, x):
...         return self.decode * (self.encode * x)
>>> gradient = bs.grad(lambda m: m(5.0))(Tied())
>>> gradient.encode, gradient.decode is gradient.encode
(array(20.), True)

An array that is set by `bs.on` is declared on a manifold and stays so: derivatives are tangents, optimisers and
`bs.fit` keep it there.

>>> layer = bs.nn.Linear(2, 3)
>>> layer.weight = bs.on(bs.manifolds.Stiefel(), np.eye(3, 2))
>>> layer.named_parameters()["weight"].manifold
Stiefel(retraction='qr')
>>> type(layer.weight).__name__
'ndarray'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import changes, containers, tree
from ..declared import Point
from ..errors import StructureError
from ..hooks import hooks
from ..primitive import P
from ..tensor import Staged, Tensor
from .on_manifolds import (
    Declarations,
    check_point,
    declared_again,
    taken_off,
    undeclared,
    with_declarations,
)  # fmt: skip

_ARRAYS = (np.ndarray, np.generic, Tensor)
_COUNTED = (np.ndarray, np.number, Tensor)  # of NumPy's True there is only one anyway


# What PyTorch's modules are asked for, and the way it is done here.
_HERE = {
    "parameters": "a module is a container of its arrays, so optimisers take the module itself: "
    "`state = rule.init(model)`; model.named_parameters() has them by name",
    "forward": "call the module, model(x)",
    "to": "arrays are NumPy's; bs.jit(f, backend='xla', device='gpu') runs a function elsewhere",
    "zero_grad": "nothing accumulates, bs.grad(loss)(model) makes new gradients",
    "requires_grad_": "model.freeze() holds parameters, bs.grad(loss)(model) differentiates the others",
}
_HERE |= {"cuda": _HERE["to"], "cpu": _HERE["to"]}


class Module(changes.Noted):
    """See the head of this file. `forward`, where there is no `__call__`, is what a call does; `buffers` names
    the attributes that are state, not parameters.
    """

    buffers: ClassVar[tuple[str, ...]] = ()
    training: bool
    frozen: bool
    _manifolds: Declarations  # by path, what is declared on one
    _init_of_fields: ClassVar[bool]  # not written by hand
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        written = next(c for c in cls.__mro__ if "__init__" in vars(c))
        generate = written is object or written.__dict__.get("_init_of_fields", False)
        cls._init_of_fields = generate
        dataclasses.dataclass(init=generate, eq=False, repr=False)(cls)
        tree.register(cls, _take_apart, lambda meta, xs: _put_together(cls, meta, xs), _COUNTED)
        if "forward" in vars(cls) and _found(cls, "__call__") in (None, _found(cls, "forward", 1)):
            cls.__call__ = cls.forward  # type: ignore[method-assign, attr-defined]  # as users define it

    def __setattr__(self, name: str, value: Any) -> None:
        if hooks.has_points:
            value, found = taken_off(value, name)
            stays = isinstance(value, _ARRAYS) and not found
            if found or (self._manifolds and not stays):
                self.__dict__["_manifolds"] = with_declarations(self._manifolds, name, found)
            elif isinstance(value, np.ndarray) and (how := dict(self._manifolds).get(name)):
                check_point(name, how, value)
        changes.note(self, name)
        object.__setattr__(self, name, value)

    # ---- looking inside

    if not TYPE_CHECKING:  # who checks types finds names that are not there

        def __getattr__(self, name: str) -> Any:
            hint = f": {_HERE[name]}" if name in _HERE else ""
            message = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(message, name=name, obj=self)

    def named_parameters(self) -> dict[str, Any]:
        """The arrays that are trained, by dotted names; what is declared on a manifold, as `bs.on` gives it."""
        declared = _declared(self)
        return {
            name: Point(how[0], value, *how[1:]) if (how := declared.get(id(value))) else value
            for name, value, kind in _arrays(self)
            if kind == "parameter"
        }

    def named_buffers(self) -> dict[str, Any]:
        """All other arrays: state, and what is frozen."""
        return {name: value for name, value, kind in _arrays(self) if kind != "parameter"}

    def state_dict(self) -> dict[str, Any]:
        """All arrays, by dotted names."""
        return {name: value for name, value, _ in _arrays(self)}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Take arrays of these names; with `strict`, an error that lists all that do not fit."""
        own = self.state_dict()
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        misshapen = [
            f"{name}: {np.shape(own[name])} here, {np.shape(value)} there"
            for name, value in state.items()
            if name in own and np.shape(value) != np.shape(own[name])
        ]
        wrong = [("misshapen", misshapen)]
        if strict:
            wrong = [("missing", missing), ("unexpected", unexpected), *wrong]
        if any(names for _, names in wrong):
            lines = [f"  {kind}: {', '.join(names)}" for kind, names in wrong if names]
            raise StructureError("this state does not fit the module\n" + "\n".join(lines))
        new = {
            name: np.array(state[name], dtype=value.dtype)
            for name, value in own.items()
            if name in state
        }
        declared = _declared(self)
        for name, value in new.items():
            if how := declared.get(id(own[name])):
                check_point(name, how, value)
        self.__dict__.update(vars(self.replace(new)))

    def replace(self, arrays: Mapping[str, Any]) -> Any:
        """A copy with other arrays under these names; what stands in several places changes in all.

        What is declared on a manifold stays so.
        """
        own = self.state_dict()
        unknown = [name for name in arrays if name not in own]
        if unknown:
            raise StructureError(f"{type(self).__name__} has no arrays named {', '.join(unknown)}")
        plain = {n: a.x if isinstance(a, Point) else a for n, a in arrays.items()}
        return _swapped(self, {id(own[name]): new for name, new in plain.items()}, {})

    def modules(self) -> Iterator[tuple[str, Module]]:
        """This module and all inside of it, by dotted names; one that stands twice, once."""
        return _modules(self, "", set())

    def __repr__(self) -> str:
        parts = []
        for name, value in vars(self).items():
            if name in ("training", "frozen", "_manifolds"):
                continue
            if isinstance(value, _ARRAYS):
                parts.append(f"{name}={tuple(np.shape(value))}")
            else:
                parts.append(f"{name}={value!r}")
        text = ", ".join(parts)
        return f"{type(self).__name__}({text})"

    # ---- modes

    def train(self, mode: bool = True) -> Module:
        """Switch this module and all inside of it to training, or with False to evaluation."""
        for _, module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """train(False): dropout passes everything, batch norm uses its running figures."""
        return self.train(False)

    def freeze(self, frozen: bool = True) -> Module:
        """Parameters of this module and all inside of it are left as they are in training."""
        for _, module in self.modules():
            module.frozen = frozen
        return self


Module.training = True
Module.frozen = False
Module._manifolds = ()


# ---- as a container


def _found(cls: type, name: str, above: int = 0) -> Any:
    """What a class, or the classes `above` it, have of this name."""
    return next((vars(c)[name] for c in cls.__mro__[above:] if name in vars(c)), None)


def _take_apart(module: Any) -> tuple[Any, list[Any]]:
    form, entries = [], []
    for name, value in vars(module).items():
        if _is_entry(value):
            form.append((name, True, None))
            entries.append(declared_again(value, name, module._manifolds))
            continue
        try:
            hash(value)
        except TypeError:
            raise StructureError(
                f"{type(module).__name__}.{name} holds no arrays, so it is a setting, and settings must "
                f"be hashable: write a tuple for {value!r}"
            ) from None
        form.append((name, False, value))
    return tuple(form), entries


def _put_together(kind: type, form: Any, entries: list[Any]) -> Any:
    new: Any = object.__new__(kind)
    left = iter(entries)
    for name, is_entry, setting in form:
        new.__dict__[name] = next(left) if is_entry else setting
    for name in {path.partition(".")[0] for path, _ in new._manifolds}:
        new.__dict__[name] = undeclared(new.__dict__[name], name, new._manifolds)
    return new


def _is_entry(value: Any) -> bool:
    """Whether something is an array or a module, or a container that holds one; an empty dict may."""
    return (
        isinstance(value, (*_ARRAYS, Module))
        or (type(value) is dict and not value)
        or any(_is_entry(part) for _, part in _parts(value))
    )


def _swapped(value: Any, new: dict[int, Any], copies: dict[int, Any]) -> Any:
    """A copy, with arrays (known by identity) in the place of others."""
    if isinstance(value, _ARRAYS):
        return new.get(id(value), value)
    if isinstance(value, Module):
        if id(value) not in copies:
            copy = copies[id(value)] = object.__new__(type(value))
            copy.__dict__.update({k: _swapped(v, new, copies) for k, v in vars(value).items()})
        return copies[id(value)]
    if not _is_entry(value):
        return value
    meta, parts = containers.handlers(type(value))[0](value)
    swapped = [_swapped(v, new, copies) for v in parts]
    return containers.handlers(type(value))[1](type(value), meta, swapped)


# ---- by name


def _arrays(module: Module) -> Iterator[tuple[str, Any, str]]:
    """(name, array, "parameter" | "buffer") of all arrays; one that stands twice, once."""
    seen: set[int] = set()
    for path, value, kind in _walk(module, (), "parameter"):
        if id(value) not in seen:
            seen.add(id(value))
            yield ".".join(path), value, kind


def _declared(module: Module) -> dict[int, Any]:
    """How arrays, known by identity, are declared on manifolds; one that stands twice, by any of its places."""
    found: dict[int, Any] = {}
    for name, part in module.modules():
        inside = {".".join(p): a for p, a, _ in _walk(part, (), "")} if part._manifolds else {}
        for path, how in part._manifolds:
            if found.setdefault(id(inside.get(path)), how) != how:
                raise StructureError(
                    f"{name}.{path} stands in two places that are declared on different manifolds"
                )
    return found


def places(container: Any, array: Any) -> list[str]:
    """The dotted names of all places where an array stands."""
    return [".".join(path) for path, value, _ in _walk(container, (), "") if value is array]


def kept_figure(x: Any) -> Any:
    """A figure that a module keeps of what it has seen: a constant, which holds on to nothing it was made from.

    Staged, it stays one in the Program, which may be differentiated later.
    """
    if isinstance(x, Staged):
        return P.detach(x)
    return x.detach() if isinstance(x, Tensor) else x


def states(container: Any) -> list[Any]:
    """The arrays in a container that nothing trains: state, and what is frozen."""
    return [value for _, value, kind in _walk(container, (), "parameter") if kind == "buffer"]


def _walk(
    value: Any, path: tuple[str, ...], kind: str
) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    if isinstance(value, _ARRAYS):
        is_number = np.dtype(value.dtype).kind in "fc"
        yield path, value, kind if is_number else "buffer"
        return
    if isinstance(value, Module):
        inside = "buffer" if value.frozen else kind
        for name, part in vars(value).items():
            state = "buffer" if name in value.buffers else inside
            yield from _walk(part, (*path, name), state)
        return
    for name, part in _parts(value):
        yield from _walk(part, (*path, name), kind)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(k), v) for k, v in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(k), v) for k, v in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from vars(value).items()


def _modules(value: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if isinstance(value, Module):
        if id(value) in seen:
            return
        seen.add(id(value))
        yield name, value
        parts: Any = vars(value).items()
    else:
        parts = _parts(value)
    for part, inside in parts:
        yield from _modules(inside, f"{name}.{part}" if name else part, seen)
