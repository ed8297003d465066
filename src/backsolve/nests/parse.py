"""The text of loop nests as statements: a target, a way to combine, and an expression of Python's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..errors import BacksolveError, NestError

_ASSIGNMENT = re.compile(r"(.*?)(\bmax=|\bmin=|[-+*]=|(?<![=<>!])=)(?!=)(.*)", re.DOTALL)
_LOOPS = re.compile(r"for\s+(\w+(?:\s*,\s*\w+)*)\s*:")
_OPEN, _CLOSE = "([{", ")]}"
_LEFT_OUT = "_left_out"  # what stands for the missing `else` of a trailing `if`


@dataclass(frozen=True, eq=False, slots=True)
class Statement:
    """`name[at] how term if condition`; for every value of every index letter."""

    text: str
    name: str
    at: tuple[ast.expr, ...]
    how: str  # "=", "+=", "*=", "max=", "min="
    term: ast.expr
    condition: ast.expr | None
    loops: tuple[str, ...] = ()  # letters that the text names: for i, k: …

    def error(self, what: str, kind: type[BacksolveError] = NestError) -> BacksolveError:
        return kind(f"{what}\n    in the nest  {self.text}")


@lru_cache(maxsize=512)
def parse(text: str) -> tuple[Statement, ...]:
    """All statements of a text; they are separated by newlines or semicolons.

    >>> [(s.name, s.how, ast.unparse(s.term)) for s in parse("m max= x[i]; Y[i] = x[i] - m")]
    [('m', 'max=', 'x[i]'), ('Y', '=', 'x[i] - m')]
    """
    found = tuple(_statement(line) for line in _lines(text))
    if not found:
        raise NestError("expected a statement like Y[i,j] += A[i,k] * B[k,j], got an empty text")
    return found


def _lines(text: str) -> Iterator[str]:
    """The statements; a bracket may go on over several lines."""
    depth, line = 0, ""
    for c in re.sub(r"#.*", "", text) + "\n":
        depth += (c in _OPEN) - (c in _CLOSE)
        if (c in "\n;") and depth <= 0:
            if line.strip():
                yield " ".join(line.split())
            line, depth = "", 0
        else:
            line += c
    if line.strip():
        raise NestError(f"a bracket is not closed in the nest  {' '.join(line.split())}")


def _statement(line: str) -> Statement:
    named = _LOOPS.match(line)
    loops = tuple(c.strip() for c in named[1].split(",")) if named else ()
    found = _ASSIGNMENT.fullmatch(line[named.end() :] if named else line)
    if found is None:
        raise NestError(f"expected Y[i,j] += …  (or =, *=, max=, min=), got the nest  {line}")
    left, how, right = (part.strip() for part in found.groups())
    target = _expression(left, line)
    term: ast.expr = _term(right, line)
    at: tuple[ast.expr, ...] = ()
    if isinstance(target, ast.Subscript):
        at, target = entries(target), target.value
    if not isinstance(target, ast.Name):
        raise NestError(f"the left side must be a name or Y[…], got {left!r} in the nest  {line}")
    condition = None
    if isinstance(term, ast.IfExp) and _is_nothing(term.orelse, how):
        condition, term = term.test, term.body
    if how == "-=":
        how, term = "+=", ast.UnaryOp(ast.USub(), term)
    return Statement(line, target.id, at, how, term, condition, loops)


def _term(code: str, line: str) -> ast.expr:
    """The right side; a trailing `if` needs no `else`."""
    try:
        return ast.parse(code, mode="eval").body
    except SyntaxError:
        if re.search(r"\bif\b", code) is None:
            raise _syntax(code, line) from None
    return _expression(f"{code} else {_LEFT_OUT}", line)


def _expression(code: str, line: str) -> ast.expr:
    try:
        return ast.parse(code, mode="eval").body
    except SyntaxError:
        raise _syntax(code, line) from None


def _syntax(code: str, line: str) -> NestError:
    shown = code.removesuffix(f" else {_LEFT_OUT}")
    return NestError(f"{shown!r} is no expression of Python's, in the nest  {line}")


def _is_nothing(e: ast.expr, how: str) -> bool:
    """Whether a term of this value is as good as none."""
    if isinstance(e, ast.Name):
        return e.id == _LEFT_OUT
    return how == "+=" and isinstance(e, ast.Constant) and type(e.value) is int and e.value == 0


def reference(name: str, at: Sequence[ast.expr]) -> ast.expr:
    """name[at]"""
    if not at:
        return ast.Name(name)
    return ast.Subscript(ast.Name(name), at[0] if len(at) == 1 else ast.Tuple(list(at)))


def entries(e: ast.Subscript) -> tuple[ast.expr, ...]:
    """The indices of a reference: two for A[i, j]."""
    return tuple(e.slice.elts) if isinstance(e.slice, ast.Tuple) else (e.slice,)
