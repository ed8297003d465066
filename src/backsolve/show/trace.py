r"""The two-column trace of a program: v_i ahead, v̄_i back, as text, as LaTeX and in notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..row import Row
from ..system_text import describe, name_of, show_value
from .formulas import bar_tex, name_tex, row_tex, step_tex
from .scene import Scene

_MOST = 60  # lines of a table


class Trace:
    def __init__(self, scene: Scene):
        self.scene = scene

    @property
    def latex(self) -> str:
        r"""An `align*` of both columns; \usepackage{amsmath}."""
        left, right = self._columns()
        lines = []
        for k in range(max(len(left), len(right))):
            a = left[k] if k < len(left) else ("", "", "")
            b = right[k] if k < len(right) else ("", "", "")
            cells = [f"{a[0]} &= {a[1]} &&= {a[2]}" if a[0] else "& &&"]
            cells.append(f"{b[0]} &= {b[1]} &&= {b[2]}" if b[0] else "& &&")
            lines.append(" & ".join(cells))
        return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"

    def _columns(self) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
        scene, system = self.scene, self.scene.system
        terms: dict[Row, list[str]] = {}
        for e in scene.edges:
            terms.setdefault(e.read, []).append(step_tex(system, e.reader, e.place, e.block))
        left = [
            (name_tex(name_of(system, r)), row_tex(system, r), _tex(scene.values.get(r)))
            for r in system.rows
        ]
        outputs = {r for r in system.outputs if r is not None}
        right = []
        for r in [*reversed(system.rows), *system.parameters]:
            if r in scene.adjoints:
                parts = [*(["1"] if r in outputs else []), *reversed(terms.get(r, []))]
                total = " + ".join(parts).replace("+ -", "- ") or "0"
                right.append((bar_tex(name_of(system, r)), total, _tex(scene.adjoints[r])))
        return left[:_MOST], right[:_MOST]

    def save(self, path: Any) -> Path:
        """Write .txt or .tex."""
        target = Path(path)
        if target.suffix not in (".txt", ".tex"):
            raise ValueError(f"a trace is saved as .txt or .tex, got {target.name!r}")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = str(self) if target.suffix == ".txt" else self.latex
        target.write_text(text + "\n", encoding="utf-8")
        return target

    def _repr_latex_(self) -> str:
        return self.latex

    def __str__(self) -> str:
        return describe(self.scene.system)

    __repr__ = __str__


def _tex(value: Any) -> str:
    return rf"\text{{{show_value(value)}}}"
