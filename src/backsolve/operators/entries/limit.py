"""How much products of entries may take: whoever prices a way must not take longer than the way itself.

A term is a few integers, however large the matrix; a list has two index arrays, as long as there are entries.
Inside of `within(limits)` both are counted before they are made, and what is too much is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ...errors import UnsupportedError


@dataclass(frozen=True)
class Limits:
    entries: int  # that may be listed one by one, in all
    products: int  # of terms


@dataclass
class _Taken:
    limits: Limits
    entries: int = 0
    products: int = 0


_taken: ContextVar[_Taken | None] = ContextVar("taken", default=None)


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    before = _taken.set(_Taken(limits))
    try:
        yield
    finally:
        _taken.reset(before)


def about_to_list(entries: int) -> None:
    taken = _taken.get()
    if taken is not None:
        taken.entries += entries
        if taken.entries > (most := taken.limits.entries):
            raise UnsupportedError(f"more than {most:,} entries would be listed one by one")


def about_to_multiply(products: int) -> None:
    taken = _taken.get()
    if taken is not None:
        taken.products += products
        if taken.products > (most := taken.limits.products):
            raise UnsupportedError(f"there would be more than {most:,} products of terms")
