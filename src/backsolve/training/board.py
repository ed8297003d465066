"""The dashboard: one page over the logs of runs, drawn by web/src/dashboard.tsx; see also live.py."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..show.numbers import number
from ..show.page import Page, write_page
from .held import news
from .log import FILE, read_log

_MOST = {
    "step": 3000,
    "gradients": 1000,
    "weights": 60,
    "activations": 60,
    "slopes": 60,
}  # lines on a page


def dashboard(*folders: Any, path: Any = None) -> Page:
    """A page over the logs of one run or several: curves, norms of gradients, histograms, speed, faults.

    The page is one file that needs nothing else; it is written to `path`, if one is given. `fit(…, log=folder)`
    writes logs, with `Log(folder, histograms=True)` all that the page can show.
    """
    runs = [{**described(folder), **shown(read_log(_with_log(folder)))} for folder in folders]
    if not runs:
        raise ValueError("a dashboard is about at least one folder of a run")
    title = title_of(folders)
    text = write_page(title, "dashboard", {"title": title, "live": False, "runs": runs})
    lines = sum(len(run["rows"]) for run in runs)
    about = f"{len(runs)} run{'s' * (len(runs) != 1)}, {lines:,} lines"
    return Page(title, text, about, path)


def title_of(folders: Any) -> str:
    return ", ".join(Path(folder).resolve().name for folder in folders)


def described(folder: Any) -> dict[str, Any]:
    """What a run is called, whether it is written, and its settings if the command line wrote them down."""
    found: dict[str, Any] = {"name": str(folder), "settings": {}, "news": news(Path(folder) / FILE)}
    try:
        description = json.loads((Path(folder) / "run.json").read_text(encoding="utf-8"))
        settings = description["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return found
    return found | {"settings": {name: _text(value) for name, value in settings.items()}}


def shown(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Lines for a page, evenly chosen where there are too many; `every` says of which kinds only each k-th."""
    count = {kind: sum(row["kind"] == kind for row in rows) for kind in _MOST}
    every = {kind: -(-count[kind] // most) for kind, most in _MOST.items() if count[kind] > most}
    passed = dict.fromkeys(every, 0)
    kept = []
    for row in rows:
        kind = row["kind"]
        if kind in every:
            passed[kind] += 1
            if (count[kind] - passed[kind]) % every[kind]:  # so that the last one stays
                continue
        kept.append(_finite(row))
    return {"rows": kept, "every": every}


def _with_log(folder: Any) -> Path:
    if not (Path(folder) / FILE).is_file():
        what = f"has no {FILE}" if Path(folder).is_dir() else "is no folder"
        raise FileNotFoundError(
            f"{folder} {what}: `fit(…, log=folder)` and `backsolve train --out` write one with logs"
        )
    return Path(folder)


def _finite(value: Any) -> Any:
    """As JSON has it, which knows no NaN: a text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else number(value)
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
