"""Walks through syntax that look only where syntax can stand; `ast`'s own ask every field of each node."""

from __future__ import annotations

import ast

_BARE = frozenset({"ctx", "op", "ops", "id", "attr", "kind", "type_comment"})  # nothing below these


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """By kind of node, the fields that may hold others."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        names = [n for n in kind._fields if n not in _BARE] if kind is not ast.Constant else []
        self[kind] = found = tuple(names)
        return found


FIELDS = _Fields()


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below; no operators and contexts."""
    found: list[ast.AST] = []
    for name in FIELDS[type(node)]:
        x = getattr(node, name, None)
        if type(x) is list:
            found += [e for e in x if isinstance(e, ast.AST)]
        elif isinstance(x, ast.AST):
            found.append(x)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all below, those nearer to it first."""
    found = [node]
    for n in found:  # it grows meanwhile
        found += children(n)
    return found
