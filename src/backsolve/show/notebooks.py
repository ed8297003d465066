"""What a notebook shows of a System, an operator, a plan or a table: HTML and LaTeX.

Classes below this one in the direction of imports reach it through `hooks.notebook`, which is set in
__init__.py.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import BacksolveError
from ..operators import Diagonal, Operator, OperatorSum, Scale
from ..system import System
from ..system_text import MOST_TRACED, name_of, show_value, trace_columns
from .drawing import COLOURS
from .formulas import matrix_tex, name_tex, operator_tex
from .matrix import matrix_drawing
from .scene import edges_of
from .spy import spy

_MOST_IN_LATEX = 12  # rows of a system
_DENSE = 64  # entries of a matrix that is written out
_PLAIN = "display:inline-block;max-width:100%;overflow-x:auto"  # in the notebook's own colours
_SHEET = (  # around pictures, which are drawn for a light ground
    f"{_PLAIN};background:{COLOURS['sheet']};color:{COLOURS['ink']};padding:8px 12px;border-radius:6px"
)
_CELL = "text-align:left;padding:1px 10px 1px 0;white-space:nowrap;border:0"


def shown(form: str, x: Any) -> str | None:
    """`x` in a `form`, "html" or "latex"; None if that would say no more than its text."""
    makers = {"html": _HTML, "latex": _LATEX}[form]
    for kind in type(x).__mro__:
        if kind.__name__ in makers:
            return makers[kind.__name__](x)
    return None


# ---- systems


def _system_html(system: System) -> str | None:
    if not 0 < len(system.rows) <= MOST_TRACED:
        return None
    names = [*system.names, *[name_of(system, row) for row in system.rows]]
    place = {row: k for k, row in enumerate([*system.parameters, *system.rows])}
    wires: dict[tuple[int, int], list[Operator]] = {}
    for e in edges_of(system):
        wires.setdefault((place[e.read], place[e.reader]), []).append(e.block)
    svg = matrix_drawing("I − L", names, wires, 420.0).svg()
    left, right = trace_columns(system)
    rows = [
        (*(left[k] if k < len(left) else ("", "")), *(right[k] if k < len(right) else ("", "")))
        for k in range(max(len(left), len(right)))
    ]
    colours = [COLOURS[name] for name in ("ink", "value", "ink", "adjoint")]
    about = str(system).split("\n", 1)[0]
    return (
        f'<div style="{_SHEET}"><div style="{_CELL}"><b>{html.escape(about)}</b></div>'
        '<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start">'
        f"<div>{svg}</div>{table(('v', '', 'v̄', ''), rows, colours)}</div></div>"
    )


def _system_latex(system: System) -> str | None:
    n = len(system.rows)
    if not 0 < n <= _MOST_IN_LATEX or len(system.parameters) > _MOST_IN_LATEX:
        return None
    L, D = system.L.items(), system.D.items()
    left = [
        ["I" if i == j else _negative(L[i, j]) if (i, j) in L else "" for j in range(1, n + 1)]
        for i in range(1, n + 1)
    ]
    right = [
        [operator_tex(D[i, k]) if (i, k) in D else "" for k in range(1, len(system.names) + 1)]
        for i in range(1, n + 1)
    ]
    dx = [[f"d{name_tex(name_of(system, row))}"] for row in system.rows]
    dp = [[f"d{name_tex(name)}"] for name in system.names]
    parts = matrix_tex(left), matrix_tex(dx), matrix_tex(right), matrix_tex(dp)
    return r"$\displaystyle {} {} = {} {}$".format(*parts)


def _negative(a: Operator) -> str:
    text = operator_tex(a)
    if isinstance(a, Scale | Diagonal) and text.startswith("-"):
        return text[1:]
    return rf"-\left({text}\right)" if isinstance(a, OperatorSum) else f"-{text}"


# ---- operators


def _operator_html(a: Operator) -> str:
    facts = [("takes", _type(a, "in_type")), ("gives", _type(a, "out_type"))]
    if a.structure:
        facts.append(("structure", ", ".join(sorted(a.structure))))
    price = _or_none(lambda: a.cost)
    if price is not None:
        facts.append(("cost", f"{price.multiplications:,} ×, {price.additions:,} +"))
    matrix = _dense(a)
    text = html.escape(repr(a))
    body = table((), facts)
    if matrix is not None:
        body += table((), [[show_value(x) for x in row] for row in matrix])
    return (
        f'<div style="{_PLAIN}"><pre style="margin:0 0 4px">{text}</pre>'
        f'<div style="display:flex;flex-wrap:wrap;gap:24px">{body}</div></div>'
    )


def _operator_latex(a: Operator) -> str:
    text, matrix = operator_tex(a), _dense(a)
    if matrix is not None and matrix.size > 1 and r"\begin" not in text:
        text += " = " + matrix_tex([[show_value(x) for x in row] for row in matrix])
    return rf"$\displaystyle {text}$"


def _type(a: Operator, which: str) -> str:
    found = _or_none(lambda: getattr(a, which))
    if isinstance(found, tuple):
        return ", ".join("anything" if t is None else str(t) for t in found)
    return "anything" if found is None else str(found)


def _dense(a: Operator) -> Any:
    """Its matrix, if that is small and known."""
    size = _or_none(lambda: a.shape)
    if size is None or not 0 < size[0] * size[1] <= _DENSE:
        return None
    with np.errstate(all="ignore"):
        found = _or_none(a.dense)
    return found if isinstance(found, np.ndarray) and found.ndim == 2 else None


def _or_none(find: Callable[[], Any]) -> Any:
    try:
        return find()
    except (BacksolveError, NotImplementedError, AttributeError, TypeError, ValueError):
        return None


# ---- plans, prices, stages


def _sparsity_html(plan: Any) -> str:
    pictures = [spy(layout).svg() for line in plan.layouts for layout in line]
    return f'<div style="{_SHEET}"><div>{html.escape(repr(plan))}</div>{"".join(pictures)}</div>'


def _costs_html(costs: Any) -> str:
    lines = [[cell.strip() for cell in line] for line in costs.cells()]
    return f'<div style="{_PLAIN}">{table(lines[0], lines[1:])}</div>'


def _lowered_html(lowered: Any) -> str:
    parts = [
        f"<details{' open' * (k == 0)}><summary>{name}</summary>"
        f"<pre>{html.escape(lowered.stages[name])}</pre></details>"
        for k, name in enumerate(
            s for s in ("program", "rewritten", "steps") if s in lowered.stages
        )
    ]
    return f'<div style="{_PLAIN}">{"".join(parts)}</div>'


def _history_html(history: Any) -> str:
    head, *lines = history.cells()
    return f'<div style="{_PLAIN}">{table(head, lines)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> str:
    """Cells of text as a small table; on a sheet, columns in `colours`, and no stripes of the notebook's."""

    def line(cells: Sequence[str], tag: str) -> str:
        styles = [f"{_CELL};color:{paint}" for paint in colours] or [_CELL] * len(cells)
        return "".join(
            f'<{tag} style="{style}">{html.escape(cell)}</{tag}>'
            for cell, style in zip(cells, styles, strict=True)
        )

    tr = '<tr style="background:none">' if colours else "<tr>"
    top = f"<thead>{tr}{line(head, 'th')}</tr></thead>" if head else ""
    body = "".join(f"{tr}{line(cells, 'td')}</tr>" for cells in rows)
    style = "border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;margin:0"
    return f'<table style="{style}">{top}<tbody>{body}</tbody></table>'


_HTML: dict[str, Callable[[Any], str | None]] = {
    "System": _system_html, "Operator": _operator_html, "Sparsity": _sparsity_html, "Costs": _costs_html,
    "Lowered": _lowered_html, "History": _history_html,
}  # fmt: skip
_LATEX: dict[str, Callable[[Any], str | None]] = {
    "System": _system_latex,
    "Operator": _operator_latex,
}
