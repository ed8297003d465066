"""How a System prints: the two-column trace of a small one, the block pattern of a large one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .operators import Diagonal, Identity, Operator, Product, Scale
from .operators.slice import show_spec
from .row import Row
from .system import WAYS, System
from .tensor import Tensor

MOST_TRACED = 40  # rows, up to which a System prints as a trace


def describe(system: System) -> str:
    n, p, b = len(system.rows), len(system.parameters), system.blocks
    counts = [f"{k} {of}{'s' * (k != 1)}" for k, of in ((n, "row"), (p, "parameter"), (b, "block"))]
    head = f"(I − L) dx = D dp      {', '.join(counts)}"
    body = _trace(system) if n <= MOST_TRACED else _pattern(system)
    few = sum(p.size for p in system.parameters) <= MOST_TRACED
    known = not any(row.primitive.is_joint for row in system.rows)
    if (
        n <= MOST_TRACED and few and known
    ):  # a price for each order; for more entries ask system.cost(order)
        forward, reverse = system.cost("forward"), system.cost("reverse")
        body.append(f"  multiplications: {forward} forward, {reverse} backward")
    return "\n".join([head, *body])


def name_of(system: System, row: Row) -> str:
    if row in system.number:
        return f"v{system.number[row]}"
    return system.names[system.parameters.index(row)]


def expression(system: System, row: Row) -> str:
    """The right-hand side of v_i = …"""
    given = system.constants.get(row, ())
    args = []
    for k, parent in enumerate(row.parents):
        if parent.__class__ is Row and parent in system:
            args.append(name_of(system, parent))
        else:
            args.append(show_value(given[k] if k < len(given) else parent))
    params = dict(row.params or {})
    if "spec" in params:
        params["spec"] = show_spec(params["spec"])
    if row.primitive.is_component:
        return f"component {params['k']} of {args[0]}"
    text = row.primitive.text or f"{params.get('name', row.primitive.name)}({{args}})"
    return text.format(*args, args=", ".join(args), **params)


def show_value(v: Any) -> str:
    if isinstance(v, Tensor):
        v = v._v
    if v is None:
        return "·"
    a = np.asarray(v)
    if a.ndim == 0:
        return _number(a[()])
    if a.size <= 4 and a.ndim == 1:
        return "[" + ", ".join(_number(x) for x in a) + "]"
    return f"{a.dtype.name}{list(a.shape)}"


def _number(x: Any) -> str:
    if isinstance(x, np.bool_ | bool | np.integer | int):
        return str(x)
    text = f"{x:.6g}"
    return text if any(c in text for c in ".enij") else text + ".0"


def trace_columns(system: System) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """v_i = … with its value, from the first on; v̄_i = … with its value, from the last back."""
    left = [
        (f"{name_of(system, r)} = {expression(system, r)}", show_value(system.values.get(r)))
        for r in system.rows
    ]
    return left, _adjoint_lines(system)


def _trace(system: System) -> list[str]:
    left, right = trace_columns(system)
    height = max(len(left), len(right))
    left += [("", "")] * (height - len(left))
    right += [("", "")] * (height - len(right))
    table = [(*a, *b) for a, b in zip(left, right, strict=True)]
    widths = [max((_width(line[k]) for line in table), default=0) for k in range(4)]
    return [
        ("  " + "  ".join(_pad(cell, w) for cell, w in zip(line, widths, strict=True))).rstrip()
        for line in table
    ]


def _width(text: str) -> int:
    """Columns on the screen: a combining bar takes none."""
    return len(text) - text.count("\u0304")


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _adjoint_lines(system: System) -> list[tuple[str, str]]:
    """v̄_j = Σ_i L_ijᵀ v̄_i, from the last row to the parameters, with numbers for one scalar output."""
    readers: dict[Row, list[str]] = {}
    for row in system.rows:
        for parent, block in system.edges(row):
            readers.setdefault(parent, []).append(_term(block, bar(name_of(system, row))))
    outputs = [r for r in system.outputs if r is not None]
    values: dict[Row, Any] = {}
    wanted = [*reversed(system.rows), *system.parameters]
    if len(outputs) == 1 and outputs[0].size == 1:
        (y,) = outputs
        values = WAYS["adjoints"](system, [(y, np.ones(y.shape, y.dtype)[()])])
    lines = []
    for row in wanted:
        terms = readers.get(row, [])[::-1]
        if row in outputs:
            terms = ["1" if values else "seed", *terms]
        if terms:
            value = show_value(values[row]) if row in values else ""
            lines.append(
                (f"{bar(name_of(system, row))} = {' + '.join(terms).replace('+ −', '− ')}", value)
            )
    return lines


def bar(name: str) -> str:
    return f"{name[0]}\u0304{name[1:]}"


def _term(block: Operator, adjoint: str) -> str:
    """One summand of v̄_j, e.g. v̄5 · 0.5"""
    if isinstance(block, Identity):
        return adjoint
    if isinstance(block, Scale):
        return f"−{adjoint}" if block.factor == -1 else f"{adjoint} · {show_value(block.factor)}"
    if isinstance(block, Diagonal):
        return f"{adjoint} · {show_value(block.d)}"
    names = [
        type(a).__name__ if not isinstance(a, Diagonal) else show_value(a.d)
        for a in _factors(block.T)
    ]
    return f"{' '.join(names)} {adjoint}"


def _factors(block: Operator) -> Sequence[Operator]:
    return block.factors if isinstance(block, Product) else [block]


_LETTER = {
    "Identity": "1",
    "Scale": "s",
    "Diagonal": "╲",
    "Mask": "m",
    "Contraction": "C",
    "Slice": "[",
    "Unslice": "]",
}


def _pattern(system: System) -> list[str]:
    """Which rows read which, as a picture of at most 60 × 60 cells; a letter tells the kind of operator."""
    n = len(system.rows)
    side = min(n, 60)
    cells = [[" "] * side for _ in range(side)]
    for (i, j), block in system.L.items().items():
        a, b = (i - 1) * side // n, (j - 1) * side // n
        cells[a][b] = _LETTER.get(type(block).__name__, "x")
    for k in range(side):
        cells[k][k] = "·" if cells[k][k] == " " else cells[k][k]
    kinds: dict[str, int] = {}
    for entries in (system.L, system.D):
        for block in entries.items().values():
            kinds[type(block).__name__] = kinds.get(type(block).__name__, 0) + 1
    census = ", ".join(
        f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda k: -k[1])
    )
    per_cell = f"one cell is {n / side:.0f} rows; " if n > side else ""
    return [
        f"  {census}",
        f"  {per_cell}1 Identity, ╲ Diagonal, m Mask, C Contraction, [ Slice, x other",
        *("  " + "".join(line).rstrip() for line in cells),
    ]
