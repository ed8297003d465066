"""The loops of a function's text, and in which of them an instruction stands.

An instruction knows the stretch of text it was compiled from, lines and columns, so a loop written inside one
line, or a comprehension beside other work, is told from what surrounds it.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

Stretch = tuple[tuple[int, int], tuple[int, int]]  # (line, column) of its ends

_FOR_ITER = dis.opmap["FOR_ITER"]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Comprehensions run in frames of their own; since Python 3.12 only generators do.
_OWN_FRAME: dict[type[ast.AST], str] = {ast.GeneratorExp: "<genexpr>"}
if sys.version_info < (3, 12):
    _OWN_FRAME |= {
        ast.ListComp: "<listcomp>", ast.SetComp: "<setcomp>", ast.DictComp: "<dictcomp>",
    }  # fmt: skip
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Loop:
    whole: Stretch
    source: Stretch | None = None  # what it runs over, which is computed before it

    @property
    def line(self) -> int:
        return self.whole[0][0]


def loops_at(code: CodeType, place: int) -> list[Loop]:
    """The loops around an instruction of a function, outer ones first."""
    loops = _loops_of(code)
    if not loops:
        return []
    at = _positions(code)[place // 2]
    if at is None:
        return []
    if code.co_code[place] == _FOR_ITER:  # of the whole statement, or of what it runs over
        return [loop for loop in loops if _inside((at[0], at[0]), loop.whole)]
    return [
        loop
        for loop in loops
        if _inside(at, loop.whole) and not (loop.source and _inside(at, loop.source))
    ]


@functools.lru_cache(1024)
def _positions(code: CodeType) -> list[Stretch | None]:
    return [
        None
        if line is None or end is None
        else ((line, column or 0), (end, last if last is not None else sys.maxsize))
        for line, end, column, last in code.co_positions()
    ]


@functools.lru_cache(1024)
def _loops_of(code: CodeType) -> tuple[Loop, ...]:
    """None where there is no text: typed at a prompt, made by exec or by the library."""
    text = "".join(linecache.getlines(code.co_filename))
    found = [n for n in _nodes(text).get((code.co_name, code.co_firstlineno), ()) if _fits(n, code)]
    if not found:
        return ()
    node = min(found, key=lambda n: _stretch(n)[1])
    if isinstance(node, _COMPREHENSIONS):
        return (Loop(_stretch(node)),)
    loops = sorted(_loops_in(node), key=lambda loop: (loop.whole[0], _minus(loop.whole[1])))
    return tuple(loops)


@functools.lru_cache(64)
def _nodes(text: str) -> dict[tuple[str, int], list[ast.expr | ast.stmt]]:
    """What has a frame of its own, by the name and the first line of its code."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found: dict[tuple[str, int], list[ast.expr | ast.stmt]] = {}
    for n in ast.walk(tree):
        if isinstance(n, _FUNCTIONS):
            first = min([n.lineno, *[d.lineno for d in n.decorator_list]])
            found.setdefault((n.name, first), []).append(n)
        elif isinstance(n, ast.Lambda):
            found.setdefault(("<lambda>", n.lineno), []).append(n)
        elif isinstance(n, ast.expr) and type(n) in _OWN_FRAME:
            found.setdefault((_OWN_FRAME[type(n)], n.lineno), []).append(n)
    return found


def _fits(node: ast.expr | ast.stmt, code: CodeType) -> bool:
    """Whether all that a code computes stands inside of a node: one line can hold several lambdas."""
    if isinstance(node, _FUNCTIONS):
        return True
    whole = _stretch(node)
    return all(_inside(at, whole) for at in _positions(code) if at and at[0][1] != at[1][1])


def _loops_in(node: ast.AST) -> Iterator[Loop]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (*_FUNCTIONS, ast.Lambda)) or type(inner) in _OWN_FRAME:
            continue
        if isinstance(inner, ast.For | ast.While):
            source = _stretch(inner.iter) if isinstance(inner, ast.For) else None
            yield Loop((_stretch(inner)[0], _stretch(inner.body[-1])[1]), source)
        elif isinstance(inner, _COMPREHENSIONS):
            yield Loop(_stretch(inner), _stretch(inner.generators[0].iter))
        yield from _loops_in(inner)


def _stretch(at: ast.expr | ast.stmt) -> Stretch:
    return (at.lineno, at.col_offset), (at.end_lineno or at.lineno, at.end_col_offset or 0)


def _inside(at: Stretch, whole: Stretch) -> bool:
    return whole[0] <= at[0] and at[1] <= whole[1]


def _minus(end: tuple[int, int]) -> tuple[int, int]:
    return -end[0], -end[1]
