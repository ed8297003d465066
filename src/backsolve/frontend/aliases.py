"""Writes into objects that share memory in Python but not in a Program (links.py), and how they come about.

A write into a Tensor spoils those linked with it. Lists, dicts and other objects cannot be spoilt: where it is
not known which of several one is, a write into it is refused.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import links
from ..errors import InPlaceError, location
from ..hooks import hooks
from ..links import known, link, linked, partners, record, relatives
from ..tensor import Tensor
from .scope import at_end, check_write, count_write, in_region, made, stack


class _Doubts(threading.local):
    def __init__(self) -> None:
        self.of: dict[int, tuple[Any, str]] = {}  # by id: an object, and why


_doubts = _Doubts()


def note_write(t: Tensor, key: Any = ...) -> None:
    """Before `t` gets new numbers in place: those that share its memory are spoilt."""
    check_certain(t)
    if in_region() and t.ndim:
        check_write(t)
    concerned = relatives(t, key)
    if id(t) in known.records:
        concerned += linked(t)[1:]
    if concerned:
        where = location(2)
        for p in concerned:
            spoil(p, where, t)


hooks.note_write = note_write


def spoil(t: Tensor, where: str, by: Tensor | None = None) -> None:
    if record(t).kind is None:
        links.spoil(t, where, by)
        if stack():
            stack()[-1].spoilt.append((t, where))


# ---- what cannot be spoilt


def doubt(x: Any, why: str) -> None:
    """Refuse later writes into `x`, which may have other names now."""
    _doubts.of[id(x)] = x, why


def check_certain(x: Any) -> None:
    """Before anything is written into `x`."""
    count_write()
    found = _doubts.of.get(id(x))
    if found is not None and found[0] is x:
        raise InPlaceError(
            f"this writes into {found[1]}; whether others see the write cannot be told. Work on a copy"
        )


at_end.append(lambda: _doubts.of.clear())


# ---- views


def seen(view: Any, whole: Any) -> Any:
    """A result that shows the memory of `whole`, as NumPy has it."""
    if isinstance(view, Tensor) and isinstance(whole, Tensor) and view is not whole and view.ndim:
        made(view)
        link(view, whole, *partners(whole))  # of which `whole` may be a view that is soon gone
    return view


def viewing(f: Callable[..., Any]) -> Callable[..., Any]:
    """np.reshape and its like."""

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        for view in result if isinstance(result, list | tuple) else [result]:
            for whole in args[:1]:
                seen(view, whole)
        return result

    return run


VIEWS: tuple[Any, ...] = (np.reshape, np.ravel, np.transpose, np.squeeze, np.swapaxes, np.moveaxis)
VIEWS += (np.expand_dims, np.broadcast_to, np.flip, np.fliplr, np.flipud, np.diagonal, np.split)
VIEWS += (np.array_split, np.hsplit, np.vsplit, np.atleast_1d, np.atleast_2d, np.rot90, np.rollaxis)
VIEWS += (np.atleast_3d, np.real, np.imag)
METHODS = frozenset({"reshape", "ravel", "transpose", "squeeze", "swapaxes", "diagonal", "view"})
ATTRIBUTES = frozenset({"T", "mT", "real", "imag"})
METHODS |= {"astype", *ATTRIBUTES}


def method(x: Any, name: str) -> Any:
    """x.reshape and its like; x.T"""
    found = getattr(x, name)
    if not isinstance(x, Tensor):
        return found
    if name in ATTRIBUTES:
        return seen(found, x)
    if name == "astype":
        copies = lambda **options: options.get("copy", True)
        return lambda *args, **kwargs: (
            found(*args, **kwargs) if copies(**kwargs) else seen(found(*args, **kwargs), x)
        )
    return lambda *args, **kwargs: seen(found(*args, **kwargs), x)


# ---- what a region leaves in variables


def join(new: Any, ends: Sequence[Any], what: str) -> None:
    """`new` stands for one of `ends`, old objects that may have other names."""
    if not ends:
        return
    doubted = f"what is one of several objects after {what}"
    if isinstance(new, Tensor):
        for old in ends:
            if isinstance(old, Tensor):
                link(new, old)
            elif isinstance(old, np.ndarray) and new.ndim:
                doubt(new, doubted)
    elif isinstance(new, list | dict) or hasattr(new, "__dict__"):
        doubt(new, doubted)
        for old in ends:
            if type(old) is type(new):
                doubt(old, doubted)
