"""Arrays by name in a file, in the safetensors format. Never pickle.

A file is written beside its place and moved there at once: whoever reads it sees the old one or the new one.

>>> import numpy as np, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
>>> save({"w": np.arange(3.0)}, path, {"made by": "hand"})
>>> load(path)
{'w': array([0., 1., 2.])}
>>> metadata(path)
{'made by': 'hand'}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors import numpy as files


def save(arrays: Mapping[str, Any], path: Any, about: Mapping[str, str] | None = None) -> None:
    """Write arrays, and texts about them, to a file; all of it or nothing."""
    plain = {name: np.array(a, order="C") for name, a in arrays.items()}
    strange = [f"{name} ({a.dtype})" for name, a in plain.items() if a.dtype.kind not in "biufc"]
    if strange:
        raise TypeError(f"the format holds numbers only, not {', '.join(strange)}")
    write_whole(path, files.save(plain, dict(about) if about else None))


def write_whole(path: Any, content: bytes) -> None:
    """Write beside the file and move it there, so that no half-written one is ever seen."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _settle(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Let a new name in a folder outlast a loss of power, where folders can be opened (not on Windows)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load(path: Any) -> dict[str, Any]:
    """The arrays of a file by name."""
    try:
        found = files.load(Path(path).read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{path} is no whole safetensors file: {error}") from None
    return {name: np.array(a) for name, a in found.items()}


def metadata(path: Any) -> dict[str, str]:
    """The texts of a file."""
    with safe_open(path, "np") as file:
        return dict(file.metadata() or {})
