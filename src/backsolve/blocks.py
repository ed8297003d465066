"""The blocks of a primitive as the engine calls them: by the names of their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from .row import Row

ASKS_MORE, FIXED = -1, -2  # see compile_block
_LETTERS = {letter: k for k, letter in enumerate("yabcd")}


def compile_block(block: Any) -> tuple[tuple[Any, int], tuple[int, ...], tuple[int, ...]]:
    """A block as the engine calls it, and the positions it asks for by value and by type.

    The engine gets (block, k): a function of the one captured value k, which is the common case; or,
    for ASKS_MORE, a function of (saved, row); or, for FIXED, the operator itself.
    """
    if block is None or not inspect.isfunction(block):
        return (block, FIXED), (), ()
    code = block.__code__
    names = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    values = tuple(_LETTERS[n] for n in names if n in _LETTERS)
    types = tuple(_LETTERS[n.lower()] for n in names if n not in _LETTERS)
    if not types and not keywords:
        if len(values) == 1:
            return (block, values[0]), values, ()
        if len(values) == 2:
            j, k = values
            return (lambda s, row: block(s[j], s[k]), ASKS_MORE), values, ()

    places = [(_LETTERS[n.lower()], n in _LETTERS) for n in names]

    def call(s: Sequence[Any], row: Row) -> Any:
        args = []
        for k, by_value in places:
            args.append(s[k] if by_value else _type(row, s, k))
        known = row.params or {}
        if len(known) != len(keywords):
            known = {k: known[k] for k in keywords}
        return block(*args, **known)

    return (call, ASKS_MORE), values, types


def _type(row: Row, s: Sequence[Any], k: int) -> Any:
    if k == 0:
        return row
    parent = row.parents[k - 1]
    return parent if parent.__class__ is Row else s[k]
