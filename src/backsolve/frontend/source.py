"""From a function to the syntax tree of its source, without reading more of the file than needed.

A `def` is cut out by its indentation and parsed alone; a lambda is found by the position of its body. Lines
and columns stay those of the file, so that tracebacks of rewritten code show the user's own lines.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType


class NoSourceError(Exception):
    """Why the source of a function cannot be had."""


def syntax_of(f: FunctionType) -> ast.FunctionDef | ast.Lambda:
    code = f.__code__
    name = code.co_filename
    lines = linecache.getlines(name, f.__globals__)
    if not lines:
        where = (
            "it was typed at a prompt or made by exec" if name.startswith("<") else "no such file"
        )
        raise NoSourceError(f"the source of `{f.__name__}` cannot be read from {name}: {where}")
    if code.co_firstlineno > len(lines):
        raise NoSourceError(f"{name} has changed since `{f.__name__}` was loaded from it")
    node = _lambda(code, lines) if code.co_name == "<lambda>" else _definition(code, lines)
    if isinstance(node, ast.AsyncFunctionDef):
        raise NoSourceError("it is a coroutine")
    return node


# ---- def


def _definition(code: CodeType, lines: list[str]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    first = code.co_firstlineno
    tree = _parse(lines, first, _end_of_block(lines, first, _last_line(code)))
    if tree is None:  # a text or a bracket that reaches below the block's indentation
        tree = _parse_all(lines)
    for node in _inner_first(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            begins = min([node.lineno, *[d.lineno for d in node.decorator_list]])
            if begins == first and _fits(node, code):
                return node
    raise NoSourceError(f"no `def {code.co_name}` stands at line {first}: has the file changed?")


def _inner_first(tree: ast.Module) -> Iterator[ast.AST]:
    """The one statement that a block was cut out for, then all nodes."""
    for statement in tree.body[:1]:
        yield from [statement, *getattr(statement, "body", [])[:1]]
    yield from ast.walk(tree)


def _fits(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether a node has the arguments of a code object: a file may have changed since."""
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    names += [x.arg for x in (a.vararg, a.kwarg) if x is not None]
    given = code.co_varnames[: len(names)]
    return all(g == n or g.endswith(n) for g, n in zip(given, names, strict=False))


def _last_line(code: CodeType) -> int:
    """The last line that instructions stand for, nested functions included."""
    last = max((line for _, _, line in code.co_lines() if line is not None), default=0)
    return max([last, *[_last_line(c) for c in code.co_consts if isinstance(c, CodeType)]])


def _end_of_block(lines: list[str], first: int, at_least: int) -> int:
    """The number of lines up to where a block that starts at line `first` must have ended."""
    head = lines[first - 1]
    margin = len(head) - len(head.lstrip())
    seen_body = False
    for k in range(first - 1, len(lines)):
        text = lines[k].strip()
        if not text or text.startswith("#"):
            continue
        indented = len(lines[k]) - len(lines[k].lstrip()) > margin
        if seen_body and not indented and k >= at_least:
            return k
        seen_body = seen_body or indented
    return len(lines)


def _parse(lines: list[str], first: int, end: int) -> ast.Module | None:
    text = "".join(lines[first - 1 : end])
    indented = text[:1] in " \t"
    above = "\n" * (first - 2) + "if 1:\n" if indented else "\n" * (first - 1)
    try:
        return ast.parse(above + text)
    except SyntaxError:
        return None


_whole: dict[int, tuple[list[str], ast.Module]] = {}


def _parse_all(lines: list[str]) -> ast.Module:
    found = _whole.get(id(lines))
    if found is None:
        try:
            found = (lines, ast.parse("".join(lines)))
        except SyntaxError as error:
            raise NoSourceError(f"the file has changed and does not parse: {error}") from None
        _whole.clear()  # one file at a time is enough
        _whole[id(lines)] = found
    return found[1]


# ---- lambda


def _lambda(code: CodeType, lines: list[str]) -> ast.Lambda:
    first = code.co_firstlineno
    spot = _body_position(code)
    if spot is None:
        raise NoSourceError("Python was started without column positions (-X no_debug_ranges)")
    for parse in (lambda: _parse(lines, first, first), lambda: _parse_all(lines)):
        for node in ast.walk(parse() or ast.Module([], [])):
            if isinstance(node, ast.Lambda) and _fits(node, code):
                b = node.body
                if (b.lineno, b.end_lineno, b.col_offset, b.end_col_offset) == spot:
                    return node
    raise NoSourceError(f"no lambda with this body stands at line {first}")


def _body_position(code: CodeType) -> tuple[int, int, int, int] | None:
    """Where the body of a lambda stands: the widest stretch its instructions name."""
    spots = [
        (line, end, column, stop)
        for line, end, column, stop in code.co_positions()
        if line is not None and end is not None and column is not None and stop is not None
    ]
    wide = [p for p in spots if (p[0], p[2]) != (p[1], p[3])]  # others stand for no source
    if not wide:
        return None
    first = min(wide, key=lambda p: (p[0], p[2]))
    last = max(wide, key=lambda p: (p[1], p[3]))
    return first[0], last[1], first[2], last[3]
