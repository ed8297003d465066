"""Tables of functions under NumPy's and SciPy's names: signature, what it computes, what becomes of tensors.

Signatures and sentences are those of docstrings, as installed; what becomes of tensors is from docs/numpy.md.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "docs" / "numpy.md"
_ROW = re.compile(r"^\| `(\w+)` \| (differentiable|constant|in backsolve\.numpy) \|", re.MULTILINE)
_HEAD = ["| function | what it computes | on tensors |", "|---|---|---|"]


def numpy_page() -> str:
    text = [
        "# bs.numpy\n",
        "NumPy's names on tensors. A function of NumPy's does the same when it is given a tensor, but for",
        "those that *make tensors* here and arrays there. [NumPy's functions](../numpy.md) says which others",
        "there are, and why they are missing; [the array API standard](../standard.md), which names are the",
        "standard's. Ufuncs are shown with their inputs alone.\n",
    ]
    for section in re.split(r"^## ", TABLE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        home = section.split("\n", 1)[0]
        rows = [(name, _object(home, name), kind) for name, kind in _ROW.findall(section)]
        text += [f"## {home}\n", *_HEAD, *(_row(*row) for row in rows), ""]
    text += ["## Added\n", *_HEAD, *(_row(name, f, "differentiable") for name, f in _added()), ""]
    return "\n".join(text)


def scipy_tables() -> list[str]:
    """Of the modules of bs.scipy, what takes tensors."""
    text = [
        "",
        "`bs.scipy.special` has the functions of scipy.special that [bs.numpy](numpy.md#scipyspecial) lists.\n",
    ]
    for name in ("linalg", "signal", "integrate"):
        module = importlib.import_module(f"backsolve.interop.scipy.{name}")
        theirs = vars(importlib.import_module(f"scipy.{name}"))
        ours = {
            key: f
            for key, f in sorted(vars(module).items())
            if inspect.isfunction(f) and key in theirs and not key.startswith("_")
        }
        text += [
            f"## bs.scipy.{name}\n",
            *_HEAD,
            *(_row(key, f, "differentiable", theirs[key]) for key, f in ours.items()),
            "",
        ]
    return text


def _object(home: str, name: str) -> Any:
    """bs.numpy's, where it has the name; its ufuncs of scipy.special are told by SciPy's words."""
    import backsolve

    room: Any = importlib.import_module(home)
    if home == "numpy":
        return getattr(backsolve.numpy, name, getattr(room, name))
    return getattr(room, name)


def _added() -> list[tuple[str, Any]]:
    import numpy
    import scipy.special

    from backsolve import numpy as ours

    names = [n for n in dir(ours) if not n.startswith("_") and callable(getattr(ours, n))]
    return [
        (n, getattr(ours, n))
        for n in names
        if not hasattr(numpy, n) and not hasattr(scipy.special, n)
    ]


def _row(name: str, f: Any, kind: str, theirs: Any = None) -> str:
    """`theirs` has words where ours has none."""
    kind = "makes tensors" if kind.startswith("in ") else kind
    sentence = _sentence(name, f) or _sentence(name, theirs)
    return f"| `{_cell(_signature(name, f))}` | {_cell(sentence)} | {kind} |"


def _cell(text: str) -> str:
    return (
        text.replace("|", "\\|").replace("<", "&lt;") if "`" in text else text.replace("|", "\\|")
    )


def _signature(name: str, f: Any) -> str:
    if hasattr(f, "nin"):
        written = re.match(
            rf"{f.__name__}\(([^)]*?)(?:, /|, out|, \*|\)|\[)", inspect.getdoc(f) or ""
        )
        inputs = written[1] if written else ", ".join(f"x{k + 1}" for k in range(f.nin))
        return f"{name}({inputs})"
    try:
        given = inspect.signature(f).parameters.values()
    except ValueError:
        return name
    plain = [p.replace(annotation=p.empty) for p in given]
    return f"{name}{inspect.Signature(plain)}".replace("=<no value>", "")


def _sentence(name: str, f: Any) -> str:
    """The first of the docstring that is no signature."""
    for paragraph in re.split(r"\n\s*\n", inspect.getdoc(f) or ""):
        words = " ".join(paragraph.split())
        if words and not words.startswith((f"{name}(", f"{f.__name__}(", "..")):
            words = re.sub(r":\w+:`([^`]*)`", r"`\1`", words)
            return re.split(r"(?<=[^.]\.)\s", words)[0]
    return ""
