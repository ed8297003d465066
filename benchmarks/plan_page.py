"""docs/many-machines.md with the figures of docs/benchmarks.md: run it after these change.

The step of one GPU is read from the table there, put into the page's examples, and these are run anew.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "many-machines.md"
ROW = "GPT-2-small's shape, batch 8 × 1024, bfloat16"
_GIVEN = re.compile(r"(Measured\(seconds=)[\d.]+")
_BLOCK = re.compile(r"(?<=^```python\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def measured() -> dict[str, float]:
    """Milliseconds of a step on one GPU: ours, and those of the peers."""
    table = (DOCS / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    (row,) = (k for k, line in enumerate(table) if line.startswith(f"| {ROW} |"))
    head = max(k for k in range(row) if table[k].startswith("| |"))
    names, cells = (
        [cell.strip() for cell in table[k].strip("|").split("|")][1:] for k in (head, row)
    )
    return {name: float(cell.split()[0]) for name, cell in zip(names, cells, strict=True)}


def written(page: str, milliseconds: dict[str, float]) -> str:
    """The page with these figures, and what its examples print with them."""
    figures = iter(milliseconds[name] for name in ("ours", "jax.jit"))
    page = _GIVEN.sub(lambda found: f"{found[1]}{next(figures) / 1000:.4f}", page)
    names: dict[str, object] = {}
    return _BLOCK.sub(lambda block: _run(block[0], names), page)


def _run(block: str, names: dict[str, object]) -> str:
    out = []
    for example in doctest.DocTestParser().get_examples(block):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(example.source, "<page>", "single"), names)
        first, *rest = example.source.rstrip("\n").split("\n")
        out += [f">>> {first}\n", *(f"... {line}".rstrip() + "\n" for line in rest)]
        out.append(example.want if "tempfile" in block else shown.getvalue())
    return "".join(out) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), measured()), encoding="utf-8")
