"""From a random structured program that fails to a small one that still does.

Its syntax tree is cut: statements go, blocks take the place of what holds them, and parts of expressions
that of the whole.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .fuzz_control_source import Written

BLOCKS = ("body", "orelse")


def shrink(p: Written, fails: Callable[[Written], Any], most: int = 600) -> Written:
    """The smallest program on the way down that still fails, after `most` tries at the latest."""
    tried = {p.source}
    while True:
        for smaller in _smaller(p):
            if smaller.source in tried and smaller.args is p.args:
                continue
            tried.add(smaller.source)
            most -= 1
            if most < 0:
                return p
            if fails(smaller):
                p = smaller
                break
        else:
            return p


def _smaller(p: Written) -> Iterator[Written]:
    tree = ast.parse(p.source)
    for change in _changes(tree):
        other = copy.deepcopy(tree)
        change(other)
        try:
            yield replace(p, source=ast.unparse(ast.fix_missing_locations(other)) + "\n")
        except (ValueError, AttributeError):  # no program is left
            continue
    a, b, x, k, idx = p.args
    for args in [(a, b, x, 0, idx), (a, b, x, k // 2, idx), (a, b, x, k, np.zeros_like(idx))]:
        if any(not np.array_equal(u, v) for u, v in zip(args, p.args, strict=True)):
            yield replace(p, args=args)


def _changes(tree: ast.Module) -> Iterator[Callable[[ast.Module], None]]:
    """Ways to make a copy of the tree smaller, the large steps first."""
    places = [
        (i, name, k)
        for i, node in enumerate(ast.walk(tree))
        for name in BLOCKS
        if isinstance(block := getattr(node, name, None), list)
        for k in range(len(block))
    ]
    for i, name, k in places:
        yield functools.partial(_drop, i, name, k)
    for i, name, k in places:
        statement = getattr(_node(tree, i), name)[k]
        for inner in BLOCKS:
            if getattr(statement, inner, None) and not isinstance(statement, ast.FunctionDef):
                yield functools.partial(_lift, i, name, k, inner)
    for i, node in enumerate(ast.walk(tree)):
        for name, at, value in _operands(node):
            for how in range(len(_simpler(value))):
                yield functools.partial(_replace, i, name, at, how)


def _node(tree: ast.AST, i: int) -> Any:
    return list(ast.walk(tree))[i]


def _drop(i: int, name: str, k: int, tree: ast.Module) -> None:
    block = getattr(_node(tree, i), name)
    del block[k]
    if not block and name == "body":
        block.append(ast.Pass())


def _lift(i: int, name: str, k: int, inner: str, tree: ast.Module) -> None:
    block = getattr(_node(tree, i), name)
    block[k : k + 1] = getattr(block[k], inner)


def _operands(node: ast.AST) -> Iterator[tuple[str, int | None, ast.expr]]:
    """The expressions right under a node that may be replaced."""
    if isinstance(node, ast.Attribute | ast.FunctionDef | ast.arguments):
        return
    for name, value in ast.iter_fields(node):
        if name in ("func", "target", "targets"):
            continue
        if isinstance(value, ast.expr):
            yield name, None, value
        elif isinstance(value, list) and name not in BLOCKS:
            for k, x in enumerate(value):
                if isinstance(x, ast.expr):
                    yield name, k, x


def _simpler(value: ast.expr) -> list[ast.expr]:
    """What may stand in the place of an expression: a part of it, a name, a number."""
    if isinstance(value, ast.Constant):
        n = value.value
        return [ast.Constant(n - 1)] if isinstance(n, int) and n > 1 else []
    if isinstance(value, ast.Name):
        return []
    parts = [x for _, _, x in _operands(value)]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        owner = value.func.value
        parts += [] if isinstance(owner, ast.Name) and owner.id == "np" else [owner]
    return [*parts, ast.Name("a", ast.Load()), ast.Constant(0)]


def _replace(i: int, name: str, k: int | None, how: int, tree: ast.Module) -> None:
    node = _node(tree, i)
    if k is None:
        setattr(node, name, _simpler(getattr(node, name))[how])
    else:
        values = getattr(node, name)
        values[k] = _simpler(values[k])[how]
