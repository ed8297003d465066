"""Names for shell completion: `file.py:function` and `module:function`, read without running anything.

Runs by itself, without the package (`python -I names.py PREFIX`): a shell waits for it after every Tab.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator


def targets(prefix: str, folder: str = ".") -> list[str]:
    """What `prefix` may go on to: folders, Python files and modules, behind a colon functions."""
    module, colon, start = prefix.rpartition(":")
    if not colon:
        return sorted(_places(prefix, folder))
    path = _file_of(module, folder)
    if path is None:
        return []
    return [f"{module}:{name}" for name in functions(path) if name.startswith(start)]


def functions(path: str) -> list[str]:
    """The public functions that a file defines, those that are methods left out."""
    try:
        with open(path, encoding="utf-8") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found += [t.id for t in node.targets if isinstance(t, ast.Name)]
    return [name for name in dict.fromkeys(found) if not name.startswith("_")]


def _places(prefix: str, folder: str) -> Iterator[str]:
    head, start = os.path.split(prefix)
    try:
        entries = list(os.scandir(os.path.join(folder, head)))
    except OSError:
        return
    for entry in entries:
        if not entry.name.startswith(start) or entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield os.path.join(head, entry.name, "")
        elif entry.name.endswith(".py"):
            yield os.path.join(head, entry.name) + ":"
            if not head:
                yield entry.name.removesuffix(".py") + ":"


def _file_of(module: str, folder: str) -> str | None:
    path = os.path.join(folder, os.path.expanduser(module))
    if module.endswith(".py"):
        return path if os.path.isfile(path) else None
    inside = module.replace(".", os.sep)
    for root in (folder, *sys.path):
        for end in (".py", os.sep + "__init__.py"):
            if os.path.isfile(os.path.join(root, inside + end)):
                return os.path.join(root, inside + end)
    return None


if __name__ == "__main__":
    print("\n".join(targets(sys.argv[1] if len(sys.argv) > 1 else "")))
