"""A Scene as JSON, the only thing that the explorer page knows of a program. Its types: web/src/scene.ts."""

from __future__ import annotations

import inspect
import linecache
from typing import Any

import numpy as np

from ..costs import costs_of
from ..errors import BacksolveError
from ..explaining import explanation
from ..operators import Operator
from ..row import Row
from ..system_text import expression, name_of
from .code import gradient_code
from .folds import closed_at_first, folded
from .formulas import bar_tex, name_tex, operator_tex, row_tex, step_tex
from .gates import SAYS, gate_of
from .health import LIMITS, adds_up, chains, findings, watched_for
from .kinds import family_of, kind_of, short_kind
from .numbers import number, summary
from .recompute import recomputation
from .scene import Scene

_MOST_SEARCHED = 2_000  # rows, up to which paths are searched


def page_data(scene: Scene) -> dict[str, Any]:
    ids = {row: k for k, row in enumerate(scene.nodes)}
    groups, own = folded([scene.home[row] for row in scene.system.rows])
    homes = [None] * len(scene.system.parameters) + own
    again = recomputation(scene)
    outputs = [ids[row] for row in scene.system.outputs if row is not None]
    return {
        "version": 1,
        "title": scene.title,
        "source": _source(scene),
        "nodes": [_node(scene, row, home) for row, home in zip(scene.nodes, homes, strict=True)],
        "edges": [_edge(scene, k, ids) for k in range(len(scene.edges))],
        "groups": groups,
        "closed": closed_at_first(groups, homes),
        "outputs": outputs,
        "gates": SAYS,
        "code": gradient_code(scene),
        "costs": _costs(scene),
        "paths": _paths(scene, ids),
        "findings": [{"kind": f.kind, "node": ids[f.row], "text": f.text} for f in findings(scene)],
        "recompute": again,
        "watched": _watched(scene, ids) if "program" in again else None,
    }


def _watched(scene: Scene, ids: dict[Row, int]) -> dict[str, Any]:
    """By what the page finds again, for edited inputs, what health.py found."""
    readers: dict[Row, list[Row]] = {}
    for e in scene.edges:
        readers.setdefault(e.read, []).append(e.reader)
    activations = [(ids[row], watched_for(scene, row)) for row in scene.system.rows]
    return {
        "limits": LIMITS,
        "chains": [
            {"nodes": [ids[row] for row in c.rows], "way": c.way, "unit": c.unit}
            for c in chains(scene)
        ],
        "adding": [ids[row] for row, read in readers.items() if adds_up(row, read)],
        "activations": [[node, watched] for node, watched in activations if watched is not None],
    }


def _node(scene: Scene, row: Row, home: int | None) -> dict[str, Any]:
    system = scene.system
    is_parameter = row in system.parameters
    name = name_of(system, row)
    found: dict[str, Any] = {
        "name": name,
        "tex": name_tex(name),
        "bar": bar_tex(name),
        "kind": "parameter" if is_parameter else "row",
        "value": summary(scene.values.get(row)),
        "adjoint": summary(scene.adjoints[row]) if row in scene.adjoints else None,
        "group": home,
    }
    if not is_parameter:
        file, line = scene.line.get(row, ("", 0))
        found |= {
            "operation": str((row.params or {}).get("name", row.primitive.name)),
            "gate": gate_of(row),
            "text": expression(system, row),
            "formula": row_tex(system, row),
            "line": line,
            "code": linecache.getline(file, line).strip() if file else "",
        }
    return found


def _edge(scene: Scene, k: int, ids: dict[Row, int]) -> dict[str, Any]:
    e = scene.edges[k]
    return {
        "from": ids[e.read],
        "to": ids[e.reader],
        "kind": kind_of(e.block),
        "short": short_kind(e.block),
        "family": family_of(e.block),
        "operator": repr(e.block),
        "tex": operator_tex(e.block),
        "step": step_tex(scene.system, e.reader, e.place, e.block),
        "multiplications": _cost(e.block),
        "sent": summary(scene.sent[k]) if k in scene.sent else None,
    }


def _cost(block: Operator) -> int | None:
    try:
        return int(block.cost.multiplications)
    except (NotImplementedError, AttributeError, TypeError):
        return None


def _source(scene: Scene) -> dict[str, Any] | None:
    try:
        lines, first = inspect.getsourcelines(scene.f)
    except (OSError, TypeError):
        return None
    return {"text": "".join(lines), "first": first}


def _costs(scene: Scene) -> list[tuple[str, ...]] | None:
    """The table of prices, its head first, then the way that is chosen."""
    try:
        with np.errstate(all="ignore"):
            # As jacobian sees it.
            return [*costs_of(scene.run_again(scene.args, merge=False)).cells()]
    except BacksolveError:
        return None


def _paths(scene: Scene, ids: dict[Row, int]) -> dict[str, Any] | None:
    """The paths that carry most of the gradient, if there is one number whose gradient it is."""
    system = scene.system
    if len(system.rows) > _MOST_SEARCHED or [t.size for t in system.out_types] != [1]:
        return None
    values = [scene.values[row] for row in system.parameters]
    gradient = [scene.adjoints.get(row, np.zeros(row.shape)) for row in system.parameters]
    try:
        with np.errstate(all="ignore"):
            found = explanation(system, values, gradient)
    except BacksolveError:
        return None
    numbers = {name: k for k, name in enumerate(system.names)}
    offset = len(numbers)
    total = sum(p.size for p in found.paths) or 1.0
    return {
        "count": found.count,
        "entropy": number(found.entropy),
        "proven": found.is_proven,
        "paths": [
            {
                "nodes": [numbers[p.parameter], *[offset + r - 1 for r in p.rows]],
                "carries": number(p.carries),
                "share": number(p.size / total),
            }
            for p in found.paths
        ],
        "inputs": [
            {
                "name": i.name,
                "value": number(i.value),
                "gradient": number(i.gradient),
                "share": number(i.share),
            }
            for i in found.inputs
        ],
    }
