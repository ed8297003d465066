"""How compiled code fails: `run` returns 0, or the number of an exception that the entry raises.

A lowering asks for a number, `code = schedule.fail(IndexError, "index out of range")`; its emitter leaves
with it, `fail_if(b, condition, code)`, in the body of `run` or in a function of its own that returns an
i32 (0 at its end), called by `call_step`. Nothing of a failed run is seen: its outputs are released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

CODE = ir.IntType(32)
FINE = CODE(0)


class Failures:
    """The exceptions that a program may raise, numbered from 1."""

    def __init__(self, unsafe: bool = False) -> None:
        self.known: list[tuple[type[Exception], str]] = []
        self.unsafe = unsafe  # indices are not looked at

    def code(self, kind: type[Exception], message: str) -> int:
        if (kind, message) not in self.known:
            self.known.append((kind, message))
        return self.known.index((kind, message)) + 1

    def exception(self, code: int) -> Exception:
        kind, message = self.known[code - 1]
        return kind(message)


def placed(message: str, where: str) -> str:
    """A message with the user's line, where that is known."""
    return f"{message}, at {where}" if where else message


def fail_if(b: ir.IRBuilder, condition: ir.Value, code: int) -> None:
    """Leave the function with `code` where `condition` holds; `b` goes on where it does not."""
    with b.if_then(condition, likely=False):
        b.ret(CODE(code))


def call_step(b: ir.IRBuilder, function: Any, args: Sequence[ir.Value]) -> None:
    """Call a step; if it returns a code, hand on one that is not 0."""
    code = b.call(function, args)
    if code.type == CODE:
        with b.if_then(b.icmp_unsigned("!=", code, FINE), likely=False):
            b.ret(code)
