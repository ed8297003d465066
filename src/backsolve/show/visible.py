"""What is seen of a scene once groups are folded: boxes and the wires between them.

The page does the same, in web/src/fold.ts, whenever somebody opens a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .folds import closed_at_first, folded
from .scene import Edge, Scene


@dataclass(frozen=True)
class Box:
    first: int  # the number of a node, or of the first of a group
    count: int = 1
    name: str = ""  # of a group


@dataclass(frozen=True)
class Frame:
    """A group that is shown open: the places of its boxes in the list."""

    name: str
    depth: int
    boxes: list[int]


@dataclass(frozen=True)
class Visible:
    boxes: list[Box]
    frames: list[Frame]  # outer ones first
    wires: dict[tuple[int, int], list[Edge]]  # by the places of the boxes in the list


def visible(scene: Scene) -> Visible:
    groups, own = folded([scene.home[row] for row in scene.system.rows])
    homes: list[int | None] = [*[None] * len(scene.system.parameters), *own]
    closed = set(closed_at_first(groups, homes))
    hidden: list[int | None] = []  # the outermost closed group around each group
    for g, group in enumerate(groups):
        above = None if group["parent"] is None else hidden[group["parent"]]
        hidden.append(above if above is not None else g if g in closed else None)
    boxes: list[Box] = []
    place_of_group: dict[int | None, int] = {}
    places = []
    for k, home in enumerate(homes):
        outer = None if home is None else hidden[home]
        if outer in place_of_group:
            at = place_of_group[outer]
            boxes[at] = Box(boxes[at].first, boxes[at].count + 1, boxes[at].name)
            places.append(at)
            continue
        places.append(len(boxes))
        if outer is None:
            boxes.append(Box(k))
        else:
            place_of_group[outer] = len(boxes)
            boxes.append(Box(k, 1, groups[outer]["name"]))
    number = {row: k for k, row in enumerate(scene.nodes)}
    wires: dict[tuple[int, int], list[Edge]] = {}
    for e in scene.edges:
        a, b = places[number[e.read]], places[number[e.reader]]
        if a != b:
            wires.setdefault((a, b), []).append(e)
    return Visible(boxes, _frames(groups, closed, hidden, homes, places), wires)


def _frames(
    groups: list[dict[str, Any]],
    closed: set[int],
    hidden: list[int | None],
    homes: list[int | None],
    places: list[int],
) -> list[Frame]:
    members: dict[int, set[int]] = {}
    for home, place in zip(homes, places, strict=True):
        g = home
        while g is not None:
            if g not in closed and hidden[g] is None:
                members.setdefault(g, set()).add(place)
            g = groups[g]["parent"]

    found = [
        Frame(groups[g]["name"], _depth(groups, g), sorted(m))
        for g, m in members.items()
        if len(m) > 1
    ]
    return sorted(found, key=lambda f: f.depth)


def _depth(groups: list[dict[str, Any]], g: int) -> int:
    parent = groups[g]["parent"]
    return 0 if parent is None else 1 + _depth(groups, parent)
