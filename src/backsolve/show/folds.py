"""What folds: the groups that a run left behind, thinned out and numbered for a page.

A group of one row says nothing, nor does a loop of one round, nor a group that holds but another: these are
dissolved. Where very many parts stand side by side, as in a flat program or a long loop, they are cut into
stretches of even length, so that at every level there are few enough boxes to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from .places import Group

_MOST = 60  # parts that are looked at side by side
_FEW = 40  # boxes that are shown when a picture is opened
_BOXES = 80  # the same, where less would be
_HARDLY_ANY = 8
_NUMBERED = ("round", "stretch")


class _Node:
    """A group with its parts in order: rows, by their numbers, and other groups."""

    def __init__(self, kind: str, name: str, line: int = 0):
        self.kind, self.name, self.line = kind, name, line
        self.parts: list[int | _Node] = []
        self.is_hollow = False  # its parts may as well stand where it stands


def folded(homes: Sequence[Group | None]) -> tuple[list[dict[str, Any]], list[int | None]]:
    """The groups as records {kind, name, parent, line}, a parent before its parts; and each row's own."""
    root = _tree(homes)
    _thin(root)
    _cut(root)
    records: list[dict[str, Any]] = []
    own: list[int | None] = [None] * len(homes)
    waiting: list[tuple[_Node, int | None]] = [(root, None)]
    while waiting:
        node, number = waiting.pop()
        for part in node.parts:
            if isinstance(part, int):
                own[part] = number
                continue
            records.append(
                {"kind": part.kind, "name": part.name, "parent": number, "line": part.line}
            )
            waiting.append((part, len(records) - 1))
    return records, own


def closed_at_first(groups: Sequence[dict[str, Any]], homes: Sequence[int | None]) -> list[int]:
    """Which groups to show folded.

    They are opened from the outside in, small ones first, all that are alike or none, while boxes are few.
    """
    growth = [-1] * len(groups)  # in boxes, by opening one
    kin: dict[Any, list[int]] = {}
    inner: dict[Any, list[Any]] = {}  # by what groups are alike: their names from the outermost in
    likeness: list[Any] = []
    for k, group in enumerate(groups):
        parent = group["parent"]
        above = None if parent is None else likeness[parent]
        likeness.append((above, group["kind"] if group["kind"] in _NUMBERED else group["name"]))
        if likeness[k] not in kin:
            inner.setdefault(above, []).append(likeness[k])
        kin.setdefault(likeness[k], []).append(k)
    for home in [g["parent"] for g in groups] + list(homes):
        if home is not None:
            growth[home] += 1
    count = sum(g["parent"] is None for g in groups) + sum(home is None for home in homes)
    closed = set(range(len(groups)))
    waiting = inner.get(None, [])
    while waiting:
        more, which = min((sum(growth[g] for g in kin[k]), n) for n, k in enumerate(waiting))
        if count + more > (_BOXES if count < _HARDLY_ANY else _FEW):
            break
        count += more
        opened = waiting.pop(which)
        closed.difference_update(kin[opened])
        waiting += inner.get(opened, [])
    return sorted(closed)


def _tree(homes: Sequence[Group | None]) -> _Node:
    root = _Node("page", "")
    nodes: dict[Group | None, _Node] = {None: root}

    def node_of(group: Group | None) -> _Node:
        missing = []
        while group not in nodes:
            missing.append(group)
            assert group is not None
            group = group.parent
        for inner in reversed(missing):
            assert inner is not None
            node = nodes[inner] = _Node(inner.kind, inner.name, inner.line)
            nodes[inner.parent].parts.append(node)
        return nodes[missing[0] if missing else group]

    for k, home in enumerate(homes):
        node_of(home).parts.append(k)
    return root


def _thin(root: _Node) -> None:
    """Dissolve what says nothing, from the innermost out."""
    order = [root]
    for node in order:
        order += [p for p in node.parts if isinstance(p, _Node)]
    for node in reversed(order):
        rounds = [p for p in node.parts if isinstance(p, _Node) and p.kind == "round"]
        if len(rounds) == 1 and len(node.parts) == 1:  # a loop of one round, a function called once
            node.parts = rounds[0].parts
            node.is_hollow = node.kind == "loop"
        for each in rounds:
            only = each.parts[0] if len(each.parts) == 1 else None
            if isinstance(only, _Node):
                each.name, each.parts = f"{each.name} · {only.name}", only.parts
        parts: list[int | _Node] = []
        for part in node.parts:
            is_needless = isinstance(part, _Node) and (len(part.parts) == 1 or part.is_hollow)
            parts += part.parts if isinstance(part, _Node) and is_needless else [part]
        node.parts = parts


def _cut(root: _Node) -> None:
    """Too many parts side by side become stretches, and those again."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        while len(node.parts) > _MOST:
            length = max(ceil(len(node.parts) / _MOST), 10)
            pieces = [node.parts[k : k + length] for k in range(0, len(node.parts), length)]
            node.parts = [_stretch(piece) for piece in pieces]
        waiting += [p for p in node.parts if isinstance(p, _Node)]


def _stretch(parts: list[int | _Node]) -> _Node:
    first, last = parts[0], parts[-1]
    if isinstance(first, _Node) and isinstance(last, _Node) and first.kind == last.kind == "round":
        name = f"{first.name} … {last.name.removeprefix('round ')}"
    else:
        name = f"rows {_end(first, 0) + 1} … {_end(last, -1) + 1}"
    found = _Node("stretch", name)
    found.parts = parts
    return found


def _end(part: int | _Node, which: int) -> int:
    """The first row of a part (0), or its last (-1)."""
    while isinstance(part, _Node):
        part = part.parts[which]
    return part
